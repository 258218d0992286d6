"""How many cases end with which activity: noisy counts over a public vocabulary."""

from fractions import Fraction

import numpy as np

from tracecloak.plugins import (
    CountVariants,
    Operation,
    PartsMethod,
    Products,
    RigorousParams,
    Sums,
    counts_part,
    of_one_cell,
)


class LastActivitiesParams(RigorousParams):
    vocabulary: tuple[str, ...]
    """Public file of activity names, one a line; any other activity counts as __other__."""


class LastActivities(PartsMethod):
    name = "last-activities"
    summary = "noisy counts of cases by their last activity"
    Params = LastActivitiesParams
    operations = (Operation("condensation", "case", "concept:name"),)
    has_error_bars = True
    sums = "released"
    examples = ({"epsilon": "1", "delta": "0", "vocabulary": ("A", "B", "C")},)

    def parts(self, params):
        def exact(statistics):
            counted = statistics["variants"]
            last = counted.codes[counted.offsets[1:] - 1]
            return np.bincount(last, counted.counts, len(params.words)).astype(np.int64)

        need = Sums("ends", Fraction(1), of_one_cell(params.max_units))
        why = "One case changes the number of cases that end with one activity by one."
        counters = {"variants": CountVariants()}
        return (counts_part(need, counters, exact, "cases by last activity", why),)

    def writes(self, params):
        return ("ends",)

    def products(self, decisions, params):
        return Products({"ends": decisions["ends"].of_activities(params.words.names)})
