"""Quantiles: each chosen on a grid, or all of them read from noisy running sums; with intervals.

One quantile is a choice (`rigorous.choices`), which errs by about Laplace noise of scale
1 / epsilon in the rank and not in the value. What that means for the value depends on where other
values lie, so a part of its budget counts the cases in windows on both sides of the point that was
chosen, each window twice as wide as the one before. Between the point and the quantile lie no more
cases than the rank is off, so the interval ends where the windows say that so many have been
passed. Within a window cases are taken to be spread evenly.

Several quantiles can be read from the running sums of all bins at once, the factorised counts of
`rigorous.clip_by_rank`; from about seven on they err less.
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
from tracecloak.anonymizers.indicators.terms import grid
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.choices import choose_quantile
from tracecloak.anonymizers.rigorous.clip_by_rank import RANK_UNITS, cases_from

# Counts of windows are taken for less by so many deviations of their noise.
_LESS = 1.0
# Bins of the grid that the first window reaches to either side, about 3 % of a value.
_FIRST_REACH = 32
_OUTSIDE = 0.05


@dataclass(frozen=True)
class PointsDecision(contract.Decision):
    """Quantiles that were chosen.

    Attributes:
        points: int64[n], bins of `terms.grid`, by group, step and quantile, the last fastest.
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
    """Chooses quantiles of each row of counts; they ascend.

    Args:
        bins: int64[n_rows, n_bins], exact.
        quantiles: Which, ascending.
        epsilon: What each choice spends on its row.
        max_units: Cases of one unit.
        randomness: The release's.
        purpose: What the choices are for.
    """
    points = np.zeros((len(bins), len(quantiles)), np.int64)
    for row, cases in enumerate(bins):
        for column, quantile in enumerate(quantiles):
            of = f"{purpose} {row} {quantile.numerator}/{quantile.denominator}"
            with_end = np.append(cases, 0)
            points[row, column] = choose_quantile(
                with_end, epsilon, quantile, max_units, randomness, of
            )
    return PointsDecision(np.maximum.accumulate(points, axis=1).ravel())


def n_windows() -> int:
    """Returns how many windows are counted around a point, on both sides of it together."""
    return 2 * (len(_reaches()) - 1)


@lru_cache(maxsize=1)
def _reaches() -> np.ndarray:
    """int64[n+1], how many bins beyond a point each window begins, and the last one ends."""
    n = ((len(grid()) - 2) // _FIRST_REACH).bit_length() + 1
    return np.append(0, _FIRST_REACH << np.arange(n))


def windows(bins: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns int64[n_rows * n_quantiles * n_windows], cases by how far they are from points.

    Those below a point, the nearest first, then those above it; the cases of its own bin are in no
    window.

    Args:
        bins: int64[n_rows, n_bins], exact.
        points: int64[n_rows * n_quantiles].
    """
    n_rows, n_bins = bins.shape
    of_rows = points.reshape(n_rows, len(points) // max(n_rows, 1), 1)
    before = np.zeros((n_rows, n_bins + 1), np.int64)
    np.cumsum(bins, axis=1, out=before[:, 1:])

    def cases_before(ends: np.ndarray) -> np.ndarray:
        flat = np.clip(ends, 0, n_bins).reshape(n_rows, ends.shape[1] * ends.shape[2])
        return np.take_along_axis(before, flat, axis=1).reshape(ends.shape)

    below = -np.diff(cases_before(of_rows - _reaches()))
    above = np.diff(cases_before(of_rows + 1 + _reaches()))
    return np.concatenate([below, above], axis=2).ravel()


def rank_half_width(epsilon: Fraction, quantile: Fraction, max_units: int) -> float:
    """Returns by how many cases a chosen quantile is off with probability 0.05 at most."""
    changed = 2 * float(max(quantile, 1 - quantile)) * max_units
    return math.log(1 / _OUTSIDE) * changed / float(epsilon)


def interval_of_point(
    point: int, counts: np.ndarray, deviation: float, quantile: Fraction, ranks: float
) -> Interval95:
    """Returns a chosen quantile with its interval, as places among the points of the grid.

    Where few cases lie beyond the quantile, one of the many points beyond them all may have been
    chosen. Then the ranks are those by which any point is off with probability 0.05 at most.

    Args:
        point: The chosen bin.
        counts: float64[n_windows], noisy, of the windows around it.
        deviation: Of the noise of each.
        quantile: Which it is.
        ranks: See `rank_half_width`.
    """
    last = len(grid()) - 1
    n_cases = float(counts.sum()) - deviation * math.sqrt(len(counts))
    of_any = ranks * math.log(len(grid()) / _OUTSIDE) / math.log(1 / _OUTSIDE)
    is_inside = float(min(quantile, 1 - quantile)) * n_cases >= of_any
    below, above = (
        _reach(side, deviation, ranks if is_inside else of_any, is_even=is_inside)
        for side in counts.reshape(2, -1)
    )
    # The bin of a point begins at the point before.
    return Interval95(max(point - 0.5, 0.0), max(point - below - 1, 0.0), min(point + above, last))


def _reach(counts: np.ndarray, deviation: float, ranks: float, *, is_even: bool) -> float:
    """How many bins beyond a point so many cases have been passed, on one side of it.

    Args:
        counts: float64[n], noisy, of the windows of that side.
        deviation: Of the noise of each.
        ranks: How many cases.
        is_even: Whether cases are spread evenly within a window; else they may all be at its end.
    """
    reaches = _reaches().astype(np.float64)
    passed = np.cumsum(counts) - _LESS * deviation * np.sqrt(np.arange(1, len(counts) + 1))
    enough = np.flatnonzero(passed >= ranks)
    if not len(enough):
        return float(reaches[-1])
    window = int(enough[0])
    begin, end = reaches[window : window + 2]
    if not is_even:
        return float(end)
    before = max(float(passed[window - 1]), 0.0) if window else 0.0
    return float(begin + (ranks - before) / (passed[window] - before) * (end - begin))


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
    return np.linalg.norm(more, axis=1)


@lru_cache(maxsize=4)
def _inverse(n_bins: int) -> np.ndarray:
    """float64[n_bins, n_bins], what `cases_from` multiplies with, of a number by the lattice."""
    return np.column_stack([cases_from(row) for row in np.eye(n_bins, dtype=np.int64) * RANK_UNITS])
