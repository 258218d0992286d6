"""What a configuration says, as a file or as flags, and the files that it reads.

Here: keys, their checks and digests, how flags write them. Not here: what is done with them
(pipelines/release, pipelines/stream).
"""
