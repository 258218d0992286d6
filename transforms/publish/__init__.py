"""The files of a release: products, log, statement, manifest, and their one commit.

Here: what is written and how it appears at once. Not here: who wires it (batch).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
