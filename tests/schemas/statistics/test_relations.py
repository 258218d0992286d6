"""Which activities come after which: relations, subsequences, and knowledge of a case."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import Log, cases_of, event_logs, trace_batch
from tests.support.tlkc_logs import RESOURCE, Case, traces_with
from tests.support.tlkc_naive import RESOURCES, TWELVE, elements_of, small_logs
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.declarations import Attribute, Declaration
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import (
    NO_ELEMENT,
    UNIT_US,
    CaseTable,
    Knowledge,
    KnownCases,
    PatternCriteria,
    codes_of_words,
    grow,
    matching,
    suppress,
    times_of_words,
)
from tracecloak.schemas.statistics.relations import ActivityRelations, KFollows

Distances = dict[tuple[str, str], int]


def naive_distances(log: Log, max_distance: int | None = None) -> Distances:
    """The smallest distance of each pair of labels, by looking at every two places of each case."""
    found: Distances = {}
    for steps in cases_of(log).values():
        path = ["▶", *(activity for activity, _ in steps), "■"]
        for (i, a), (j, b) in itertools.combinations(enumerate(path), 2):
            if max_distance is None or j - i <= max_distance:
                found[a, b] = min(j - i, found.get((a, b), j - i))
    return found


def distances_of(follows: KFollows, traces: TraceBatch) -> Distances:
    assert follows.sources.dtype == follows.targets.dtype == follows.distances.dtype == np.int32
    keys = follows.sources.astype(np.int64) << 32 | follows.targets
    assert (np.diff(keys) > 0).all()
    labels = traces.vocabulary.labels
    return {
        (labels[a], labels[b]): int(d)
        for a, b, d in zip(follows.sources, follows.targets, follows.distances, strict=True)
    }


@given(event_logs(activities="ABCD"), st.sampled_from([None, 1, 2, 3, 7]))
def test_distances_are_those_of_a_naive_search(log: Log, max_distance: int | None) -> None:
    traces = trace_batch(log, "ABCD")
    found = KFollows.from_traces(traces, max_distance)
    assert distances_of(found, traces) == naive_distances(log, max_distance)


def test_an_empty_batch_has_no_pairs_and_a_distance_below_1_is_refused() -> None:
    traces = trace_batch({"1": "A"})
    assert KFollows.from_traces(traces.take(np.zeros(0, np.int64))) == KFollows.merge(())
    with pytest.raises(UsageError, match="max_distance must be at least 1, got 0"):
        KFollows.from_traces(traces, 0)


Pair = tuple[str, str]


def naive(log: Log) -> tuple[dict[Pair, tuple[int, int]], dict[str, int]]:
    """Cases by pair, at all and before the first target, and cases by first activity.

    Those that have an activity are under ▶.
    """
    pairs: Counter[Pair] = Counter()
    before_first: Counter[Pair] = Counter()
    firsts: Counter[str] = Counter()
    for steps in cases_of(log).values():
        names = [name for name, _ in steps]
        pairs.update({("▶", name) for name in names})
        pairs.update(set(itertools.combinations(names, 2)))  # in the order of the case
        for target in set(names):
            before = {"▶", *names[: names.index(target)]}
            before_first.update({(source, target) for source in before})
        firsts[names[0]] += 1
    return {pair: (n, before_first[pair]) for pair, n in pairs.items()}, dict(firsts)


def read(
    relations: ActivityRelations, vocabulary: ActivityVocabulary
) -> tuple[dict[Pair, tuple[int, int]], dict[str, int]]:
    labels = vocabulary.labels
    pairs = zip(
        relations.sources.tolist(), relations.targets.tolist(), relations.counts.tolist(),
        relations.counts_before_first.tolist(), strict=True,
    )  # fmt: skip
    firsts = zip(relations.first_codes.tolist(), relations.first_counts.tolist(), strict=True)
    return (
        {(labels[source], labels[target]): tuple(counts) for source, target, *counts in pairs},
        {labels[code]: count for code, count in firsts},
    )


@given(event_logs())
def test_relations_are_those_of_a_loop(log: Log) -> None:
    traces = trace_batch(log, "ABC")
    relations = ActivityRelations.from_traces(traces)
    assert read(relations, traces.vocabulary) == naive(log)
    assert relations.sources.dtype == relations.targets.dtype == np.int32
    assert relations.first_codes.dtype == np.int32
    assert relations.counts_before_first.dtype == np.int64
    assert relations.counts.dtype == relations.first_counts.dtype == np.int64
    pairs = list(zip(relations.sources.tolist(), relations.targets.tolist(), strict=True))
    assert pairs == sorted(set(pairs))


def test_pairs_of_a_wide_vocabulary_stay_apart() -> None:
    names = [f"{i:05}" for i in range(70_000)]
    traces = trace_batch({"c1": "00001 69999 00001"}, names)
    found, firsts = read(ActivityRelations.from_traces(traces), traces.vocabulary)
    assert firsts == {"00001": 1}
    assert found == {
        ("00001", "00001"): (1, 0),
        ("00001", "69999"): (1, 1),
        ("69999", "00001"): (1, 0),
        ("▶", "00001"): (1, 1),
        ("▶", "69999"): (1, 1),
    }


# --- Subsequences ---------------------------------------------------------------------------------


Row = tuple[list[int], int, list[int]]  # items, cases, labels


def rows_with(found: list[Row]) -> CaseTable:
    return CaseTable(
        np.cumsum([0, *(len(items) for items, _, _ in found)]),
        np.array([item for items, _, _ in found for item in items], np.int64),
        np.array([n for _, n, _ in found], np.int64),
        np.array([labels for _, _, labels in found], np.int64).reshape(len(found), 2),
    )


tables = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2), max_size=5),
        st.integers(1, 4),
        st.lists(st.integers(0, 3), min_size=2, max_size=2),
    ),
    max_size=6,
)


def is_met(found: list[Row], demand: PatternCriteria) -> bool:
    n = sum(cases for _, cases, _ in found)
    for k in range(2):
        for label in range(1, 4):
            own = sum(cases for _, cases, labels in found if labels[k] == label)
            if own > demand.confidence * n:
                return False
    return n >= demand.min_cases


def plain_levels(
    found: list[Row], demand: PatternCriteria, longest: int
) -> list[tuple[dict[tuple[int, ...], int], set[tuple[int, ...]]]]:
    """By length: the patterns taken up with their cases, and those that are refused."""
    levels: list[tuple[dict[tuple[int, ...], int], set[tuple[int, ...]]]] = []
    before: set[tuple[int, ...]] = {()}
    for length in range(1, longest + 1):
        occurring = {
            pattern for items, _, _ in found for pattern in itertools.combinations(items, length)
        }
        taken, refused = {}, set()
        for pattern in occurring:
            if not set(itertools.combinations(pattern, length - 1)) <= before:
                continue
            matched = [r for r in found if pattern in set(itertools.combinations(r[0], length))]
            if is_met(matched, demand):
                taken[pattern] = sum(cases for _, cases, _ in matched)
            else:
                refused.add(pattern)
        levels.append((taken, refused))
        before = set(taken)
    return levels


@pytest.mark.parametrize("piece", [1, 7, 1 << 21])
@given(
    found=tables,
    min_cases=st.integers(1, 6),
    confidence=st.sampled_from([Fraction(1, 3), Fraction(1, 2), Fraction(1)]),
    longest=st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_levels_are_those_of_plain_python(
    piece: int, found: list[Row], min_cases: int, confidence: Fraction, longest: int
) -> None:
    """However many matches are looked at in one go."""
    demand = PatternCriteria(min_cases, confidence)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.schemas.statistics.background_knowledge._PIECE", piece)
        levels = list(grow(rows_with(found), 3, demand, longest))
    expected = plain_levels(found, demand, longest)
    for i, level in enumerate(levels):
        taken, refused = expected[i]
        patterns = list(map(tuple, level.taken.tolist()))
        assert patterns == sorted(taken)
        assert sorted(map(tuple, level.refused.tolist())) == sorted(refused)
        if i:
            before = list(map(tuple, levels[i - 1].taken.tolist()))
            for pattern, places in zip(patterns, level.shorter, strict=True):
                for gone, place in enumerate(places):
                    assert before[place] == pattern[:gone] + pattern[gone + 1 :]
    assert not any(taken or refused for taken, refused in expected[len(levels) :])


def test_nothing_is_found_where_there_is_nothing() -> None:
    assert list(grow(rows_with([]), 0, PatternCriteria(1), 3)) == []
    [level] = grow(rows_with([([], 5, [1, 1])]), 3, PatternCriteria(1), 3)
    assert level.taken.shape == (0, 1)


def test_a_demand_is_exact_for_counts_that_no_float_has() -> None:
    large = (1 << 62) + 1
    met = PatternCriteria(1, Fraction(1, 3)).is_met(
        np.array([large, large]), np.array([[large // 3], [large // 3 + 1]])
    )
    assert met.tolist() == [True, False]
    tenths = PatternCriteria(1, Fraction("0.3")).is_met(np.array([10, 10]), np.array([[3], [4]]))
    assert tenths.tolist() == [True, False]


@given(found=tables, pattern=st.lists(st.integers(0, 3), max_size=3))
def test_rows_match_a_pattern_if_they_have_it_as_a_subsequence(
    found: list[Row], pattern: list[int]
) -> None:
    rows = rows_with(found)
    expected = [
        tuple(pattern) in set(itertools.combinations(items, len(pattern))) for items, _, _ in found
    ]
    assert matching(rows.offsets, rows.words, np.array(pattern, np.int64)).tolist() == expected


# --- Background knowledge -------------------------------------------------------------------------


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
