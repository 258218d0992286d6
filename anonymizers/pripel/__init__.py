"""PRIPEL: a private variant query, enriched with times and attributes of matched cases.

Here: the published method, its matching and its noise per value. Not here: its rigorous form
(logs).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
