"""Directly-follows graphs with a true epsilon.

Here: `private-dfg`, and from noisy sums to a graph of counts that agree. Not here: published
queries of graphs (queries), steps of a stream (streams).
"""
