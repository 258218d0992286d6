"""The events that a release reads: which files its patterns match, their bytes, and rows of Python.

Here: this machine's files, object stores by their own clients, others of Beam's file systems,
tables of a lake, whose files are no log, compressed streams, and rows of Python values. Not here:
what bytes hold, which is the formats' affair, and what is written.
"""
