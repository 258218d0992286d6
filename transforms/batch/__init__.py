"""Beam for finished logs: read, validate, group, count, decide, apply, write."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
