"""Sums of steps and their ranks: by loops, and that ranks of such sums are evenly distributed."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tracecloak.anonymizers.noise.randomness import cell_numbers, uniform
from tracecloak.anonymizers.times.fitted_times import StepSums, decide_step_sums, ranks_of
from tracecloak.schemas.arrays.columnar import decode, encode

some_classes = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40)


def decided_on(sums: np.ndarray | list[int], classes: list[int] | None = None) -> StepSums:
    """Of one class, or of four."""
    own = np.zeros(len(sums), np.int64) if classes is None else np.array(classes, np.int64)
    return decide_step_sums(np.array(sums, np.int64), own, 1 if classes is None else 4)


@given(some_classes)
def test_few_sums_are_all_kept_in_order_class_by_class(pairs):
    decided = decided_on([x for x, _ in pairs], [c for _, c in pairs])
    for own in (decided, decode(encode(decided))):
        for number in range(4):
            kept = own.sums[own.offsets[number] : own.offsets[number + 1]]
            assert kept.tolist() == sorted(x for x, c in pairs if c == number)


@pytest.mark.parametrize("n", [255, 256, 5000, 10**6])
def test_of_many_sums_evenly_chosen_ones_are_kept(n):
    sums = np.random.default_rng(1).permutation(n)
    few = np.array([7, 5])
    classes = np.append(np.full(n, 1), [3, 3])
    decided = decide_step_sums(np.append(sums, few), classes, 4)
    assert decided.offsets.tolist() == [0, 0, 255, 255, 257]
    assert np.abs(decided.sums[:255] - (np.arange(255) + 0.5) * n / 255).max() <= 1
    assert decided.sums[255:].tolist() == [5, 7]


@given(some_classes, some_classes)
def test_ranks_are_those_of_a_loop(kept, asked):
    decided = decided_on([x for x, _ in kept], [c for _, c in kept])
    numbers = np.arange(len(asked)) + 7
    sums, classes = (np.array([pair[i] for pair in asked], np.int64) for i in range(2))
    found = ranks_of(decided, sums, classes, numbers, randomness())
    chances = uniform(randomness().words("span of a case", cell_numbers(numbers))[:, 0])
    assert ((found >= 0) & (found < 1)).all()
    for rank, chance, (own, number) in zip(found, chances, asked, strict=True):
        beside = sorted(x for x, c in kept if c == number)
        below = bisect.bisect_left(beside, own)
        expected = (below + chance * (beside.count(own) + 1)) / (len(beside) + 1)
        assert rank == pytest.approx(expected)


def test_without_sums_ranks_are_drawn_by_chance():
    n = 10_000
    one = np.zeros(n, np.int64)
    ranks = ranks_of(decided_on([]), one, one, np.arange(n), randomness())
    assert p_value(np.histogram(ranks, 10, (0, 1))[0], np.full(10, n / 10)) > ALPHA
