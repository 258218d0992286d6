"""Untrusted texts: parsed within bounds, escaped where they are shown, secrets masked.

Not here: what a configuration or a release means.
"""
