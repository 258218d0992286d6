"""Charts of released indicators, as shapes that a template prints as SVG: they need no script.

Here: numbers in words, axes, bars, columns and dots with their intervals, and what a page shows of
indicators. Not here: what an indicator is, and the frame of a page.
"""
