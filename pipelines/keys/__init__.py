"""The key store: keys of unfinished releases, and receipts of all that were begun.

Here: files that the operator alone reads, and notes of where results of queries lie. Not here: what
was spent (pipelines/ledger), or how a key is found by workers elsewhere (transforms/keys).
"""
