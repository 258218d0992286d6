"""Exact counts of traces that merge in any order: variants, pairs, durations, relations.

Here: one statistic a file, with `merge`. Not here: noise, and what is released (published).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
