"""From epsilon and delta to noise scales that provably keep them; see also `thresholds`.

Epsilons and deltas are exact fractions. Scales and thresholds are rounded up and bounds on what an
attacker gains are rounded up; whether a candidate keeps its promise is decided on enclosures of the
true value (`anonymizers.accounting.intervals`), never on floats, and what cannot be decided counts
as not kept. The unit is one case or one individual that is added or removed.

Also here: what an attacker's guess can gain from a release, and the epsilon of a gain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

from tracecloak.anonymizers.accounting.intervals import Interval, is_proven
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.guarantee import Adjacency

_SCALE_LIMIT = 2**50  # numerators and denominators of scales, so that the samplers stay in int64
_MAX_DECIMALS = 400
_MAX_EPSILON = 10**6

LEAST_EPSILON = Fraction(1, 10**9)
"""The smallest epsilon of Gaussian noise."""


def exact(value: str | int | Decimal | Fraction) -> Fraction:
    """Returns the exact value of a decimal such as "0.1" or "1e-6".

    Args:
        value: Text or decimal of at most 400 decimal places; whole numbers and fractions as well. A
            float is refused, because 0.1 is not the number that one writes.

    Raises:
        UsageError: It is no such number.
    """
    if isinstance(value, Fraction) or (isinstance(value, int) and not isinstance(value, bool)):
        return Fraction(value)
    if isinstance(value, str | Decimal):
        try:
            number = Decimal(value)
        except InvalidOperation:
            number = Decimal("nan")
        # An exponent of a billion would be a fraction of a billion digits.
        if number.is_finite() and (not number or abs(number.adjusted()) <= _MAX_DECIMALS):
            return Fraction(number)
    raise UsageError(f"expected a decimal number such as 0.1 or 1e-6 as text, got {value!r}")


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


def check_whole(name: str, value: int) -> int:
    """Returns a whole number.

    Raises:
        UsageError: It is none of at least 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")
    return value


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
    high = Fraction(1)
    while not is_enough(high):
        high *= 2
    low = high / 2
    while is_enough(low):
        low, high = low / 2, low
    while high - low > high / 10**9:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return low, high


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
    step = Fraction(1, 10**6)
    low, high = Fraction(0), Fraction(1)

    def is_enough(z: Fraction) -> bool:
        return is_proven(lambda digits: (-Interval.of(z, digits)).normal_cdf().is_at_most(passing))

    while not is_enough(high):
        low, high = high, high * 2
    while high - low > step:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


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
    of_replacing = 2 * epsilon if adjacency == "add_remove" else epsilon
    # Written with e^-x, which is tiny where e^x would be huge.
    decay = (-Interval.of(of_replacing / 2)).exp()
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
