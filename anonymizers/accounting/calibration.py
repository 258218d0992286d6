"""From epsilon and delta to noise scales that provably keep them.

Epsilons and deltas are exact fractions. Scales and thresholds are rounded up and bounds on what an
attacker gains are rounded up; whether a candidate keeps its promise is decided on enclosures of the
true value (`anonymizers.accounting.intervals`), never on floats, and what cannot be decided counts
as not kept. The unit is one case or one individual that is added or removed.

Also here: thresholds above which noisy counts of what nobody declared may be published, at an
epsilon and a delta, and what an attacker's guess can gain from a release.

Notation of the thresholds: b is the scale of discrete Laplace noise X, a = exp(-1/b), and
P(X = x) = (1 - a) / (1 + a) a^|x|, so that P(X >= s) = a^s / (1 + a) for s >= 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial

from tracecloak.anonymizers.accounting.intervals import Interval, is_proven, smallest
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_one_cell
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Adjacency

_SCALE_LIMIT = 2**50  # numerators and denominators of scales, so that the samplers stay in int64
_MAX_EPSILON = 10**6

LEAST_EPSILON = Fraction(1, 10**9)
"""The smallest epsilon of Gaussian noise."""


def check_epsilon(epsilon: Fraction | int) -> Fraction:
    """Returns epsilon as a fraction.

    Raises:
        UsageError: It is not an exact number in (0, 10^6].
    """
    if isinstance(epsilon, float) or not 0 < epsilon <= _MAX_EPSILON:
        raise UsageError(
            f"epsilon must be an exact number above 0 and at most {_MAX_EPSILON}, got {epsilon!r}"
        )
    return Fraction(epsilon)


def check_delta(delta: Fraction | int) -> Fraction:
    """Returns delta as a fraction.

    Raises:
        UsageError: It is not an exact number in (0, 1/2].
    """
    if isinstance(delta, float) or not 0 < delta <= Fraction(1, 2):
        raise UsageError(
            f"delta must be an exact number above 0 and at most 1/2 here, got {delta!r}; with "
            "delta 0 choose a method that needs no threshold and no Gaussian noise"
        )
    return Fraction(delta)


def laplace_scale(epsilon: Fraction | int, sensitivity: Sensitivity) -> tuple[int, int]:
    """Returns the scale of discrete Laplace noise on counts of a known L1 sensitivity.

    Noise of scale b on each of any number of counts is (k / b)-DP if one unit changes the counts by
    at most k in total (Ghosh, Roughgarden, Sundararajan 2009; Dwork, McSherry, Nissim, Smith 2006).

    Args:
        epsilon: Above 0.
        sensitivity: Whose L1 norm is k, a whole number.

    Returns:
        (numerator, denominator) in lowest terms, both at most 2^50 - 1: k / epsilon if it
        fits, else a larger fraction next to it.

    Raises:
        UsageError: A parameter is out of range, or the scale is 2^50 or more.
    """
    k = Fraction(sensitivity.l1)
    if k.denominator != 1:
        raise UsageError(f"the L1 sensitivity must be a whole number, got {k}")
    scale = k / check_epsilon(epsilon)
    if scale.numerator >= _SCALE_LIMIT or scale.denominator >= _SCALE_LIMIT:
        shift = 49
        while shift and math.ceil(scale * 2**shift) >= _SCALE_LIMIT:
            shift -= 1
        scale = Fraction(math.ceil(scale * 2**shift), 2**shift)
        if scale.numerator >= _SCALE_LIMIT:
            raise UsageError(
                f"epsilon {epsilon} needs noise of scale 2^50 or more at sensitivity {k}:"
                " raise epsilon"
            )
    return scale.numerator, scale.denominator


def proven_deviation(
    is_enough: Callable[[Fraction], bool], seems_enough: Callable[[Fraction], bool]
) -> Fraction:
    """Returns the smallest deviation that is enough, at most 1e-9 of itself above it.

    Enclosures take a hundredth of a second each and floats none, so floats bisect first. Where the
    enclosures then prove both ends, they prove every step, for delta falls with the deviation: what
    passed lies above the upper end and what failed below the lower one. Else they bisect anew, so
    the result never depends on floats.

    Args:
        is_enough: What enclosures prove; a larger deviation than one that is enough is, too.
        seems_enough: The same in floats.
    """
    try:
        low, high = _bisected(seems_enough)
        if is_enough(high) and not is_enough(low):
            return high
    except (OverflowError, ZeroDivisionError):  # floats cannot hold these numbers
        pass
    return _bisected(is_enough)[1]


def _bisected(is_enough: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
    """Returns a deviation that is not enough and one that is, at most 1e-9 above it."""
    low = Fraction(1, 2)
    while is_enough(low):
        low /= 2
    return narrowed(is_enough, low, 2 * low, lambda high: high / 10**9)


def narrowed(
    is_enough: Callable[[Fraction], bool],
    low: Fraction,
    high: Fraction,
    width: Callable[[Fraction], Fraction],
) -> tuple[Fraction, Fraction]:
    """Returns a number that is not enough and one that is, by bisection.

    Args:
        is_enough: Whether a number is; a larger one than one that is enough is, too.
        low: Taken not to be enough.
        high: Where to begin; it is doubled until it is enough.
        width: From the upper end, how far it may be above the lower one.
    """
    while not is_enough(high):
        low, high = high, high * 2
    while high - low > width(high):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return low, high


def least_epsilon(is_enough: Callable[[Fraction], bool]) -> Fraction:
    """Returns an epsilon that is enough, at most 1e-9 of itself or 1e-12 above one that is not."""

    def width(high: Fraction) -> Fraction:
        return max(high / 10**9, Fraction(1, 10**12))

    return narrowed(is_enough, Fraction(0), Fraction(1), width)[1]


def gaussian_threshold(scale: tuple[int, int], value: int, passing: Fraction) -> int:
    """Returns a number that a value with discrete Gaussian noise seldom reaches.

    P(X >= x) for noise X of parameter sigma on the integers is at most Q((x - 1) / sigma), Q the
    upper tail of the normal law: the sum of rho over the integers from x on is at most its integral
    from x - 1 on, and by Poisson's formula that over all integers is at least sigma sqrt(2 pi).

    Args:
        scale: (numerator, denominator) of sigma, in lattice steps.
        value: Without noise, in lattice steps.
        passing: Probability at most with which it is reached, above 0 and at most 1/2.

    Returns:
        value + 1 + sigma z, rounded up, for a z of which Q(z) is at most `passing` and less than
        1e-6 too large.
    """
    return value + 1 + math.ceil(Fraction(*scale) * _upper_quantile(check_delta(passing)))


@lru_cache(maxsize=256)
def _upper_quantile(passing: Fraction) -> Fraction:
    """A z of at least 0 with Q(z) at most this."""

    def is_enough(z: Fraction) -> bool:
        return is_proven(lambda digits: (-Interval.of(z, digits)).normal_cdf().is_at_most(passing))

    return narrowed(is_enough, Fraction(0), Fraction(1), lambda high: Fraction(1, 10**6))[1]


def rounded_root(variance: Fraction) -> tuple[int, int]:
    """Returns a deviation as (numerator, denominator), rounded up to 8 digits.

    Raises:
        UsageError: It is 2^50 or more.
    """
    denominator = 1
    while variance * denominator**2 < 10**14:
        denominator *= 10
    scaled = variance * denominator**2
    # The smallest integer whose square is not below: isqrt rounds down.
    numerator = math.isqrt(math.ceil(scaled) - 1) + 1
    if numerator >= _SCALE_LIMIT:
        raise UsageError(
            "noise of scale 2^50 or more is not drawn: use a coarser lattice or raise epsilon"
        )
    sigma = Fraction(numerator, denominator)
    return sigma.numerator, sigma.denominator


def laplace_interval(scale: Fraction, confidence: float = 0.95) -> int:
    """Returns the smallest h with P(|X| > h) <= 1 - confidence for discrete Laplace noise X."""
    # P(|X| > h) = 2 e^(-(h+1)/scale) / (1 + e^(-1/scale))
    rest = (1 - confidence) * (1 + math.exp(-1 / scale)) / 2
    return max(0, math.ceil(-math.log(rest) * scale) - 1)


@dataclass(frozen=True)
class GuessingAdvantage:
    """What a release lets an attacker gain at most, both rounded up.

    Attributes:
        any_prior: Largest rise of the probability of a guess about one unit's value, over every
            prior: tanh(epsilon / 4) with epsilon of replace-one (Laud, Pankova, Pettai 2020).
            Delta, that of replace-one, comes on top: it is as if the guess were told with that
            probability.
        membership: Largest true minus false positive rate of telling two neighbouring inputs apart,
            (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) (Kairouz, Oh, Viswanath 2015), for the
            adjacency that was asked about: with add/remove, whether a unit is in the input at all.
    """

    any_prior: float
    membership: float


def guessing_advantage_of(
    epsilon: Fraction | int, delta: Fraction | int, adjacency: Adjacency
) -> GuessingAdvantage:
    """Returns the guessing advantages that (epsilon, delta) leaves.

    Args:
        epsilon: Above 0.
        delta: In [0, 1).
        adjacency: What epsilon and delta are for. An add/remove epsilon is doubled for replace-one,
            as replacing is removing and adding.
    """
    epsilon = check_epsilon(epsilon)
    if isinstance(delta, float) or not 0 <= delta < 1:
        raise UsageError(f"delta must be an exact number in [0, 1), got {delta!r}")
    if adjacency not in ("add_remove", "replace_one"):
        raise UsageError(f"adjacency must be add_remove or replace_one, got {adjacency!r}")
    replacing_epsilon = 2 * epsilon if adjacency == "add_remove" else epsilon
    # Written with e^-x, which is tiny where e^x would be huge.
    decay = (-Interval.of(replacing_epsilon / 2)).exp()
    low = (-Interval.of(epsilon)).exp()
    any_prior = (1 - decay) / (decay + 1)
    # (1 - low) / (1 + low) is the same quotient, and 2 delta / (e^epsilon + 1) is what delta adds.
    membership = (1 - low + low * Interval.of(2 * Fraction(delta))) / (low + 1)
    return GuessingAdvantage(min(any_prior.float_above(), 1.0), min(membership.float_above(), 1.0))


# Epsilon is rounded down to so many decimals, so that it is one that can be written down.
_PLACES = Decimal("1e-6")


_MANY_DIGITS = Context(prec=60)


def epsilon_of_guessing_advantage(guessing_advantage: Decimal) -> Decimal:
    """Returns ln((1 + g) / (1 - g)), rounded down to six decimals.

    Args:
        guessing_advantage: g in (0, 1).
    """
    odds = _MANY_DIGITS.divide(1 + guessing_advantage, 1 - guessing_advantage)
    return _MANY_DIGITS.ln(odds).quantize(_PLACES, ROUND_FLOOR)


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

    def is_enough(t: int) -> bool:
        def passes(digits: int, cases: int) -> bool | None:
            a = _decay(epsilon, max_units, digits)
            return (a.power(t - cases) / (a + 1)).is_at_most(delta * cases / max_units)

        return all(is_proven(partial(passes, cases=cases)) for cases in (max_units, 1))

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

    def is_enough(k: int) -> bool:
        def claim(digits: int) -> bool | None:
            a, d = _decay(epsilon, max_units, digits), Interval.of(delta, digits)
            left = a.power(k + 1 - max_units) - a.power(k + 1) * (1 - d * 2)
            return left.is_at_most(d * (a + 1))

        return is_proven(claim)

    return smallest(is_enough, max_units, "bound")
