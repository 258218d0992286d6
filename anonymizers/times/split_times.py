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
from tracecloak.anonymizers.times.step_durations import Steps
from tracecloak.schemas.arrays import elementary

LARGEST_LOG = 10.0
"""Factors go from e^-10 to e^10."""

# A step that was drawn to take no time, of a pair of which some do, counts as this part of a tick:
# nothing, unless the factor of its pair says that such steps take most of the time.
_OF_A_TICK = 0.25
# Weights are whole numbers of parts of a tick, and so small that a million of them fit 64 bits.
_PARTS, _LARGEST_WEIGHT = 1 << 8, float(1 << 42)


@dataclass(frozen=True)
class PairFactors(contract.Decision):
    """By what the drawn times of each pair's steps are multiplied.

    Attributes:
        logs: float64[n n], the logarithm, at most LARGEST_LOG in size; only differences matter.
        is_idle: bool[n n], the pairs whose steps take no time.
    """

    wire_name: ClassVar[str] = "pair-factors"

    logs: np.ndarray
    is_idle: np.ndarray


def weights_of(taken: np.ndarray, steps: Steps, factors: PairFactors) -> np.ndarray:
    """Returns int64[m], drawn times multiplied by the factors of their pairs, in parts of a tick.

    Those of pairs whose steps take no time are 0.

    Args:
        taken: int64[m], drawn times, in ticks.
        steps: The steps.
        factors: Of all pairs.
    """
    times = np.where(factors.is_idle[steps.pairs], 0.0, np.maximum(taken, _OF_A_TICK))
    products = times * _PARTS * elementary.exp(factors.logs)[steps.pairs]
    return np.floor(np.minimum(products, _LARGEST_WEIGHT)).astype(np.int64)


def divided(wanted: np.ndarray, weights: np.ndarray, steps: Steps) -> np.ndarray:
    """Divides the times of cases among their steps, in proportion to weights.

    A case all of whose steps have the weight 0 takes no time, whatever is wanted. Of what rounding
    leaves the step with the largest weight gets all.

    Args:
        wanted: int64[n_cases], how long each case takes, in ticks.
        weights: int64[m], of its steps, not negative.
        steps: The steps.

    Returns:
        int64[m], in ticks; those of a case add up to its time.
    """
    sums = sums_of_steps(weights, steps, len(wanted))
    shares = weights / np.maximum(sums, 1)[steps.own]
    times = np.floor(wanted[steps.own] * shares).astype(np.int64)
    left = np.where(sums > 0, wanted, 0) - sums_of_steps(times, steps, len(wanted))
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
    begins = np.flatnonzero(np.diff(case_of, prepend=-1))
    if not len(begins):
        return begins
    highest = np.maximum.reduceat(values, begins)
    places = np.flatnonzero(values == np.repeat(highest, np.diff(begins, append=len(values))))
    return places[np.flatnonzero(np.diff(case_of[places], prepend=-1))]
