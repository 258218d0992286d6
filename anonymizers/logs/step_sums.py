"""What the drawn times of steps come to, so that long cases are those whose steps take long.

Steps are drawn each by itself, and how long cases take is measured apart, with less noise. Were
that drawn by chance, the steps of many cases would have to be changed by a lot to come to it, and
what they say of how long a variant takes would be lost. So it is drawn with the rank that the sum
of the case's steps has among all such sums. The times of cases are distributed as if drawn by
chance, and are as near to the sums as that permits.

The sums are those of some cases that are made for this. All is computed from what has noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecloak.anonymizers import contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform

# So many sums are kept, evenly by rank.
_MOST_SUMS = 1023


@dataclass(frozen=True)
class StepSums(contract.Decision):
    """Sums of the times of a case's steps.

    Attributes:
        sums: int64[m], ascending, in ticks; none if no case was made.
    """

    sums: np.ndarray


def decide_step_sums(sums: np.ndarray) -> StepSums:
    """Keeps the sums of drawn cases, of many evenly chosen ones: int64[n], of cases with a step."""
    n = min(len(sums), _MOST_SUMS)
    # The middles of as many equal parts as are kept.
    return StepSums(np.sort(sums)[(2 * np.arange(n) + 1) * len(sums) // max(2 * n, 1)])


def ranks_of(
    decision: StepSums, sums: np.ndarray, case_numbers: np.ndarray, randomness: Randomness
) -> np.ndarray:
    """Draws the ranks of sums among those that were kept; by chance where none are.

    Over cases like those that were made, a rank is about evenly distributed.

    Args:
        decision: What was kept.
        sums: int64[m], what the steps of each case come to.
        case_numbers: int64[m], distinct over the release; decide between equal sums.
        randomness: The release's.

    Returns:
        float64[m] in [0, 1).
    """
    below = np.searchsorted(decision.sums, sums, side="left")
    upto = np.searchsorted(decision.sums, sums, side="right")
    chance = uniform(randomness.words("span of a case", cell_numbers(case_numbers))[:, 0])
    return (below + chance * (upto - below + 1)) / (len(decision.sums) + 1)
