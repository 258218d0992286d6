"""Beam's runners: their options, what each can do, and mends of the local ones."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
