"""Exact samplers: against one-row arithmetic in Decimal, the edges of words, and what decides."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.keys import randomness
from tracecloak.anonymizers.noise import samplers
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.noise.samplers import (
    LARGEST_SCALE,
    LARGEST_TERM,
    CellStream,
    LazyUniform,
    discrete_gaussian,
    discrete_laplace,
    enclose_exp,
    geometric,
    permute_and_flip,
    truncated_discrete_laplace,
)
from tracecloak.schemas.errors import UsageError

DIGITS = 150
Sampler = Callable[[CellStream, int, int], np.ndarray]
SAMPLERS: dict[str, Sampler] = {
    "laplace": discrete_laplace,
    "gaussian": discrete_gaussian,
    "truncated": lambda s, n, d: truncated_discrete_laplace(s, n, d, 7),
    "truncated below its scale": lambda s, n, d: truncated_discrete_laplace(s, n, d, 1),
}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


def stream_of(n: int, purpose: str = "noise", first: int = 0) -> CellStream:
    return CellStream(randomness(), purpose, cell_numbers(np.arange(first, first + n)))


class Scripted(CellStream):
    """Gives each row the words of its list, and then fails."""

    def __init__(self, *words: list[tuple[int, int]]) -> None:
        super().__init__(randomness(), "unused", cell_numbers(np.arange(len(words))))
        self.left = [iter(of_row) for of_row in words]

    def words(self, rows: np.ndarray) -> np.ndarray:
        return np.array([next(self.left[i]) for i in rows.tolist()], np.uint64)


def in_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def exp_bits(exponent: int, bits: int) -> int:
    """floor(2^bits exp(-exponent)), by another implementation than the package's."""
    with decimal.localcontext(prec=DIGITS):
        return int(Decimal(-exponent).exp() * 2**bits)


def test_a_rows_kth_request_is_the_word_of_counter_k() -> None:
    keyed, cells = randomness(), np.array([[5, 1], [6, 0], [7, 2**63], [2**64 - 1, 3]], np.uint64)
    stream = CellStream(keyed, "p", cells)
    assert len(stream) == 4
    asked = [0, 0, 0, 0]
    for rows in ([0, 2], [3, 1, 0], [2], [], [0, 1, 2, 3], [1]):
        got = stream.words(np.array(rows, np.int64))
        assert got.dtype == np.uint64
        assert got.shape == (len(rows), 2)
        for row, words in zip(rows, got, strict=True):
            np.testing.assert_array_equal(words, keyed.words("p", cells[[row]], asked[row])[0])
            asked[row] += 1


@given(st.fractions(0, 300, max_denominator=2**70), st.integers(0, 250))
def test_the_enclosure_holds_exp_and_is_narrow(exponent: Fraction, bits: int) -> None:
    low, high = enclose_exp(exponent, bits)
    with decimal.localcontext(prec=DIGITS):
        exact = (-in_decimal(exponent)).exp() * 2**bits
        assert low <= exact * (1 + Decimal(10) ** -140)
        assert high >= exact * (1 - Decimal(10) ** -140)
    assert high - low <= 2


def test_float_exp_is_well_within_the_guard() -> None:
    """`numpy.exp`, in vectors and in scalars, is 2^8 times better than is assumed of it."""
    exponents = np.concatenate([np.linspace(0, 50, 5000), np.geomspace(1e-18, 800, 2000)])
    with decimal.localcontext(prec=40):
        exact = [(-Decimal(x)).exp() for x in exponents.tolist()]
        for found in (np.exp(-exponents), [np.exp(-x) for x in exponents]):
            errors = [abs(Decimal(float(p)) - e) for p, e in zip(found, exact, strict=True)]
            assert max(errors) < Decimal(2) ** -51


@pytest.mark.by_day(9)
@pytest.mark.parametrize("exponent", [1, 3, 20])
@pytest.mark.parametrize("equal_words", [0, 1, 3])
@pytest.mark.parametrize("side", [-1, 0, 1])
def test_a_doubtful_number_is_extended_not_replaced(
    exponent: int, equal_words: int, side: int
) -> None:
    """The head and some words are the bits of exp(-x); the word after that decides."""
    bits = 31 + 64 * (equal_words + 2)
    number = exp_bits(exponent, bits)
    # In the last word but one the bits differ by `side`; at 0 the last word decides instead.
    number += side << 64
    tail = [number >> 64 * i & 2**64 - 1 for i in reversed(range(equal_words + 2))]
    tail[-1] = 0 if side <= 0 else 2**64 - 1
    stream = Scripted([(word, 12345) for word in tail])
    head = number >> bits - 31
    found = LazyUniform(stream, 0, head, 31).is_below_exp(Fraction(exponent))
    assert found == (side <= 0)
    read = len(tail) - len(list(stream.left[0]))
    assert read == equal_words + (1 if side else 2)


