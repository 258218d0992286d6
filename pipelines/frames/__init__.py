"""A log in memory: a frame comes in, and its release goes out, with ledger and keys, without Beam.

Here: what reads frames of any library, the four functions that take them, and what a release
shows in a notebook. Not here: how a release is made, which is the affair of `pipelines.release`.
"""
