"""Texts that somebody else may have written: read within bounds, and shown without harm.

What a configuration or a release means lives with it; here is only how its text is taken in.
"""
