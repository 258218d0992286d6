"""The ledger of privacy budgets: an append-only chain of what was reserved, drawn and released.

Here: entries, balances, caps, and the database that has them. Not here: keys and receipts
(pipelines/keys), or the order in which a release writes to both (pipelines/budget).
"""
