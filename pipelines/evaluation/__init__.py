"""One release beside its log: whether it is of it, what it keeps, and the report; no measure."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
