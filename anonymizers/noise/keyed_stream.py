"""Random words of many cells at once, and exact comparisons of a uniform number with exp(-x).

A uniform number is known by its first bits, which is nearly always enough to see on which side of
exp(-x) it lies. Where it is not, the same number is extended by further words of its cell and
compared with an enclosure of exp(-x) in integers, until the two are apart. So a comparison comes
out as with infinitely many bits, although almost all of them are made in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tracecloak.anonymizers.noise.drawing import Noise
    from tracecloak.anonymizers.noise.randomness import Randomness

Whole = np.ndarray | int
"""A whole number for each cell, or one for all of them."""

# How far a float64 exp(-x) may be off before a comparison made with it is wrong. Callers give x
# with an error that moves exp(-x) by less than 2^-48, and `numpy.exp` is taken to be right within
# 2^-48 for x <= 0, which is 32 units in the last place of 1. (Its implementations stay within 4.)
_GUARD = 2.0**-40

# Bits of the enclosure beyond those of the uniform: a comparison that floats settle is settled by
# the enclosure without a further word too, since its width is far less than the guard.
_EXTRA_BITS = 32

_WORD_BITS = 64


class CellStream:
    """Fresh random words of each of n cells under one purpose.

    Row i's k-th request is a function of (release, purpose, cell i, k) only: neither the other rows
    nor the order of requests for them matter. Hence a second stream of the same purpose and cells
    gives the same words again, and everything that needs words of its own needs its own purpose.

    Args:
        randomness: The keyed stream of the release.
        purpose: What the words are for.
        cells: uint64[n, 2], identities or cell numbers; equal cells get equal words.
    """

    def __init__(self, randomness: Randomness, purpose: str, cells: np.ndarray) -> None:
        self._randomness = randomness
        self.purpose = purpose
        self._cells = cells
        self._counters = np.zeros(len(cells), np.int64)

    def __len__(self) -> int:
        return len(self._cells)

    @property
    def noise(self) -> Noise:
        """What draws from it."""
        return self._randomness.noise

    def words(self, rows: np.ndarray) -> np.ndarray:
        """Returns uint64[m, 2], the next 128 bits of each row, and moves these rows on by one.

        Args:
            rows: int64[m], distinct row numbers; a row given twice would get the same words twice.
        """
        counters = self._counters[rows]
        self._counters[rows] = counters + 1
        return self._randomness.words(self.purpose, self._cells.take(rows, axis=0), counters)


def enclose_exp(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Returns integers (low, high) with low <= 2^bits exp(-exponent) <= high, at most 2 apart.

    Every step rounds the lower end down and the upper end up, so the enclosure is proved by the
    rounding alone. The exponent 0 gives 2^bits twice.

    Args:
        exponent: At least 0.
        bits: At least 0.
    """
    if exponent > bits:  # exp(-x) < 2^-x
        return 0, 1
    # exp(x) = exp(y)^(2^halvings) with y < 1/2. A squaring doubles the relative error, and the
    # series has fewer terms than the scale has bits, each of them rounded.
    halvings = int(exponent).bit_length() + 1
    scale = bits + halvings + bits.bit_length() + 16
    numerator, denominator = exponent.numerator << scale, exponent.denominator << halvings
    low_y, high_y = numerator // denominator, -(-numerator // denominator)
    low = high = low_term = high_term = 1 << scale
    n = 0
    while high_term > 1:
        n += 1
        low_term = low_term * low_y // (n << scale)
        high_term = -(-high_term * high_y // (n << scale))
        low += low_term
        high += high_term
    high += high_term  # as y <= 1/2, all later terms together are at most the last one
    for _ in range(halvings):
        low = low * low >> scale
        high = -(-high * high >> scale)
    return (1 << bits + scale) // high, -(-(1 << bits + scale) // low)


class LazyUniform:
    """A uniform number in [0, 1): its first bits, and as many more of its row as are asked for.

    Args:
        stream: Where further bits come from.
        row: Whose they are.
        head: The first bits as an integer.
        bits: How many they are.
    """

    def __init__(self, stream: CellStream, row: int, head: int, bits: int) -> None:
        self._stream = stream
        self._rows = np.array([row])
        self._head = head
        self._bits = bits

    def is_below_exp(self, exponent: Fraction) -> bool:
        """Whether the number is less than exp(-exponent), for an exponent of at least 0."""
        while True:
            low, high = enclose_exp(exponent, self._bits + _EXTRA_BITS)
            if self._head + 1 << _EXTRA_BITS <= low:
                return True
            if self._head << _EXTRA_BITS >= high:
                return False
            word = int(self._stream.words(self._rows)[0, 0])
            self._head = self._head << _WORD_BITS | word
            self._bits += _WORD_BITS


def are_below_exp(
    stream: CellStream,
    rows: np.ndarray,
    heads: np.ndarray,
    bits: int,
    exponents: np.ndarray,
    exact_exponent: Callable[[int], Fraction],
) -> np.ndarray:
    """Returns bool[m], whether each uniform number is less than exp(-exponent), decided exactly.

    Args:
        stream: Where further bits come from, for the few numbers that need them.
        rows: int64[m], the row of each number, each at most once.
        heads: uint64[m], the first bits of each number.
        bits: How many these are, at most 64.
        exponents: float64[m], at least 0, with exp(-exponent) right within 2^-48.
        exact_exponent: The exponent of the i-th number.
    """
    chances = np.exp(-exponents)
    # Of 64 bits a float keeps 53; what it loses is again far less than the guard.
    distances = heads.astype(np.float64) * 2.0**-bits - chances
    below = distances < 0
    for i in np.flatnonzero(np.abs(distances) <= 2.0**-bits + _GUARD).tolist():
        number = LazyUniform(stream, int(rows[i]), int(heads[i]), bits)
        below[i] = number.is_below_exp(exact_exponent(i))
    return below


GEOMETRIC_BITS = 31


def _geometric_thresholds() -> np.ndarray:
    """Returns int64[22], floor(2^31 exp(-k)) for k = 1, 2, … until it is 0."""
    thresholds = [1 << GEOMETRIC_BITS]
    while thresholds[-1]:
        # No floor is in doubt: none of these exp(-k) has 32 equal bits after its 31st.
        low, _ = enclose_exp(Fraction(len(thresholds)), GEOMETRIC_BITS + _EXTRA_BITS)
        thresholds.append(low >> _EXTRA_BITS)
    return np.array(thresholds[1:], np.int64)


_THRESHOLDS = _geometric_thresholds()
_RISING_THRESHOLDS = _THRESHOLDS[::-1].copy()


def geometric(stream: CellStream, rows: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Returns int64[m], how many of exp(-1), exp(-2), … exceed each uniform number.

    So P(at least k) = exp(-k) for every k, without an end: a number whose first bits equal those of
    a threshold, or are all 0, is extended and compared with one threshold after the other.

    Args:
        stream: Where further bits come from.
        rows: int64[m], the row of each number, each at most once.
        heads: int64[m], the first `GEOMETRIC_BITS` bits of each number.
    """
    counts = len(_THRESHOLDS) - np.searchsorted(_RISING_THRESHOLDS, heads, side="right")
    # The thresholds are floors, so only an equal head is in doubt; the guard is less than a unit.
    doubtful = heads - _THRESHOLDS[counts] <= _GUARD * 2.0**GEOMETRIC_BITS
    for i in np.flatnonzero(doubtful).tolist():
        number = LazyUniform(stream, int(rows[i]), int(heads[i]), GEOMETRIC_BITS)
        count = 0
        while number.is_below_exp(Fraction(count + 1)):
            count += 1
        counts[i] = count
    return counts
