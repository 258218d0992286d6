"""What is noted of the cases that releases read, beside the ledger, so that copies are recognised.

Here: sketches of cases, kept for a while and erased. Not here: what was spent (pipelines/ledger).
"""
