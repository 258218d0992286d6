"""Released indicators beside what the whole log says, with no bound and no noise: the operator's.

Here: the truth of each released number, and how far it is off. Not here: how they are counted for
a release (`anonymizers.indicators`), which cuts numbers at their bounds.
"""
