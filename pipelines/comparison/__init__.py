"""Methods compared at the same true epsilon, beside peers that are not offered.

Not here: the papers' evaluations, which are grids of `pipelines.experiments` and measure by an
`Original` of this room, too.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
