"""Who pays: ledger, accounts, key store.

Here: what must be exact after years and crashes. Not here: how much a method costs
(anonymizers/accounting).
"""
