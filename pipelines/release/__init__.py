"""One release of a log: opened, reserved, run, finalized and reported.

Here: the five steps, and the concerns that hang on them. Not here: configurations
(pipelines/configuration), drivers (pipelines/runners), money (pipelines/budget), flags (commands).
"""
