"""The registry of counted cases: which cases each window of a schedule counted.

Here: claims, so that no unit counts in two windows. Not here: which windows there are
(schemas/windows), or what is paid for them (pipelines/ledger).
"""
