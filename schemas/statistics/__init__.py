"""Exact counts of traces that merge in any order: variants, pairs, durations, relations.

Here: one statistic a file, with `merge`. Not here: noise, and what is released (published).
"""
