"""One release of a log: it is opened, claimed, run, settled and told.

Here: the five steps, and the concerns that hang on them. Not here: configurations
(pipelines/configuration), drivers (pipelines/runners), money (pipelines/budget), flags (commands).
"""
