"""Noise, drawn exactly and keyed: the same for a cell whatever asks for it, and never twice.

Here: keys, keyed streams, samplers, and the noise that sums and published queries get. Not here:
how wide noise must be (accounting) and what it is added to (the families).
"""
