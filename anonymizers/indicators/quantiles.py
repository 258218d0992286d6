"""Quantiles: each chosen on a grid, or all of them read from noisy running sums; with intervals.

One quantile is a choice (`rigorous.choices`), which errs by Laplace noise of scale 1 / epsilon in
the rank and not in the value. What that means for the value depends on how dense values lie about
it, so a part of its budget counts the cases in windows around the point that was chosen, each twice
as wide as the one before. Of the smallest window whose count stands out of the noise follows how
far the ends of the interval lie. Where values come in lumps that are wider apart than that, the
interval is too narrow.

Several quantiles can be read from the running sums of all bins at once, the factorised counts of
`rigorous.clip_by_rank`; from about seven on they err less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.indicators.ratios import Interval95
from tracecloak.anonymizers.indicators.terms import grid
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.choices import choose_quantile
from tracecloak.anonymizers.rigorous.clip_by_rank import RANK_UNITS, cases_from

# A window's count must be so many times the deviation of its noise to say how dense values lie, and
# is taken for less by so many.
_STANDS_OUT, _LESS = 2.0, 0.5
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
    """Returns how many windows are counted around a point, each beyond the last."""
    return int((len(grid()) - 1) // _FIRST_REACH).bit_length() + 1


def windows(bins: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Returns int64[n_rows * n_quantiles * n_windows], cases by how far they are from points.

    Args:
        bins: int64[n_rows, n_bins], exact.
        points: int64[n_rows * n_quantiles].
    """
    of_rows = points.reshape(len(bins), len(points) // max(len(bins), 1))
    far = np.abs(np.arange(bins.shape[1])[None, None, :] - of_rows[:, :, None])
    # 0 is what is nearer than the first reach, 1 what is nearer than twice as far, and so on.
    window = np.frexp((far // _FIRST_REACH).astype(np.float64))[1]
    n = n_windows()
    keys = np.arange(of_rows.size).reshape(of_rows.shape)[:, :, None] * n + window
    counts = np.broadcast_to(bins[:, None, :], keys.shape)
    # Floats hold these whole numbers exactly.
    return np.bincount(keys.ravel(), counts.ravel(), of_rows.size * n).astype(np.int64)


def rank_half_width(epsilon: Fraction, quantile: Fraction, max_units: int) -> float:
    """Returns by how many cases a chosen quantile is off with probability 0.05 at most."""
    changed = 2 * float(max(quantile, 1 - quantile)) * max_units
    return math.log(1 / _OUTSIDE) * changed / float(epsilon)


def interval_of_point(
    point: int, counts: np.ndarray, deviation: float, ranks: float
) -> tuple[float, float, float]:
    """Returns a point and its interval, as places among the bins of the grid.

    Args:
        point: The chosen bin.
        counts: float64[n_windows], noisy, of the windows around it.
        deviation: Of the noise of each.
        ranks: See `rank_half_width`.
    """
    last = len(grid()) - 1
    within = np.cumsum(counts)
    noise = deviation * np.sqrt(np.arange(1, len(counts) + 1))
    clear = np.flatnonzero(within >= _STANDS_OUT * noise)
    if not len(clear):
        return float(point), 0.0, float(last)
    window = int(clear[0])
    reach = _FIRST_REACH * 2**window - 0.5  # the bins nearer than that, and half of the point's
    # What of it lies on the grid.
    low, high = max(point - reach, -0.5), min(point + reach, last + 0.5)
    density = max(float(within[window]) - _LESS * float(noise[window]), 1.0) / (high - low)
    half = ranks / density + 0.5
    return float(point), max(point - half, 0.0), min(point + half, float(last))


def value_at(place: float, low: float, high: float, points: np.ndarray) -> float:
    """Returns the number at a place among the bins of a grid, between bounds.

    Args:
        place: Bin, and how far to the next one; a bin ends at its point.
        low: The lower bound.
        high: The upper one.
        points: int64[n], a grid of `terms`.
    """
    middles = np.concatenate([[0.0], (points[1:] + points[:-1]) / 2])
    share = float(np.interp(place, np.arange(len(middles)), middles)) / float(points[-1])
    return low + share * (high - low)


def quantiles_of_running(
    running: np.ndarray, quantiles: tuple[Fraction, ...], half_width: float
) -> list[Interval95]:
    """Returns quantiles as places among the bins of `terms.coarse_grid`, with intervals.

    Args:
        running: float64[n_bins], what `clip_by_rank.measured_ranks` returns, with noise, in cases.
        quantiles: Which, ascending.
        half_width: Half the interval that holds the noise of each number with probability 0.95.
    """
    above = cases_from(running * RANK_UNITS)  # cases in a bin or a longer one
    n_cases = max(float(above[0]), 1.0)
    below = n_cases - np.append(above[1:], 0.0)
    # The noise of a running sum is that of a number times the norm of a row of the root.
    margin = half_width * math.sqrt(math.log(len(running)) / math.pi + 1)
    rising = np.maximum.accumulate(np.clip(below, 0.0, n_cases))
    bins = np.arange(len(rising))
    places = []
    for quantile in quantiles:
        goal = float(quantile) * n_cases
        at = [float(np.interp(rank, rising, bins)) for rank in (goal, goal - margin, goal + margin)]
        places.append(Interval95(*at))
    return places
