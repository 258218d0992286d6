"""Logs projected on activities, resources and both: by hand and against plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

from tests.support.logs import read_cases, trace_batch
from tests.support.tlkc_logs import DISEASE, traces_with
from tests.support.tlkc_naive import elements_of, small_logs
from tracecloak.examination.measure.behaviour_measures import (
    PERSPECTIVES,
    only_common,
    projected,
)
from tracecloak.schemas.events.traces import TraceBatch

MINUTE_US = 60_000_000


def shapes(logs: list[TraceBatch]) -> list[list[tuple[int, ...]]]:
    """Traces as numbers of elements, in the order in which elements first appear in the logs."""
    numbers: dict[Any, int] = {}
    return [
        [
            tuple(numbers.setdefault(activity, len(numbers)) for activity, _ in steps)
            for steps in read_cases(log).values()
        ]
        for log in logs
    ]


@settings(deadline=None)
@given(small_logs(), small_logs())
def test_projections_are_those_of_plain_python(log: Any, other: Any) -> None:
    logs = [traces_with(log), traces_with(other)]
    for perspective in PERSPECTIVES:
        made = projected(logs, perspective)
        expected = []
        numbers: dict[Any, int] = {}
        for traces in logs:
            known = [case for case in elements_of(traces, "sequence", perspective) if case]
            expected.append([tuple(numbers.setdefault(e, len(numbers)) for e in c) for c in known])
        assert shapes(made) == expected
        assert made[0].vocabulary == made[1].vocabulary
        for traces, source in zip(made, logs, strict=True):
            assert set(traces.times.tolist()) <= set(source.times.tolist())


def test_events_without_a_resource_are_left_out_of_resources_only() -> None:
    events = [("A", None, 0), ("B", "R1", MINUTE_US), ("B", None, 2 * MINUTE_US)]
    log = traces_with({"1": (events, {DISEASE: "x"}), "2": ([("A", None, 0)], {DISEASE: "y"})})
    by = {name: projected([log], name)[0] for name in PERSPECTIVES}
    assert by["resource"].case_ids.to_pylist() == ["1"]
    assert by["resource"].times.tolist() == [MINUTE_US]
    assert shapes([by["activity"]]) == [[(0, 1, 1), (0,)]]
    assert shapes([by["activity_resource"]]) == [[(0, 1, 2), (0,)]]


def test_only_the_activities_of_the_release_stay() -> None:
    original = trace_batch({"1": "A B@5 C@9", "2": "B", "3": "C"}, "ABC")
    released = trace_batch({"x": "A C"}, "ABC")
    kept = only_common(original, released)
    assert read_cases(kept) == {
        "1": [("A", 0), ("C", 9 * MINUTE_US)],
        "3": [("C", 0)],
    }
    assert np.array_equal(only_common(original, original).activities, original.activities)
