"""Caps on the cases of an individual in a stream."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.stream_caps import CaseCap, CountedCases

WORDS = ActivityVocabulary.public(["A"])


def cases_of(people: list[str], first: int = 0) -> TraceBatch:
    n = len(people)
    return TraceBatch(
        pa.array([f"c{first + i}" for i in range(n)], pa.string()),
        np.arange(n + 1),
        np.zeros(n, np.int32),
        np.arange(n),
        WORDS,
        pa.array(people, pa.string()),
    )


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("cap", [1, 2, 3])
def test_no_individual_counts_more_often_than_the_cap(cap: int, per_step: bool) -> None:
    """Against counting case by case."""
    rng = np.random.default_rng(5)
    state, expected = CountedCases.none(), Counter[tuple[str, int]]()
    for batch in range(20):
        step = batch // 3
        people = [f"p{i}" for i in rng.integers(0, 12, rng.integers(1, 10))]
        cases, of = cases_of(people, batch * 100), CaseCap(cap, per_step)
        state, kept = decode(encode(state)).admit(cases, step, of)
        wanted = []
        for i, person in enumerate(people):
            at = person, step if per_step else 0
            if expected[at] < cap:
                expected[at] += 1
                wanted.append(f"c{batch * 100 + i}")
        assert kept.case_ids.to_pylist() == wanted
    assert max(expected.values()) == cap
    found = zip(state.names.to_pylist(), state.steps.tolist(), state.counts.tolist(), strict=True)
    assert {(name, step): count for name, step, count in found} == expected


def test_steps_that_are_over_are_forgotten() -> None:
    cap = CaseCap(1, per_step=True)
    steps = [(4, cases_of(["p", "q"])), (5, cases_of(["p"]))]
    state, _ = CountedCases.none().within(steps, cap, 4)
    assert len(state.within([], cap, 4)[0].names) == 3
    assert state.within([], cap, 5)[0].names.to_pylist() == ["p"]


def test_cases_without_individuals_are_refused() -> None:
    traces = cases_of(["p"])
    nobody = TraceBatch(
        traces.case_ids, traces.offsets, traces.activities, traces.times, traces.vocabulary
    )
    with pytest.raises(UsageError, match="individuals"):
        CountedCases.none().admit(nobody, 0, CaseCap(1))
