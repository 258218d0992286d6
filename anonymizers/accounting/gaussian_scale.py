"""The scale of discrete Gaussian noise that keeps an epsilon and a delta by itself.

Where a release divides one Gaussian budget among its parts, see `joint`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting.calibration import (
    LEAST_EPSILON,
    check_delta,
    check_epsilon,
    check_whole,
    proven_deviation,
    rounded_root,
)
from tracecloak.anonymizers.accounting.gaussian_loss import (
    COORDINATES_LOSS,
    ROUNDING_DEVIATION,
    discrete_gaussian_interval,
    gaussian_delta,
    rough_gaussian_delta,
)
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.schemas.errors import UsageError


@lru_cache(maxsize=256)
def _deviation_of_one(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A standard deviation that keeps (epsilon, delta) at L2 sensitivity 1, at most 1e-9 over."""

    def is_enough(deviation: Fraction) -> bool:
        return gaussian_delta(deviation, epsilon).is_at_most(delta) is True

    def seems_enough(deviation: Fraction) -> bool:
        return rough_gaussian_delta(float(deviation), float(epsilon)) <= float(delta)

    return proven_deviation(is_enough, seems_enough)


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
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if epsilon < LEAST_EPSILON:
        raise UsageError(f"epsilon of Gaussian noise must be at least 1e-9, got {epsilon}")
    one = _deviation_of_one(epsilon - COORDINATES_LOSS, delta * (1 - COORDINATES_LOSS))
    try:
        return rounded_root((one * sensitivity.l2) ** 2 + ROUNDING_DEVIATION**2)
    except UsageError:
        raise UsageError(
            f"sensitivity {sensitivity.l2} needs noise of scale 2^50 or more at epsilon {epsilon}: "
            "use a coarser lattice or raise epsilon"
        ) from None


def discrete_gaussian_delta(
    sigma: tuple[int, int], sensitivity: int, epsilon: Fraction | int
) -> float:
    """Returns an upper bound of the delta of one integer with discrete Gaussian noise.

    See `anonymizers.accounting.gaussian_loss.discrete_gaussian_interval`.

    Args:
        sigma: (numerator, denominator) of the parameter, both positive.
        sensitivity: At least 1: the most that one unit changes the integer by.
        epsilon: Above 0.

    Returns:
        A float in [0, 1], not below the exact hockey-stick sum.

    Raises:
        UsageError: A parameter is out of range.
    """
    epsilon, k = check_epsilon(epsilon), check_whole("sensitivity", sensitivity)
    if min(sigma) < 1:
        raise UsageError(f"sigma must be positive, got {sigma[0]}/{sigma[1]}")
    bound = discrete_gaussian_interval(Fraction(*sigma), k, epsilon).float_above()
    return min(max(bound, 0.0), 1.0)
