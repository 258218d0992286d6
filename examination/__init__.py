"""Examination: attacks, comparisons, evaluations, experiments, demonstrations.

Nothing that runs imports it; the table of commands names its commands.
"""
