"""The operator's edition of a release's page: the release next to its log.

Here: what it compares, and its page. Not here: the page that is released (transforms/publish),
measures (measure, evaluation), attacks (attack, linkage).
"""
