"""Arrays under everything: merging, hashing, ranks, ragged sequences, and the wire form.

Here: what knows nothing of events. Not here: anything with a case in it.
"""
