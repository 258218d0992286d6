"""The protocol of a method, and its driver without Beam.

Here: the protocol of a method, its caps on what a unit contributes, counters that several methods
share, the input's digest, and the driver in memory. Not here: Beam, which drives the same protocol
in transforms/batch, and any one method.
"""
