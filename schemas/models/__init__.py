"""Process models as values: trees and Petri nets.

Here: what they mean and how they are written as text. Not here: files and drawings
(transforms/models), miners (anonymizers/trees).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
