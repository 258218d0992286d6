"""The papers' evaluations: a grid of releases each, run, resumed, judged and shown alike."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
