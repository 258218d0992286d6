"""Process trees from private counts: `process-tree`, and `dpim` as published.

Here: cuts, their scores, the noisy questions about them, and mining of what is released already.
Not here: the tree as a value (schemas/models), drawings (transforms/models).
"""
