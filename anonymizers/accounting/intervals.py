"""Real numbers between two decimals, for decisions about privacy that no rounding may tip.

Every operation rounds its lower end down and its upper end up, so the true value lies between. The
end that is on the private side is used; a comparison that the two ends cannot settle is repeated
with more digits, and what is still open then counts as not proven.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

from tracecloak.schemas.errors import UsageError

DIGITS = 60
_MAX_DIGITS = 960
_COUNT_LIMIT = 2**62
_SHORT = 10**9  # whole numbers below have fewer digits than any enclosure asks for
# 99 digits of pi, cut off: the next ones are 9821.
_PI = (
    "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253"
    "42117067"
)
# From here on the asymptotic series of the normal tail is precise to e^(-72), before it the power
# series loses 32 digits at most.
_FAR = 12
_Operation = Callable[[Decimal, Decimal], Decimal]


@lru_cache(maxsize=64)
def _contexts(digits: int) -> tuple[Context, Context]:
    down, up = (
        Context(prec=digits, rounding=rounding, Emin=MIN_EMIN, Emax=MAX_EMAX)
        for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    for context in (down, up):
        context.clear_traps()  # out of range becomes 0 or infinity, which are bounds too
    return down, up


@dataclass(frozen=True, slots=True)
class Interval:
    """A real number known to lie in [low, high].

    Attributes:
        low: Lower bound.
        high: Upper bound.
        digits: Significant digits of the bounds of results.
    """

    low: Decimal
    high: Decimal
    digits: int

    @classmethod
    def of(cls, value: Fraction | int, digits: int = DIGITS) -> Interval:
        """Encloses a rational number."""
        down, up = _contexts(digits)
        top, bottom = Decimal(value.numerator), Decimal(value.denominator)
        return cls(down.divide(top, bottom), up.divide(top, bottom), digits)

    def _like(self, value: Interval | int) -> Interval:
        if isinstance(value, Interval):
            return value
        if -_SHORT < value < _SHORT:
            exact = Decimal(value)
            return Interval(exact, exact, self.digits)
        return Interval.of(value, self.digits)

    def __add__(self, other: Interval | int) -> Interval:
        other = self._like(other)
        down, up = _contexts(self.digits)
        return Interval(down.add(self.low, other.low), up.add(self.high, other.high), self.digits)

    def __neg__(self) -> Interval:
        return Interval(self.high.copy_negate(), self.low.copy_negate(), self.digits)

    def __sub__(self, other: Interval | int) -> Interval:
        return self + (-self._like(other))

    def __rsub__(self, other: int) -> Interval:
        return -self + other

    def __mul__(self, other: Interval | int) -> Interval:
        other = self._like(other)
        down, up = _contexts(self.digits)
        if self.low >= 0 and other.low >= 0:  # usually so, and two corners are enough
            low, high = down.multiply(self.low, other.low), up.multiply(self.high, other.high)
            return Interval(low, high, self.digits)
        return self._from_corners(other, down.multiply, up.multiply)

    def __truediv__(self, other: Interval | int) -> Interval:
        """Quotient by a number that is proven to be positive.

        Raises:
            ZeroDivisionError: The divisor may be zero or negative.
        """
        other = self._like(other)
        if other.low <= 0:
            raise ZeroDivisionError("the divisor is not proven to be positive")
        down, up = _contexts(self.digits)
        if self.low >= 0:
            low, high = down.divide(self.low, other.high), up.divide(self.high, other.low)
            return Interval(low, high, self.digits)
        return self._from_corners(other, down.divide, up.divide)

    def _from_corners(self, other: Interval, down: _Operation, up: _Operation) -> Interval:
        corners = [(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        low, high = min(down(*ab) for ab in corners), max(up(*ab) for ab in corners)
        return Interval(low, high, self.digits)

    def at_least(self, least: Fraction | int) -> Interval:
        """The larger of this number and another."""
        other = Interval.of(least, self.digits)
        return Interval(max(self.low, other.low), max(self.high, other.high), self.digits)

    def power(self, exponent: int) -> Interval:
        """Power of a number whose lower bound is not negative, by squaring."""
        result, base = Interval.of(1, self.digits), self
        while exponent:
            if exponent & 1:
                result = result * base
            base = base * base
            exponent >>= 1
        return result

    def exp(self) -> Interval:
        """Exponential; `Decimal` rounds it to nearest, so one step outwards encloses it."""
        down, up = _contexts(self.digits)
        low, high = down.next_minus(down.exp(self.low)), up.next_plus(up.exp(self.high))
        return Interval(max(low, Decimal(0)), high, self.digits)

    def log(self) -> Interval:
        """Natural logarithm of a number whose lower bound is positive."""
        down, up = _contexts(self.digits)
        low, high = down.next_minus(down.ln(self.low)), up.next_plus(up.ln(self.high))
        return Interval(low, high, self.digits)

    def normal_cdf(self) -> Interval:
        """Probability that a standard normal variable is at most this."""
        at_low = _normal_cdf(self.low, self.digits)
        if self.low == self.high:
            return at_low
        # It is enough to compute one end. From there to the other end the probability rises by less
        # than the distance times exp(-x^2 / 2) at the end nearer to 0, or times 1 if 0 lies between
        # the ends.
        zero = Decimal(0)
        nearest = max(self.low, zero) if self.high > zero else self.high
        nearest_to_0 = Interval(nearest, nearest, self.digits)
        peak = (-(nearest_to_0 * nearest_to_0) / 2).exp()
        width = Interval(zero, _contexts(self.digits)[1].subtract(self.high, self.low), self.digits)
        risen = at_low + width * peak
        return Interval(risen.low, min(risen.high, Decimal(1)), self.digits)

    def is_at_most(self, other: Interval | Fraction | int) -> bool | None:
        """Whether this is <= other, or None where the bounds overlap."""
        if not isinstance(other, Interval):
            other = Interval.of(other, self.digits)
        if self.high <= other.low:
            return True
        return False if self.low > other.high else None

    def float_above(self) -> float:
        """Returns a float that is not smaller than the number."""
        value = float(self.high)
        return value if Decimal(value) >= self.high else math.nextafter(value, math.inf)

    def float_below(self) -> float:
        """Returns a float that is not larger than the number."""
        value = float(self.low)
        return value if Decimal(value) <= self.low else math.nextafter(value, -math.inf)


def is_proven(claim: Callable[[int], bool | None]) -> bool:
    """Returns whether a claim is true, asking with more digits until it is settled.

    Args:
        claim: From a number of digits to true, false, or None where they do not settle it.

    Returns:
        False also where `_MAX_DIGITS` digits do not settle it.
    """
    digits = DIGITS
    while digits <= _MAX_DIGITS:
        verdict = claim(digits)
        if verdict is not None:
            return verdict
        digits *= 2
    return False


def smallest(is_enough: Callable[[int], bool], start: int, name: str) -> int:
    """Returns the smallest whole number >= start with a property that larger ones keep.

    Raises:
        UsageError: It would pass 2^62; `name` says what it is.
    """
    low, step = start - 1, 1
    while not is_enough(low + step):
        low += step
        step *= 2
        if low + step > _COUNT_LIMIT:
            raise UsageError(f"no {name} below 2^62 keeps epsilon and delta: raise epsilon")
    return low + 1 + bisect_left(range(low + 1, low + step), True, key=is_enough)


def _normal_cdf(x: Decimal, digits: int) -> Interval:
    if x > 0:
        return Interval.of(1, digits) - _normal_cdf(x.copy_negate(), digits)
    # The power series cancels against 1/2, hence the spare digits.
    size = -Interval(x, x, digits + 40)
    square = size * size
    pi = Interval(Decimal(_PI + "9"), Decimal(_PI + "99"), digits + 40)
    density = (-square / 2).exp() * (-(pi * 2).log() / 2).exp()
    far = x <= -_FAR
    tail = density * _mills_far(size) if far else Interval.of(1, digits) / 2 - density * _odd(size)
    return Interval(max(tail.low, Decimal(0)), tail.high, digits)


def _odd(x: Interval) -> Interval:
    """Sum of x^(2n+1) / (1 3 5 … (2n+1)), all terms positive (Abramowitz and Stegun 26.2.11)."""
    # Lower and upper ends apart: an object for each of hundreds of terms takes most of the time.
    down, up = _contexts(x.digits)
    square = x * x
    low, high, n = x.low, x.high, 1
    total_low, total_high = low, high
    goal = Decimal(1).scaleb(-x.digits)
    # From n >= x^2 on a term is less than half of the one before, so the rest is less than that.
    while high > goal or square.high > n:
        divisor = Decimal(2 * n + 1)
        low = down.divide(down.multiply(low, square.low), divisor)
        high = up.divide(up.multiply(high, square.high), divisor)
        total_low, total_high = down.add(total_low, low), up.add(total_high, high)
        n += 1
    return Interval(total_low, up.add(total_high, high), x.digits)


def _mills_far(x: Interval) -> Interval:
    """(1 - cdf) / density at x: 1/x - 1/x^3 + 3/x^5 - …, whose partial sums bound it in turn.

    (Abramowitz and Stegun 26.2.12.) Stops where the terms are smallest or small enough.
    """
    square = x * x
    size = Interval.of(1, x.digits) / x
    before, total, n = Interval.of(0, x.digits), size, 1
    goal = size.high.scaleb(-x.digits)
    while 2 * n - 1 < square.low and size.high > goal:
        size = size * (2 * n - 1) / square
        before, total = total, total - size if n % 2 else total + size
        n += 1
    return Interval(min(before.low, total.low), max(before.high, total.high), x.digits)
