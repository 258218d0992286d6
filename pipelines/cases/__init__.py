"""Sketches of the cases that releases read, kept beside the ledger to recognise copies of a log.

Here: sketches of cases, kept for a while and erased. Not here: what was spent (pipelines/ledger).
"""
