"""How the time of a case is divided among its steps.

Each step has a time that was drawn from the histogram of its pair of activities, and each pair a
factor (`fitted_times`). A step gets its share of the time of the case in proportion to the product
of the two. So a step that takes no time still takes none, steps that are drawn to take long get
most, and the times of a case add up to what the case takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps
from tracecloak.schemas.arrays import elementary

# Factors go from e^-6 to e^6, about 1/400 to 400, so that sums of a million products fit 64 bits.
LARGEST_LOG = 6.0
# Where all drawn times are 0 and the case takes time, its steps get shares by these parts of the
# chance that such a step takes time.
_PARTS = 1 << 20


@dataclass(frozen=True)
class PairFactors(contract.Decision):
    """By what the drawn times of each pair's steps are multiplied.

    Attributes:
        logs: float64[n n], the logarithm, at most LARGEST_LOG in size; only differences matter.
    """

    wire_name: ClassVar[str] = "pair-factors"

    logs: np.ndarray


def weights_of(taken: np.ndarray, steps: Steps, factors: PairFactors) -> np.ndarray:
    """Returns int64[m], drawn times multiplied by the factors of their pairs; 0 stays 0.

    Args:
        taken: int64[m], drawn times, in ticks.
        steps: The steps.
        factors: Of all pairs.
    """
    logs = factors.logs[steps.pairs]
    return np.where(taken > 0, np.maximum(np.floor(taken * elementary.exp(logs)), 1), 0).astype(
        np.int64
    )


def divided(
    wanted: np.ndarray,
    taken: np.ndarray,
    steps: Steps,
    durations: DurationsDecision,
    factors: PairFactors,
) -> np.ndarray:
    """Divides the times of cases among their steps.

    A case all of whose steps are of pairs that take no time takes none, whatever is wanted. Of
    what rounding leaves the step with the largest share gets all.

    Args:
        wanted: int64[n_cases], how long each case takes, in ticks.
        taken: int64[m], the drawn times of its steps.
        steps: The steps.
        durations: How often steps take time.
        factors: Of the pairs.

    Returns:
        int64[m], in ticks; those of a case add up to its time.
    """
    n_cases = len(wanted)
    weights = weights_of(taken, steps, factors)
    is_none = sums_of_steps(weights, steps, n_cases)[steps.own] == 0
    if is_none.any():
        few = steps.take(np.flatnonzero(is_none))
        chances = 1 - durations.reached[durations.rows(few), 0]
        weights[is_none] = np.ceil(chances * _PARTS).astype(np.int64)
    sums = sums_of_steps(weights, steps, n_cases)
    shares = weights / np.maximum(sums, 1)[steps.own]
    times = np.floor(wanted[steps.own] * shares).astype(np.int64)
    left = np.where(sums > 0, wanted, 0) - sums_of_steps(times, steps, n_cases)
    largest = largest_of_cases(weights, steps.own)
    times[largest] += left[steps.own[largest]]
    return times


def sums_of_steps(values: np.ndarray, steps: Steps, n_cases: int) -> np.ndarray:
    """Returns int64[n_cases], the exact sums of values of the steps of each case."""
    sums = np.zeros(n_cases, np.int64)
    begins = np.flatnonzero(np.diff(steps.own, prepend=-1))
    if len(begins):
        sums[steps.own[begins]] = np.add.reduceat(values, begins)
    return sums


def largest_of_cases(values: np.ndarray, case_of: np.ndarray) -> np.ndarray:
    """Returns int64[n_cases], the place of each case's largest value, the first of equal ones.

    Args:
        values: Of some steps.
        case_of: int64[m], the case of each, ascending.
    """
    order = np.lexsort((-values, case_of))  # stable: the first of equal ones stays first
    return order[np.flatnonzero(np.diff(case_of, prepend=-1))]
