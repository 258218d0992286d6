"""What a release will be like, told before anything is paid, and what its first records say.

Here: plans, verdicts and findings, of public numbers and for the operator. Not here: the release
itself (pipelines/release).
"""
