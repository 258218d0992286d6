"""Released values: manifest, guarantee, rows, graphs, variants, trees, steps.

Here: values that are safe to publish, and what noisy ones are evidence of. Not here: their files
(transforms/publish).
"""
