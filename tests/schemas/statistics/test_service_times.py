"""Service and waiting of events: by hand, and by a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.log_times import LogTimes
from tracecloak.schemas.statistics.service_times import IntervalTimes, starts_of

HOUR = 3_600_000_000


def intervals(cases: list[list[tuple[str, int | None, int]]]) -> TraceBatch:
    """Cases of (activity, start, completion), completions in order."""
    log = [(f"c{i}", name, end) for i, case in enumerate(cases) for name, _, end in case]
    starts = [start for case in cases for _, start, _ in case]
    return replace(
        trace_batch(log, "ABC"), attributes={"start_timestamp": pa.array(starts, pa.int64())}
    )


def test_what_passes_between_completions_is_divided():
    """B waits one hour and is worked on for two; C begins while B goes on; A of c1 is unknown."""
    times = IntervalTimes.of(
        intervals(
            [
                [("A", 0, HOUR), ("B", 2 * HOUR, 4 * HOUR), ("C", 3 * HOUR, 5 * HOUR)],
                [("A", None, HOUR), ("B", 3 * HOUR, 3 * HOUR)],
            ]
        )
    )
    assert times.is_known.tolist() == [True, True, True, False, True]
    assert (times.service_us / HOUR).tolist() == [1, 2, 1, 0, 0]
    assert (times.waiting_us / HOUR).tolist() == [0, 1, 0, 0, 2]


def test_traces_without_starts_have_none():
    times = IntervalTimes.of(trace_batch([("c", "A", 0), ("c", "B", HOUR)]))
    assert not times.is_known.any() and not times.service_us.any() and not times.waiting_us.any()


moments = st.integers(0, 50)
events = st.tuples(st.sampled_from("ABC"), st.none() | moments, moments)
logs = st.lists(st.lists(events, min_size=1, max_size=5), min_size=1, max_size=4)


@given(logs)
def test_both_add_up_to_the_time_between_completions(log):
    cases = [
        sorted(
            ((name, None if start is None else min(start, end), end) for name, start, end in case),
            key=lambda event: event[2],
        )
        for case in log
    ]
    traces = intervals(cases)
    times, place = IntervalTimes.of(traces), 0
    for case in cases:
        before: int | None = None
        for _, start, end in case:
            service, waiting = times.service_us[place], times.waiting_us[place]
            if start is None:
                assert (service, waiting) == (0, 0)
            elif before is None:
                assert (service, waiting) == (end - start, 0)
            else:
                assert service == end - max(start, before)
                assert service + waiting == end - before
            before, place = end, place + 1


def test_a_released_start_is_never_after_its_event():
    traces = intervals([[("A", 5 * HOUR, 5 * HOUR)]])
    late = {"start_timestamp": pa.array([6 * HOUR], pa.timestamp("us", "UTC"))}
    assert starts_of(replace(traces, attributes=late))[1].tolist() == [5 * HOUR]


def test_medians_by_activity():
    case = [("A", 0, HOUR), ("B", 2 * HOUR, 4 * HOUR)]
    log = intervals([case, case, [("B", None, 0)]])
    pieces = [LogTimes.from_traces(log.take(np.array([i]))) for i in range(3)]
    merged = LogTimes.merge(pieces)
    assert merged == LogTimes.from_traces(log)
    medians = merged.work_medians_s()
    [(service_a, waiting_a), (service_b, waiting_b)] = (medians[0], medians[1])
    assert abs(service_a / 3600 - 1) < 0.05 and waiting_a is None
    assert waiting_b is not None
    assert abs(service_b / 7200 - 1) < 0.05 and abs(waiting_b / 3600 - 1) < 0.05
