"""Laws of words, numbers and noise: chi-square at ALPHA, each with controls that must fail."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tracecloak.anonymizers.noise.published import laplace_by_inversion
from tracecloak.anonymizers.noise.randomness import below, cell_numbers, uniform

N = 1_000_000
SCALE = 3.0


@functools.cache
def words(purpose: str = "law") -> np.ndarray:
    """uint64[N, 2] of one release."""
    return randomness().words(purpose, cell_numbers(np.arange(N, dtype=np.uint64)))


def evenness(numbers: np.ndarray, n_bins: int) -> float:
    observed = np.bincount(numbers, minlength=n_bins)
    return p_value(observed, np.full(n_bins, len(numbers) / n_bins))


# --- words and numbers, n = 1e6 -------------------------------------------------------------------


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


# --- Laplace noise, n = 1e6 -----------------------------------------------------------------------


def rounded_laplace_p_value(values: np.ndarray, scale: float) -> float:
    """p-value of integers against Laplace(scale) rounded to the nearest, tails pooled."""
    bound = int(40 * scale)
    support = np.arange(-bound, bound + 1)
    law = stats.laplace(scale=scale)
    expected = law.cdf(support + 0.5) - law.cdf(support - 0.5)
    inside = np.clip(values, -bound, bound) + bound
    observed = np.bincount(inside, minlength=2 * bound + 1)
    return p_value(observed, len(values) * expected / expected.sum())


def test_noise_has_the_rounded_law_and_no_other_scale() -> None:
    drawn = laplace_by_inversion(words("noise"), SCALE)
    assert rounded_laplace_p_value(drawn, SCALE) > ALPHA
    assert rounded_laplace_p_value(drawn, SCALE * 0.95) < ALPHA
    assert rounded_laplace_p_value(drawn, SCALE * 1.05) < ALPHA


def test_noise_that_is_cut_off_or_raised_would_be_found() -> None:
    """The authors' `int(Laplace)` and `ceil(Laplace)`, from the same words."""
    pairs = words("noise")
    signs = np.where(pairs[:, 1] >> np.uint64(63), 1.0, -1.0)
    real = -np.log(uniform(pairs[:, 0])) * SCALE * signs
    assert rounded_laplace_p_value(np.rint(real).astype(np.int64), SCALE) > ALPHA
    assert rounded_laplace_p_value(np.trunc(real).astype(np.int64), SCALE) < ALPHA
    assert rounded_laplace_p_value(np.ceil(real).astype(np.int64), SCALE) < ALPHA
