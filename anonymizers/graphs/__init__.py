"""Directly-follows graphs with a true epsilon.

Here: `private-dfg`, and from noisy sums to a graph whose flows are conserved. Not here: published
queries of graphs (queries), steps of a stream (streams).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
