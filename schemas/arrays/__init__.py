"""Arrays under everything: merging, hashing, ranks, ragged sequences, and the wire form.

Here: what knows nothing of events. Not here: anything with a case in it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
