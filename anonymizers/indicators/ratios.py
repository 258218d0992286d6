"""Sums, means and shares of noisy numbers, with intervals of 95 %.

A sum S of numbers less their middle c, over n cases, says that the mean is c + S / n. Both have
noise. An interval for the mean holds every number x for which S - (x - c) n is as small as its
noise may be (Fieller, Some Problems in Interval Estimation, 1954), so it is right for few cases,
too, and then as wide as the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_Z95 = 1.959963984540054
_OUTSIDE = 0.05
_HALVINGS = 50
# Scales of Laplace noise are told apart by so much, as their tail has a form without them equal.
_APART = 1.001


@dataclass(frozen=True)
class Noise:
    """Independent noise that a number has.

    Attributes:
        widths: The scale of each Laplace noise, or the deviation of each Gaussian one.
        is_laplace: Which of the two all are.
    """

    widths: tuple[float, ...]
    is_laplace: bool

    def exceeds(self, size: float) -> float:
        """Returns the probability that it is beyond a size, on either side."""
        widths = sorted(width for width in self.widths if width > 0)
        if not widths:
            return float(size <= 0)
        if not self.is_laplace:
            return math.erfc(size / math.sqrt(2 * sum(width * width for width in widths)))
        return _tail_of_laplace(size, widths)

    @property
    def half_width(self) -> float:
        """What it exceeds with probability 0.05."""
        if not self.is_laplace:
            return _Z95 * math.hypot(*self.widths)
        high = sum(self.widths) * -2 * math.log(_OUTSIDE)
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


@dataclass(frozen=True)
class NoisyNumber:
    """A number made of measured ones: their sum, each times a factor.

    Attributes:
        value: The number.
        factors: By what each measured number is multiplied; by a name of its own.
    """

    value: float
    factors: dict[str, float]

    def plus(self, factor: float, other: NoisyNumber) -> NoisyNumber:
        """Returns it plus another one times a factor."""
        factors = dict(self.factors)
        for name, times in other.factors.items():
            factors[name] = factors.get(name, 0.0) + factor * times
        return NoisyNumber(self.value + factor * other.value, factors)


@dataclass(frozen=True)
class Measuring:
    """With what noise numbers were measured.

    Attributes:
        widths: Scale or deviation of each, by its name.
        is_laplace: Which of the two.
    """

    widths: dict[str, float]
    is_laplace: bool

    def noise(self, number: NoisyNumber) -> Noise:
        """Returns the noise of a number."""
        widths = (abs(f) * self.widths[name] for name, f in number.factors.items())
        return Noise(tuple(widths), self.is_laplace)


@dataclass(frozen=True)
class Interval95:
    """A number between two others.

    Attributes:
        value: The number.
        low: Lower end of an interval that holds the log's number with probability 0.95.
        high: Its upper end.
    """

    value: float
    low: float
    high: float


def mean_of(
    total: NoisyNumber, cases: NoisyNumber, low: float, high: float, measuring: Measuring
) -> Interval95:
    """Returns the mean of numbers between public bounds.

    Args:
        total: The sum of the numbers less the middle of the bounds.
        cases: How many numbers there are.
        low: The lower bound.
        high: The upper one.
        measuring: The noise of both.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    raw = total.value / max(cases.value, 1.0)
    of = min(max(raw, -half), half)
    # A mean beyond its bounds has the interval of one at the bound: a shorter one would say more
    # than is known.
    if raw != of:
        total = NoisyNumber(of * max(cases.value, 1.0), total.factors)

    def is_possible(x: float) -> bool:
        rest = total.plus(-x, cases)
        return measuring.noise(rest).exceeds(abs(rest.value)) > _OUTSIDE

    ends = [_border(is_possible, of, end) for end in (-half, half)]
    return Interval95(middle + of, middle + ends[0], middle + ends[1])


def number_of(number: NoisyNumber, measuring: Measuring, is_count: bool = True) -> Interval95:
    """Returns a number; of counts nothing is below 0, and the number itself has one decimal."""
    value, half = number.value, measuring.noise(number).half_width
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
