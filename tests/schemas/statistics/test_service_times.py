"""Service and waiting of events: by hand, and by a loop."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import trace_batch
from tracecloak.schemas.events.events import IS_OPEN
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.log_times import IntervalTimes, LogTimes, starts_of

HOUR = 3_600_000_000


def intervals(cases: list[list[tuple[str, int | None, int | None]]]) -> TraceBatch:
    """Cases of (activity, start, completion), in order of the completions, or else the starts."""
    log = [
        (f"c{i}", name, end if start is None or end is not None else start)
        for i, case in enumerate(cases)
        for name, start, end in case
    ]
    starts = [IS_OPEN if end is None else start for case in cases for _, start, end in case]
    return replace(
        trace_batch(log, "ABC"), attributes={"start_timestamp": pa.array(starts, pa.int64())}
    )


def test_an_end_that_is_not_known_is_not_made_up():
    """B begins and C ends after it: nobody knows how long B took, nor from when on C waited."""
    case = [("A", 0, HOUR), ("B", 2 * HOUR, None), ("C", HOUR, 3 * HOUR), ("A", 4 * HOUR, 5 * HOUR)]
    log = intervals([case, [("B", 0, None), ("C", HOUR, 3 * HOUR)]])
    times = IntervalTimes.of(log)
    assert times.is_known.tolist() == [True, False, True, True, False, True]
    assert (times.service_us / HOUR).tolist() == [1, 0, 2, 1, 0, 2]
    assert times.has_wait.tolist() == [False, False, False, True, False, False]
    assert (times.waiting_us / HOUR).tolist() == [0, 0, 0, 1, 0, 0]
    counted = LogTimes.from_traces(log)
    pairs = list(zip(*counted.split_steps()[:2], strict=True))
    assert pairs == [(2, 0)]  # of the steps, the one between two completions


moments = st.integers(0, 50)
events = st.tuples(st.sampled_from("ABC"), st.none() | moments, st.none() | moments).filter(
    lambda event: event[1:] != (None, None)
)
logs = st.lists(st.lists(events, min_size=1, max_size=5), min_size=1, max_size=4)


@given(logs)
def test_both_add_up_to_the_time_between_completions(log):
    cases = [
        sorted(
            (
                (name, start if None in (start, end) else min(start, end), end)
                for name, start, end in case
            ),
            key=lambda event: event[1] if event[2] is None else event[2],
        )
        for case in log
    ]
    traces = intervals(cases)
    times, place = IntervalTimes.of(traces), 0
    for case in cases:
        before: int | None = None
        is_next_to_open = False
        for _, start, end in case:
            service, waiting = times.service_us[place], times.waiting_us[place]
            assert times.is_known[place] == (None not in (start, end))
            if start is None or end is None:
                assert (service, waiting) == (0, 0)
            elif is_next_to_open:
                assert (service, waiting) == (end - max(start, before or 0), 0)
                assert not times.has_wait[place]
            elif before is None:
                assert (service, waiting) == (end - start, 0)
            else:
                assert service == end - max(start, before)
                assert service + waiting == end - before
            before, place = before if end is None else end, place + 1
            is_next_to_open = end is None


def test_a_released_start_is_never_after_its_event():
    traces = intervals([[("A", 5 * HOUR, 5 * HOUR)]])
    late = {"start_timestamp": pa.array([6 * HOUR], pa.timestamp("us", "UTC"))}
    assert starts_of(replace(traces, attributes=late))[1].tolist() == [5 * HOUR]
