"""What each activity of a case weighs where the list of activities is bought.

A case of j distinct activities, at most k, adds sqrt(k / j) to each of them: a vector of norm
sqrt(k) whatever j is, where to count each once would leave the norm of most cases far below what
the noise covers. An activity of cases with few others stands out of the noise as if k were their
number of activities, so k can be generous.

The threshold for an activity that one unit alone has is hardly higher than with counts. With m
cases a unit adds m sqrt(k) to a name at most, and has m k names at most; so each of its new names
passes with probability delta / (m k) at most. The rest of the unit has no more of the block's norm
than `joint.Unseen` says of m k cells: if a_c of the j_c names of its case c are new, what
is left of the case's vector has a squared norm of k (1 - a_c / j_c) <= k - a_c, what is left of all
has one of at most m sum (k - a_c) by Cauchy and Schwarz, and that is at most (m k - a) / (m k) of
m^2 k, since the number a of all new names is at most sum a_c.
"""

from __future__ import annotations

import math

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.rigorous.budget import Allowance

NAME_UNITS = 1 << 10
"""Lattice steps of a weight of 1."""


def weights_of_names(cases: np.ndarray, max_activities: int) -> np.ndarray:
    """Returns int64[n], what each name of a case adds to its sum, in lattice steps, rounded down.

    Args:
        cases: int64[n], sorted, the case of each of its distinct names; of no case more than
            `max_activities` (see `contract.bounding.distinct_activities`).
        max_activities: k.
    """
    n_names = np.bincount(cases, minlength=1)[cases]
    squared = NAME_UNITS**2 * max_activities
    of_number = [0, *(math.isqrt(squared // j) for j in range(1, max_activities + 1))]
    return np.array(of_number, np.int64)[n_names]


def changed_names(max_activities: int, max_units: int) -> Sensitivity:
    """Returns by how much a unit changes the sums, in lattice steps.

    In total most where a case has k activities, of norm sqrt(k) whatever it has, and in one of them
    most where it has no other.

    Args:
        max_activities: k.
        max_units: Cases of one unit.
    """
    k = max_activities
    alone = math.isqrt(NAME_UNITS**2 * k)
    return Sensitivity(k, NAME_UNITS * k, NAME_UNITS**2 * k, alone, NAME_UNITS).of_cases(max_units)


def likely_names(allowance: Allowance, max_activities: int, max_units: int) -> str:
    """Returns which activities are likely to be chosen, in words.

    Args:
        allowance: What the choice may spend.
        max_activities: Distinct activities of a case that count.
        max_units: Cases of one unit.

    Raises:
        UsageError: Noise so wide cannot be drawn.
    """
    changed = changed_names(max_activities, max_units)
    least = allowance.threshold(changed, NAME_UNITS) / NAME_UNITS
    few = max(max_activities // 4, 1)
    text = f"activities of about {math.ceil(least):,} cases or more"
    if few == max_activities:
        return text
    fewer = math.ceil(least * math.sqrt(few / max_activities))
    return (
        f"{text} where a case has {max_activities} distinct ones, and of {fewer:,} where it has "
        f"{few}"
    )
