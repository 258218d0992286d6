"""Bounds on epsilon that are measured from outside, by attacks on many releases.

Here: attacks, their events and confidence bounds, without logs or Beam. Not here: neighbouring logs
and the runs themselves (examination/attack).
"""
