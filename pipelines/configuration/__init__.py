"""Configurations as files or flags, and the files that they name.

Here: keys, their checks and digests, how flags write them. Not here: what is done with them
(pipelines/release, pipelines/stream).
"""
