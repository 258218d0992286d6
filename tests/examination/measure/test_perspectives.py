"""Logs projected on activities, resources and both: by hand and against plain Python."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from tests.support.logs import read_cases, trace_batch
from tests.support.tlkc_logs import DISEASE, RESOURCE, table_2, traces_with
from tests.support.tlkc_naive import elements_of, small_logs
from tracecloak.examination.measure.perspectives import (
    PERSPECTIVES,
    Elements,
    has_resources,
    only_common,
    projected,
    resource_names,
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


def test_names_are_what_logs_have_in_common() -> None:
    """Vocabularies may differ, and resources may be texts or dictionaries."""
    a, b = trace_batch({"1": "B C"}), trace_batch({"2": "A B"})
    plain = pa.array(["R2", "R1"], pa.string())
    a = replace(a, attributes={RESOURCE: plain})
    b = replace(b, attributes={RESOURCE: plain.dictionary_encode()})
    assert shapes(projected([a, b], "activity")) == [[(0, 1)], [(2, 0)]]
    assert shapes(projected([a, b], "resource")) == [[(0, 1)], [(0, 1)]]
    assert shapes(projected([a, b], "activity_resource")) == [[(0, 1)], [(2, 3)]]
    pairs = Elements.of([a, b], "activity_resource")
    as_activities = pairs.activity_codes(pairs.codes(b))
    assert as_activities.tolist() == Elements.of([a, b], "activity").codes(b).tolist()


def test_a_log_may_have_no_resources_at_all() -> None:
    log = trace_batch({"1": "A B"})
    assert not has_resources(log)
    assert resource_names(log).null_count == 2
    assert projected([log], "resource")[0].n_cases == 0
    assert shapes(projected([log], "activity_resource")) == shapes(projected([log], "activity"))
    assert has_resources(table_2())
    empty = TraceBatch.from_events([])
    assert [made.n_cases for made in projected([empty, log], "activity")] == [0, 1]


def test_only_the_activities_of_the_release_stay() -> None:
    original = trace_batch({"1": "A B@5 C@9", "2": "B", "3": "C"}, "ABC")
    released = trace_batch({"x": "A C"}, "ABC")
    kept = only_common(original, released)
    assert read_cases(kept) == {
        "1": [("A", 0), ("C", 9 * MINUTE_US)],
        "3": [("C", 0)],
    }
    assert np.array_equal(only_common(original, original).activities, original.activities)
