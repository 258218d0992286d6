"""One release of a log, from its configuration to its commit.

Here: configuration, pipeline, run, records. Not here: money (budget), flags (commands).
"""