def test_the_thresholds_are_the_floors_of_exp() -> None:
    expected = [exp_bits(k, 31) for k in range(1, 23)]
    assert samplers._THRESHOLDS.tolist() == expected
    assert expected[-1] == 0 < expected[-2]
    # A floor is certain where the next 32 bits of exp(-k) are neither all 0 nor all 1.
    assert all(2 < exp_bits(k, 63) % 2**32 < 2**32 - 2 for k in range(1, 23))


@given(st.integers(0, 6), st.integers(1, 2**64 - 2))
def test_counts_go_on_beyond_the_table(zero_words: int, last: int) -> None:
    stream = Scripted([(0, 7)] * zero_words + [(last, 7), (1, 7)])
    found = geometric(stream, np.zeros(1, np.int64), np.zeros(1, np.int64))[0]
    with decimal.localcontext(prec=60):
        exact = -(Decimal(last) / 2 ** (31 + 64 * (zero_words + 1))).ln()
        also = -(Decimal(last + 1) / 2 ** (31 + 64 * (zero_words + 1))).ln()
    assert math.floor(also) <= found <= math.floor(exact)


def naive_is_below_exp(words: Iterator[tuple[int, int]], head: int, bits: int, x: Fraction) -> bool:
    with decimal.localcontext(prec=DIGITS):
        chance = (-in_decimal(x)).exp()
        while True:
            if Decimal(head + 1) / 2**bits <= chance:
                return True
            if Decimal(head) / 2**bits >= chance:
                return False
            head, bits = head << 64 | next(words)[0], bits + 64


def naive_laplace(words: Iterator[tuple[int, int]], scale: Fraction) -> int:
    while True:
        first, second = next(words)
        num, den = scale.numerator, scale.denominator
        rest = first % num
        kept = naive_is_below_exp(words, second >> 32, 32, Fraction(rest, num))
        if first < 2**64 % num or not kept:
            continue
        head, count = second % 2**32 >> 1, 0
        while naive_is_below_exp(words, head, 31, Fraction(count + 1)):
            count += 1
        size = (rest + num * count) // den
        if size or not second & 1:
            return -size if second & 1 else size


def naive_gaussian(words: Iterator[tuple[int, int]], sigma: Fraction) -> int:
    scale = math.floor(sigma) + 1
    while True:
        value = naive_laplace(words, Fraction(scale))
        exponent = (abs(value) - sigma**2 / scale) ** 2 / (2 * sigma**2)
        if naive_is_below_exp(words, next(words)[0], 64, exponent):
            return value


def words_of(cell: int) -> Iterator[tuple[int, int]]:
    keyed, counter = randomness(), 0
    while True:
        first, second = keyed.words("noise", cell_numbers(np.array([cell])), counter)[0].tolist()
        yield first, second
        counter += 1


