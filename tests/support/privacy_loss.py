"""Exact laws of noise on integers and the hockey-stick divergence between them.

Probabilities are whole numbers of units of 2^-256, a lower and an upper one each, so sums and
products are exact integers and every divergence comes as an enclosure. Nothing here is shared with
the code that calibrates the noise; exponentials come from mpmath's interval arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import mpmath
from mpmath import libmp

BITS = 256
ONE = 1 << BITS
Bounds = tuple[int, int]


@dataclass(frozen=True)
class Law:
    """Probabilities of outcomes, each between two numbers of units.

    Attributes:
        chances: Outcome to lower and upper bound.
        rest: Upper bound of the probability of all outcomes that are not listed.
    """

    chances: Mapping[Hashable, Bounds]
    rest: int

    def chance(self, outcome: Hashable) -> Bounds:
        return self.chances.get(outcome, (0, self.rest))

    def map(self, function: Callable[[Hashable], Hashable]) -> Law:
        """The law of a function of the outcome: post-processing."""
        made: dict[Hashable, Bounds] = {}
        for outcome, (low, high) in self.chances.items():
            image = function(outcome)
            before = made.get(image, (0, 0))
            made[image] = (before[0] + low, before[1] + high)
        # What is not listed may fall on any outcome.
        return Law(
            {image: (low, high + self.rest) for image, (low, high) in made.items()}, self.rest
        )

    def times(self, other: Law) -> Law:
        """The law of both outcomes, drawn independently."""
        pairs = {
            (a, b): ((low * below) >> BITS, -((-high * above) >> BITS))
            for a, (low, high) in self.chances.items()
            for b, (below, above) in other.chances.items()
        }
        return Law(pairs, self.rest + other.rest)


def power_of_e(exponent: Fraction) -> Bounds:
    """Encloses e^exponent in units."""
    iv = mpmath.iv
    before, iv.prec = iv.prec, 2 * BITS
    try:
        value = iv.exp(iv.mpf(exponent.numerator) / exponent.denominator) * ONE
    finally:
        iv.prec = before
    low, high = value._mpi_  # through a float or `mid` they would be rounded to nearest
    return int(libmp.to_int(low, "f")), int(libmp.to_int(high, "c"))


def _normalised(weights: Mapping[int, Bounds], rest_weight: int) -> Law:
    """The law that is proportional to weights; `rest_weight` bounds those that are left out."""
    least = sum(low for low, _ in weights.values())
    most = sum(high for _, high in weights.values()) + rest_weight
    chances: dict[Hashable, Bounds] = {
        x: (low * ONE // most, -(-high * ONE // least)) for x, (low, high) in weights.items()
    }
    return Law(chances, -(-rest_weight * ONE // least))


def discrete_laplace(scale: Fraction, reach: int, shift: int = 0) -> Law:
    """Shift + X with P(X = x) proportional to exp(-|x| / scale); |x| > reach is the rest."""
    size = [power_of_e(-x / scale) for x in range(reach + 2)]
    weights = {shift + x: size[abs(x)] for x in range(-reach, reach + 1)}
    decay = power_of_e(-1 / scale)[1]
    return _normalised(weights, 2 * (size[reach + 1][1] * ONE // (ONE - decay) + 1))


def truncated_laplace(scale: Fraction, bound: int, shift: int = 0) -> Law:
    """The same, conditioned on |X| <= bound."""
    weights = {shift + x: power_of_e(-abs(x) / scale) for x in range(-bound, bound + 1)}
    return _normalised(weights, 0)


def discrete_gaussian(sigma: Fraction, reach: int, shift: int = 0) -> Law:
    """Shift + X with P(X = x) proportional to exp(-x^2 / (2 sigma^2)); |x| > reach is the rest."""
    size = [power_of_e(-(x**2) / (2 * sigma**2)) for x in range(reach + 2)]
    weights = {shift + x: size[abs(x)] for x in range(-reach, reach + 1)}
    # From one term to the next it falls by more than from the first to the second of these.
    decay = power_of_e(-(2 * reach + 3) / (2 * sigma**2))[1]
    return _normalised(weights, 2 * (size[reach + 1][1] * ONE // (ONE - decay) + 1))


def response(epsilon: Fraction, truth: bool) -> Law:
    """Randomised response, the worst of all choices of an epsilon."""
    low, high = power_of_e(epsilon)
    up = low * ONE // (high + ONE), -(-high * ONE // (low + ONE))
    down = ONE - up[1], ONE - up[0]
    return Law({True: up if truth else down, False: down if truth else up}, 0)


def together(laws: Iterable[Law]) -> Law:
    """The law of all outcomes, drawn independently."""
    return reduce(Law.times, laws)


def integer_part_of_laplace(scale: Fraction, reach: int, shift: int = 0) -> Law:
    """Shift + the continuous Laplace, cut off towards zero: the published mistake."""
    size = [power_of_e(-x / scale) for x in range(reach + 2)]
    chances: dict[Hashable, Bounds] = {shift: (ONE - size[1][1], ONE - size[1][0])}
    for x in range(1, reach + 1):
        low, high = size[x][0] - size[x + 1][1], size[x][1] - size[x + 1][0]
        chances[shift + x] = chances[shift - x] = (low // 2, -(-high // 2))
    return Law(chances, size[reach + 1][1])


def hockey_stick(p: Law, q: Law, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Encloses the sum of max(0, p - e^epsilon q): the smallest delta from p to q."""
    low_factor, high_factor = power_of_e(epsilon)
    low = high = 0
    for outcome, (below, above) in p.chances.items():
        q_low, q_high = q.chance(outcome)
        low += max(0, below - -((-high_factor * q_high) >> BITS))
        high += max(0, above - ((low_factor * q_low) >> BITS))
    return Fraction(low, ONE), Fraction(high + p.rest, ONE)


def delta_between(p: Law, q: Law, epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Encloses the larger of both directions: the delta of this pair of neighbours."""
    there, back = hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)
    return max(there[0], back[0]), max(there[1], back[1])


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Of Gaussian noise at a change of mu deviations (Balle and Wang 2018, Theorem 8)."""
    if mu == 0:
        return -math.expm1(min(epsilon, 0.0))
    cut = epsilon / mu
    return normal_below(mu / 2 - cut) - math.exp(epsilon) * normal_below(-mu / 2 - cut)


def normal_below(x: float) -> float:
    """The probability that a standard normal number is below."""
    return math.erfc(-x / math.sqrt(2)) / 2
