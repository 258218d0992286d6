"""Events and cases: canonical columns, mapping, vocabulary, traces, attributes, calendars.

Here: what is read and what cases are made of. Not here: counts (statistics), open cases (streams).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
