"""Sketches of the cases that releases read, by which copies of a log are recognised.

Here: sketches of cases, kept for a while and erased. Not here: what was spent (pipelines/ledger).
"""
