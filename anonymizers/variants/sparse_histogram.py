"""`sparse-histogram`: noisy counts of every possible variant up to a length, without any delta.

The whole domain, all sequences of 1 to `max_length` activities, gets discrete Laplace noise, and
what reaches a threshold is released. Cormode, Procopiuc, Srivastava and Tran, "Differentially
Private Summaries for Sparse Data" (ICDT 2012): the sequences that no case has need not be visited
one by one. How many of them pass is binomial, which of them is uniform, and by how much they pass
is geometric. All three are drawn exactly here, whatever the size of the domain.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.anonymizers.accounting.calibration import laplace_interval, laplace_scale
from tracecloak.anonymizers.accounting.intervals import DIGITS, Interval
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract.sentences import sentence
from tracecloak.anonymizers.noise.randomness import Randomness, cell_numbers
from tracecloak.anonymizers.noise.samplers import LARGEST_TERM, CellStream, draw_laplace
from tracecloak.anonymizers.rigorous.budget import Allowances, Need, Pure
from tracecloak.anonymizers.rigorous.params import drawable
from tracecloak.anonymizers.variants.generator import Domain, VariantGenerator, released
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.variants import VariantHistogram

JUNK = Fraction(5, 100)
"""How many sequences that no case has are released, on average and at most; public.

