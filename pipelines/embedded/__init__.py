"""Transforms for other Beam pipelines: rows in, a release or its rows out, paid from the ledger.

The wiring is that of `transforms`, and who pays is decided as by the command. No runner is started.
"""
