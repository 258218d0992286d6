"""The papers' evaluations, and methods compared at the same true epsilon."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
