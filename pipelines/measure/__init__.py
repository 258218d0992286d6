"""How far a release is from its log: measures and their registry, mined models, their quality."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
