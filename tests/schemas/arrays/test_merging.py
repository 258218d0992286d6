"""The laws of every mergeable statistic, the accumulator of pieces, and the array helpers."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracecloak.schemas as schemas
from tests.support.logs import Event, event_logs, plain, trace_batch
from tracecloak.schemas.arrays import merging
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.arrays.merging import (
    CountsByKey,
    CountsByPair,
    OfArrays,
    Statistics,
    Totals,
    distinct_counts,
    distinct_places,
    places_among,
    stable_order,
)
from tracecloak.schemas.arrays.sequences import CaseRanks, case_bytes
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.tally import FileTally, ReadTally, Reject
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.background_knowledge import KnownCases
from tracecloak.schemas.statistics.clipped_flows import (
    CaseCells,
    CaseNorms,
    ClippedCells,
    ClippedFlows,
    cells_of_flows,
)
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.log_times import LogTimes, StartRange
from tracecloak.schemas.statistics.relations import ActivityRelations, KFollows
from tracecloak.schemas.statistics.variants import (
    ActivityCounts,
    DirectlyFollows,
    TraceLengths,
    VariantHistogram,
)
from tracecloak.schemas.streams.stream_caps import ClosedCases


def _ranks(traces: TraceBatch) -> CaseRanks:
    hashes = hash_text(traces.case_ids)
    return CaseRanks.of(
        traces.lengths % 2, case_bytes(np.stack([hashes, hashes + np.uint64(1)], axis=1))
    )


def _cells(traces: TraceBatch) -> ClippedCells:
    """By case and activity, clipped so that some of a long case are floored to nothing."""
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    n_names = len(traces.vocabulary)
    cells = CaseCells.of(case, traces.activities.astype(np.int64), traces.n_cases, n_names)
    return ClippedCells.from_cases(cells, 2, 2)


# How each statistic is counted on a part of a log.
def _known_cases(traces: TraceBatch) -> KnownCases:
    # Batches have vocabularies of their own here; a method brings them to one.
    words = hash_text(traces.vocabulary.names)[traces.activities].astype(np.int64)
    return KnownCases.from_cases(traces.offsets, words, np.zeros((traces.n_cases, 0), np.int64))


def _tally(traces: TraceBatch) -> ReadTally:
    """As if every case of an odd length had been two malformed records of a file."""
    tally = FileTally(1)
    tally.add_events(traces.n_events)
    tally.add(Reject.NO_TIME, np.repeat(traces.lengths[traces.lengths % 2 == 1], 2))
    return tally.result()


COUNTS: dict[type, Callable[[TraceBatch], Any]] = {
    ActivityCounts: lambda traces: ActivityCounts.of(
        traces.vocabulary.names.take(pa.array(traces.activities)),
        np.ones(traces.n_events, np.int64),
    ),
    ActivityRelations: ActivityRelations.from_traces,
    ActivityVocabulary: lambda traces: ActivityVocabulary.of(
        [traces.vocabulary.names[code].as_py() for code in traces.activities]
    ),
    CaseNorms: lambda traces: CaseNorms.from_squares(
        cells_of_flows(traces, None).squares, np.array([2, 3, 4, 5, 9])
    ),
    CaseRanks: _ranks,
    ClippedCells: _cells,
    ClippedFlows: lambda traces: ClippedFlows.from_traces(traces, 20, 10, np.array([2])),
    ClosedCases: lambda traces: ClosedCases.merge([ClosedCases(traces)]),
    DirectlyFollows: DirectlyFollows.from_traces,
    DurationTable: lambda traces: DurationTable.from_events(traces.activities, traces.durations),
    KFollows: KFollows.from_traces,
    KnownCases: _known_cases,
    LogTimes: LogTimes.from_traces,
    ReadTally: _tally,
    StartRange: lambda traces: StartRange.of(traces.starts),
    TraceLengths: TraceLengths.from_traces,
    VariantHistogram: VariantHistogram.from_traces,
}


every_statistic = pytest.mark.parametrize("kind", COUNTS, ids=lambda kind: kind.__name__)


def test_every_statistic_of_the_package_is_tested_here():
    found = set()
    for module in pkgutil.walk_packages(schemas.__path__, "tracecloak.schemas."):
        for _, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if value.__module__ == module.name and hasattr(value, "merge"):
                found.add(value)
    found = {value for value in found if not getattr(value, "_is_protocol", False)}
    found -= {CountsByKey, CountsByPair, OfArrays}  # what some of them are made of
    assert found == set(COUNTS)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[list[Event], list[list[Event]]]:
    """A log and its cases dealt out to some parts, of which some may be empty."""
    log = draw(event_logs(max_events=20, n_cases=7))
    n_parts = draw(st.integers(1, 5))
    part_of = {case: draw(st.integers(0, n_parts - 1)) for case in sorted({e[0] for e in log})}
    parts: list[list[Event]] = [[] for _ in range(n_parts)]
    for event in log:
        parts[part_of[event[0]]].append(event)
    return log, parts


def count(kind: type, log: Sequence[Event]) -> Any:
    return COUNTS[kind](trace_batch(log, "ABC"))


def freeze(value: Any) -> Any:
    """Makes the arrays of a statistic read-only, as decoded ones are."""
    for part in vars(value).values():
        if isinstance(part, np.ndarray):
            part.setflags(write=False)
    return value


@every_statistic
@settings(max_examples=20)  # of each of the statistics
@given(drawn=partitions(), random=st.randoms(use_true_random=False))
def test_parts_merge_to_the_whole_in_any_order_and_grouping(kind, drawn, random):
    log, parts = drawn
    whole = plain(count(kind, log))
    pieces = [freeze(count(kind, part)) for part in parts]
    before = plain(dict(enumerate(pieces)))
    assert plain(kind.merge(pieces)) == whole
    assert plain(kind.merge([kind.merge(()), *pieces])) == whole  # the empty one adds nothing
    assert plain(kind.merge([kind.merge([piece]) for piece in pieces])) == whole
    random.shuffle(pieces)
    assert plain(kind.merge(pieces)) == whole
    while len(pieces) > 1:  # any two or three neighbours at a time
        i, n = random.randrange(len(pieces) - 1), random.choice([2, 3])
        pieces[i : i + n] = [kind.merge(pieces[i : i + n])]
    assert plain(pieces[0]) == whole
    pieces = [count(kind, part) for part in parts]
    kind.merge(pieces)
    assert plain(dict(enumerate(pieces))) == before


def n_rows(statistic: OfArrays) -> int:
    return len(getattr(statistic, fields(statistic)[0].name))


@every_statistic
@settings(max_examples=20)  # of each of the statistics
@given(drawn=partitions(), n_parts=st.sampled_from([1, 2, 64]))
def test_parts_by_keys_of_rows_merge_to_the_whole(kind, drawn, n_parts):
    """Wherever rows are counted, those of a key meet in one part, and in no other."""
    log, pieces = drawn
    whole = count(kind, log)
    found: dict[int, list[Any]] = {}
    for piece in [Statistics({"one": count(kind, cases)}) for cases in pieces]:
        for number, part in piece.split(n_parts):
            found.setdefault(number, []).append(part.by_name["one"])
    parts = [kind.merge(found[number]) for number in sorted(found, reverse=True)]
    assert plain(kind.merge(parts)) == plain(whole)
    if getattr(kind, "_keys", ()):
        assert sum(map(n_rows, parts)) == n_rows(whole)
        assert set(found) <= set(range(n_parts))
    else:
        assert set(found) <= {0}


def test_the_part_of_a_row_is_the_same_on_every_machine():
    variants = VariantHistogram.from_traces(trace_batch({"a": "A", "b": "A B", "c": "B A C"}))
    durations = DurationTable.from_events(np.array([0, 0, 7]), np.array([-1, 5, 1 << 40]))
    for statistic, expected in (
        (variants, [(0, 1), (49, 1), (59, 1)]),
        (durations, [(28, 1), (42, 1), (59, 1)]),
    ):
        assert [(n, n_rows(part)) for n, part in statistic.split(64) if n_rows(part)] == expected


@every_statistic
def test_nothing_merged_is_the_statistic_of_an_empty_log(kind):
    assert plain(kind.merge(())) == plain(count(kind, []))
    assert plain(kind.merge([kind.merge(()), kind.merge(())])) == plain(kind.merge(()))


@every_statistic
@settings(max_examples=20)  # of each of the statistics
@given(
    drawn=partitions(),
    threshold=st.sampled_from([0, 1, 3, 1 << 20]),
    moves=st.lists(st.booleans(), min_size=5, max_size=5),
    random=st.randoms(use_true_random=False),
)
def test_accumulators_agree_however_they_are_driven(kind, drawn, threshold, moves, random):
    log, parts = drawn
    whole = plain(count(kind, log))
    pieces = [freeze(count(kind, part)) for part in parts]
    before = plain(dict(enumerate(pieces)))
    with mock.patch.object(Totals, "_MERGE_ELEMENTS", threshold):
        # Fresh ones, each with a piece, moved and absorbed in any order.
        accumulators = [Totals({"x": kind}) for _ in pieces]
        for one, piece, is_merged in zip(accumulators, pieces, moves, strict=False):
            one.add({"x": piece, "other": piece})
            if is_merged:
                one.result()
        random.shuffle(accumulators)
        total, fed, none = (Totals({"x": kind}) for _ in range(3))
        for one, piece, is_merged in zip(accumulators, pieces, moves, strict=False):
            kept = plain(dict(enumerate(*one._pieces.values())))
            total.absorb(one)
            assert plain(dict(enumerate(*one._pieces.values()))) == kept  # absorbed, not emptied
            if is_merged:
                total.result()
            total = pickle.loads(pickle.dumps(total))  # noqa: S301  # our own bytes
            fed.add({"x": piece})
        assert plain(total.result()["x"]) == plain(fed.result()["x"]) == whole
        # Still growing after a result.
        none.result()
        total.absorb(none)
        assert plain(total.result()["x"]) == plain(total.result()["x"]) == whole
    assert plain(dict(enumerate(pieces))) == before


# --- when pieces are merged -----------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """A statistic of distinct names."""

    names: frozenset[int]

    @classmethod
    def merge(cls, pieces: Sequence[Names]) -> Names:
        return cls(frozenset().union(*(piece.names for piece in pieces)))


def names(*values: int) -> Names:
    return Names(frozenset(values))


def test_threads_together_merge_what_one_merges():
    pieces = Totals({"some": Names, "none": Names})
    merged_by = set()

    def add(number: int) -> None:
        both_are_here.wait(10)
        for i in range(50):
            pieces.add({"some": names(100 * number + i)})
        merged_by.add(threading.get_ident())

    both_are_here = threading.Barrier(2)
    with mock.patch.object(Totals, "_MERGE_ELEMENTS", 3), ThreadPoolExecutor(2) as pool:
        list(pool.map(add, range(2)))
        merged = pieces.result()
    assert len(merged_by) == 2
    assert merged["some"].names == {*range(50), *range(100, 150)}
    assert merged["none"].names == set()
    assert pieces.result() == merged


# --- the distinct ones of many integers, against numpy

_INT64 = np.iinfo(np.int64)


def _compare(keys: np.ndarray) -> None:
    before = keys.copy()
    for result, expected in (
        (distinct_places(keys), np.unique(keys, return_inverse=True)),
        (distinct_counts(keys), np.unique(keys, return_counts=True)),
    ):
        for column, naive in zip(result, expected, strict=True):
            assert column.dtype == naive.dtype
            assert np.array_equal(column, naive)
    assert np.array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
    assert np.array_equal(keys, before)


@given(
    st.lists(st.one_of(st.integers(-5, 9), st.integers(_INT64.min, _INT64.max)), max_size=40),
    st.integers(0, 62),
)
def test_like_numpy(numbers: list[int], shift: int) -> None:
    """A table, sorting, and what is left to numpy; the smaller, the nearer together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_FEW", 1)
        _compare(np.array(numbers, np.int64) >> shift)
        _compare((np.array(numbers, np.int64) >> shift).astype(np.int32))
        _compare(np.array(numbers, np.int64).astype(np.uint64) << np.uint64(shift))


@pytest.mark.parametrize("top", (300, 2**40, 2**62))
def test_places_among_edges_are_those_of_numpy(top: int) -> None:
    random = np.random.default_rng(top)
    edges = np.sort(random.integers(-top if top < 2**62 else 0, top, 300))
    values = np.append(random.integers(-top, top, 1 << 12), edges + random.integers(-1, 2, 300))
    assert np.array_equal(places_among(edges, values), np.searchsorted(edges, values, "right"))
    rows = np.sort(random.random((9, 7)), axis=1) + np.arange(9)[:, None]
    at = np.append(9 * random.random(1 << 12), rows)
    expected = np.searchsorted(rows.ravel(), at, "right")
    assert np.array_equal(places_among(rows.ravel(), at, 7), expected)
