"""A synthetic hospital: its log, its feed, a live page of its stream."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
