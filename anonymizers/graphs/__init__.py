"""Directly-follows graphs with a true epsilon.

Here: `private-dfg`, and from noisy sums to a graph whose flows are conserved. Not here: published
queries of graphs (queries), steps of a stream (streams).
"""
