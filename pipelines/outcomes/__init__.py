"""What other programs are told of how a run went: metrics for Prometheus, events of OpenLineage.

All of it is public or the operator's own: no number that was counted on a log is among it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
