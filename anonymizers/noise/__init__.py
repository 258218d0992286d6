"""Exact, keyed noise: one value for each cell of a release, whichever driver draws it.

Here: keys, keyed streams, samplers, and the noise that sums and published queries get. Not here:
how wide noise must be (accounting) and what it is added to (the families).
"""
