"""PRETSA: variants merged until each is k-anonymous and its durations are t-close.

Here: both forms of the method, the Act2Vec distance, and the check of a finished release.
"""
