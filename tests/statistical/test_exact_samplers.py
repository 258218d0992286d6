"""Laws of words and samplers, n = 1e6 where not said otherwise, with controls that must fail.

Chi-square at ALPHA = 1e-9 a comparison. A scale wrong by 5 % in either direction must be caught,
and so must noise made of floats.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tests.support.chi_square import ALPHA, p_value, p_value_of_law
from tests.support.keys import randomness
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import below, cell_numbers
from tracecloak.anonymizers.noise.samplers import (
    CellStream,
    discrete_gaussian,
    discrete_laplace,
    permute_and_flip,
    truncated_discrete_laplace,
)

N = 1_000_000
WRONG = (Fraction(95, 100), Fraction(105, 100))

Cdf = Callable[[np.ndarray], np.ndarray]


def stream_of(n: int = N, purpose: str = "law", first: int = 0) -> CellStream:
    cells = cell_numbers(np.arange(first, first + n, dtype=np.uint64))
    return CellStream(randomness(), purpose, cells)


def laplace_cdf(scale: Fraction) -> Cdf:
    """P(X <= x) of discrete Laplace: 1 - q^(x + 1) / (1 + q) from 0 on, q = exp(-1 / scale)."""
    b = float(scale)

    def cdf(x: np.ndarray) -> np.ndarray:
        upper = np.exp(-(np.where(x >= 0, x, -1 - x) + 1) / b) / (1 + math.exp(-1 / b))
        return np.where(x >= 0, 1 - upper, upper)

    return cdf


def truncated_cdf(scale: Fraction, bound: int) -> Cdf:
    whole = laplace_cdf(scale)
    outside = float(whole(np.array(-bound - 1)))
    return lambda x: np.clip((whole(x) - outside) / (1 - 2 * outside), 0, 1)


def gaussian_cdf(sigma: Fraction) -> Cdf:
    """P(X <= x) by summing exp(-x² / 2 sigma²); for a large sigma the sum is the normal integral.

    By Euler and Maclaurin they differ by less than 1 / (24 sigma²).
    """
    s = float(sigma)
    if s > 10**6:
        return lambda x: stats.norm.cdf((x + 0.5) / s)
    end = math.ceil(40 * s) + 2
    weights = np.exp(-((np.arange(-end, end + 1) / s) ** 2) / 2)
    below = np.cumsum(weights) / weights.sum()
    return lambda x: below[np.clip(x, -end, end) + end]


def fit(values: np.ndarray, cdf: Cdf, spread: float) -> float:
    """p-value of integers against a law, in 240 bins at most over 12 spreads to either side."""
    edges = np.unique(np.rint(np.linspace(-12, 12, 240) * max(spread, 0.5)).astype(np.int64))
    observed = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    upto = np.concatenate([[0.0], cdf(edges), [1.0]])
    return p_value(observed, len(values) * np.diff(upto))


def evenness(numbers: np.ndarray, n_bins: int) -> float:
    observed = np.bincount(numbers, minlength=n_bins)
    return p_value(observed, np.full(n_bins, len(numbers) / n_bins))


@functools.cache
def laplace(num: int, den: int, purpose: str = "law") -> np.ndarray:
    return discrete_laplace(stream_of(purpose=purpose), num, den)


@functools.cache
def gaussian(num: int, den: int, purpose: str = "law") -> np.ndarray:
    return discrete_gaussian(stream_of(purpose=purpose), num, den)


# --- discrete Laplace -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num", "den"),
    [
        *((1, 3), (22, 7), (10**9 + 7, 3), (2**62, 2**22)),
        *(at_night(1, 1), at_night(10, 3), at_night(1000, 7), at_night(2**40, 1)),
    ],
)
def test_discrete_laplace_has_its_law(num: int, den: int) -> None:
    scale, values = Fraction(num, den), laplace(num, den)
    assert fit(values, laplace_cdf(scale), num / den) > ALPHA
    for factor in WRONG:
        assert fit(values, laplace_cdf(scale * factor), num / den) < ALPHA


def test_float_laplace_cut_to_integers_is_caught() -> None:
    """The control that is most often met, `int(laplace)`, and rounding to the nearest."""
    floats = np.random.default_rng(1).laplace(scale=3, size=N)
    for wrong in (floats.astype(np.int64), np.rint(floats).astype(np.int64)):
        assert fit(wrong, laplace_cdf(Fraction(3)), 3) < ALPHA
    assert fit(laplace(3, 1), laplace_cdf(Fraction(3)), 3) > ALPHA


@pytest.mark.parametrize("draw", [laplace, gaussian])
def test_the_last_bits_of_wide_noise_are_even(draw: Callable[[int, int], np.ndarray]) -> None:
    """At a scale of 2^40 the law of x mod 2^16 is even up to 2^-40."""
    values = draw(2**40, 1)
    assert evenness(values & 255, 256) > ALPHA
    assert evenness(values >> 8 & 255, 256) > ALPHA
    on_a_grid = values - (values & 1) * (values & 2 == 0)  # the control: some bits are lost
    assert evenness(on_a_grid & 255, 256) < ALPHA


# --- truncated ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num", "den", "bound"),
    [
        *((1, 1, 1), (25, 2, 12), (5, 3, 9)),
        *(at_night(3, 1, 7), at_night(10, 1, 10), at_night(40, 1, 39)),
    ],
)
def test_truncation_conditions_the_law(num: int, den: int, bound: int) -> None:
    """Bounds above and below the scale, which are drawn in different ways."""
    scale = Fraction(num, den)
    values = truncated_discrete_laplace(stream_of(), num, den, bound)
    spread = min(num / den, bound)
    assert fit(values, truncated_cdf(scale, bound), spread) > ALPHA
    assert np.abs(values).max() <= bound
    clamped = np.clip(laplace(num, den), -bound, bound)
    assert fit(clamped, truncated_cdf(scale, bound), spread) < ALPHA  # a control
    for factor in WRONG:
        assert fit(values, truncated_cdf(scale * factor, bound), spread) < ALPHA


# --- discrete Gaussian ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num", "den"),
    [
        *((2, 5), (16, 5), (10**8 + 7, 3), (2**62, 2**22)),
        *(at_night(1, 1), at_night(300, 1), at_night(17_001, 1), at_night(2**40, 1)),
    ],
)
def test_discrete_gaussian_has_its_law(num: int, den: int) -> None:
    sigma, values = Fraction(num, den), gaussian(num, den)
    assert fit(values, gaussian_cdf(sigma), num / den) > ALPHA
    for factor in WRONG:
        assert fit(values, gaussian_cdf(sigma * factor), num / den) < ALPHA


def test_a_rounded_normal_number_is_caught() -> None:
    """It is near the discrete Gaussian only for a large sigma; at 1 it is 4 % off at 0."""
    rounded = np.rint(np.random.default_rng(1).normal(size=N)).astype(np.int64)
    assert fit(rounded, gaussian_cdf(Fraction(1)), 1) < ALPHA
    assert fit(laplace(1, 1), gaussian_cdf(Fraction(1)), 1) < ALPHA


# --- coins and choices ----------------------------------------------------------------------------


def permute_and_flip_law(scores: list[int], rate: float) -> dict[int, float]:
    """The chance of each candidate by going through all orders and all coins."""
    chances = [math.exp(rate * (score - max(scores))) for score in scores]
    law = dict.fromkeys(range(len(scores)), 0.0)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            law[i] += reached * chances[i] / len(orders)
            reached *= 1 - chances[i]
    return law


def choices(
    scores: list[int], epsilon: Fraction, sensitivity: Fraction, monotone: bool, n: int
) -> Counter[int]:
    k, given = len(scores), np.array(scores, np.int64)
    cells = cell_numbers(np.arange(n * k, dtype=np.uint64)).reshape(n, k, 2)
    keyed = randomness()
    return Counter(
        permute_and_flip(
            CellStream(keyed, "choice", cells[i]), given, epsilon, sensitivity, monotone=monotone
        )
        for i in range(n)
    )


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(
    "scores", [at_night([3, 1]), at_night([0, 0, 0]), [7, 5, 9, 9], [-4, 0, -1, -2, 0]]
)
def test_choices_have_the_law_of_permute_and_flip(scores: list[int], monotone: bool) -> None:
    """For n = 20,000. The controls: the other factor of 2, and the exponential mechanism."""
    epsilon, sensitivity = Fraction(3, 4), Fraction(3, 2)
    rate = float(epsilon / sensitivity / (1 if monotone else 2))
    sample = choices(scores, epsilon, sensitivity, monotone, 20_000)
    assert p_value_of_law(sample, permute_and_flip_law(scores, rate)) > ALPHA
    if len(set(scores)) > 1:
        other = rate / 2 if monotone else 2 * rate
        assert p_value_of_law(sample, permute_and_flip_law(scores, other)) < ALPHA
        weights = np.exp(rate * np.array(scores))
        exponential = dict(enumerate((weights / weights.sum()).tolist()))
        assert p_value_of_law(sample, exponential) < ALPHA
    else:
        assert p_value_of_law(sample, {0: 0.3, 1: 0.35, 2: 0.35}) < ALPHA


# --- words of a key -------------------------------------------------------------------------------


@functools.cache
def words(purpose: str = "law") -> np.ndarray:
    """uint64[N, 2] of one release."""
    return randomness().words(purpose, cell_numbers(np.arange(N, dtype=np.uint64)))


@pytest.mark.parametrize("lane", [0, 1])
@pytest.mark.parametrize("shift", [0, 28, 56])
def test_bytes_of_words_are_even(lane: int, shift: int) -> None:
    taken = (words()[:, lane] >> np.uint64(shift) & np.uint64(255)).astype(np.int64)
    assert evenness(taken, 256) > ALPHA
    assert evenness(taken >> 1, 256) < ALPHA  # the control: a bit is missing


def test_words_of_consecutive_counters_and_cells_do_not_go_together() -> None:
    """The joint law of the top 4 bits of neighbours, 256 bins; control: a word and itself."""
    keyed = randomness()
    top = (words()[:, 0] >> np.uint64(60)).astype(np.int64)
    next_counter = keyed.words("law", cell_numbers(np.arange(N, dtype=np.uint64)), 1)
    pairs = {
        "next cell": (top[:-1], top[1:]),
        "next counter": (top, (next_counter[:, 0] >> np.uint64(60)).astype(np.int64)),
        "other lane": (top, (words()[:, 1] >> np.uint64(60)).astype(np.int64)),
        "other purpose": (top, (words("other")[:, 0] >> np.uint64(60)).astype(np.int64)),
    }
    for name, (a, b) in pairs.items():
        assert evenness(16 * a + b, 256) > ALPHA, name
    assert evenness(16 * top + top, 256) < ALPHA


@pytest.mark.parametrize("bound", [2, 6, 1000])
def test_numbers_below_a_bound_are_even(bound: int) -> None:
    numbers = below(words()[:, 0], bound)
    assert numbers.min() == 0
    assert numbers.max() == bound - 1
    assert evenness(numbers, bound) > ALPHA
    folded = below(words()[:, 0], bound + 1) % bound  # the control: 0 comes twice as often
    assert evenness(folded, bound) < ALPHA