@st.composite
def scales(draw: st.DrawFn) -> tuple[int, int]:
    """A numerator and a denominator of any size whose ratio is at most 2^40."""
    num = draw(st.integers(1, 2 ** draw(st.integers(0, 62))))
    least = -(-num // LARGEST_SCALE)
    return num, draw(st.integers(least, 2 ** draw(st.integers(least.bit_length(), 62))))


EXTREMES = [
    (1, 1), (1, LARGEST_TERM), (LARGEST_TERM - 1, LARGEST_TERM), (LARGEST_SCALE, 1),
    (LARGEST_TERM, 2**22), (LARGEST_TERM - 1, 2**22), (3 * 2**60, 3 * 2**20 + 1),
    (LARGEST_SCALE * 3 - 1, 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sampler", "naive"), [(discrete_laplace, naive_laplace), (discrete_gaussian, naive_gaussian)]
)
def test_extreme_scales_draw_what_unbounded_integers_draw(
    sampler: Sampler, naive: Callable[[Iterator[tuple[int, int]], Fraction], int]
) -> None:
    for num, den in EXTREMES:
        found = sampler(stream_of(12), num, den)
        assert found.dtype == np.int64
        assert found.tolist() == [naive(words_of(i), Fraction(num, den)) for i in range(12)]


@settings(max_examples=60)
@given(scales(), st.integers(0, 10**6))
def test_any_scale_draws_what_unbounded_integers_draw(scale: tuple[int, int], first: int) -> None:
    for sampler, naive in ((discrete_laplace, naive_laplace), (discrete_gaussian, naive_gaussian)):
        found = sampler(stream_of(3, first=first), *scale)
        cells = range(first, first + 3)
        assert found.tolist() == [naive(words_of(i), Fraction(*scale)) for i in cells]


def test_products_of_scale_and_count_beyond_int64_are_divided_exactly() -> None:
    """Counts of 3 or more at a numerator of 2^62 leave int64; here each is beside the limit."""
    rest, counts = np.array([0, 2**62 - 1, 5]), np.array([1, 40, 1000])
    for den in (2**22, 2**40 - 1):
        expected = [(int(r) + 2**62 * int(v)) // den for r, v in zip(rest, counts, strict=True)]
        assert samplers._quotients(rest, counts, 2**62, den).tolist() == expected


@given(st.integers(1, LARGEST_TERM), st.integers(0, 2**64 - 1))
def test_a_number_below_a_bound_voids_the_odd_words_only(bound: int, word: int) -> None:
    odd = 2**64 % bound
    words = np.array([0, odd - 1 if odd else 0, odd, 2**64 - 1, word], np.uint64)
    numbers, is_fair = samplers._below(words, bound)
    assert numbers.tolist() == [int(w) % bound for w in words]
    assert is_fair.tolist() == [int(w) >= odd for w in words]
    assert (2**64 - odd) % bound == 0  # so each number has equally many words


@pytest.mark.by_day(5)
@pytest.mark.parametrize(
    ("num", "den"), [(1, 1), (10, 3), (1, 7), (10**12 + 39, 7), (2**62, 2**22)]
)
@every_sampler
def test_the_exact_path_alone_draws_the_same(
    sampler: Sampler, num: int, den: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 1000
    fast = sampler(stream_of(n), num, den)
    decided = []
    is_below = LazyUniform.is_below_exp
    monkeypatch.setattr(
        LazyUniform, "is_below_exp", lambda self, x: decided.append(x) or is_below(self, x)
    )
    assert (sampler(stream_of(n), num, den) == fast).all()
    assert not decided  # no comparison was in doubt, as is to be expected of so few
    monkeypatch.setattr(samplers, "_GUARD", 2.0)
    np.testing.assert_array_equal(sampler(stream_of(n), num, den), fast)
    assert len(decided) >= n


N = 500


@every_sampler
def test_a_value_does_not_depend_on_the_other_rows(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed, cells = randomness(), cell_numbers(np.arange(N))

    def draw(rows: np.ndarray) -> np.ndarray:
        return sampler(CellStream(keyed, "noise", cells[rows]), 50, 3)

    whole = draw(np.arange(N))
    order = np.random.default_rng(3).permutation(N)
    np.testing.assert_array_equal(draw(order), whole[order])
    np.testing.assert_array_equal(draw(order[:50]), whole[order[:50]])
    parts = [draw(np.arange(a, b)) for a, b in ((0, 1), (1, 200), (200, 200), (200, N))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    monkeypatch.setattr(samplers, "_BATCH", 7)
    np.testing.assert_array_equal(draw(np.arange(N)), whole)
    assert len(np.unique(whole)) > 2


@pytest.mark.parametrize(
    ("num", "den", "message"),
    [
        (0, 1, "^numerator: expected 1 to 4611686018427387904, got 0$"),
        (2**63, 2**62, "^numerator: .* got 9223372036854775808$"),
        (1, -1, "^denominator: .* got -1$"),
        (1.5, 1, "^numerator: .* got 1.5$"),
        (True, 1, "^numerator: .* got True$"),
        (2**40 + 1, 1, "^numerator: .* at most 1099511627776, got 1099511627777/1; .*epsilon"),
        (2**50, 1023, "^numerator: .* got 1125899906842624/1023;"),
    ],
)
def test_scales_that_cannot_be_drawn_are_refused(num: int, den: int, message: str) -> None:
    for sampler in SAMPLERS.values():
        with pytest.raises(UsageError, match=message):
            sampler(stream_of(3), num, den)


@pytest.mark.parametrize("bound", [-1, 2**62 + 1, 1.0])
def test_bounds_that_mean_nothing_are_refused(bound: int) -> None:
    with pytest.raises(UsageError, match=r"^bound: expected"):
        truncated_discrete_laplace(stream_of(3), 1, 1, bound)


@pytest.mark.parametrize(
    ("n", "scores", "epsilon", "sensitivity", "said"),
    [
        (3, np.zeros(2, np.int64), 1, 1, r"^scores: expected int64\[3\]"),
        (3, np.zeros(3), 1, 1, r"^scores: expected int64\[3\]"),
        (0, np.zeros(0, np.int64), 1, 1, "^scores: .* at least one"),
        (3, np.zeros(3, np.int64), 0, 1, "^epsilon: expected a number above 0,"),
        (3, np.zeros(3, np.int64), 1, -1, "^sensitivity: expected a number above"),
    ],
)
def test_choices_refuse_what_they_cannot_weigh(
    n: int, scores: np.ndarray, epsilon: int, sensitivity: int, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        permute_and_flip(stream_of(n), scores, Fraction(epsilon), Fraction(sensitivity))
