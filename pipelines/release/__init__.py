"""One release of a log, from its configuration to its commit.

Here: configuration, pipeline, run, records. Not here: money (budget), flags (commands).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
