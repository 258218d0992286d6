"""Data frames: a frame in, its release out as a frame, with ledger and keys, without Beam.

Here: what reads frames of any library, the functions that take them, a session of questions with
its server for agents, and what a release shows in a notebook. Not here: how a release is made,
which is the affair of `pipelines.release`.
"""
