"""Arithmetic of epsilon and delta: how wide noise must be, and what all of it costs together.

Here: sensitivities, scales, thresholds, losses, composition and what a guess can gain. Not here:
random numbers (noise), and any data.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
