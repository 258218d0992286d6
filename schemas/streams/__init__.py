"""Cases that are still open: when one closes, with which events, and who counts how often.

Here: the rules and the state, as values. Not here: timers and watermarks (transforms/stream).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
