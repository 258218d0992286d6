"""TLKC-extended and its baselines: k-anonymity against what somebody knows of a case.

Here: violations, their suppression, the two baselines, and the check of a finished release. Not
here: attacks by such knowledge (examination/linkage).
"""
