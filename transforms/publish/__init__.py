"""The files of a release: products, log, statement, manifest, and their one commit.

Here: what is written and how it appears at once. Not here: who wires it (batch).
"""
