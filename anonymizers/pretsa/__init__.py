"""PRETSA: variants merged until each is k-anonymous and its durations are t-close.

Here: both forms of the method, the Act2Vec distance, and the check of a finished release.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