A tenth of it raises every threshold by 2.3 scales."""

_WORD_BITS = 64
_BLOCK = 1 << 16  # lengths whose first words are looked at together
# Digits by which an enclosure is to be narrower than the uniform number it is compared with.
_SPARE_DIGITS = 30


class SparseHistogram(VariantGenerator, name="sparse-histogram"):
    """The generator; see the module.

    A unit adds or removes at most `max_units` cases, so it changes the counts of all sequences of
    the domain by at most that in total, and discrete Laplace noise of scale max_units / epsilon on
    each of them is epsilon-DP (Dwork, McSherry, Nissim, Smith 2006). Thresholds depend on the
    length of a sequence and on what is public; dropping what is below them is post-processing.

    The sequences that no case has are treated all at once. Each passes the threshold tau with
    probability p = P(X >= tau), so over the whole domain of a length, of N sequences, as many as
    Binomial(N, p) would pass if all counts were 0, in places that are uniform without replacement,
    with values tau + G, P(G >= k) = exp(-k / scale). Of these, the places that some case has are
    dropped: those sequences have their own noise. What is left is, for every other sequence by
    itself, what its own noise would have given. (To move the dropped ones to other places would
    tell how many sequences occur.)

    Time and memory are linear in the events of the histogram; time is linear in `max_length` too,
    at millions of lengths a second.
    """

    keeps_rows: ClassVar[bool] = True

    def needs(self, max_units: int, max_length: int | None) -> tuple[Need, ...]:
        """Returns what the counts need."""
        return (Pure("variants", Fraction(1), of_one_cell(max_units)),)

    def explain(self, means: Allowances, max_units: int) -> str:
        """Returns what is done and the error to expect."""
        epsilon = means["variants"].epsilon
        scale = drawable(laplace_scale(epsilon, of_one_cell(max_units)))
        said = {"scale": scale[0] / scale[1], "half": laplace_interval(Fraction(*scale))}
        return sentence("generators", "sparse", None, **said, junk=JUNK)

    def thresholds(self, domain: Domain, epsilon: Fraction) -> Thresholds:
        """Returns the smallest released number of cases, by length; public.

        Raises:
            UsageError: The noise would be too wide to draw.
        """
        scale = drawable(laplace_scale(epsilon, of_one_cell(domain.max_units)))
        return Thresholds(len(domain.vocabulary), domain.max_length, scale, JUNK)

    def answer(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> ReleasedVariants:
        """Returns the sequences whose noisy numbers of cases reach their thresholds.

        The intervals are those of the noise: for any one sequence, chosen without looking, its
        holds the true number with probability 0.95.
        """
        thresholds = self.thresholds(domain, means["variants"].epsilon)
        rows, noisy = _above_threshold(counted, thresholds, randomness)
        junk, values = _junk(thresholds, randomness)
        is_free = np.asarray(pc.invert(pc.is_in(junk, value_set=counted.sequences)))
        # Variants of the log and made-up ones are sorted together. In two lists, the order of equal
        # counts would show which of them are in the log.
        both = VariantHistogram.of(
            pa.concat_arrays([counted.sequences.take(pa.array(rows)), junk.filter(is_free)]),
            np.concatenate([noisy, values[is_free]]),
        )
        return released(both, domain.vocabulary, laplace_interval(Fraction(*thresholds.scale)))

    def keep(
        self, counted: VariantHistogram, domain: Domain, means: Allowances, randomness: Randomness
    ) -> VariantHistogram:
        """Returns the variants that pass, and those that would have passed without any case."""
        thresholds = self.thresholds(domain, means["variants"].epsilon)
        rows, _ = _above_threshold(counted, thresholds, randomness)
        junk, _ = _junk(thresholds, randomness)
        is_junk = np.flatnonzero(np.asarray(pc.is_in(counted.sequences, value_set=junk)))
        return counted.take(np.union1d(rows, is_junk))


class Thresholds:
    """What is public of each length: how many cases are needed, and who passes without any.

    Args:
        n_activities: OTHER included.
        max_length: Largest length.
        scale: (numerator, denominator) of the noise.
        junk: Bound of the expected number of passing sequences, all lengths together.
    """

    def __init__(
        self, n_activities: int, max_length: int, scale: tuple[int, int], junk: Fraction
    ) -> None:
        self.n_activities = n_activities
        self.scale = scale
        self.share = junk / max_length
        """Bound of the expected number of passing sequences of one length."""
        self.n_lengths = bisect_right(range(1, max_length + 1), LARGEST_TERM, key=self.of)
        """Lengths that are released at all: for longer ones the threshold leaves int64."""

    @cached_property
    def _logarithms(self) -> tuple[Interval, Interval]:
        decay = (-Interval.of(1 / Fraction(*self.scale))).exp()
        base = Interval.of(1 / self.share).log() - (decay + 1).log()
        return Interval.of(self.n_activities).log(), base

    def of(self, length: int) -> int:
        """Returns the smallest noisy number of cases that is released, at least 1.

        ceil(scale (L ln|A| + ln(1 / share) - ln(1 + e^(-1 / scale)))), which makes |A|^L
        P(X >= tau) at most the share; rounded up wherever it is rounded.
        """
        each, base = self._logarithms
        least = (each * length + base) * Interval.of(Fraction(*self.scale))
        return max(1, math.ceil(least.high))

    def n_passing_at_most(self, length: int, digits: int) -> Iterator[Interval]:
        """Yields enclosures of P(K <= 0), P(K <= 1), … of the binomial number K that pass.

        K is Binomial(N, p), N = |A|^length, p = P(X >= tau) = a^tau / (1 + a), a = e^(-1 / scale).
        (1 - p)^N = exp(-N (p + p²/2 + p³/3 + …)), whose terms are all positive: nothing cancels,
        however large N and small p are. Then P(K = k + 1) = P(K = k) (N - k) / (k + 1) p / (1 - p).
        """
        scale = Fraction(*self.scale)
        decay = (-Interval.of(1 / scale, digits)).exp()
        chance = (-Interval.of(self.of(length) / scale, digits)).exp() / (decay + 1)
        n = Interval.of(self.n_activities, digits).power(length)
        odds = chance / (1 - chance)
        term = (-n * _minus_log_of_rest(chance)).exp()
        total, k = term, 0
        while True:
            yield total
            term = term * (n - k) / (k + 1) * odds
            total, k = total + term, k + 1


def _minus_log_of_rest(chance: Interval) -> Interval:
    """Encloses -ln(1 - p) = p + p²/2 + p³/3 + …, for p of at most 1/2 + 10^-50."""
    power, total, i = chance, chance, 1
    goal = chance.high.scaleb(-chance.digits)
    while power.high > goal:
        power, i = power * chance, i + 1
        total = total + power / i
    # The rest is at most power / (i + 1) (p + p² + …), and p / (1 - p) is at most 2 here.
    return Interval(total.low, (total + power).high, chance.digits)


def _above_threshold(
    counted: VariantHistogram, thresholds: Thresholds, randomness: Randomness
) -> tuple[np.ndarray, np.ndarray]:
    """int64[m], the variants that pass; int64[m], their noisy numbers of cases."""
    cells = randomness.identify("sparse-histogram variant", counted.sequences)
    stream = CellStream(randomness, "sparse-histogram count", cells)
    noisy = counted.counts + draw_laplace(stream, *thresholds.scale)
    rows = np.flatnonzero(noisy >= _least(counted, thresholds))
    return rows, noisy[rows]


def _least(counted: VariantHistogram, thresholds: Thresholds) -> np.ndarray:
    """Returns int64[n_variants], the threshold of each; beyond reach where it has none."""
    lengths, place = np.unique(np.diff(counted.offsets), return_inverse=True)
    beyond = np.iinfo(np.int64).max
    by_length = [
        thresholds.of(length) if length <= thresholds.n_lengths else beyond
        for length in lengths.tolist()
    ]
    return np.array(by_length, np.int64)[place]


# --- sequences that pass although no case has them ------------------------------------------------


def _junk(thresholds: Thresholds, randomness: Randomness) -> tuple[pa.LargeBinaryArray, np.ndarray]:
    """Draws which sequences would pass if no case had any.

    Returns:
        large_binary[n], distinct sequences, and int64[n], their noisy numbers of cases.
    """
    sequences: list[pa.LargeBinaryArray] = []
    values: list[int] = []
    for length, number in _numbers(thresholds, randomness):
        drawn: dict[pa.LargeBinaryScalar, None] = {}
        for i in count():
            if len(drawn) == number:
                break
            # Sequences are drawn without replacement: one that was drawn before does not count
            # again.
            drawn[_sequence(thresholds.n_activities, length, i, randomness)] = None
        sequences += drawn
        noise = CellStream(
            randomness, "sparse-histogram junk value", cell_numbers(np.array([length]))
        )
        least = thresholds.of(length)
        values += [least + _geometric(noise, thresholds.scale) for _ in drawn]
    return pa.array(sequences, pa.large_binary()), np.array(values, np.int64)


def _numbers(thresholds: Thresholds, randomness: Randomness) -> Iterator[tuple[int, int]]:
    """Yields (length, how many pass) where any do.

    By inversion of a uniform number U: the smallest k with U < P(K <= k). P(K <= 0) is at least
    1 - N p and so 1 - share, which settles nearly every length by its first word.
    """
    settled = max(0, math.floor((1 - thresholds.share) * 2**_WORD_BITS))
    for first in range(1, thresholds.n_lengths + 1, _BLOCK):
        lengths = np.arange(first, min(first + _BLOCK, thresholds.n_lengths + 1))
        stream = CellStream(randomness, "sparse-histogram junk number", cell_numbers(lengths))
        heads = stream.words(np.arange(len(lengths)))[:, 0]
        # A head below `settled` has U < (head + 1) / 2^64 <= 1 - share.
        for row in np.flatnonzero(heads >= np.uint64(settled)).tolist():
            length = int(lengths[row])
            number = _invert(thresholds, length, stream, row, int(heads[row]))
            if number:
                yield length, number


def _invert(thresholds: Thresholds, length: int, stream: CellStream, row: int, head: int) -> int:
    """Returns the smallest k with U < P(K <= k), where U begins with the bits of `head`.

    U gets further bits, and the enclosures further digits, until every comparison is settled.
    """
    n_cells = thresholds.n_activities ** min(length, _WORD_BITS)  # or a number never reached
    bits = _WORD_BITS
    while True:
        digits = max(DIGITS, math.ceil(bits * math.log10(2)) + _SPARE_DIGITS)
        least, most = Fraction(head, 2**bits), Fraction(head + 1, 2**bits)
        for k, at_most in enumerate(thresholds.n_passing_at_most(length, digits)):
            if k == n_cells or Interval.of(most, digits).is_at_most(at_most):
                return k
            if not at_most.is_at_most(least):
                break
        head = head << _WORD_BITS | int(stream.words(np.array([row]))[0, 0])
        bits += _WORD_BITS


def _sequence(
    n_activities: int, length: int, number: int, randomness: Randomness
) -> pa.LargeBinaryScalar:
    """Returns a uniform sequence, of which a length has as many as are asked for by number."""
    purpose = f"sparse-histogram junk variant {length} {number}"
    stream = CellStream(randomness, purpose, cell_numbers(np.arange(length)))
    # Of the 2^64 words the first 2^64 mod n are void, so that each activity has equally many.
    n_void = np.uint64(2**_WORD_BITS % n_activities)
    codes = np.zeros(length, np.int32)
    rows = np.arange(length)
    while len(rows):
        words = stream.words(rows)[:, 0]
        codes[rows] = words % np.uint64(n_activities)
        rows = rows[words < n_void]
    return encode_sequences(np.array([0, length]), codes)[0]


def _geometric(stream: CellStream, scale: tuple[int, int]) -> int:
    """Returns G with P(G >= k) = exp(-k / scale): discrete Laplace noise that is not negative."""
    while True:
        value = int(draw_laplace(stream, *scale)[0])
        if value >= 0:
            return value
