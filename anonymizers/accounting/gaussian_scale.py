"""The scale of discrete Gaussian noise that keeps an epsilon and a delta by itself.

Where a release divides one Gaussian budget among its parts, see `joint`.

The delta of Gaussian noise, continuous and on the integers, is known in enclosures.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting import calibration
from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.schemas.errors import UsageError

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


@lru_cache(maxsize=256)
def _deviation_of_one(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A standard deviation that keeps (epsilon, delta) at L2 sensitivity 1, at most 1e-9 over."""

    def is_enough(deviation: Fraction) -> bool:
        return gaussian_delta(deviation, epsilon).is_at_most(delta) is True

    def seems_enough(deviation: Fraction) -> bool:
        return rough_gaussian_delta(float(deviation), float(epsilon)) <= float(delta)

    return calibration.proven_deviation(is_enough, seems_enough)


def gaussian_scale(
    epsilon: Fraction | int, delta: Fraction | int, sensitivity: Sensitivity
) -> tuple[int, int]:
    """Returns the parameter sigma of discrete Gaussian noise on integers, in any dimension.

    The noise N_Z(sigma^2) has P(x) proportional to exp(-x^2 / (2 sigma^2)) on the integers and is
    drawn for each of at most 10^9 coordinates (Canonne, Kamath, Steinke 2020).

    Proof. Let rho_r(x) = exp(-x^2 / (2 r^2)), sigma^2 = s^2 + r^2 and r = 2. Post-process the
    continuous Gaussian mechanism of deviation s, coordinate by coordinate: from its output u draw
    the integer y with probability rho_r(y - u) / rho_r(Z - u). By Poisson's formula rho_r(Z - u) =
    r sqrt(2 pi) (1 + 2 sum_{i>=1} exp(-2 pi^2 r^2 i^2) cos(2 pi i u)), within a factor 1 +- h of
    r sqrt(2 pi), with h < 2.01 exp(-2 pi^2 r^2) < 1.1e-34 (regularity of discrete Gaussians:
    Micciancio and Regev 2007; Genise, Micciancio, Peikert, Walter 2020). The convolution of both
    densities is the Gaussian of variance sigma^2, so y has probability N(y - f; sigma^2) up to a
    factor in [1 / (1 + h), 1 / (1 - h)] around the exact value f, and the discrete Gaussian
    N(y - f; sigma^2) up to a factor in [1 / (1 + h), 1]. Their log ratio is at most eta =
    2 artanh(h) < 3e-34 per coordinate, d eta < 3e-25 in d <= 10^9 coordinates. If the continuous
    mechanism is (epsilon - 2 d eta, delta e^(-d eta))-DP, the discrete one is (epsilon, delta)-DP.
    s comes from `gaussian_delta`, evaluated in enclosures.

    Args:
        epsilon: At least 10^-9.
        delta: In (0, 1/2].
        sensitivity: Whose L2 norm bounds what one unit changes, in lattice units; the counts that
            it changes are whole numbers.

    Returns:
        (numerator, denominator): sigma, rounded up to 8 digits. It is sqrt(s^2 + 4): less than
        1.00001 times s from s = 500 on, but a third more than one count needs by
        `discrete_gaussian_delta` at sensitivity 1 and epsilon 2.

    Raises:
        UsageError: A parameter is out of range, or sigma would be 2^50 or more.
    """
    epsilon, delta = calibration.check_epsilon(epsilon), calibration.check_delta(delta)
    if epsilon < calibration.LEAST_EPSILON:
        raise UsageError(f"epsilon of Gaussian noise must be at least 1e-9, got {epsilon}")
    one = _deviation_of_one(epsilon - COORDINATES_LOSS, delta * (1 - COORDINATES_LOSS))
    try:
        return calibration.rounded_root((one * sensitivity.l2) ** 2 + ROUNDING_DEVIATION**2)
    except UsageError:
        raise UsageError(
            f"sensitivity {sensitivity.l2} needs noise of scale 2^50 or more at epsilon {epsilon}: "
            "use a coarser lattice or raise epsilon"
        ) from None


def discrete_gaussian_delta(
    sigma: tuple[int, int], sensitivity: int, epsilon: Fraction | int
) -> float:
    """Returns an upper bound of the delta of one integer with discrete Gaussian noise.

    See `anonymizers.accounting.gaussian_scale.discrete_gaussian_interval`.

    Args:
        sigma: (numerator, denominator) of the parameter, both positive.
        sensitivity: At least 1: the most that one unit changes the integer by.
        epsilon: Above 0.

    Returns:
        A float in [0, 1], not below the exact hockey-stick sum.

    Raises:
        UsageError: A parameter is out of range.
    """
    epsilon, k = (
        calibration.check_epsilon(epsilon),
        calibration.check_whole("sensitivity", sensitivity),
    )
    if min(sigma) < 1:
        raise UsageError(f"sigma must be positive, got {sigma[0]}/{sigma[1]}")
    bound = discrete_gaussian_interval(Fraction(*sigma), k, epsilon).float_above()
    return min(max(bound, 0.0), 1.0)
