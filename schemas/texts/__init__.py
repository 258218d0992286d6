"""Texts that somebody else may have written: read within bounds, and shown without harm.

What a configuration or a release means lives with it; here is only how its text is taken in.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
