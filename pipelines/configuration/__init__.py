"""Configurations as files or flags, and the files that they name.

Here: keys, their checks, how flags write them, and the plan of a release that follows from them.
Not here: what is done with them (pipelines/release, pipelines/stream).
"""
