"""The columns, names, order and duplicates of a log, for its operator, with settings to paste.

Nothing here is private or may be published. What it suggests is a choice that was made after
looking at the data, which no epsilon covers.
"""
