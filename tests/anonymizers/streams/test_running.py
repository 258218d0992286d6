"""A stream in one place: which cases count depends on nothing but their own messages."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.stream_runs import counts_of, no_noise
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps
from tracecloak.anonymizers.streams.steps import (
    DecidedStep,
    Identities,
    RunningStream,
    StreamName,
    StreamState,
)
from tracecloak.schemas.streams.closing_rule import ClosingRule
from tracecloak.schemas.streams.open_cases import CaseEvents
from tracecloak.schemas.streams.stream_caps import CaseCap, PlacedCases

NAMES = ("A", "B", "END")
HORIZON = 12
RULE = ClosingRule(
    vocabulary=NAMES,
    period_us=10,
    inactivity_gap_us=6,
    max_lifetime_us=30,
    max_disorder_us=1,
    max_trace_length=3,
    tombstone_us=None,
    end_activities=("END",),
    release_delay_us=5,
    origin_us=20,
)
SHORT = replace(RULE, tombstone_us=8)
KEY, IDENTITIES = ReleaseKey(bytes(range(32))), ReleaseKey(bytes(32))
END_US = 1 << 40


class Message(NamedTuple):
    publish: int
    case: int
    activity: str = "A"
    individual: int = 0


Steps = list[tuple[int, bytes, bytes]]


def stream_of(rule: ClosingRule = RULE) -> RunningStream:
    params = DfgParams(
        epsilon=Decimal(1),
        delta=Decimal("1e-6"),
        horizon=HORIZON,
        vocabulary=NAMES,
        max_trace_length=rule.max_trace_length,
        l2_clip=Decimal(rule.max_trace_length + 1),
        max_cases_per_individual=None if rule.cap is None else rule.cap.cases,
    )
    name = StreamName("ward", "1", "", rule.origin_us, rule.period_us)
    return RunningStream(DfgSteps(params), name, KEY, rule, Identities(IDENTITIES))


def batch(messages: Sequence[Message], by_individual: bool = False) -> CaseEvents:
    keys = np.array([(0, m.case) for m in messages], np.uint64).reshape(-1, 2)
    whose = np.array([(0, m.individual) for m in messages], np.uint64).reshape(-1, 2)
    publish = np.array([m.publish for m in messages], np.int64)
    return CaseEvents(
        keys,
        whose if by_individual else np.zeros((len(messages), 0), np.uint64),
        np.arange(len(messages), dtype=np.int32),
        publish,
        publish,
        np.zeros(len(messages), np.int64),
        publish.astype(np.uint64),
        RULE.codes.codes_or_other(pa.array([m.activity for m in messages], pa.string())),
    )


def pulls_of(messages: Sequence[Message], cuts: Iterable[int]) -> list[Sequence[Message]]:
    """The messages in the order of their publishing, divided at these places."""
    ordered = sorted(messages)
    places = sorted({c for c in cuts if 0 < c < len(ordered)} | {0, len(ordered)})
    return [ordered[begin:end] for begin, end in pairwise(places)]


def read(
    stream: RunningStream, pulls: Iterable[Sequence[Message]]
) -> tuple[StreamState, list[DecidedStep]]:
    """What is decided where all before the last message of a pull is known to have come."""
    state, decided = stream.begin(), []
    for messages in pulls:
        if messages:
            state = stream.take(state, batch(messages))
            state, made = stream.advance(state, messages[-1].publish)
            decided += made
    state, made = stream.advance(state, END_US)
    return state, [*decided, *made]


def digests(decided: Iterable[DecidedStep]) -> Steps:
    return [(one.step, one.counts_digest, one.released.to_json()) for one in decided]


def pairs(decided: Iterable[DecidedStep]) -> dict[tuple[int, tuple[str, ...]], int]:
    """The counts that are not 0, by step and pair; exact where nothing is drawn."""
    return {
        (one.step, cell): count
        for one in decided
        for cell, count in counts_of(one.released).items()  # type: ignore[arg-type]
    }


def naive(messages: Iterable[Message], rule: ClosingRule) -> dict[int, list[tuple[str, ...]]]:
    """The traces that count in each step, one case and one period after the other."""
    by_case = defaultdict(list)
    for m in sorted(messages):
        by_case[m.case].append(m)
    found = defaultdict(list)
    for own in by_case.values():
        opened: list[Message] = []
        closed_until = None
        for end in range(rule.origin_us % rule.period_us, 400, rule.period_us):
            for m in (m for m in own if end - rule.period_us <= m.publish < end):
                if not opened and closed_until is not None and m.publish < closed_until:
                    closed_until = max(closed_until, m.publish + (rule.tombstone_us or 0))
                else:
                    opened.append(m)
            if not opened:
                continue
            first = list({m.publish: m for m in opened}.values())[: rule.max_trace_length]
            is_end = np.array([m.activity == "END" for m in first])
            publish = np.array([m.publish for m in first])
            [closes], is_own = rule.closing(np.array([0, len(first)]), publish, is_end)
            if closes < end:
                step = int(closes - rule.origin_us) // rule.period_us
                names = tuple(m.activity for m, own in zip(first, is_own, strict=True) if own)
                found[step].append(names)
                last = max(int(closes), opened[-1].publish)
                closed_until = END_US if rule.tombstone_us is None else last + rule.tombstone_us
                opened = []
    return {step: traces for step, traces in found.items() if 0 <= step < HORIZON}


def pairs_of(traces_by_step: dict[int, list[tuple[str, ...]]]) -> dict[tuple[int, object], int]:
    counts: dict[tuple[int, object], int] = defaultdict(int)
    for step, traces in traces_by_step.items():
        for trace in traces:
            for pair in pairwise(("▶", *trace, "■")):
                counts[step, pair] += 1
    return dict(counts)


messages = st.builds(
    Message,
    publish=st.integers(0, 150),
    case=st.integers(0, 4),
    activity=st.sampled_from(["A", "A", "A", "B", "END"]),
    individual=st.just(0),
)
cuts = st.lists(st.integers(0, 60), max_size=10)
rules = st.builds(
    replace,
    st.sampled_from([RULE, SHORT, replace(RULE, tombstone_us=1)]),
    period_us=st.integers(1, 25),
    inactivity_gap_us=st.integers(1, 20),
    max_lifetime_us=st.integers(1, 60),
    max_disorder_us=st.integers(0, 5),
    release_delay_us=st.integers(0, 30),
)


def unlike(sent: Iterable[Message]) -> list[Message]:
    """Messages of which a case has one at a moment, as its events are told apart by that here."""
    return list({(m.case, m.publish): m for m in sent}.values())


@given(st.lists(messages, max_size=60).map(unlike), cuts, rules)
def test_every_division_into_pulls_gives_the_same_steps(
    sent: list[Message], ends: list[int], rule: ClosingRule
) -> None:
    stream = stream_of(rule)
    _, live = read(stream, pulls_of(sent, range(len(sent))))
    _, divided = read(stream, pulls_of(sent, ends))
    _, at_once = read(stream, pulls_of(sent, []))
    assert digests(divided) == digests(at_once) == digests(live)
    assert [one.step for one in live] == list(range(HORIZON))


@given(st.lists(messages, max_size=40).map(unlike), cuts, rules)
def test_the_steps_are_those_of_each_case_by_itself(
    sent: list[Message], ends: list[int], rule: ClosingRule
) -> None:
    with no_noise():
        _, decided = read(stream_of(rule), pulls_of(sent, ends))
    assert pairs(decided) == pairs_of(naive(sent, rule))


@given(
    st.lists(messages, max_size=40).map(unlike),
    st.lists(st.booleans(), min_size=40, max_size=40),
    st.randoms(use_true_random=False),
    rules,
)
def test_two_partitions_in_any_turn_give_the_same_steps(
    sent: list[Message], in_second: list[bool], random: Random, rule: ClosingRule
) -> None:
    """Each in its order; one may be far ahead of what is known to have come."""
    stream = stream_of(rule)
    _, expected = read(stream, pulls_of(sent, []))
    parts = [
        deque(m for m, second in zip(sorted(sent), in_second, strict=False) if second is which)
        for which in (False, True)
    ]
    state, decided = stream.begin(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.schemas.streams.stream_caps._MERGE_EVENTS", 1)
        while any(parts):
            part = random.choice([part for part in parts if part])
            state = stream.take(state, batch([part.popleft()]))
            unread = min((part[0].publish for part in parts if part), default=END_US)
            state, made = stream.advance(state, unread)
            decided += made
        state, made = stream.advance(state, END_US)
    assert digests([*decided, *made]) == digests(expected)


@pytest.mark.parametrize("n_of_others", [0, 1, 2, 50])
def test_a_message_that_is_read_first_opens_no_case_that_an_older_one_keeps_closed(
    n_of_others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many messages of others there are, which decide when a batch is looked at."""
    monkeypatch.setattr("tracecloak.schemas.streams.stream_caps._MERGE_EVENTS", 3)
    stream = stream_of(replace(RULE, tombstone_us=20))  # closed at 22 and remembered until 42
    state = stream.take(stream.begin(), batch([Message(21, 1, "END")]))
    state, _ = stream.advance(state, 40)
    for sent in ([Message(42, 1)], [Message(43, 100 + n) for n in range(n_of_others)]):
        state = stream.take(state, batch(sent))
    state = stream.take(state, batch([Message(41, 1)]))
    with no_noise():
        state, decided = stream.advance(state, END_US)
    starts = [n for (_, cell), n in pairs(decided).items() if cell[0] == "▶"]
    assert sum(starts) == n_of_others  # and the one that was counted before


