"""Bounds on epsilon that are measured from outside, by attacks on many releases.

Here: attacks, their events and confidence bounds, without logs or Beam. Not here: neighbouring logs
and the runs themselves (pipelines/attack).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
