"""Elements of events, cases as they can be known, and what suppression leaves of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.logs import trace_batch
from tests.support.tlkc_logs import RESOURCE, Case, traces_with
from tests.support.tlkc_naive import RESOURCES, TWELVE, elements_of, small_logs
from tracecloak.schemas.events.declarations import Attribute, Declaration
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    NO_ELEMENT,
    UNIT_US,
    CaseTable,
    Knowledge,
    KnownCases,
    codes_of_words,
    suppress,
    times_of_words,
)

DECLARED = Attribute(RESOURCE, Declaration(values=RESOURCES))


def knowledge(kind: Any, perspective: Any, unit: Any = "hours") -> Knowledge:
    return Knowledge(kind, perspective, unit, None if perspective == "activity" else DECLARED)


def rows(known: KnownCases) -> dict[tuple[tuple[int, ...], tuple[int, ...]], int]:
    table = known.decoded()
    bounds = itertools.pairwise(table.offsets.tolist())
    return {
        (tuple(table.sensitive[i].tolist()), tuple(table.words[a:b].tolist())): int(table.counts[i])
        for i, (a, b) in enumerate(bounds)
    }


def counted(traces: TraceBatch, known: Knowledge, cells: np.ndarray) -> KnownCases:
    return KnownCases.from_cases(traces.offsets, known.words(traces), cells)


@pytest.mark.parametrize(("kind", "perspective"), TWELVE)
@given(log=small_logs())
@settings(max_examples=20, deadline=None)
def test_words_are_equal_where_elements_are(
    kind: str, perspective: str, log: Mapping[str, Case]
) -> None:
    """And of a multiset where their numbers in the case are equal too."""
    traces = traces_with(log)
    words = knowledge(kind, perspective).words(traces)
    known = np.flatnonzero(codes_of_words(words) != NO_ELEMENT)
    case_of = np.repeat(np.arange(traces.n_cases), traces.lengths)[known]
    expected: list[Any] = []
    for elements in elements_of(traces, kind, perspective):
        seen: Counter[Any] = Counter()
        for element in elements:
            expected.append((element, seen[element]) if kind == "multiset" else element)
            seen[element] += 1
    assert len(expected) == len(known)
    assert len(case_of) == len(known)
    pairs = set(zip(words[known].tolist(), expected, strict=True))
    assert len(pairs) == len({word for word, _ in pairs}) == len({e for _, e in pairs})


def test_units_begin_in_utc_and_count_from_the_case_s_first() -> None:
    """23:59 and 0:00 are a day apart, and 0:00 and 23:59 are none."""
    traces = trace_batch({"1": "A@1439 B@1440 C@2879", "2": "A@-1 B@0"})
    day, hour = (
        times_of_words(knowledge("relative", "activity", u).words(traces))
        for u in ("days", "hours")
    )
    assert day.tolist() == [0, 1, 1, 0, 1]
    assert hour.tolist() == [0, 1, 24, 0, 1]
    assert UNIT_US["days"] == 24 * UNIT_US["hours"] == 1440 * UNIT_US["minutes"]
    assert UNIT_US["minutes"] == 60 * UNIT_US["seconds"]


# --- the statistic --------------------------------------------------------------------------------


@given(log=small_logs())
@settings(max_examples=40, deadline=None)
def test_the_statistic_is_that_of_a_loop(log: Mapping[str, Case]) -> None:
    traces = traces_with(log)
    known = knowledge("relative", "activity_resource")
    cells = np.arange(2 * traces.n_cases).reshape(-1, 2) % 3
    whole = counted(traces, known, cells)
    expected: Counter[Any] = Counter()
    words = known.words(traces).tolist()
    for case, (a, b) in enumerate(itertools.pairwise(traces.offsets.tolist())):
        expected[tuple(cells[case].tolist()), tuple(words[a:b])] += 1
    assert rows(whole) == dict(expected)
    assert len(whole.counts) == len(expected) and whole.decoded().n_cases == traces.n_cases


def test_a_statistic_without_cases_decodes_to_none() -> None:
    table = KnownCases.merge(()).decoded()
    assert (table.n_cases, table.offsets.tolist(), table.sensitive.shape) == (0, [0], (0, 0))


# --- rows and suppression -------------------------------------------------------------------------


def table_of(*cases: list[int]) -> CaseTable:
    """Cases of words, one each."""
    return CaseTable(
        np.cumsum([0, *map(len, cases)]),
        np.array([word for case in cases for word in case], np.int64),
        np.ones(len(cases), np.int64),
        np.zeros((len(cases), 0), np.int64),
    )


def word(code: int, time: int = 0) -> int:
    return code << 39 | time


def test_canonical_rows_of_each_kind() -> None:
    a, b, none = word(1), word(2), word(NO_ELEMENT)
    cases = table_of([b, a, none, a, b], [a, b, a, b])
    numbered = table_of([b, a, none, word(1, 1), word(2, 1)], [a, b, word(1, 1), word(2, 1)])
    found = {}
    for kind, table in (("set", cases), ("multiset", numbered), ("sequence", cases)):
        known, elements = table.canonical(kind, 1 if kind != "multiset" else 2)  # type: ignore[arg-type]
        assert elements.tolist() == [a, b]
        found[kind] = {
            tuple(known.words[x:y].tolist()): int(known.counts[i])
            for i, (x, y) in enumerate(itertools.pairwise(known.offsets.tolist()))
        }
    assert found == {
        "set": {(0, 1): 2},
        "multiset": {(0, 0, 1, 1): 2},
        "sequence": {(1, 0, 0, 1): 1, (0, 1, 0, 1): 1},
    }
    known, _ = numbered.canonical("multiset", 1)
    assert known.words.tolist() == [0, 1]


def test_times_count_anew_from_the_first_event_that_is_left() -> None:
    cases = [[word(1), word(2, 3), word(3, 7)], [word(2), word(2, 3)], [word(1)]]
    table = table_of(*cases)
    kept, offsets, words = suppress(table.offsets, table.words, np.array([word(1), word(9)]))
    assert kept.tolist() == [False, True, True, True, True, False]
    assert offsets.tolist() == [0, 2, 4, 4]
    assert words.tolist() == [word(2), word(3, 4), word(2), word(2, 3)]
    left = table.without(np.array([word(1), word(9)]))
    assert left.offsets.tolist() == [0, 2, 4]
    assert left.n_cases == 2
    same, _, unchanged = suppress(table.offsets, table.words, np.zeros(0, np.int64))
    assert same.all()
    assert unchanged.tolist() == table.words.tolist()
