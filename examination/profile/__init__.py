"""What came in: a log looked at as it lies there, for its operator, with settings to paste.

Nothing here is private or may be published. What it suggests is a choice that was made after
looking at the data, which no epsilon covers.
"""
