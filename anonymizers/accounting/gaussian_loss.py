"""The exact delta of Gaussian noise, continuous and on the integers, in enclosures."""

from __future__ import annotations

import math
from fractions import Fraction

from tracecloak.anonymizers.accounting.intervals import Interval

# Discrete Gaussian noise is accounted for as rounded continuous noise, whose variance is smaller by
# the square of this deviation. `anonymizers.accounting.gaussian_scale` proves that this costs at
# most 2 d eta. The second number is a thousand times that, rounded up, since a thousandth of a unit
# loses 2 d eta just as all of it does (`anonymizers.accounting.composed`).
ROUNDING_DEVIATION = 2
COORDINATES_LOSS = Fraction(1, 10**21)
# Beyond this deviation the hockey-stick sum has too many terms and the continuous bound is used.
_MAX_SUMMED_DEVIATION = 1000
# Beyond this exponent, e^epsilon is no float.
_LARGEST_EXPONENT = 700


def gaussian_delta(deviation: Fraction, epsilon: Fraction | Interval) -> Interval:
    """Encloses the smallest delta of continuous Gaussian noise at L2 sensitivity 1.

    Phi(1 / (2 s) - epsilon s) - e^epsilon Phi(-1 / (2 s) - epsilon s) (Balle and Wang 2018,
    Theorem 8), in any number of dimensions.

    Args:
        deviation: s, the standard deviation, above 0.
        epsilon: Any; below 0 where something else loses privacy, too.
    """
    if not isinstance(epsilon, Interval):
        epsilon = Interval.of(epsilon)
    s = Interval.of(deviation)
    half, shift = Interval.of(1 / (2 * deviation)), epsilon * s
    return (half - shift).normal_cdf() - epsilon.exp() * (-half - shift).normal_cdf()


def rough_gaussian_delta(deviation: float, epsilon: float) -> float:
    """`gaussian_delta` in floats, to begin a search with."""
    half, shift = 1 / (2 * deviation), epsilon * deviation
    below, above = ((shift - half) / math.sqrt(2), (shift + half) / math.sqrt(2))
    if epsilon < _LARGEST_EXPONENT:
        return (math.erfc(below) - math.exp(epsilon) * math.erfc(above)) / 2
    # e^epsilon leaves the floats. As epsilon - above^2 = -below^2, Mills' ratio is left, and as
    # above is at least the root of epsilon, its asymptotic series is precise to 1e-10.
    square = 2 * above**2
    mills = (1 - 1 / square + 3 / square**2 - 15 / square**3) / (above * math.sqrt(math.pi))
    return (math.erfc(below) - math.exp(-(below**2)) * mills) / 2


def continuous_deviation(sigma: Fraction) -> Fraction:
    """Returns the s of the proof in `gaussian_scale` for a sigma above 2, rounded down."""
    variance = sigma**2 - ROUNDING_DEVIATION**2
    unit = 10**12
    return Fraction(math.isqrt(math.floor(variance * unit**2)), unit)


def discrete_gaussian_interval(deviation: Fraction, k: int, epsilon: Fraction) -> Interval:
    """Encloses a bound of the delta of one integer that changes by k, with discrete Gaussian noise.

    P(Y >= t) - e^epsilon P(Y >= t + k), with t the smallest integer above epsilon sigma^2 / k -
    k / 2 (Canonne, Kamath, Steinke 2020, Theorem 7), summed in enclosures that leave less than
    1e-40 open. For sigma above 1000 it is the continuous bound of `gaussian_scale` instead, which
    at sensitivity 1 and a delta of 1e-6 is larger by less than 0.01 %.

    Args:
        deviation: sigma, above 0.
        k: At least 1.
        epsilon: Above 0.
    """
    if deviation > _MAX_SUMMED_DEVIATION:
        bound = gaussian_delta(continuous_deviation(deviation) / k, epsilon - COORDINATES_LOSS)
        return bound * Interval.of(1 + COORDINATES_LOSS)
    start = math.floor(epsilon * deviation**2 / k - Fraction(k, 2)) + 1
    total, lower, upper = _gaussian_tails(deviation, (start, start + k))
    return (lower - Interval.of(epsilon).exp() * upper) / total


def _gaussian_tails(deviation: Fraction, starts: tuple[int, int]) -> list[Interval]:
    """The sums of exp(-x^2 / (2 sigma^2)) over all integers, and over those from each start on."""
    # Behind the reach terms are below exp(-115) < 1e-49 and bounded by a geometric series.
    reach = math.isqrt(math.ceil(230 * deviation**2)) + 1
    # The sum from t <= 0 on is all but the one from 1 - t on, by symmetry.
    mirrored = [start if start > 0 else 1 - start for start in starts]
    zero = Interval.of(0)
    positive, tails = zero, [zero for _ in starts]
    term = (-Interval.of(1 / (2 * deviation**2))).exp()
    square = term * term
    step = term * square  # from x to x + 1 the term falls by the power 2 x + 1 of the first one
    for x in range(1, reach + 1):
        positive = positive + term
        for i, start in enumerate(mirrored):
            if x >= start:
                tails[i] = tails[i] + term
        term, step = term * step, step * square
    rest = Interval(zero.low, (term / (1 - step)).high, zero.digits)
    total = (positive + rest) * 2 + 1
    tails = [tail + rest for tail in tails]
    return [total] + [
        tail if start > 0 else total - tail for start, tail in zip(starts, tails, strict=True)
    ]
