"""Arrays under everything: merging, hashing, ranks, ragged sequences, and the wire form.

Here: arithmetic without events. Not here: anything with a case in it.
"""
