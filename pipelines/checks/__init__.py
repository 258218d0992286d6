"""`attack --checks`: what must not get round a budget, tried on a copy of a configuration.

Here: the copy with scratch places, logs made up for it, a check for each way round, the report. Not
here: attacks on the numbers that are released (`pipelines/attack`).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
