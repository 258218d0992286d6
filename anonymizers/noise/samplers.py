"""Random words of many cells at once, and exact comparisons of a uniform number with exp(-x).

A uniform number is known by its first bits, which is nearly always enough to see on which side of
exp(-x) it lies. Where it is not, the same number is extended by further words of its cell and
compared with an enclosure of exp(-x), until the two are apart. So a comparison comes out as with
infinitely many bits, although almost all of them are made in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.anonymizers.accounting.intervals import Interval
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from tracecloak.anonymizers.noise.randomness import Randomness
    from tracecloak.anonymizers.noise.sums import SumNoise


# --- Random words of many cells at once, and exact comparisons of a uniform number with exp(-x). --


# How far a float64 exp(-x) may be off before a comparison made with it is wrong. Callers give x
# with an error that moves exp(-x) by less than 2^-48, and `numpy.exp` is taken to be right within
# 2^-48 for x <= 0, which is 32 units in the last place of 1. (Its implementations stay within 4.)
_GUARD = 2.0**-40

# Bits of the enclosure beyond those of the uniform: a comparison that floats settle is settled by
# the enclosure without a further word too, since its width is far less than the guard. And digits
# of its decimals beyond these bits.
_EXTRA_BITS, _SPARE_DIGITS = 32, 20

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

    The exponent 0 gives 2^bits twice.

    Args:
        exponent: At least 0.
        bits: At least 0.
    """
    if not exponent:
        return 1 << bits, 1 << bits
    if exponent > bits:  # exp(-x) < 2^-x
        return 0, 1
    # 2^bits has fewer than bits / 3 + 1 digits, and so has what the exponent makes of an error.
    chance = (-Interval.of(exponent, bits // 3 + _SPARE_DIGITS)).exp()
    return math.floor(Fraction(chance.low) * 2**bits), math.ceil(Fraction(chance.high) * 2**bits)


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


# --- Exact samplers: integers whose law is the stated one, not an approximation of it. ------------
# Given uniform random words every draw has exactly its law: no float error enters, no tail is
# cut, and nothing overflows. They follow Canonne, Kamath and Steinke, "The Discrete Gaussian for
# Differential Privacy" (2020), algorithms 1 to 3, over many rows at a time: a round makes one
# attempt for every row that still needs one, from further words of that row alone. So a row's
# value depends on its cell and its parameters and never on the other rows of the call. In place
# of their Bernoulli trials with probability exp(-x) made of fractions, a uniform number is
# compared with exp(-x) (`anonymizers.noise.samplers`), which is the same law for fewer words.
#
# Why it matters: noise made of floats tells by its last bits what it was added to (Mironov, "On
# Significance of the Least Significant Bits for Differential Privacy", 2012).
#
# The number of attempts depends on the values drawn, so the time a call takes does too.

LARGEST_SCALE = 2**40
LARGEST_TERM = 2**62  # of a numerator or a denominator

_BATCH = 1 << 15  # rows of a round: its arrays stay in the cache of the processor

# Values drawn for some of the rows of a round: (positions within the rows, int64 values there).
_Drawn = tuple[np.ndarray, np.ndarray]


def discrete_laplace(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n] with P(x) proportional to exp(-|x| / scale), one value for each row.

    Args:
        stream: Of n cells. The scale as a reduced fraction and the cell decide the value.
        numerator: Of the scale, at least 1.
        denominator: Of the scale, at least 1. For a count of sensitivity s and an epsilon a / b the
            scale is s b / a.

    Raises:
        UsageError: The scale is above 2^40, or a term of it is not in 1 … 2^62.
    """
    scale = _checked(numerator, denominator)
    return _filled(stream, lambda rows: _attempt_laplace(stream, rows, *scale))


def truncated_discrete_laplace(
    stream: CellStream, numerator: int, denominator: int, bound: int
) -> np.ndarray:
    """Returns int64[n], discrete Laplace conditioned on |x| <= bound, one value for each row.

    Where the bound is below the scale, the candidates are uniform. So about one in three attempts
    succeeds, whatever the bound.

    Args:
        stream: Of n cells.
        numerator: As of `discrete_laplace`.
        denominator: As of `discrete_laplace`.
        bound: 0 … 2^62.

    Raises:
        UsageError: As of `discrete_laplace`, or the bound is outside its range.
    """
    above, under = _checked(numerator, denominator)
    bound = _whole("bound", bound, 0)

    def attempt_uniform(rows: np.ndarray) -> _Drawn:
        words = stream.words(rows)
        values, is_fair = _below(words[:, 0], 2 * bound + 1)
        values -= bound
        sizes = np.abs(values)
        is_kept = is_fair & are_below_exp(
            stream,
            rows,
            words[:, 1],
            64,
            sizes * (under / above),  # in [0, 1] after four roundings: wrong by less than 2^-50
            lambda i: Fraction(int(sizes[i]) * under, above),
        )
        at = np.flatnonzero(is_kept)
        return at, values[at]

    def attempt_laplace(rows: np.ndarray) -> _Drawn:
        at, values = _attempt_laplace(stream, rows, above, under)
        inside = np.abs(values) <= bound
        return at[inside], values[inside]

    return _filled(stream, attempt_uniform if bound <= above // under else attempt_laplace)


def discrete_gaussian(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n] with P(x) proportional to exp(-x² / (2 sigma²)), one value for each row.

    The variance is at most sigma², and nearly equal to it unless sigma is well below 1.

    Args:
        stream: Of n cells. Sigma as a reduced fraction and the cell decide the value.
        numerator: Of sigma, at least 1.
        denominator: Of sigma, at least 1.

    Raises:
        UsageError: Sigma is above 2^40, or a term of it is not in 1 … 2^62.
    """
    n, d = _checked(numerator, denominator)
    sigma, scale = n / d, n // d + 1

    def exact_exponent(size: int) -> Fraction:
        """(size - sigma² / t)² / (2 sigma²) with t the scale of the candidate."""
        return Fraction((size * d * d * scale - n * n) ** 2, 2 * (n * d * scale) ** 2)

    def attempt(rows: np.ndarray) -> _Drawn:
        at, values = _attempt_laplace(stream, rows, scale, 1)
        sizes = np.abs(values)
        # With z = size / sigma - sigma / t the exponent is z² / 2. Five roundings of each term put
        # z wrong by less than 2^-50 (|z| + 2), hence exp(-z² / 2) by less than 2^-49.
        z = sizes / sigma - sigma / scale
        is_kept = are_below_exp(
            stream,
            rows[at],
            stream.words(rows[at])[:, 0],
            64,
            z * z / 2,
            lambda i: exact_exponent(int(sizes[i])),
        )
        return at[is_kept], values[is_kept]

    return _filled(stream, attempt)


def permute_and_flip(
    stream: CellStream,
    scores: np.ndarray,
    epsilon: Fraction,
    sensitivity: Fraction,
    *,
    monotone: bool = False,
) -> int:
    """Chooses a candidate of nearly the highest score; epsilon-differentially private.

    McKenna and Sheldon, "Permute-and-Flip: A new mechanism for differentially private selection"
    (2020): the candidates are visited in a random order, and the first is taken whose coin comes up
    with probability exp(-epsilon (highest - score) / (2 sensitivity)). Each has one coin, so it is
    the same to toss all of them and to take any of the heads with equal chance.

    Args:
        stream: One row for each candidate.
        scores: int64[n], higher is better. A candidate's chance depends on all of them.
        epsilon: Above 0.
        sensitivity: By how much one score may differ between neighbouring inputs; above 0.
        monotone: Whether between neighbours all scores move in one direction, for which the factor
            2 is not needed.

    Returns:
        The position of the chosen candidate.

    Raises:
        UsageError: There is no candidate or not one row for each, or a parameter is not above 0.
    """
    for name, value in (("epsilon", epsilon), ("sensitivity", sensitivity)):
        if value <= 0:
            raise UsageError(f"{name}: expected a number above 0, got {value}")
    if scores.dtype != np.int64 or scores.shape != (len(stream),) or not len(scores):
        raise UsageError(
            f"scores: expected int64[{len(stream)}], one for each row of the stream and at least "
            f"one, got {scores.dtype}{list(scores.shape)}"
        )
    # A float epsilon is taken at its exact value. A difference of two int64 can need 64 bits, which
    # an unsigned integer has.
    rate = Fraction(epsilon) / Fraction(sensitivity) / (1 if monotone else 2)
    gaps = scores.max().view(np.uint64) - scores.view(np.uint64)
    words = stream.words(np.arange(len(scores)))
    heads = are_below_exp(
        stream,
        np.arange(len(scores)),
        words[:, 0],
        64,
        # A gap is 0 or at least 1, so beyond 2^64 the rate changes no float of exp(-x).
        gaps * float(min(rate, Fraction(2**64))),
        lambda i: int(gaps[i]) * rate,
    )
    candidates, ranks = np.flatnonzero(heads), words[heads, 1]
    while True:  # the smallest random rank wins; equal ones are drawn again
        candidates = candidates[ranks == ranks.min()]
        if len(candidates) == 1:
            return int(candidates[0])
        ranks = stream.words(candidates)[:, 0]


def _filled(stream: CellStream, attempt: Callable[[np.ndarray], _Drawn]) -> np.ndarray:
    """Returns int64[n], the values of all rows: repeats attempts at each until one succeeds."""
    values = np.zeros(len(stream), np.int64)
    active, n_begun = np.zeros(0, np.int64), 0
    while n_begun < len(values) or len(active):
        more = np.arange(n_begun, min(n_begun + _BATCH - len(active), len(values)))
        n_begun += len(more)
        active = np.concatenate([active, more])
        at, drawn = attempt(active)
        values[active[at]] = drawn
        is_open = np.ones(len(active), bool)
        is_open[at] = False
        active = active[is_open]
    return values


def _attempt_laplace(
    stream: CellStream, rows: np.ndarray, numerator: int, denominator: int
) -> _Drawn:
    """One attempt at discrete Laplace for each row: algorithm 2 with t / s = num / den.

    X = U + num V has P(X = x) proportional to exp(-x / num) if U < num is kept with probability
    exp(-U / num) and P(V >= k) = exp(-k). The value is X // den with a random sign, and -0 is no
    success. The first word of a block gives U; the second gives 32 bits of the number that decides
    on U, 31 of the number that V counts, and the sign.
    """
    words = stream.words(rows)
    rest, is_fair = _below(words[:, 0], numerator)
    is_kept = is_fair & are_below_exp(
        stream,
        rows,
        words[:, 1] >> np.uint64(32),
        32,
        rest / numerator,  # three roundings in [0, 1]: wrong by less than 2^-51
        lambda i: Fraction(int(rest[i]), numerator),
    )
    at = np.flatnonzero(is_kept)
    low = words[at, 1].astype(np.uint32)
    negative = (low & np.uint32(1)).astype(bool)
    counts = geometric(stream, rows[at], (low >> np.uint32(32 - GEOMETRIC_BITS)).astype(np.int64))
    sizes = _quotients(rest[at], counts, numerator, denominator)
    success = ~(negative & (sizes == 0))
    return at[success], np.where(negative, -sizes, sizes)[success]


def _quotients(
    rest: np.ndarray, counts: np.ndarray, numerator: int, denominator: int
) -> np.ndarray:
    """Returns int64[m], (rest + numerator count) // denominator.

    It is at most scale (count + 1), which int64 holds up to a count of 2^22, of probability
    exp(-2^22); but the numerator alone may leave no room, and then Python's integers divide.
    """
    if numerator * (int(counts.max(initial=0)) + 1) >= 2**63:
        counts = counts.astype(object)
    return ((rest + numerator * counts) // denominator).astype(np.int64)


def _below(words: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[m] in [0, bound), and bool[m] where they are uniform; the others are void.

    Of the 2^64 words the first 2^64 mod bound are void, so that each value has equally many.
    """
    return (words % np.uint64(bound)).view(np.int64), words >= np.uint64(2**64 % bound)


def _checked(numerator: int, denominator: int) -> tuple[int, int]:
    """Checks a scale; returns it as a reduced fraction, so that 2/4 draws what 1/2 draws."""
    above, under = _whole("numerator", numerator, 1), _whole("denominator", denominator, 1)
    if above > LARGEST_SCALE * under:
        raise UsageError(
            f"numerator: numerator / denominator is at most {LARGEST_SCALE}, got {above}/{under}; "
            "spend more epsilon on it or count in larger units"
        )
    return Fraction(above, under).as_integer_ratio()


def _whole(name: str, value: int, least: int) -> int:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or not least <= value <= LARGEST_TERM:
        raise UsageError(f"{name}: expected {least} to {LARGEST_TERM}, got {value!r}")
    return int(value)


# --- What draws the noise of a release: exactly, unless an audit or a test gives something else. --
# Every draw of noise goes through the `Noise` that the release's `Randomness` carries. So an audit
# sees the sums that all else is made of, a test puts wrong noise in one place and looks whether it
# is found, and what a method draws can be compared with what it says that it spends.


Scale = tuple[int, int]
"""A scale of noise as (numerator, denominator)."""


class Noise:
    """Draws exactly; others override what they want to be otherwise. Holds nothing of a release."""

    laplace = staticmethod(discrete_laplace)
    gaussian = staticmethod(discrete_gaussian)
    truncated_laplace = staticmethod(truncated_discrete_laplace)
    select = staticmethod(permute_and_flip)

    def made(
        self,
        purpose: str,
        domain: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        names: pa.Array | None = None,
    ) -> None:
        """Receives sums with noise, before anything is computed from them.

        Args:
            purpose: What the noise is for.
            domain: int64[n], their cells.
            noisy: int64[n], the sums with noise in lattice steps.
            noise: What was added.
            names: Of pairs of activities, what their codes mean, if what is released does not say.
        """


EXACT = Noise()


def draw_laplace(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n], discrete Laplace noise of a scale; see `discrete_laplace`."""
    return stream.noise.laplace(stream, numerator, denominator)


def draw_gaussian(stream: CellStream, numerator: int, denominator: int) -> np.ndarray:
    """Returns int64[n], discrete Gaussian noise of a sigma; see `discrete_gaussian`."""
    return stream.noise.gaussian(stream, numerator, denominator)
