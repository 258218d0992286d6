"""Quantiles: between two values chosen on a grid, or all read from noisy running sums.

A choice on a grid of values (`rigorous.choices`) errs by about Laplace noise of scale 1 / epsilon
in the rank and not in the value, and what a rank means for a value depends on how dense values lie
there, which is not known. So two values are chosen for a quantile: one of a rank that is lower
by as much as it errs with probability 0.025, and one of a rank that is higher by as much. They are
the ends of the interval, and the quantile is shown in their middle. What is supposed of how values
lie is that the points of the grid further away are of no fewer ranks than those near to it. Of few
cases the ends are those of the grid: what lies below all of them, and above, can be chosen, too.

Several quantiles can be read from the running sums of all bins at once, the factorised counts of
`rigorous.clip_by_rank`; from about four on they err less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.indicators.ratios import Interval95
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.choices import choose_quantile
from tracecloak.anonymizers.rigorous.clip_by_rank import RANK_UNITS, cases_from
from tracecloak.schemas.arrays import elementary

_OUTSIDE = 0.05


@dataclass(frozen=True)
class PointsDecision(contract.Decision):
    """The ends of the intervals of quantiles.

    Attributes:
        points: int64[n], bins of `terms.grid`, by group, step and quantile, the last fastest, and
            of each quantile the lower end and the upper one.
    """

    wire_name: ClassVar[str] = "chosen-points"

    points: np.ndarray


def choose_points(
    bins: np.ndarray,
    quantiles: tuple[Fraction, ...],
    epsilon: Fraction,
    max_units: int,
    randomness: Randomness,
    purpose: str,
) -> PointsDecision:
    """Chooses two points around each quantile of each row of counts; they ascend.

    Args:
        bins: int64[n_rows, n_bins], exact.
        quantiles: Which, ascending.
        epsilon: What each choice spends on its row.
        max_units: Cases of one unit.
        randomness: The release's.
        purpose: What the choices are for.
    """
    points = np.zeros((len(bins), len(quantiles), 2), np.int64)
    for row, cases in enumerate(bins):
        for column, quantile in enumerate(quantiles):
            margin = math.ceil(rank_half_width(epsilon, quantile, max_units))
            for end, shift in enumerate((-margin, margin)):
                of = f"{purpose} {row} {quantile.numerator}/{quantile.denominator} {end}"
                with_end = np.append(cases, 0)
                points[row, column, end] = choose_quantile(
                    with_end, epsilon, quantile, max_units, randomness, of, shift
                )
    points.sort(axis=2)
    return PointsDecision(np.maximum.accumulate(points, axis=1).ravel())


def rank_half_width(epsilon: Fraction, quantile: Fraction, max_units: int) -> float:
    """Returns by how many cases a chosen point is off to one side with probability 0.025.

    That is at most so even if all errors are to that side, as where values are sparse there.

    Args:
        epsilon: What a choice spends.
        quantile: Which it is.
        max_units: Cases of one unit.
    """
    changed = 2 * max(quantile, 1 - quantile) * max_units
    return float(elementary.log(2 / _OUTSIDE)) * float(changed / epsilon)


def interval_between(low: int, high: int) -> Interval95:
    """Returns the places among the points of the grid of a quantile between two chosen bins.

    A bin begins at the point before it.
    """
    return Interval95(max((low + high - 1) / 2, 0.0), max(low - 1.0, 0.0), float(high))


def value_at(place: float, low: float, high: float, points: np.ndarray) -> float:
    """Returns the number at a place among the points of a grid, between bounds.

    Args:
        place: A point, and how far to the next one.
        low: The lower bound.
        high: The upper one.
        points: int64[n], a grid of `terms`.
    """
    share = float(np.interp(place, np.arange(len(points)), points)) / float(points[-1])
    return low + share * (high - low)


def quantiles_of_running(
    running: np.ndarray, quantiles: tuple[Fraction, ...], half_width: float
) -> list[Interval95]:
    """Returns quantiles as places among the points of `terms.coarse_grid`, with intervals.

    An interval has whole bins, as nothing is known of where in a bin cases lie.

    Args:
        running: float64[n_bins], what `clip_by_rank.measured_ranks` returns, with noise, in cases.
        quantiles: Which, ascending.
        half_width: Half the interval that holds the noise of each number with probability 0.95.
    """
    above = cases_from(running * RANK_UNITS)  # cases in a bin or a longer one
    last = len(running) - 1
    places = []
    for quantile in quantiles:
        # How many cases more than the quantile's share are in a bin or a shorter one.
        more = float(1 - quantile) * above[0] - np.append(above[1:], 0.0)
        margin = half_width * _norms(len(running), quantile)
        first = int(np.argmax(np.append(more + margin >= 0, True)))
        after = len(more) - int(np.argmax(np.append((more - margin < 0)[::-1], True)))
        low, high = float(max(min(first, last) - 1, 0)), float(min(after, last))
        # Noise makes them fall here and there: the mean of what rises below and above them.
        rising = np.maximum.accumulate(more) + np.minimum.accumulate(more[::-1])[::-1]
        place = float(np.interp(0.0, rising, np.arange(len(rising))))
        places.append(Interval95(min(max(place, low), high), low, high))
    return places


@lru_cache(maxsize=1024)
def _norms(n_bins: int, quantile: Fraction) -> np.ndarray:
    """float64[n_bins], the deviation of what is compared with 0 for a quantile, of noise of 1."""
    above = _inverse(n_bins)
    more = float(1 - quantile) * above[0] - np.vstack([above[1:], np.zeros(n_bins)])
    return np.sqrt((more * more).sum(axis=1))


@lru_cache(maxsize=4)
def _inverse(n_bins: int) -> np.ndarray:
    """float64[n_bins, n_bins], what `cases_from` multiplies with, of a number by the lattice."""
    return np.column_stack([cases_from(row) for row in np.eye(n_bins, dtype=np.int64) * RANK_UNITS])
