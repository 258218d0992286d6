"""The operator's edition of a release's page: the release beside the log that it was made of.

Here: what it compares, and its page. Not here: the page that is released (transforms/publish),
measures (measure, evaluation), attacks (attack, linkage).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
