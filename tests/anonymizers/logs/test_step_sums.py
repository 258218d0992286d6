"""Sums of steps and their ranks: by loops, and that ranks of such sums are evenly distributed."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tracecloak.anonymizers.logs.step_sums import StepSums, decide_step_sums, ranks_of
from tracecloak.anonymizers.noise.randomness import cell_numbers, uniform
from tracecloak.schemas.arrays.columnar import decode, encode

some_sums = st.lists(st.integers(0, 30), max_size=30)


@given(some_sums)
def test_few_sums_are_all_kept_in_order(sums):
    decided = decide_step_sums(np.array(sums, np.int64))
    assert decided.sums.tolist() == sorted(sums)
    assert decode(encode(decided)).sums.tolist() == sorted(sums)


@pytest.mark.parametrize("n", [1023, 1024, 5000, 10**6])
def test_of_many_sums_evenly_chosen_ones_are_kept(n):
    sums = np.random.default_rng(1).permutation(n)
    kept = decide_step_sums(sums).sums
    assert len(kept) == 1023
    assert np.abs(kept - (np.arange(1023) + 0.5) * n / 1023).max() <= 1


@given(some_sums, some_sums)
def test_ranks_are_those_of_a_loop(kept, sums):
    decided = decide_step_sums(np.array(kept, np.int64))
    numbers = np.arange(len(sums)) + 7
    found = ranks_of(decided, np.array(sums, np.int64), numbers, randomness())
    chances = uniform(randomness().words("span of a case", cell_numbers(numbers))[:, 0])
    assert ((found >= 0) & (found < 1)).all()
    for rank, chance, own in zip(found, chances, sums, strict=True):
        below = bisect.bisect_left(sorted(kept), own)
        beside = kept.count(own)
        assert rank == pytest.approx((below + chance * (beside + 1)) / (len(kept) + 1))


@pytest.mark.parametrize("largest", [3, 10**6])
def test_ranks_of_like_sums_are_even(largest):
    """100,000 sums after 20,000 that were kept, also where most are ties; the control is others."""
    rng = np.random.default_rng(2)
    n = 100_000
    decided = decide_step_sums(rng.integers(0, largest, 20_000))

    def tenths(sums: np.ndarray) -> np.ndarray:
        ranks = ranks_of(decided, sums, np.arange(n), randomness())
        return np.histogram(ranks, 10, (0, 1))[0]

    own = tenths(rng.integers(0, largest, n))
    assert np.abs(own - n / 10).max() < 0.06 * n / 10
    others = tenths(rng.integers(0, largest, n) // 2)
    assert p_value(others, np.full(10, n / 10)) < ALPHA


def test_without_sums_ranks_are_drawn_by_chance():
    n = 10_000
    ranks = ranks_of(StepSums(np.zeros(0, np.int64)), np.zeros(n), np.arange(n), randomness())
    assert p_value(np.histogram(ranks, 10, (0, 1))[0], np.full(10, n / 10)) > ALPHA
