"""Means, shares and sums of noisy sums, with intervals of 95 %.

A sum S of numbers less their middle c, over n cases, says that the mean is c + S / n. Both have
noise. An interval for the mean holds every number x for which S - (x - c) n is as small as its
noise may be (Fieller, Some Problems in Interval Estimation, 1954), so it is right for few cases,
too, and then as wide as the bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_Z95 = 1.959963984540054
_OUTSIDE = 0.05
_HALVINGS = 60


@dataclass(frozen=True)
class NoisySum:
    """A sum with noise.

    Attributes:
        value: The sum.
        width: The scale of Laplace noise, or the deviation of Gaussian noise, in the same unit.
        is_laplace: Which of the two.
    """

    value: float
    width: float
    is_laplace: bool


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


def half_width(one: NoisySum, other: NoisySum, factor: float) -> float:
    """Returns what the noise of one sum plus a factor times that of another exceeds in 5 %.

    Args:
        one: A sum.
        other: Another one, of noise of the same kind.
        factor: Of the other.
    """
    a, b = one.width, abs(factor) * other.width
    if not one.is_laplace:
        return _Z95 * math.hypot(a, b)
    a, b = max(a, b), min(a, b)
    if not a:
        return 0.0
    low, high = 0.0, (a + b) * -2 * math.log(_OUTSIDE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(middle, a, b) > _OUTSIDE else (low, middle)
    return high


def _tail(t: float, a: float, b: float) -> float:
    """The probability that a sum of Laplace noises of scales a >= b is beyond t on either side."""
    if b < 1e-9 * a:
        return math.exp(-t / a)
    if a - b < 1e-6 * a:  # the limit of equal scales
        return (1 + t / (2 * a)) * math.exp(-t / a)
    return (a * a * math.exp(-t / a) - b * b * math.exp(-t / b)) / (a * a - b * b)


def mean_of(total: NoisySum, cases: NoisySum, low: float, high: float) -> Interval95:
    """Returns the mean of numbers between public bounds.

    Args:
        total: The sum of the numbers less the middle of the bounds.
        cases: How many numbers there are.
        low: The lower bound.
        high: The upper one.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    of = min(max(total.value / max(cases.value, 1.0), -half), half)

    def is_possible(x: float) -> bool:
        return abs(total.value - x * cases.value) <= half_width(total, cases, x)

    def end(outermost: float) -> float:
        if is_possible(outermost):
            return outermost
        within, beyond = of, outermost
        for _ in range(_HALVINGS):
            between = (within + beyond) / 2
            within, beyond = (between, beyond) if is_possible(between) else (within, between)
        return within

    return Interval95(middle + of, middle + end(-half), middle + end(half))


def sum_of(total: NoisySum, cases: NoisySum, low: float, high: float) -> Interval95:
    """Returns the sum of numbers between public bounds; see `mean_of` for the arguments."""
    middle = (low + high) / 2
    value = total.value + middle * cases.value
    half = half_width(total, cases, middle)
    return Interval95(value, value - half, value + half)
