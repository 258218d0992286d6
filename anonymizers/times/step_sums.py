"""What the drawn times of steps come to, so that long cases are those whose steps take long.

Steps are drawn each by itself, and how long cases take is measured apart, with less noise. Were
that drawn by chance, the steps of many cases would have to be changed by a lot to come to it, and
what they say of how long a variant takes would be lost. So it is drawn with the rank that the sum
of the case's steps has among all such sums. The times of cases are distributed as if drawn by
chance, and are as near to the sums as that permits.

Which wide bin of times a case falls into depends on its class, and where in it on all cases there.
So sums are kept by class and by wide bin.

The sums are those of some cases that are made for this. All is computed from what has noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers, uniform
from tracecloak.schemas.arrays.merging import offsets_of, ranges

# So many sums are kept of a class, evenly by rank.
_MOST_SUMS = 255

IN_BIN = "place of a case in its bin"
"""What ranks among the cases of a wide bin are for."""


@dataclass(frozen=True)
class StepSums(contract.Decision):
    """Sums of the times of a case's steps, class by class.

    Attributes:
        sums: int64[m], ascending within each class, in ticks.
        offsets: int64[n_classes+1], where each class begins; none of a class of which no case was
            made.
    """

    wire_name: ClassVar[str] = "step-sums"

    sums: np.ndarray
    offsets: np.ndarray


def decide_step_sums(sums: np.ndarray, classes: np.ndarray, n_classes: int) -> StepSums:
    """Keeps the sums of drawn cases, of many evenly chosen ones.

    Args:
        sums: int64[n], of cases with a step.
        classes: int64[n], from 0 to `n_classes` - 1.
        n_classes: Number of classes.
    """
    order = np.lexsort((sums, classes))
    n_of_class = np.bincount(classes, minlength=n_classes)
    n_kept = np.minimum(n_of_class, _MOST_SUMS)
    begins, offsets = offsets_of(n_of_class)[:-1], offsets_of(n_kept)
    class_of = np.repeat(np.arange(n_classes), n_kept)
    rank = ranges(np.zeros(n_classes, np.int64), n_kept)
    # The middles of as many equal parts as are kept.
    place = begins[class_of] + (2 * rank + 1) * n_of_class[class_of] // (2 * n_kept[class_of])
    return StepSums(sums[order[place]], offsets)


def sums_by_class_and_bin(
    sums: np.ndarray, classes: np.ndarray, bins: np.ndarray, sizes: tuple[int, int]
) -> StepSums:
    """Keeps the sums of drawn cases by class, and once more by wide bin, numbered from there on.

    Args:
        sums: int64[n], of cases with a step.
        classes: int64[n], from 0.
        bins: int64[n], wide bins of the cases' times, from 0.
        sizes: How many classes there are, and how many wide bins.
    """
    groups = np.concatenate([classes, sizes[0] + bins])
    return decide_step_sums(np.tile(sums, 2), groups, sum(sizes))


def ranks_of(
    decision: StepSums,
    sums: np.ndarray,
    classes: np.ndarray,
    case_numbers: np.ndarray,
    randomness: Randomness,
    purpose: str = "span of a case",
) -> np.ndarray:
    """Draws the ranks of sums among those of their class that were kept; by chance where none are.

    Over cases like those that were made, a rank is about evenly distributed.

    Args:
        decision: What was kept.
        sums: int64[m], what the steps of each case come to.
        classes: int64[m], the class of each case.
        case_numbers: int64[m], distinct over the release; decide between equal sums.
        randomness: The release's.
        purpose: What the ranks are for; one of its own for each.

    Returns:
        float64[m] in [0, 1).
    """
    below, upto = (np.empty(len(sums), np.int64) for _ in range(2))
    for number in np.unique(classes):
        is_of_class = classes == number
        sums_kept = decision.sums[decision.offsets[number] : decision.offsets[number + 1]]
        below[is_of_class] = np.searchsorted(sums_kept, sums[is_of_class], side="left")
        upto[is_of_class] = np.searchsorted(sums_kept, sums[is_of_class], side="right")
    chance = uniform(randomness.words(purpose, cell_numbers(case_numbers))[:, 0])
    n_kept = np.diff(decision.offsets)[classes]
    return (below + chance * (upto - below + 1)) / (n_kept + 1)
