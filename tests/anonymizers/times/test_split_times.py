"""Times of cases divided among their steps: by a loop, by hand, and what must hold of any."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.anonymizers.times.fitted_times import (
    LARGEST_LOG,
    PairFactors,
    divided,
    largest_of_cases,
    sums_of_steps,
    weights_of,
)
from tracecloak.anonymizers.times.step_durations import Steps
from tracecloak.schemas.arrays.columnar import decode, encode

IDLE = np.array([False, False, True, False])

some_steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**33)), max_size=5)
some_cases = st.lists(st.tuples(some_steps, st.integers(0, 2**33)), max_size=6)
some_logs = st.lists(st.floats(-LARGEST_LOG, LARGEST_LOG), min_size=4, max_size=4)


def steps_of(pairs: list[list[int]]) -> Steps:
    """The steps of cases, by the pairs of each."""
    own = np.repeat(np.arange(len(pairs)), [len(case) for case in pairs]).astype(np.int64)
    n = len(own)
    flat = np.array([pair for case in pairs for pair in case], np.int64)
    return Steps(np.arange(n), own, own, np.arange(n), flat, np.full(n, -1))


@given(some_cases, some_logs)
def test_times_add_up_are_not_negative_and_are_in_proportion(cases, logs):
    steps = steps_of([[pair for pair, _ in case] for case, _ in cases])
    taken = np.array([x for case, _ in cases for _, x in case], np.int64)
    wanted = np.array([span for _, span in cases], np.int64)
    factors = decode(encode(PairFactors(np.array(logs), IDLE)))
    weights = weights_of(taken, steps, factors)
    assert ((weights == 0) | ~IDLE[steps.pairs]).all() and (weights[IDLE[steps.pairs]] == 0).all()
    found = divided(wanted, weights, steps)
    assert found.dtype == np.int64 and (found >= 0).all() and (found[weights == 0] == 0).all()
    for number, (_, span) in enumerate(cases):
        is_own = steps.own == number
        of_case, own = weights[is_own].tolist(), found[is_own].tolist()
        total = sum(of_case)
        assert sum(own) == (span if total else 0)
        for weight, time in zip(of_case, own, strict=True):
            if weight < max(of_case, default=0):
                assert abs(time - span * weight / total) <= 1
        assert is_own.sum() == len(own) and sums_of_steps(found, steps, len(cases))[number] == sum(
            own
        )


def test_by_hand():
    """10 and 30 of a case of 80 become 20 and 60; with a factor of 3 for the first, 40 and 40."""
    steps, wanted = steps_of([[0, 1, 2]]), np.array([80])
    taken = np.array([10, 30, 50])
    for first, expected in ((1.0, [20, 60, 0]), (3.0, [40, 40, 0])):
        factors = PairFactors(np.log([first, 1, 1, 1]), IDLE)
        weights = weights_of(taken, steps, factors)
        assert np.abs(divided(wanted, weights, steps) - expected).max() <= 1
    # A step that takes no time gets some only where its factor is large.
    none = np.array([0, 1000, 0])
    for log, least, most in ((0.0, 0, 0), (LARGEST_LOG, 60, 80)):
        weights = weights_of(none, steps, PairFactors(np.array([log, 0, 0, 0]), IDLE))
        assert least <= divided(wanted, weights, steps)[0] <= most


def test_a_million_steps_of_a_case_do_not_overflow():
    n = 1_000_000
    steps = steps_of([[0] * n])
    factors = PairFactors(np.full(4, LARGEST_LOG), IDLE)
    weights = weights_of(np.full(n, 2**33), steps, factors)
    found = divided(np.array([2**33]), weights, steps)
    assert found.sum() == 2**33 and found.min() > 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20))
def test_the_first_of_equally_large_ones_is_the_largest(pairs):
    pairs = sorted(pairs, key=lambda pair: pair[1])
    values, own = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    expected = []
    for case in sorted(set(own.tolist())):
        rows = np.flatnonzero(own == case)
        expected.append(int(rows[values[rows].argmax()]))
    assert largest_of_cases(values, own).tolist() == expected
