"""Open cases of a stream, against each case by itself; and how often an individual counts."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import CaseEvents, OpenCases
from tracecloak.schemas.streams.stream_caps import CaseCap, CountedCases, PlacedCases

NAMES = ("A", "B", "C", "END")
# No step is released.
ALL = MIN_TIME_US
RULE = ClosingRule(
    vocabulary=NAMES,
    period_us=10,
    inactivity_gap_us=12,
    max_lifetime_us=60,
    max_disorder_us=3,
    max_trace_length=5,
    tombstone_us=1_000,
    end_activities=("END",),
    release_delay_us=0,
)


class Message(NamedTuple):
    case: int
    event_id: int
    activity: str
    time: int
    publish: int
    order: int = 0


Trace = tuple[tuple[str, int], ...]
Closed = tuple[int, Trace]  # step, (activity, time)


def keys_of(cases: Iterable[int]) -> np.ndarray:
    """Identities of which two or three share their first word."""
    return np.array([(case // 3, case) for case in cases], np.uint64).reshape(-1, 2)


def name_of(case: int) -> str:
    return f"{case // 3:016x}{case:016x}"


def batch(messages: Sequence[Message], rule: ClosingRule = RULE) -> CaseEvents:
    """The messages in columns; some cases have several rows of keys, and some rows no message."""
    rows: dict[tuple[int, int], int] = {(99, 0): 0}
    case = [rows.setdefault((m.case, i % 2), len(rows)) for i, m in enumerate(messages)]
    return CaseEvents(
        keys_of(key for key, _ in rows),
        np.zeros((len(rows), 0), np.uint64),
        np.array(case, np.int32),
        np.array([m.publish for m in messages], np.int64),
        np.array([m.time for m in messages], np.int64),
        np.array([m.order for m in messages], np.int64),
        np.array([m.event_id for m in messages], np.uint64),
        rule.codes.codes_or_other(pa.array([m.activity for m in messages], pa.string())),
    )


def accepted(messages: Iterable[Message], rule: ClosingRule) -> tuple[int, list[Message]]:
    """(moment of closing, messages that belong to it) of one case, message by message."""
    earliest: dict[int, Message] = {}
    for m in sorted(messages, key=lambda m: (m.publish, m.order, m.event_id, m.time, m.activity)):
        earliest.setdefault(m.event_id, m)
    limited = list(earliest.values())[: rule.max_trace_length]
    taken: list[Message] = []
    lifetime = limited[0].publish + rule.max_lifetime_us
    end = None
    close = 0
    for m in limited:
        if taken and m.publish >= close:
            break
        taken.append(m)
        if end is None and m.activity in rule.end_activities:
            end = m.publish
        over = [lifetime, m.publish + rule.inactivity_gap_us, *([] if end is None else [end])]
        close = min(over) + rule.max_disorder_us
    return close, taken


def naive(messages: Iterable[Message], rule: ClosingRule = RULE) -> dict[str, Closed]:
    """Step and trace of every case, each by itself."""
    by_case = defaultdict(list)
    for m in messages:
        by_case[m.case].append(m)
    found = {}
    for case, own in by_case.items():
        close, taken = accepted(own, rule)
        ordered = sorted(taken, key=lambda m: (m.time, m.publish, m.order, m.event_id))
        times = itertools.accumulate((min(m.time, m.publish) for m in ordered), max)
        trace = tuple((m.activity, time) for m, time in zip(ordered, times, strict=True))
        found[name_of(case)] = close // rule.period_us, trace
    return found


def traces_of(traces: TraceBatch) -> dict[str, Trace]:
    names = traces.vocabulary.names.to_pylist()
    return {
        case: tuple(
            (names[a], int(t))
            for a, t in zip(traces.activities[i:j], traces.times[i:j], strict=True)
        )
        for case, i, j in zip(
            traces.case_ids.to_pylist(), traces.offsets[:-1], traces.offsets[1:], strict=True
        )
    }


def collect(into: dict[str, Closed], steps: Iterable[tuple[int, TraceBatch]]) -> None:
    for step, traces in steps:
        assert traces.n_cases > 0
        for case, trace in traces_of(traces).items():
            assert case not in into, "a case was closed twice"
            into[case] = step, trace


def streamed(
    arrivals: Sequence[Message], cuts: Iterable[int] = (), rule: ClosingRule = RULE
) -> dict[str, Closed]:
    """What comes out if messages arrive so, in batches that end at the cuts.

    After every batch all steps are closed that no message to come was published before.
    """
    state, found = OpenCases.none(), dict[str, Closed]()
    ends = sorted({c for c in cuts if 0 < c < len(arrivals)} | {len(arrivals)})
    start = 0
    for end in ends:
        state = state.add(batch(arrivals[start:end], rule), rule, ALL)
        left = [m.publish for m in arrivals[end:]]
        if left:
            state, steps, _ = state.close(min(left), rule, ALL)
            collect(found, steps)
        start = end
    state, steps, n_late = state.close(2**63 - 1, rule, ALL)
    collect(found, steps)
    assert n_late == 0
    assert state.n_cases == state.n_events == 0
    return found


messages = st.builds(
    Message,
    case=st.integers(0, 6),
    event_id=st.integers(0, 8),
    activity=st.sampled_from(["A", "B", "END"]),
    time=st.integers(0, 80),
    publish=st.integers(0, 80),
    order=st.integers(0, 2),
)
cuts = st.lists(st.integers(0, 40), max_size=8)


rules = st.builds(
    replace,
    st.just(RULE),
    period_us=st.integers(1, 30),
    inactivity_gap_us=st.integers(1, 30),
    max_lifetime_us=st.integers(1, 60),
    max_disorder_us=st.integers(0, 5),
    max_trace_length=st.integers(1, 8),
    end_activities=st.sampled_from([(), ("END",), ("A", "END")]),
)


@given(st.lists(messages, min_size=1, max_size=40), cuts, rules)
def test_any_order_and_batching_gives_what_each_case_gives_by_itself(
    sent: list[Message], ends: list[int], rule: ClosingRule
) -> None:
    assert streamed(sent, ends, rule) == naive(sent, rule)


@given(st.lists(messages, min_size=1, max_size=40), cuts, st.integers(0, 6), st.randoms())
def test_one_case_more_changes_nothing_of_the_others(
    sent: list[Message], ends: list[int], case: int, random: object
) -> None:
    """Whatever it sends: neither the traces of others nor their steps."""
    others = [m for m in sent if m.case != case]
    alone = streamed(others, ends) if others else {}
    together = streamed(sent, ends)
    together.pop(name_of(case), None)
    assert together == alone


@pytest.mark.parametrize("far", [MIN_TIME_US, MAX_TIME_US])
def test_times_at_the_ends_of_the_calendar_do_not_overflow(far: int) -> None:
    sent = [Message(1, 1, "A", far, far), Message(2, 2, "A", 5, 5)]
    found = streamed(sent, [1] if far < 0 else [])
    assert found[name_of(2)] == (2, (("A", 5),))
    assert found[name_of(1)] == ((far + 15) // 10, (("A", far),))


def at(*moments: int) -> list[Message]:
    """Messages of a case, each of its own event."""
    return [Message(1, moment, "A", moment, moment) for moment in moments]


@pytest.mark.parametrize(
    ("batches", "open_from", "closed_until"),
    [
        ([], [], 1_008),
        ([[Message(1, 1, "END", 1, 1)], at(600)], [], 1_600),  # as long again after its last one
        ([at(900), at(1_500)], [], 2_500),  # the first keeps it closed for the second
        ([at(1_500, 900)], [], 2_500),
        ([at(2_500, 900, 1_500)], [2_500], 1_008),
        ([at(1_007)], [], 2_007),
        ([at(1_008)], [1_008], 1_008),
    ],
)
def test_a_closed_case_takes_part_once_for_as_long_as_it_is_remembered(
    batches: Sequence[Sequence[Message]], open_from: list[int], closed_until: int
) -> None:
    """It closed at 4, in the step that begins at 0; its message of 8 came too late for it."""
    first = [Message(1, 1, "END", 1, 1), *at(8)]
    state = OpenCases.none().add(batch(first), RULE, 0)
    state, steps, _ = state.close(10, RULE, 0)
    assert [(step, traces_of(t)) for step, t in steps] == [(0, {name_of(1): (("END", 1),)})]
    for messages in batches:
        state = state.add(batch(messages), RULE, 1)
    assert state.publish.tolist() == open_from
    assert state.closed.until(keys_of([1])).tolist() == [closed_until]


def test_a_case_that_closes_as_a_step_begins_is_of_that_step() -> None:
    state = OpenCases.none().add(batch([Message(1, 1, "END", 7, 7)]), RULE, 0)
    state, steps, _ = state.close(19, RULE, 0)
    cases = PlacedCases(state, (), CountedCases.none())
    assert (steps, cases.closing_us(RULE)) == ([], 20)
    _, [(step, _)], _ = state.close(20, RULE, 0)
    assert step == 1


def test_a_closed_case_is_remembered_for_ever_where_nothing_else_is_said() -> None:
    rule = replace(RULE, tombstone_us=None)
    state = OpenCases.none().add(batch([Message(1, 1, "END", 1, 1)]), rule, 0)
    state, _, _ = state.close(10, rule, 0)
    again = state.add(batch([Message(1, 2, "A", MAX_TIME_US, MAX_TIME_US)]), rule, 10**9)
    assert again is state
    assert rule.most_counts(100) == (1, 100)
    # With one that is shorter than the stream it counts again where so much time is over.
    assert RULE.most_counts(100) == (1, 100)
    assert RULE.most_counts(101) == (2, 100)
    assert replace(RULE, tombstone_us=34).most_counts(10) == (4, 3)
    assert replace(RULE, tombstone_us=3).most_counts(10) == (10, 1)  # once a step


@pytest.mark.parametrize("first_step", [0, 1, 3])
def test_a_case_of_a_released_step_is_late_whoever_else_is_there(first_step: int) -> None:
    late, other = Message(2, 1, "END", 6, 6), Message(3, 1, "END", 16, 16)
    for first in ([Message(1, 1, "END", 1, 1)], []):
        state = OpenCases.none().add(batch([*first, other]), RULE, 0)
        state, _, _ = state.close(20, RULE, 0)
        state = state.add(batch([late]), RULE, first_step)
        state, steps, n_late = state.close(30, RULE, first_step)
        found = [(step, list(traces_of(traces))) for step, traces in steps]
        assert found == ([(0, [name_of(2)])] if first_step == 0 else [])
        assert n_late == (first_step > 0)
        n_closed = sum(len(run.keys) for run in state.closed.runs.values())
        assert n_closed == len(first) + 2  # it is closed in any case


def test_individuals_stay_together_and_are_named() -> None:
    keys, whose = keys_of([1, 2, 3]), keys_of([9, 9, 5])
    column = np.array([0, 1, 2, 0])
    times, ids = np.array([1, 2, 3, 4]), np.array([1, 2, 3, 4], np.uint64)
    none = np.zeros(4, np.int64), ids, np.zeros(4, np.int32)
    sent = CaseEvents(keys, whose, column.astype(np.int32), times, times, *none)
    shards = dict(sent.split(2))
    assert {s: part.n_events for s, part in shards.items()} == {1: 4}  # first words 3 and 1 are odd
    rows = {
        (s, int(part.keys[c, 1]), int(part.publish[i]))
        for s, part in sent.split(64)
        for i, c in enumerate(part.case)
    }
    assert rows == {(3, 1, 1), (3, 2, 2), (1, 3, 3), (3, 1, 4)}
    assert {s: len(part.keys) for s, part in sent.split(64)} == {1: 1, 3: 2}
    state = OpenCases.none(by_individual=True).add(sent, RULE, 0)
    _, [(_, traces)], _ = state.close(20, RULE, 0)
    assert traces.case_ids.to_pylist() == [name_of(1), name_of(2), name_of(3)]
    assert traces.individuals is not None
    assert traces.individuals.to_pylist() == [name_of(9), name_of(9), name_of(5)]


def test_a_rule_out_of_range_is_refused() -> None:
    for field, value in (
        ("period_us", 0), ("inactivity_gap_us", 0), ("max_lifetime_us", MAX_TIME_US + 1),
        ("max_disorder_us", -1), ("release_delay_us", -1), ("tombstone_us", 0),
        ("max_trace_length", 0), ("end_activities", ("D",)),
    ):  # fmt: skip
        changed: Mapping[str, object] = {field: value}
        with pytest.raises(UsageError, match=field):
            replace(RULE, **changed)  # type: ignore[arg-type]


# --- How often an individual counts ---------------------------------------------------------------


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
