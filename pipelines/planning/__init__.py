"""Plans: cost, error and utility of a release, estimated before anything is charged.

Here: plans, verdicts and findings, of public numbers and for the operator. Not here: the release
itself (pipelines/release).
"""