@pytest.mark.parametrize("mistake", ["merged at once", "remembered from the first messages"])
def test_the_divisions_tell_what_a_careless_stream_does(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a case with an event every three moments, read live and as a backlog."""
    sent = [Message(moment, 1) for moment in range(20, 130, 3)]
    assert len({case for traces in naive(sent, SHORT).values() for case in traces}) == 1
    if mistake == "merged at once":
        none = np.zeros(0, np.int64)
        monkeypatch.setattr(CaseEvents, "before", lambda self, _: (self, self._rows(none)))
    else:
        merged = PlacedCases.merged

        def forgetting(self: PlacedCases, *given: Any) -> PlacedCases:
            after = merged(self, *given)
            last = after.opened.offsets[1:] - 1
            kept = replace(after.opened, latest=after.opened.publish[last])
            return replace(after, opened=kept)

        monkeypatch.setattr(PlacedCases, "merged", forgetting)
    other = [Message(moment, case) for case in (2, 3) for moment in (22, 40, 41, 80, 110)]
    stream = stream_of(replace(SHORT, tombstone_us=4))
    ways = {
        tuple(digests(read(stream, pulls_of([*sent, *other], ends))[1]))
        for ends in ([], range(100), range(0, 100, 7))
    }
    if mistake == "merged at once":
        assert len(ways) > 1
    else:  # it is the same for every division, and counts one case again and again
        with no_noise():
            _, decided = read(stream, pulls_of(sent, range(100)))
        assert sum(n for (_, cell), n in pairs(decided).items() if cell[0] == "▶") > 1


@given(st.lists(messages, max_size=60).map(unlike), st.integers(0, 4), st.integers(1, 15))
def test_neighbouring_backlogs_differ_in_one_step_by_one_case(
    sent: list[Message], case: int, n_pulled: int
) -> None:
    """Pulls are of so many messages: where one ends depends on everybody, and nothing else does."""
    stream = stream_of()
    with no_noise():
        both = [
            pairs(read(stream, pulls_of(log, range(0, 100, n_pulled)))[1])
            for log in (sent, [m for m in sent if m.case != case])
        ]
    cells = both[0].keys() | both[1].keys()
    changed = {cell: both[0].get(cell, 0) - both[1].get(cell, 0) for cell in cells}
    changed = {cell: by for cell, by in changed.items() if by}
    assert len({step for step, _ in changed}) <= 1
    assert sum(changed.values()) <= RULE.max_trace_length + 1
    assert min(changed.values(), default=1) >= 1


@pytest.mark.parametrize("somebody_else", [False, True])
def test_a_late_case_takes_nothing_of_its_individual(somebody_else: bool) -> None:
    """Whoever closes a case meanwhile: a late one is dropped before it could count for a cap."""
    late = [Message(22, 100 + person, "END", person) for person in range(1, 101)]
    own = [Message(52, 200 + person, "END", person) for person in range(1, 101)]
    other = [Message(47, 999, "END", 999)] if somebody_else else []
    for cap in (CaseCap(1), CaseCap(1, per_step=True)):
        stream = stream_of(replace(RULE, cap=cap))
        state, decided = stream.advance(stream.begin(), 50)
        assert [one.step for one in decided] == [0, 1]  # both without a case
        if other:
            state = stream.take(state, batch(other, True))
            state, _ = stream.advance(state, 50)
        state = stream.take(state, batch([*late, *own], True))
        state, _ = stream.advance(state, 60)
        assert state.n_late == 100
        counted = state.waiting[3].by_name["digest of cases"]
        assert counted.n_events == 100  # type: ignore[attr-defined]


def test_nothing_is_kept_of_what_no_step_will_count() -> None:
    """Neither messages behind the last step, nor cases that close behind it."""
    stream = stream_of()
    end = RULE.step_start(HORIZON)
    state = stream.take(stream.begin(), batch([Message(end - 2, 1), Message(end - 3, 2, "END")]))
    state, decided = stream.advance(state, END_US)
    assert len(decided) == HORIZON and state.waiting == {}
    assert stream.take(state, batch([Message(end - 1, 3)])) is state
