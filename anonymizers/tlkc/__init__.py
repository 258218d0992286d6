"""TLKC-extended and its baselines: k-anonymity against background knowledge of a case.

Here: violations, their suppression, the two baselines, and the check of a finished release. Not
here: attacks by such knowledge (examination/linkage).
"""
