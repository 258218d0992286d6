"""Released indicators next to their exact values, for the operator.

Here: the truth of each released number, and how far it is off. Not here: how they are counted for
a release (`anonymizers.indicators`), which cuts numbers at their bounds.
"""
