"""Who pays: ledger, accounts, key store.

Here: what must be exact after years and crashes. Not here: how much a method costs
(anonymizers/accounting).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
