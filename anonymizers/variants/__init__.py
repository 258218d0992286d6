"""Rigorous ways to release variants: generators, and the method that makes a log of one.

Here: histograms, trees and chains of variants, and the choice among them. Not here: times and
attributes (logs), and queries as papers publish them (queries).
"""
