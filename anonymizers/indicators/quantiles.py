"""Quantiles: each chosen on a grid, or all of them read from noisy running sums; with intervals.

One quantile is a choice (`rigorous.choices`), which errs by about Laplace noise of scale
1 / epsilon in the rank and not in the value. What that means for the value depends on how dense
other values lie, so a part of its budget counts the cases in windows around the point that was
chosen, each twice as wide as the one before. Of the smallest window whose count stands out of the
noise follows how dense they lie, and so how far the ends of the interval are away. Where values
come in lumps that are further apart than that, such as whole days, the interval is too narrow.

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

# A window's count must be so many times the deviation of its noise to say how dense values lie, and
# is taken for less by so many deviations.
_STANDS_OUT, _LESS = 2.0, 0.7
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
    """Returns how many windows are counted around a point, each around the one before."""
    return len(_reaches()) - 1


@lru_cache(maxsize=1)
def _reaches() -> np.ndarray:
    """int64[n+1], how many bins beyond a point each window begins, and the last one ends."""
    n = ((len(grid()) - 2) // _FIRST_REACH).bit_length() + 1
    return np.append(0, _FIRST_REACH << np.arange(n))


def windows(bins: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns int64[n_rows * n_quantiles * n_windows], cases by how far they are from points.

    The nearest window first, which has the cases of the point's own bin as well.

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

    within = cases_before(of_rows + 1 + _reaches()) - cases_before(of_rows - _reaches())
    counts = np.diff(within)
    counts[:, :, 0] += within[:, :, 0]
    return counts.ravel()


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
    passed = np.cumsum(counts)
    noise = deviation * np.sqrt(np.arange(1, len(counts) + 1))
    of_any = ranks * math.log(len(grid()) / _OUTSIDE) / math.log(1 / _OUTSIDE)
    n_cases = float(passed[-1] - noise[-1])
    if float(min(quantile, 1 - quantile)) * n_cases < of_any:
        enough = np.flatnonzero(passed - _LESS * noise >= of_any)
        reach = float(_reaches()[1:][enough[0]]) if len(enough) else float(last)
        return Interval95(*_bin_and_ends(point, reach, last))
    clear = np.flatnonzero(passed >= _STANDS_OUT * noise)
    if not len(clear):
        return Interval95(max(point - 0.5, 0.0), 0.0, float(last))
    window = int(clear[0])
    reach = float(_reaches()[window + 1])
    # What of the window lies on the grid.
    width = min(point + reach, last) - max(point - reach - 1, -1)
    density = max(float(passed[window] - _LESS * noise[window]), 1.0) / width
    return Interval95(*_bin_and_ends(point, ranks / density, last))


def _bin_and_ends(point: int, reach: float, last: int) -> tuple[float, float, float]:
    """The middle of a point's bin, which begins at the point before, and so far beyond its ends."""
    return max(point - 0.5, 0.0), max(point - 1 - reach, 0.0), min(point + reach, float(last))


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
