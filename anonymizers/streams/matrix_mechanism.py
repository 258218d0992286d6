"""Sums over a stream from noisy combinations of its steps: the arithmetic, without any noise.

Let row t of x be the counts of step t. What is wanted is A x, where A is lower triangular and
Toeplitz: the counts of each step (a length of 1), the sums over the last W steps (a length of W),
or the totals so far (no length). Noise on A x itself is wasteful. So A = B C, and C x + z is
measured, with independent noise z of one scale that covers the norm of a column of C. Everything
wanted, of any length, is B (C x + z) for its own B: arithmetic on what was measured, which costs
no privacy (Li, Miklau, Hay, McGregor, Rastogi 2015).

C is the square root of A: the generating function 1 + z + … + z^(W-1) = (1 - z^W) / (1 - z) has a
power series as its root, and its coefficients are the diagonals of C. For totals these are b_0 = 1,
b_k = b_(k-1) (2k - 1) / (2k), and the noise of a total grows with the logarithm of the number of
steps (Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023 and 2024). For
sums of W steps the norm of a column stays bounded by what depends on W alone, over any number of
steps. For a length of 1, C is the identity.

A case that counts late changes few of the measured values, so the columns of C are the shorter the
later they begin, and the noise covers the first. What is measured is therefore C D x: D is diagonal
and makes every column about as long as the first, but never longer, and B = A D^-1 C^-1 divides by
it again (Henzinger, Kalinin, Upadhyay 2026). The noise keeps its scale, and what is estimated of
late steps has less of it: of totals over 365 steps 4 % less in the root of the mean square, and
19 % less in the last. Of sums over few of the steps just the last ones gain. B is no Toeplitz
matrix then, and an estimate has other weights in each step.

The coefficients of C are rounded to multiples of 2^-10, those of D are rounded down to multiples of
1 / `COLUMN_UNITS`, so that C D x is made of integers, and B belongs to the rounded C and D: nothing
is biased. Against the root itself the errors of what C is the root for grow by less than 0.03 %
over 10,000 steps, against D before it is rounded by less than 0.4 % in any step of 365. Floats
enter in B only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np

from tracecloak.anonymizers.accounting.composition import square_root
from tracecloak.schemas.errors import UsageError, check_least

# The inverse of C takes a time that grows with the square of the number of steps; there is nothing
# to invert where the length is 1.
MAX_HORIZON = 50_000
MAX_WINDOWS = 1_000_000
# Units of a coefficient of C.
_ENCODER_UNITS = 1 << 10
# Units of a coefficient of D. Each bit costs one of the widest noise and of the largest count.
COLUMN_UNITS = 1 << 8
# Measured values stay below this, so that noise fits into 64 bits beside them.
LARGEST_VALUE = 1 << 61
# Norms are irrational, so they are rounded up to multiples of this.
_NORM_UNIT = Fraction(1, 10**12)
_BLOCK_ROWS = 64

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Participation:
    """How often one unit of privacy counts in a stream, and for how long that is promised.

    Attributes:
        cases: The most cases of one unit: over the whole stream, or in each step where `window` is
            set, so that no memory of earlier steps is needed.
        window: w of w-event privacy (Kellaris, Papadopoulos, Xiao, Papadias 2014), for individuals
            whose number of cases has no bound over the whole stream: what a unit does within any w
            consecutive steps is protected, and nothing longer. None: the whole stream is.
    """

    cases: int = 1
    window: int | None = None

    def __post_init__(self) -> None:
        check_least(1, cases=self.cases, window=self.window)

    @property
    def n_steps(self) -> int:
        """In how many consecutive steps each of the cases may be repeated."""
        return self.window or 1

    @property
    def protected_cases(self) -> int:
        """The most cases of one unit that are protected together."""
        return self.cases * self.n_steps

    def n_windows(self, horizon: int) -> int:
        """How many protected stretches of steps make up the whole stream."""
        return 1 if self.window is None else -(-horizon // self.window)


@dataclass(frozen=True)
class Strategy:
    """What is measured: C D of a declared number of steps; see the module.

    Attributes:
        horizon: Steps of the stream, public.
        length: Of the sums that C is the root for: 1, W, or None for totals.
        column_units: What the first coefficient of D is, above 1. With 1, and where the length is
            1, D is the identity.
    """

    horizon: int
    length: int | None = 1
    column_units: int = 1

    def __post_init__(self) -> None:
        check_least(1, length=self.length)
        most = MAX_WINDOWS if self.length == 1 else MAX_HORIZON
        if not 1 <= self.horizon <= most:
            raise UsageError(
                f"horizon must be 1 to {most} steps, got {self.horizon}; a longer stream needs "
                "longer steps, or a new epoch with its own budget"
            )

    @property
    def is_normalised(self) -> bool:
        """Whether the columns are made about as long as the first: whether D is no identity."""
        return self.column_units > 1 and self.length != 1

    @cached_property
    def coefficients(self) -> np.ndarray:
        """int64[horizon], the first column of C in units of its own."""
        units = 1 if self.length == 1 else _ENCODER_UNITS
        return np.rint(square_root(self.horizon, self.length) * units).astype(np.int64)

    @cached_property
    def squared_columns(self) -> np.ndarray:
        """int64[horizon], the squared norms of the columns of C, which fall."""
        return np.cumsum(self.coefficients**2)[::-1]

    @cached_property
    def column_factors(self) -> np.ndarray:
        """int64[horizon], the diagonal of D in its units, which rises.

        Factor j is the largest whole number with which column j is no longer than the first is with
        `column_units`.
        """
        if not self.is_normalised:
            return np.ones(self.horizon, np.int64)
        squares = self.squared_columns.tolist()
        longest = self.column_units**2 * squares[0]
        return np.array([math.isqrt(longest // square) for square in squares], np.int64)

    @property
    def largest_count(self) -> int:
        """Counts beyond it, of either sign, are measured as it, so that nothing overflows.

        The last row has all coefficients of C, and with the largest factors.
        """
        return LARGEST_VALUE // int((np.abs(self.coefficients[::-1]) * self.column_factors).sum())

    def squared_norm(self, n_times: int = 1, gap: int = 1) -> int:
        """Returns a bound of what one case changes, squared, in units: exact where it counts once.

        A case that counts in step j changes the measured values by column j of C D. One that counts
        again and again changes them by a sum of columns, each for a vector of its own. Where D is
        the identity such a sum is at most that of the absolute values; and where the gaps may be
        larger than the least, the coefficients are raised to the largest behind them, so that the
        closest repetition is the worst (Kalinin and Lampert 2024). Both are equalities for totals,
        whose coefficients fall and are positive. For all others see `_squared_by_products`.

        Args:
            n_times: How often it counts, at most.
            gap: Steps from one time to the next, at least. With 1 the steps are consecutive.
        """
        n_times = min(n_times, 1 + (self.horizon - 1) // gap)  # as often as there is room for
        if n_times == 1:
            return int((self.column_factors**2 * self.squared_columns).max())
        if self.is_normalised:
            return _squared_by_products(self, n_times, gap)
        sizes = np.abs(self.coefficients)
        if gap > 1:
            sizes = np.maximum.accumulate(sizes[::-1])[::-1]
        rows = np.pad(sizes, (0, -self.horizon % gap)).reshape(-1, gap)
        total = np.cumsum(rows, axis=0)  # of a step and those a multiple of the gap before it
        total[n_times:] -= total[:-n_times].copy()
        squared = sum(value**2 for value in total.ravel()[: self.horizon].tolist())
        if self.length in (None, 1):
            return squared
        return min(squared, _squared_by_products(self, n_times, gap))

    def norm(self, participation: Participation) -> Fraction:
        """Returns the L2 norm by which a unit changes the measured values, rounded up, in units.

        For a unit whose every case has a vector of norm 1.
        """
        squared = self.squared_norm(participation.n_steps) * participation.cases**2
        return _root_above(squared)

    def norm_over_all(self, participation: Participation) -> Fraction:
        """Returns the same for a unit that counts as often as it may over the whole stream."""
        if participation.window is None:
            return self.norm(participation)
        return _root_above(self.squared_norm(self.horizon) * participation.cases**2)

    def repeated_norm(self, n_times: int, gap: int) -> Fraction:
        """Returns a bound of the L2 norm by which a case changes what is measured, in units.

        The case has a vector of norm 1 and counts again and again. The bound is rounded up, at most
        `n_times` what it is for a case that counts once, and exact where the length is 1.

        Args:
            n_times: How often it counts, at most.
            gap: Steps from one time to the next, at least; at least 1.

        Raises:
            UsageError: An argument is below 1.
        """
        check_least(1, n_times=n_times, gap=gap)
        return _root_above(self.squared_norm(n_times, gap))

    def encode(self, counts: np.ndarray, first: int = 0) -> np.ndarray:
        """Returns int64[t+1-first, n], rows `first` to t of C D x, exactly.

        The last row alone takes t n multiplications, all rows take t^2 n / 2.

        Args:
            counts: int64[t+1, n], the exact counts of all steps so far, in any units.
            first: The first step that is wanted.

        Raises:
            UsageError: There are more steps than the horizon has.
        """
        self.check_step(len(counts) - 1)
        most = self.largest_count
        counts = np.clip(counts, -most, most)
        if self.length == 1:
            return counts[first:]
        counts = counts * self.column_factors[: len(counts), None]
        blocks = [
            self._rows(start, min(start + _BLOCK_ROWS, len(counts))) @ counts[: start + _BLOCK_ROWS]
            for start in range(first, len(counts), _BLOCK_ROWS)
        ]
        return np.concatenate(blocks) if blocks else counts[first:]

    def _rows(self, start: int, end: int) -> np.ndarray:
        """Rows of C up to the last column that is not 0 in them."""
        lags = np.arange(start, end)[:, None] - np.arange(end)
        return np.where(lags >= 0, self.coefficients[np.maximum(lags, 0)], 0)

    def weights(self, step: int, length: int | None) -> np.ndarray:
        """Returns float64[step+1], the row of B for the sum of a length at the end of a step.

        In 1 / units. Its bits do not depend on what was asked for before.
        """
        check_least(1, length=length)
        if not self.is_normalised:
            return _lag_weights(self, length)[step::-1]
        if length == 1:
            return _inverse(self)[step::-1] / self.column_factors[step]
        weights = _weights_of_total(self, step)
        if length is not None and length <= step:
            weights[: step + 1 - length] -= _weights_of_total(self, step - length)
        return weights

    def decode(self, measured: np.ndarray, length: int | None, first: int = 0) -> np.ndarray:
        """Returns float64[t+1-first, n], sums of a length at the ends of steps `first` to t.

        A column is summed in one order whatever the others are, so that it comes out in the same
        bits in any shard. The last row alone takes t n multiplications.

        Args:
            measured: int64[t+1, n], what was measured in all steps so far.
            length: 1, W or None; sums at the beginning of the stream are of the steps there are.
            first: The first step that is wanted.
        """
        self.check_step(len(measured) - 1)
        sums = np.zeros((len(measured) - first, *measured.shape[1:]))
        values = measured.astype(np.float64)
        for step in range(first, len(measured)):
            weights = self.weights(step, length)
            for earlier in np.flatnonzero(weights)[::-1].tolist():
                sums[step - first] += weights[earlier] * values[earlier]
        return sums

    def error_factors(self, length: int | None) -> np.ndarray:
        """Returns float64[horizon], the deviation of a sum at the end of each step.

        In those of one measured value's noise: the norm of a row of B.
        """
        check_least(1, length=length)
        return _error_factors(self, length)

    def check_step(self, step: int) -> None:
        """Raises UsageError if the stream does not have this step, counted from 0."""
        if not 0 <= step < self.horizon:
            raise UsageError(
                f"step {step} is outside the horizon of {self.horizon} steps; begin a new epoch, "
                "which has its own key and its own budget"
            )


def with_best_strategy(
    make: Callable[[Strategy], _Made],
    horizon: int,
    length: int | None,
    participation: Participation,
) -> _Made:
    """Returns what is made of the strategy that has the smallest errors of those that may be used.

    Columns are normalised where a unit is protected over the whole stream. Within a window they are
    not: a unit that counts in several steps would change more of what is measured late, so that the
    epsilon of the whole stream, which is paid for, would grow by more than the errors fall. And
    noise that is too wide to be drawn on the finer integers may be drawn on the others.

    Args:
        make: Makes something of a strategy, or raises UsageError.
        horizon: As of `Strategy`.
        length: As of `Strategy`.
        participation: How often a unit counts.

    Raises:
        UsageError: Nothing can be made of any of them.
    """
    if participation.window is None and length != 1:
        try:
            return make(Strategy(horizon, length, COLUMN_UNITS))
        except UsageError:  # if more than the width is wrong, the next attempt raises the error
            pass
    return make(Strategy(horizon, length))


def _root_above(squared: int) -> Fraction:
    """The square root, rounded up to a multiple of the unit; exact for squares."""
    scaled = squared * _NORM_UNIT.denominator**2
    return (math.isqrt(scaled - 1) + 1) * _NORM_UNIT


@lru_cache(maxsize=64)
def _squared_by_products(strategy: Strategy, n_times: int, gap: int) -> int:
    """A bound of what a case changes, squared, that counts again and again with a least gap.

    A sum of columns i of C D, each for a vector of norm 1, has a squared norm of at most the sum
    over all pairs (i, j) of |g(i, j)|, g the inner product of two columns: what is positive in one
    and negative in the other cancels, which absolute values of the coefficients do not see. With
    g(d) the largest |g(i, i + d)|, and h(m, d) the largest sum of g over at most m distances that
    are at least the gap, the gap apart and at most d, that is at most the sum over the columns of
    g(0) + 2 h(m, d), where m columns come behind this one, and the last step d steps behind it. Let
    k be how often the case may count within the horizon. Of k columns the one with m behind it has
    k - 1 - m before it; so d is at most the last step less k - 1 - m gaps. Fewer columns have a sum
    that is no larger, as h rises with m. Of each h only what the next one needs is computed: from m
    gaps on, up to a gap further, or to that largest d.

    Args:
        strategy: C D.
        n_times: As of `Strategy.squared_norm`; no more than there is room for.
        gap: As of `Strategy.squared_norm`.
    """
    products, last = _largest_products(strategy), strategy.horizon - 1
    spare = last - (n_times - 1) * gap
    width = max(spare, gap - 1) + 1
    products = np.pad(products, (0, width))
    most = np.zeros(width, np.int64)  # h(m, m gap + r) for each r
    total = int(products[0])
    for m in range(1, n_times):
        with_own = most + products[m * gap : m * gap + width]
        most = np.maximum(np.maximum.accumulate(with_own), most[gap - 1])
        total += int(products[0]) + 2 * int(most[spare])
    return total


@lru_cache(maxsize=16)
def _largest_products(strategy: Strategy) -> np.ndarray:
    """int64[horizon], by distance the largest absolute inner product of two columns of C D."""
    c, factors, horizon = strategy.coefficients, strategy.column_factors, strategy.horizon
    largest = np.zeros(horizon, np.int64)
    for distance in range(horizon):
        n = horizon - distance
        products = np.cumsum(c[:n] * c[distance:])[::-1] * factors[:n] * factors[distance:]
        largest[distance] = np.abs(products).max()
    return largest


@lru_cache(maxsize=64)
def _lag_weights(strategy: Strategy, length: int | None) -> np.ndarray:
    """float64[horizon], the first column of B where D is the identity and B is Toeplitz."""
    inverse = _inverse(strategy)
    weights = inverse if length == 1 else np.cumsum(inverse)
    if length not in (None, 1):
        before = np.concatenate([np.zeros(min(length, len(weights))), weights])[: len(weights)]
        weights = weights - before
    weights.flags.writeable = False
    return weights


def _weights_of_total(strategy: Strategy, step: int) -> np.ndarray:
    """float64[step+1], the row of B for the total at the end of a step.

    With v the first column of C^-1, V its running sums and e_j = 1 / d_j of the factors of D,
    weight s is the sum of v_(j-s) e_j over j from s to the step. The factors are few, and rise; so
    by Abel's summation it is e_step V_(step-s), and (e_(c-1) - e_c) V_(c-1-s) of every step c, from
    s + 1 on, whose factor is another than that before.
    """
    weights = _lag_weights(strategy, None)[step::-1] / strategy.column_factors[step]
    changes = np.flatnonzero(np.diff(strategy.column_factors[: step + 1]))
    if len(changes):
        behind = _weights_of_changes(strategy, int(changes[-1]))
        weights[: len(behind)] += behind
    return weights


@lru_cache(maxsize=16)
def _weights_of_changes(strategy: Strategy, last: int) -> np.ndarray:
    """float64[last+1], what the changes of factors add that are behind steps up to this one."""
    sums, shares = _lag_weights(strategy, None), 1 / strategy.column_factors
    weights = np.zeros(last + 1)
    for step in np.flatnonzero(np.diff(strategy.column_factors[: last + 2])).tolist():
        weights[: step + 1] += (shares[step] - shares[step + 1]) * sums[step::-1]
    weights.flags.writeable = False
    return weights


@lru_cache(maxsize=64)
def _error_factors(strategy: Strategy, length: int | None) -> np.ndarray:
    """float64[horizon], the norms of the rows of B.

    Where B is not Toeplitz one row follows from the one before by what a step adds to it, and by
    what leaves the sum: a second at the largest horizon.
    """
    if not strategy.is_normalised:
        return np.sqrt(np.cumsum(_lag_weights(strategy, length) ** 2))
    inverse, shares = _inverse(strategy), 1 / strategy.column_factors
    if length == 1:
        return np.sqrt(np.cumsum(inverse**2)) * shares
    row, factors = np.zeros(strategy.horizon), np.zeros(strategy.horizon)
    for step in range(strategy.horizon):
        row[: step + 1] += shares[step] * inverse[step::-1]
        if length is not None and length <= step:
            gone = step - length
            row[: gone + 1] -= shares[gone] * inverse[gone::-1]
        factors[step] = math.sqrt((row[: step + 1] ** 2).sum())
    factors.flags.writeable = False
    return factors


@lru_cache(maxsize=16)
def _inverse(strategy: Strategy) -> np.ndarray:
    """float64[horizon], the first column of the inverse of C: the reciprocal power series."""
    series = strategy.coefficients.astype(np.float64)
    falling = series[::-1].copy()
    inverse = np.zeros(strategy.horizon)
    inverse[0] = 1 / series[0]
    if strategy.length != 1:
        for k in range(1, strategy.horizon):
            inverse[k] = -(falling[-k - 1 : -1] * inverse[:k]).sum() / series[0]
    return inverse
