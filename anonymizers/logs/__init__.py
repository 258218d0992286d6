"""Whole logs with a true epsilon: variants, times and attributes under one budget.

Here: `private-log`, `amun-rigorous`, `pripel-rigorous`, and the noisy tables that attributes are
drawn from. Not here: how variants are made (variants), and when cases take place (times).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
