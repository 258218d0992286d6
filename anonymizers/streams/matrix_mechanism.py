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

The coefficients of C are rounded to multiples of 2^-10, so that C x is made of integers, and B
belongs to the rounded C: nothing is biased. Against the root itself the errors of what C is the
root for grow by less than 0.03 % over 10,000 steps. Floats enter in B only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from tracecloak.anonymizers.accounting.square_root import square_root
from tracecloak.schemas.errors import UsageError

# The inverse of C takes a time that grows with the square of the number of steps; there is nothing
# to invert where the length is 1.
MAX_HORIZON = 50_000
MAX_WINDOWS = 1_000_000
# Units of a coefficient of C.
_ENCODER_UNITS = 1 << 10
# Measured values stay below this, so that noise fits into 64 bits beside them.
LARGEST_VALUE = 1 << 61
# Norms are irrational: they are rounded up to multiples of this.
_NORM_UNIT = Fraction(1, 10**12)
_BLOCK_ROWS = 64


@dataclass(frozen=True)
class Participation:
    """How often one unit of privacy counts in a stream, and for how long that is promised.

    Attributes:
        cases: The most cases of one unit: over the whole stream where `window` is not set, else
            within any `window` consecutive steps, or in each step where `per_step` is set.
        window: w of w-event privacy (Kellaris, Papadopoulos, Xiao, Papadias 2014), for individuals
            whose number of cases has no bound over the whole stream: what a unit does within any w
            consecutive steps is protected, and nothing longer. None: the whole stream is.
        per_step: Whether a unit may have `cases` cases in every one of these w steps. It needs no
            memory of earlier steps, but the noise covers w times as many cases.
    """

    cases: int = 1
    window: int | None = None
    per_step: bool = False

    def __post_init__(self) -> None:
        for name, value in (("cases", self.cases), ("window", self.window)):
            if value is not None and value < 1:
                raise UsageError(f"{name} must be at least 1, got {value}")
        if self.per_step and self.window is None:
            raise UsageError("per_step bounds the cases of a step, so window must be given as well")

    @property
    def n_steps(self) -> int:
        """In how many consecutive steps each of the cases may be repeated."""
        return self.window if self.per_step and self.window is not None else 1

    @property
    def protected_cases(self) -> int:
        """The most cases of one unit that are protected together."""
        return self.cases * self.n_steps

    def n_windows(self, horizon: int) -> int:
        """How many protected stretches of steps make up the whole stream."""
        return 1 if self.window is None else -(-horizon // self.window)


@dataclass(frozen=True)
class Strategy:
    """What is measured: C of a declared number of steps; see the module.

    Attributes:
        horizon: Steps of the stream, public.
        length: Of the sums that C is the root for: 1, W, or None for totals.
    """

    horizon: int
    length: int | None = 1

    def __post_init__(self) -> None:
        _check_length(self.length)
        most = MAX_WINDOWS if self.length == 1 else MAX_HORIZON
        if not 1 <= self.horizon <= most:
            raise UsageError(
                f"horizon must be 1 to {most} steps, got {self.horizon}; a longer stream needs "
                "longer steps, or a new epoch with its own budget"
            )

    @property
    def units(self) -> int:
        """What the first coefficient is: measured units of one count."""
        return 1 if self.length == 1 else _ENCODER_UNITS

    @cached_property
    def coefficients(self) -> np.ndarray:
        """int64[horizon], the first column of C in units."""
        return np.rint(square_root(self.horizon, self.length) * self.units).astype(np.int64)

    @property
    def largest_count(self) -> int:
        """Counts beyond it, of either sign, are measured as it, so that nothing overflows."""
        return LARGEST_VALUE // int(np.abs(self.coefficients).sum())

    def squared_norm(self, n_times: int = 1, gap: int = 1) -> int:
        """Returns a bound of what one case changes, squared, in units: exact where it counts once.

        A case that counts in step j changes the measured values by column j of C, of which the
        first is the longest. One that counts again and again changes them by a sum of columns, each
        for a vector of its own. Such a sum is at most that of the absolute values; and where the
        gaps may be larger than the least, the coefficients are raised to the largest behind them,
        so that the closest repetition is the worst (Kalinin and Lampert 2024). Both are equalities
        for totals, whose coefficients fall and are positive.

        Args:
            n_times: How often it counts, at most.
            gap: Steps from one time to the next, at least. With 1 the steps are consecutive.
        """
        sizes = np.abs(self.coefficients)
        if n_times > 1 and gap > 1:
            sizes = np.maximum.accumulate(sizes[::-1])[::-1]
        rows = np.pad(sizes, (0, -self.horizon % gap)).reshape(-1, gap)
        total = np.cumsum(rows, axis=0)  # of a step and all that are a multiple of the gap before
        total[n_times:] -= total[:-n_times].copy()
        return sum(value**2 for value in total.ravel()[: self.horizon].tolist())

    def norm(self, participation: Participation) -> Fraction:
        """Returns the L2 norm by which a unit changes the measured values, rounded up, in units.

        For a unit whose every case has a vector of norm 1.
        """
        squared = self.squared_norm(participation.n_steps) * participation.cases**2
        return _root_above(squared)

    def norm_over_all(self, participation: Participation) -> Fraction:
        """Returns the same for a unit that counts as often as it may over the whole stream.

        Of sliding sums, where cases have a gap, it is a bound: some tenths above what is attained.
        """
        if participation.window is None:
            return self.norm(participation)
        if participation.per_step:
            squared = self.squared_norm(self.horizon)
        else:
            # Sorted, every case and the one that comes `cases` after it are at least w steps
            # apart. So they are `cases` sequences with these gaps.
            gap = participation.window
            squared = self.squared_norm(participation.n_windows(self.horizon), gap)
            if self.length not in (None, 1):  # there it is an equality
                squared = min(squared, _squared_by_products(self, gap))
        return _root_above(squared * participation.cases**2)

    def encode(self, counts: np.ndarray, first: int = 0) -> np.ndarray:
        """Returns int64[t+1-first, n], rows `first` to t of C x, exactly.

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
        blocks = [
            self._rows(start, min(start + _BLOCK_ROWS, len(counts))) @ counts[: start + _BLOCK_ROWS]
            for start in range(first, len(counts), _BLOCK_ROWS)
        ]
        return np.concatenate(blocks) if blocks else counts[first:]

    def _rows(self, start: int, end: int) -> np.ndarray:
        """Rows of C up to the last column that is not 0 in them."""
        lags = np.arange(start, end)[:, None] - np.arange(end)
        return np.where(lags >= 0, self.coefficients[np.maximum(lags, 0)], 0)

    def decoder(self, length: int | None) -> np.ndarray:
        """Returns float64[horizon], the first column of B for sums of a length, in 1 / units."""
        return _decoder(self, length)

    def decode(self, measured: np.ndarray, length: int | None, first: int = 0) -> np.ndarray:
        """Returns float64[t+1-first, n], sums of a length at the ends of steps `first` to t.

        A column is summed in one order whatever the others are, so that it comes out in the same
        bits in any shard.

        Args:
            measured: int64[t+1, n], what was measured in all steps so far.
            length: 1, W or None; sums at the beginning of the stream are of the steps there are.
            first: The first step that is wanted.
        """
        self.check_step(len(measured) - 1)
        weights = self.decoder(length)
        sums = np.zeros((len(measured) - first, *measured.shape[1:]))
        values = measured.astype(np.float64)
        for lag in range(len(measured)):
            if weights[lag]:
                skipped = max(lag - first, 0)
                rows = values[max(first - lag, 0) : len(values) - lag]
                sums[skipped:] += weights[lag] * rows
        return sums

    def error_factors(self, length: int | None) -> np.ndarray:
        """Returns float64[horizon], the deviation of a sum at the end of each step.

        In those of one measured value's noise: the norm of a row of B.
        """
        return np.sqrt(np.cumsum(self.decoder(length) ** 2))

    def check_step(self, step: int) -> None:
        """Raises UsageError if the stream does not have this step, counted from 0."""
        if not 0 <= step < self.horizon:
            raise UsageError(
                f"step {step} is outside the horizon of {self.horizon} steps; begin a new epoch, "
                "which has its own key and its own budget"
            )


def _check_length(length: int | None) -> None:
    if length is not None and length < 1:
        raise UsageError(f"length must be at least 1 step, or None for totals, got {length}")


def _root_above(squared: int) -> Fraction:
    """The square root, rounded up to a multiple of the unit; exact for squares."""
    scaled = squared * _NORM_UNIT.denominator**2
    return (math.isqrt(scaled - 1) + 1) * _NORM_UNIT


@lru_cache(maxsize=16)
def _squared_by_products(strategy: Strategy, gap: int) -> int:
    """A bound of what a case changes, squared, that counts again and again with a least gap.

    A sum of columns i of C, each for a vector of norm 1, has a squared norm of at most the sum over
    all pairs (i, j) of |g(i, j)|, g the inner product of two columns: what is positive in one and
    negative in the other cancels, which absolute values of the coefficients do not see. With
    g(d) the largest |g(i, i + d)|, the horizon cutting columns off where it may, that is at most
    the sum over the columns i of g(0) + 2 h(i), where h(i) is the largest sum of g over distances
    that are the gap apart, from the gap to where the horizon ends; h falls with i, so the columns
    are as early as they may be.
    """
    c, horizon = strategy.coefficients, strategy.horizon
    largest = np.zeros(horizon, np.int64)
    for distance in (0, *range(gap, horizon)):
        products = np.cumsum(c[: horizon - distance] * c[distance:])
        largest[distance] = np.abs(products).max()
    sizes = largest.tolist()
    behind = [0] * horizon
    for distance in range(gap, horizon):
        own = sizes[distance] + (behind[distance - gap] if distance >= 2 * gap else 0)
        behind[distance] = max(behind[distance - 1], own)
    return sum(sizes[0] + 2 * behind[horizon - 1 - i] for i in range(0, horizon, gap))


@lru_cache(maxsize=64)
def _decoder(strategy: Strategy, length: int | None) -> np.ndarray:
    _check_length(length)
    inverse = _inverse(strategy)
    weights = inverse if length == 1 else np.cumsum(inverse)
    if length not in (None, 1):
        before = np.concatenate([np.zeros(min(length, len(weights))), weights])[: len(weights)]
        weights = weights - before
    weights.flags.writeable = False
    return weights


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
