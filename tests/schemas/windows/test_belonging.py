"""Belonging: a case is in at most one window, whether a window reads the lake or its own span."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import event_batch, read_cases, read_cases_of_individuals, trace_batch
from tests.support.windows import HOURS, Step, naive_end, schedule
from tracecloak.schemas.calendar.local_time import HOUR_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.windows import Schedule, Window, members

# A lake whose times are in hours, as Step is (activity, time).
Lake = Mapping[str, Sequence[Step]]


def batch(lake: Lake, **given: object) -> TraceBatch:
    """The cases of a lake, times in hours."""
    events = [(case, a, hour * HOUR_US) for case, steps in lake.items() for a, hour in steps]
    return trace_batch(events, **given)  # type: ignore[arg-type]


def span(traces: TraceBatch, window: Window) -> TraceBatch:
    """What the window reads of a lake."""
    times = traces.times
    return traces.events_where((window.reads_from_us <= times) & (times < window.reads_until_us))


# --- worked examples: windows of three hours, a lifetime of four, a gap of two --------------------


def test_individuals_and_attributes_are_carried():
    events = [("a", "A", 0), ("a", "END", HOUR_US), ("a", "B", 2 * HOUR_US), ("b", "A", HOUR_US)]
    own = event_batch(events, individuals=["p", "p", "p", "q"])
    values = pa.array(["x", "y", "z", "w"]).dictionary_encode()
    of_case = pa.array(["u", None, None, "v"], pa.string()).dictionary_encode()
    own = own.append_column("attribute org", values).append_column("attribute case:kind", of_case)
    traces = TraceBatch.from_events([own], by_individual=True)
    found = members(traces, HOURS, HOURS.numbered(0))
    assert read_cases_of_individuals(found) == {("p", "a"): [("A", 0), ("END", HOUR_US)]}
    assert found.attributes["org"].cast(pa.string()).to_pylist() == ["x", "y"]
    assert found.attributes["case:kind"].cast(pa.string()).to_pylist() == ["u", "u"]


# --- any lake -------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(st.sampled_from(["A", "B", "END", "STOP"]), st.integers(-12, 24)),
    min_size=1,
    max_size=8,
)
lakes = st.dictionaries(st.sampled_from("abcdef"), steps, max_size=6)
rules = st.builds(
    schedule,
    st.just(HOURS),
    period=st.sampled_from(["hour", "2 hours", "5 hours"]),
    max_lifetime_us=st.integers(6, 9).map(HOUR_US.__mul__),
    gap_us=st.one_of(st.none(), st.integers(1, 6).map(HOUR_US.__mul__)),
    end_activities=st.sampled_from([(), ("END",), ("END", "STOP")]),
) | st.builds(
    schedule,
    st.just(HOURS),
    by=st.just("first_event"),
    period=st.sampled_from(["hour", "2 hours", "5 hours"]),
    max_lifetime_us=st.integers(1, 9).map(HOUR_US.__mul__),
)


@given(lakes, rules)
def test_members_are_those_of_a_case_by_case_reading(lake: Lake, rule: Schedule):
    lake = {case: sorted(own, key=lambda step: step[1]) for case, own in lake.items()}
    in_us = {case: [(a, hour * HOUR_US) for a, hour in own] for case, own in lake.items()}
    ends = {case: naive_end(own, rule) for case, own in in_us.items()}
    for window in rule.windows():
        found = members(batch(lake), rule, window)
        assert read_cases(found) == {
            case: taken
            for case, (moment, taken) in ends.items()
            if window.begin_us <= moment < window.end_us
        }
        assert list(read_cases(found)) == [c for c in lake if c in read_cases(found)]


@given(lakes, rules, st.sampled_from("abcdef"))
def test_one_case_more_changes_nothing_of_the_others(lake: Lake, rule: Schedule, case: str):
    for window in rule.windows():
        together = read_cases(members(batch(lake), rule, window))
        alone = read_cases(
            members(batch({c: s for c, s in lake.items() if c != case}), rule, window)
        )
        together.pop(case, None)
        assert together == alone


# --- every small lake, every split of its time ----------------------------------------------------

N_HOURS = 8
SPLITS = [
    schedule(
        HOURS,
        by=by,
        origin=f"1969-12-31T{24 - before:02}Z",
        period=f"{period} hours",
        horizon=-(-14 // period),
        max_lifetime_us=lifetime * HOUR_US,
        **({} if by == "first_event" else {"gap_us": gap and gap * HOUR_US}),
    )
    for before, period, lifetime in itertools.product((1, 2, 3), (1, 2, 3), (1, 2, 3))
    for by, gap in [("first_event", None), ("close", None), ("close", 1), ("close", 2)]
    if (gap or 0) <= lifetime
]


def every_case() -> TraceBatch:
    """Every set of hours at which something happens, and which of it ends the case, if any does."""
    lake = {}
    for n in range(1, N_HOURS + 1):
        for hours in itertools.combinations(range(N_HOURS), n):
            for end in (None, *hours):
                steps = [("END" if hour == end else "A", hour) for hour in hours]
                lake[f"{hours} {end}"] = steps
    return batch(lake)


EVERY = every_case()


def longest_silences(traces: TraceBatch) -> np.ndarray:
    """int64[n_cases], the longest time between two events of a case."""
    return np.maximum.reduceat(traces.durations, traces.offsets[:-1])


@pytest.mark.by_day(12)
@pytest.mark.parametrize("rule", SPLITS, ids=lambda rule: rule.digest[:8])
def test_a_case_is_in_one_window_whether_the_lake_is_read_or_the_span(rule: Schedule):
    """Every case ends within the horizon, so each is in exactly one window of the lake.

    Of its span a window finds the same, but for cases that were silent for longer than their
    lifetime: such a one may count again as another case.
    """
    told: Counter[str] = Counter()
    again: Counter[str] = Counter()
    silent = longest_silences(EVERY) > rule.max_lifetime_us
    went_on = set(EVERY.case_ids.filter(pa.array(silent)).to_pylist())
    others = EVERY.take(np.flatnonzero(~silent))
    for window in rule.windows():
        told.update(members(EVERY, rule, window).case_ids.to_pylist())
        again.update(members(span(EVERY, window), rule, window).case_ids.to_pylist())
        whole = members(others, rule, window)
        own = members(span(others, window), rule, window)
        assert own.case_ids.equals(whole.case_ids)
        assert np.array_equal(own.offsets, whole.offsets)
        assert np.array_equal(own.times, whole.times)
        assert np.array_equal(own.activities, whole.activities)
    assert set(told.values()) == {1} and len(told) == EVERY.n_cases
    assert {case for case, n in again.items() if n != 1} <= went_on
