"""A vocabulary that grows: what one case changes over all steps is as if the names had been there.

Neighbouring streams of few messages are enumerated through the growth, each in all states in which
the stream may be stopped to get the names. The controls are streams that would break the promise.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.stream_runs import no_noise
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams import continual
from tracecloak.anonymizers.streams.dfg_steps import DfgParams, DfgSteps, KeptCounts
from tracecloak.anonymizers.streams.steps import Identities, RunningStream, StreamName
from tracecloak.schemas.events import events
from tracecloak.schemas.streams.closing_rule import ClosingRule

FIRST, MORE = ("B",), ("A", "B", "Z")  # one name comes before and one behind those that are there
GROWS = 2  # the step from which on they count; its first microsecond is 20
ASKED = 14  # when the stream is stopped
RULE = ClosingRule(FIRST, 10, 12, 40, 1, 4, None, ("B",), 5, 0)
GROWN = replace(RULE, vocabulary=MORE, since=(("A", GROWS), ("Z", GROWS)))
KEY = ReleaseKey(bytes(32))

Message = tuple[int, str, str]  # publishing, case, activity


def params_of(names: Sequence[str], view: str = "window", **others: Any) -> DfgParams:
    given = {
        "epsilon": Decimal(1),
        "horizon": 6,
        "vocabulary": tuple(names),
        "max_trace_length": 4,
        "l2_clip": Decimal(2),
        "view": view,
    }
    return DfgParams(**(given | others))


def stream_of(rule: ClosingRule, params: DfgParams) -> RunningStream:
    name = StreamName("ward", "1", "", 0, 10)
    return RunningStream(DfgSteps(params, dict(rule.since)), name, KEY, rule, Identities(KEY))


def events_of(messages: Sequence[Message]) -> pa.RecordBatch:
    def coded(values: list[str]) -> pa.DictionaryArray:
        return pa.array(values, pa.string()).dictionary_encode()

    times = pa.array([m[0] for m in messages], pa.int64())
    return pa.RecordBatch.from_pydict(
        {
            events.CASE_ID: coded([m[1] for m in messages]),
            events.ACTIVITY: coded([m[2] for m in messages]),
            events.TIMESTAMP: times,
            events.EVENT_ID: pa.nulls(len(messages), pa.string()),
            events.PUBLISH_TIME: times,
            events.SOURCE_ORDER: pa.array([0] * len(messages), pa.int64()),
        }
    )


def test_times_are_kept_within_the_calendar() -> None:
    sent = events_of([(-(2**63), "x", "A"), (2**63 - 1, "y", "A")])
    far = stream_of(RULE, params_of(FIRST)).identities.keyed(sent, RULE, 1 << 56)
    for times in (far.publish, far.times):
        assert times.tolist() == [events.MIN_TIME_US, events.MAX_TIME_US]


def vectors(
    messages: Sequence[Message],
    n_read: int,
    view: str = "window",
    grown_rule: ClosingRule = GROWN,
) -> np.ndarray:
    """int64[step, cell], all that is measured, without noise; the growth is after some messages."""
    before, after = (stream_of(r, params_of(r.vocabulary, view)) for r in (RULE, grown_rule))
    state, decided = before.begin(), []
    first, rest = messages[:n_read], messages[n_read:]
    if first:
        state = before.take(state, before.keyed(events_of(first)))
    state, made = before.advance(state, min(ASKED, *(m[0] for m in rest), ASKED))
    decided += made
    state = after.grown(state, RULE.codes)
    if rest:
        state = after.take(state, after.keyed(events_of(rest)))
    state, made = after.advance(state, 1000)
    decided += made
    if view != "window":
        return np.stack([kept.measured for kept in state.past])
    names = [*GROWN.codes.labels]
    cells = {pair: i for i, pair in enumerate(itertools.product(names, names))}
    found = np.zeros((6, len(cells)), np.int64)
    for one in decided:
        for cell, count in zip(one.released.cells, one.released.counts.tolist(), strict=True):
            found[one.step, cells[cell]] = count
    return found


def tiny_streams() -> list[list[Message]]:
    """A case of up to three messages around the growth; another one is there beside it."""
    times, names = (3, 12, 19, 20, 26), ("A", "B", "other")
    streams = []
    for n in (1, 2, 3):
        for when in itertools.combinations(times, n):
            for what in itertools.product(names, repeat=n):
                streams.append([(t, "x", a) for t, a in zip(when, what, strict=True)])
    return streams


OTHERS: list[Message] = [(5, "y", "Z"), (13, "y", "A"), (22, "y", "A"), (33, "w", "Z")]


def read_by(messages: Sequence[Message]) -> range:
    """How many messages can have been read when the stream is stopped."""
    return range(sum(m[0] < ASKED for m in messages) + 1)


@pytest.mark.parametrize("view", ["window", "total"])
def test_a_case_changes_no_more_than_the_noise_covers_whatever_was_read(view: str) -> None:
    """Both neighbours through all steps, from all states in which either can be stopped."""
    noise = params_of(MORE, view).noises["pairs"]
    assert noise == replace(params_of(FIRST, view).noises["pairs"], n_cells=noise.n_cells)
    most = float(noise.sensitivity) / (1 if view == "total" else noise.units)
    largest = 0.0
    with no_noise():
        without = {r: vectors(OTHERS, r, view) for r in read_by(OTHERS)}
        for case in tiny_streams()[::11]:
            both = sorted([*OTHERS, *case])
            for n_read in read_by(both)[::2]:
                found = vectors(both, n_read, view)
                for other in without.values():
                    largest = max(largest, float(np.linalg.norm(found - other)))
        by_reading = replace(GROWN, since=())
        read = [vectors(OTHERS, n, view, by_reading) for n in read_by(OTHERS)]
    assert len({one.tobytes() for one in without.values()}) == 1 < len({r.tobytes() for r in read})
    rounding = 3 if view == "window" else 0  # released windows are whole numbers
    assert 0.5 * most < largest <= most + rounding


def test_a_case_of_both_vocabularies_is_under_one_clip() -> None:
    """The controls: a part each under a clip of its own, and the clip that more names would get."""
    case = [(12, "x", "C"), (13, "x", "C"), (14, "x", "C"), (23, "x", "A")]
    noise = params_of(MORE, "total").noises["pairs"]
    with no_noise():
        none = vectors([], 0, "total")
        whole = vectors(case, 3, "total") - none
        parts = [vectors(part, 0, "total") - none for part in (case[:3], case[3:])]
    assert np.linalg.norm(whole) <= noise.sensitivity
    assert sum(np.linalg.norm(part) for part in parts) > noise.sensitivity
    few, many = (params_of(n, l2_clip=None, max_trace_length=50) for n in (FIRST, MORE))
    assert few.clip is not None and many.clip is not None and few.clip > many.clip
    scales = [Fraction(*one.noises["pairs"].scale) for one in (few, many)]
    assert scales[0] > scales[1]  # so totals with cases of both would have too little noise


@pytest.mark.parametrize("view", ["window", "total", "sliding"])
def test_it_is_as_if_the_names_had_been_there_and_no_event_had_had_them(
    view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise that says what it is for: every measured value of each cell has one of its own."""
    drawn: list[int] = []

    def numbered(stream: Any, *scale: int) -> np.ndarray:
        drawn.append(len(stream))
        return np.arange(1, len(stream) + 1, dtype=np.int64) << 40

    params = params_of(MORE, view, sliding_steps=2 if view == "sliding" else None)
    always = stream_of(replace(GROWN, since=()), params)
    messages = sorted([*OTHERS, (3, "x", "A"), (12, "x", "B"), (24, "v", "Z"), (31, "v", "B")])
    unnamed = [(t, c, a if t >= 20 or a == "B" else "?") for t, c, a in messages]
    before = stream_of(RULE, params_of(FIRST, view, sliding_steps=params.sliding_steps))
    after = stream_of(GROWN, params)
    with no_noise():
        full, expected = always.advance(
            always.take(always.begin(), always.keyed(events_of(unnamed))), 1000
        )
        state = before.take(before.begin(), before.keyed(events_of(messages[:3])))
        state, decided = before.advance(state, 17)
        grown = after.grown(state, RULE.codes)
        end = after.take(grown, after.keyed(events_of(messages[3:])))
        end, made = after.advance(end, 1000)
    assert [one.step for one in decided] == [0]
    for one, like in zip([*decided, *made], expected, strict=True):
        there = dict(zip(like.released.cells, like.released.counts.tolist(), strict=True))
        mine = dict(zip(one.released.cells, one.released.counts.tolist(), strict=True))
        new = {cell for cell in there if {"A", "Z"} & set(cell)}
        assert mine == {c: n for c, n in there.items() if one.step >= GROWS or c not in new}
        assert {there[cell] for cell in new if one.step < GROWS} <= {0}
        known = dict(zip(like.released.cells, like.released.standard_errors, strict=True))
        assert set(one.released.standard_errors) == {known[cell] for cell in mine}
    assert [kept.counts.tolist() for kept in end.past] == [k.counts.tolist() for k in full.past]
    if view == "window":
        return
    monkeypatch.setattr(continual, "draw_gaussian", numbered)
    [kept] = after.grown(state, RULE.codes).past
    assert isinstance(kept, KeptCounts)
    noisy = np.flatnonzero(kept.measured)
    assert drawn == [len(DfgSteps(params)._cells) - len(state.past[0].counts)]
    assert len(set((kept.measured[noisy] >> 40).tolist())) >= drawn[0]  # the control: without noise
    again = after.grown(state, RULE.codes).past[0].measured
    assert np.array_equal(again, kept.measured)
