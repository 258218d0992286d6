"""Above which noisy counts of what nobody declared may be published, at an epsilon and a delta.

Notation: b is the scale of discrete Laplace noise X, a = exp(-1/b), and
P(X = x) = (1 - a) / (1 + a) a^|x|, so that P(X >= s) = a^s / (1 + a) for s >= 0.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting.calibration import (
    check_delta,
    check_epsilon,
    check_whole,
    laplace_scale,
)
from tracecloak.anonymizers.accounting.intervals import Interval, is_proven, smallest
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell


def _decay(epsilon: Fraction | int, max_units: int, digits: int) -> Interval:
    """The number a of the noise that `laplace_scale` gives."""
    numerator, denominator = laplace_scale(epsilon, of_one_cell(max_units))
    return (-Interval.of(Fraction(denominator, numerator), digits)).exp()


@lru_cache(maxsize=256, typed=True)  # a float that equals a fraction is refused
def stability_threshold(epsilon: Fraction | int, delta: Fraction | int, max_units: int = 1) -> int:
    """Returns the threshold of a stability histogram: a noisy count is published iff it reaches it.

    The histogram counts what occurs (variants, say), adds discrete Laplace noise of the scale that
    `laplace_scale` gives for m = max_units, and publishes the keys and noisy counts >= t
    (Korolova, Kenthapadi, Mishra, Ntoulas 2009). One unit adds j_v to the count of key v, with
    sum j_v <= m = max_units: one key m times, m keys once, or anything between. The result is the
    smallest t with which a unit of j <= m cases costs at most (epsilon j / m, delta j / m), so that
    the whole histogram is (epsilon, delta)-DP, and so are several of them among which a unit's m
    cases are divided (`anonymizers.accounting.composed`).

    Proof. Let the unit have j <= m cases and add k in total to keys that occur without it, and
    j_1, …, j_r to keys that do not, with k + j_1 + … + j_r <= j. The common part of the histogram
    is (k / b)-DP, b >= m / epsilon. Key i of the others is published with probability p(j_i) =
    P(X >= t - j_i) with the unit and never without it; let q = prod (1 - p(j_i)). With the unit
    against without it, all outputs that publish such a key are lost, 1 - q, and the others have a
    ratio of at most e^(k/b) q <= e^(epsilon j / m), so the divergence is exactly 1 - q for the
    worst common part. Without against with, outputs have a ratio of at most e^(k/b) / q, and the
    divergence at epsilon j / m is at most 1 - q e^(epsilon j / m - k/b) <= 1 - q. For t > m,
    p(j) = a^(t-j) / (1 + a) is convex in j. So where p(1) <= delta / m and p(m) <= delta, p(j) is
    at most j delta / m for all j between them, and 1 - q <= sum p(j_i) <= j delta / m. Both
    conditions are necessary, as a unit may have one case, or m of one new key; delta <= 1/2 implies
    t > m by the second, as P(X >= 0) > 1/2. Of m new keys with a case each 1 - (1 - p(1))^m is
    lost, which is less than m p(1) by m delta / 2 of it at most: so little does it cost to bound a
    part of the cases as well.

    Args:
        epsilon: Above 0, of the whole histogram.
        delta: In (0, 1/2], of the whole histogram.
        max_units: m, at least 1; 1 where the unit is the case.

    Returns:
        t > max_units.

    Raises:
        UsageError: A parameter is out of range, or t would pass 2^62.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_whole("max_units", max_units)

    def is_enough(t: int) -> bool:
        def claim(digits: int) -> bool | None:
            a = _decay(epsilon, max_units, digits)
            total = a + 1
            verdicts = (
                (a.power(t - max_units) / total).is_at_most(delta),
                (a.power(t - 1) / total).is_at_most(delta / max_units),
            )
            return False if False in verdicts else (None if None in verdicts else True)

        return is_proven(claim)

    return smallest(is_enough, max_units + 1, "threshold")


def truncated_noise_bound(
    epsilon: Fraction | int, delta: Fraction | int, max_units: int = 1
) -> int:
    """Returns the bound k of truncated noise, with which a count is published iff n + X > k.

    X is discrete Laplace noise of the scale that `laplace_scale` gives for m units, conditioned on
    |X| <= k, so a count of 0 is never published (Desfontaines, Voss, Gipson, Mandayam 2022, for
    one unit in one partition; there k = ceil(ln((e^eps + 2 delta - 1) / ((e^eps + 1) delta)) /
    eps)). The result is the smallest k that makes the whole histogram (epsilon, delta)-DP if one
    unit adds j_v to the count of key v with sum j_v <= m = max_units.

    Proof. Let T(j) = P(X > k - j), the j largest values. For one key that the unit raises by j, the
    outputs of n + j + X outside the reach of n + X have probability T(j), and on the others the
    ratio is at most e^(j/b); the other way round it is the j smallest values, again T(j) by
    symmetry. For a key that does not occur without the unit, its publication has probability T(j)
    with the unit and 0 without it, and not to publish it loses at most the mass T(j) either way.
    Publishing or not is post-processing. So over all keys the divergence is at most
    1 - prod (1 - T(j_v)). With c = (1 - a) / (1 + a - 2 a^(k+1)), the norm of the law,
    T(j) = c (a^(k+1-j) - a^(k+1)) / (1 - a) for j <= k + 1, which is convex in j with T(0) = 0. So
    -log(1 - T) is convex with value 0 at 0, hence superadditive: the worst unit puts everything on
    one key, and (epsilon, delta) holds if T(m) <= delta. It is necessary, for a new key of m cases
    is published with probability T(m). A unit of j cases loses no more than T(j) <= j T(m) / m, by
    convexity, at ratios of e^(epsilon j / m): j of m cases cost j/m of epsilon and delta at most
    (`anonymizers.accounting.composed`). Multiplied out: a^(k+1) (a^-m - 1 + 2 delta) <= delta
    (1 + a).

    Args:
        epsilon: Above 0, of the whole histogram.
        delta: In (0, 1/2], of the whole histogram.
        max_units: m, at least 1.

    Returns:
        k >= max_units.

    Raises:
        UsageError: A parameter is out of range, or k would pass 2^62.
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    check_whole("max_units", max_units)

    def is_enough(k: int) -> bool:
        def claim(digits: int) -> bool | None:
            a, d = _decay(epsilon, max_units, digits), Interval.of(delta, digits)
            left = a.power(k + 1 - max_units) - a.power(k + 1) * (1 - d * 2)
            return left.is_at_most(d * (a + 1))

        return is_proven(claim)

    return smallest(is_enough, max_units, "bound")
