"""Transforms for the pipelines of others: rows in, a release or its rows out, and the ledger asked.

The wiring is that of `transforms`, and who pays is decided as by the command. No runner is started.
"""
