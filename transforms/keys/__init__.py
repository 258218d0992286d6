"""References to keys, the sources that they name, key wrapping and signatures.

Here: how a worker comes to a key that is never part of a pipeline, and how a release is signed and
its signature checked. Not here: who makes keys of releases, keeps them and forgets them
(pipelines/budget), and what is derived from one (anonymizers/noise).
"""
