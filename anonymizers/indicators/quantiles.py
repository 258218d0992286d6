"""Estimates from noisy numbers with intervals of 95 %: sums, means, shares and quantiles.

Means and shares are by Fieller (1954).

Quantiles are between two values chosen on a grid, or all are read from noisy running sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.rigorous.bought import RANK_UNITS, cases_from
from tracecloak.anonymizers.rigorous.parts_method import choose_quantile
from tracecloak.schemas.arrays import elementary

# --- Sums, means and shares of noisy numbers, with intervals of 95 %. -----------------------------
# A sum S of numbers less their middle c, over n cases, says that the mean is c + S / n. Both have
# noise. An interval for the mean holds every number x for which S - (x - c) n is as small as its
# noise may be (Fieller, Some Problems in Interval Estimation, 1954), so it is right for few
# cases, too, and then as wide as the bounds.


_Z95 = 1.959963984540054
_OUTSIDE = 0.05
_HALVINGS = 50
# Scales of Laplace noise are told apart by so much, as their tail has a form without them equal.
_APART = 1.001


@dataclass(frozen=True)
class NoisyNumber:
    """A number made of measured ones: their sum, each times a factor.

    Attributes:
        value: The number.
        widths: The independent noise of each measured number, by a name of its own: its factor
            times the scale of Laplace noise or the deviation of Gaussian noise.
        is_laplace: Which of the two all are.
    """

    value: float
    widths: Mapping[str, float]
    is_laplace: bool = False

    def plus(self, factor: float, other: NoisyNumber) -> NoisyNumber:
        """Returns it plus another one times a factor."""
        widths = dict(self.widths)
        for name, width in other.widths.items():
            widths[name] = widths.get(name, 0.0) + factor * width
        value = self.value + factor * other.value
        return NoisyNumber(value, widths, self.is_laplace or other.is_laplace)

    def exceeds(self, size: float) -> float:
        """Returns the probability that its noise is beyond a size, on either side."""
        widths = sorted(abs(width) for width in self.widths.values() if width)
        if not widths:
            return float(size <= 0)
        if not self.is_laplace:
            return math.erfc(size / math.sqrt(2 * sum(width * width for width in widths)))
        return _tail_of_laplace(size, widths)

    @property
    def half_width(self) -> float:
        """What its noise exceeds with probability 0.05."""
        if not self.is_laplace:
            return _Z95 * math.hypot(*self.widths.values())
        high = sum(map(abs, self.widths.values())) * -2 * math.log(_OUTSIDE)
        return _border(lambda size: self.exceeds(size) > _OUTSIDE, 0.0, high)


def _tail_of_laplace(size: float, widths: Sequence[float]) -> float:
    """P(|X| > size) of a sum X of Laplace noises: partial fractions of what they are made of."""
    apart = [widths[0]]
    for width in widths[1:]:
        apart.append(max(width, apart[-1] * _APART))
    # What is far narrower than the widest adds nothing, and its weight would lose all digits.
    apart = [width for width in apart if width > 1e-4 * apart[-1]]
    tail = 0.0
    for i, a in enumerate(apart):
        weight = math.prod(a * a / (a * a - b * b) for j, b in enumerate(apart) if j != i)
        tail += weight * math.exp(-size / a)
    return min(max(tail, 0.0), 1.0)


def _border(holds, inner: float, outer: float) -> float:  # type: ignore[no-untyped-def]
    """Where something stops holding between a number for which it does and another."""
    if holds(outer):
        return outer
    for _ in range(_HALVINGS):
        between = (inner + outer) / 2
        inner, outer = (between, outer) if holds(between) else (inner, between)
    return inner


class Interval95(NamedTuple):
    """A number between two others.

    Attributes:
        value: The number.
        low: Lower end of an interval that holds the log's number with probability 0.95.
        high: Its upper end.
    """

    value: float
    low: float
    high: float


def mean_of(total: NoisyNumber, cases: NoisyNumber, low: float, high: float) -> Interval95:
    """Returns the mean of numbers between public bounds.

    Args:
        total: The sum of the numbers less the middle of the bounds.
        cases: How many numbers there are.
        low: The lower bound.
        high: The upper one.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    raw = total.value / max(cases.value, 1.0)
    of = min(max(raw, -half), half)
    # A mean beyond its bounds has the interval of one at the bound: a shorter one would say more
    # than is known.
    if raw != of:
        total = replace(total, value=of * max(cases.value, 1.0))

    def is_possible(x: float) -> bool:
        rest = total.plus(-x, cases)
        return rest.exceeds(abs(rest.value)) > _OUTSIDE

    ends = [_border(is_possible, of, end) for end in (-half, half)]
    return Interval95(middle + of, middle + ends[0], middle + ends[1])


def number_of(number: NoisyNumber, is_count: bool = True) -> Interval95:
    """Returns a number; of counts nothing is below 0, and the number itself has one decimal."""
    value, half = number.value, number.half_width
    if not is_count:
        return Interval95(value, value - half, value + half)
    return Interval95(max(round(value, 1), 0.0), *count_within(value, half))


def count_within(value: float, half: float) -> tuple[float, float]:
    """Returns the ends of the interval of a count, not below 0.

    A noisy count below 0 has the upper end of a 0: a lower one would say more than is known.

    Args:
        value: With noise.
        half: Half the interval of the noise.
    """
    return max(value - half, 0.0), max(value, 0.0) + half


# --- Quantiles: between two values chosen on a grid, or all read from noisy running sums. ---------
# A choice on a grid of values (`rigorous.choices`) errs by about Laplace noise of scale 1 /
# epsilon in the rank and not in the value, and what a rank means for a value depends on how dense
# values lie there, which is not known. So two values are chosen for a quantile: one of a rank
# that is lower by as much as it errs with probability 0.025, and one of a rank that is higher by
# as much. They are the ends of the interval, and the quantile is shown in their middle. What is
# supposed of how values lie is that the points of the grid further away are of no fewer ranks
# than those near to it. Of few cases the ends are those of the grid: what lies below all of them,
# and above, can be chosen, too.
#
# Several quantiles can be read from the running sums of all bins at once, the factorised counts
# of `rigorous.bought`; from about four on they err less.


class PointsDecision(contract.Decision, wire_name="chosen-points"):
    """The ends of the intervals of quantiles.

    Attributes:
        points: int64[n], bins of `terms.grid`, by group, step and quantile, the last fastest, and
            of each quantile the lower end and the upper one.
    """

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
        running: float64[n_bins], what `bought.measured_ranks` returns, with noise, in cases.
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
