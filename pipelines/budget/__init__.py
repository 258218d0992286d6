"""The budget of a release from its reservation to its end, and the draw guard.

Here: what a release is by ledger, folder and key, and what the next run does. Not here: the ledger
itself (pipelines/ledger), keys and receipts (pipelines/keys), which units a window counted
(pipelines/units), or what a method costs (anonymizers/accounting).
"""
