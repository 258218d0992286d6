"""Where keys are found: references to them, the sources that they name, and keys that wrap keys.

Here: how a worker comes to a key that is never part of a pipeline, and how a release is signed and
its signature checked. Not here: who makes keys of releases, keeps them and forgets them
(pipelines/budget), and what is derived from one (anonymizers/noise).
"""
