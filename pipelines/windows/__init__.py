"""Windows of a schedule: several releases by one command, what became of each, and the calendar.

How one window is released is in `pipelines.release`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
