"""Variant histograms: against a loop, order of codes, looking cases up.

Cases by activity: addition, order, merging, the wire.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import (
    event_logs,
    histogram,
    naive_variants,
    plain,
    read_variants,
    trace_batch,
    variant_counts,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.statistics.variants import ActivityCounts, VariantHistogram

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
entries = st.lists(st.tuples(names, st.integers(1, 2**40)), max_size=12)


def counted(pairs: list[tuple[str, int]]) -> ActivityCounts:
    return ActivityCounts.of(
        pa.array([name for name, _ in pairs], pa.string()),
        np.array([count for _, count in pairs], np.int64),
    )


def added(pairs: list[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for name, count in pairs:
        total[name] += count
    return dict(sorted(total.items(), key=lambda item: item[0].encode()))


def read(counts: ActivityCounts) -> dict[str, int]:
    assert counts.counts.dtype == np.int64
    found = dict(zip(counts.names.to_pylist(), counts.counts.tolist(), strict=True))
    assert len(found) == counts.weight
    return found


@given(entries)
def test_counts_of_equal_names_are_added_in_the_order_of_their_bytes(
    pairs: list[tuple[str, int]],
) -> None:
    assert list(read(counted(pairs)).items()) == list(added(pairs).items())


def test_nothing_merges_to_nothing() -> None:
    none = ActivityCounts.merge([])
    assert none.weight == 0
    assert none == counted([])
    assert decode(encode(none)) == none


def test_equality_sees_names_and_counts() -> None:
    some = counted([("A", 1), ("B", 2)])
    assert some == counted([("B", 2), ("A", 1)])
    assert some != counted([("A", 1), ("B", 3)])
    assert some != counted([("A", 1), ("C", 2)])
    assert some != {"A": 1, "B": 2}
    assert decode(encode(some)) == some


LOG = {"c1": "A B C", "c2": "A B", "c3": "A B C", "c4": "B", "c5": "A C"}

rows = st.lists(
    st.lists(st.sampled_from([0, 1, 2, 255, 256, 65_536, 2**30 - 1]), min_size=1, max_size=4),
    max_size=8,
)


def sequences(lists: list[list[int]]) -> pa.LargeBinaryArray:
    offsets = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return encode_sequences(offsets, np.array([code for row in lists for code in row], np.int32))


def code_lists(variants: VariantHistogram) -> list[list[int]]:
    assert variants.codes.dtype == np.int32 and variants.offsets.dtype == np.int64
    return [
        variants.codes[first:last].tolist()
        for first, last in zip(variants.offsets[:-1], variants.offsets[1:], strict=True)
    ]


@settings(deadline=None)
@given(event_logs())
def test_variants_are_those_of_a_loop(log):
    traces = trace_batch(log, "ABC")
    variants = VariantHistogram.from_traces(traces)
    expected = naive_variants(log)
    found = read_variants(variants, "ABC")
    assert found == expected and list(found) == sorted(expected)
    assert variants.n_cases == expected.total() == traces.n_cases


@settings(deadline=None)
@given(rows, st.data())
def test_counts_of_equal_sequences_are_added(lists, data):
    counts = data.draw(st.lists(st.integers(1, 10**12), min_size=len(lists), max_size=len(lists)))
    found = VariantHistogram.from_sequences(sequences(lists), np.array(counts, np.int64))
    expected: dict[tuple[int, ...], int] = {}
    for row, count in zip(lists, counts, strict=True):
        expected[tuple(row)] = expected.get(tuple(row), 0) + count
    assert code_lists(found) == [list(row) for row in sorted(expected)]
    assert found.counts.tolist() == [count for _, count in sorted(expected.items())]
    assert found.counts.dtype == np.int64


@settings(deadline=None)
@given(rows, st.integers(0, 8), st.integers(0, 8))
def test_codes_of_a_slice_are_its_own(lists, first, count):
    part = sequences(lists).slice(min(first, len(lists)), count)
    variants = VariantHistogram(part, np.ones(len(part), np.int64))
    assert code_lists(variants) == lists[first : first + count]


def test_an_empty_histogram_has_no_codes():
    empty = VariantHistogram.merge(())
    assert empty == VariantHistogram.from_traces(trace_batch({}))
    assert code_lists(empty) == [] and empty.offsets.tolist() == [0] and len(empty.codes) == 0
    assert (empty.n_variants, empty.n_cases) == (0, 0)


def test_find_tells_the_variant_of_each_case():
    variants = histogram({("A", "B"): 1, ("A", "B", "C"): 5, ("B",): 2})
    looked_up = trace_batch({"x": "B", "y": "A B C", "z": "A", "w": "A B", "v": "B"}, "ABC")
    assert variants.find(looked_up).tolist() == [2, 1, -1, 0, 2]
    assert variants.find(looked_up).dtype == np.int64
    assert VariantHistogram.merge(()).find(looked_up).tolist() == [-1] * 5
    assert variants.find(trace_batch({}, "ABC")).tolist() == []


@settings(deadline=None)
@given(variant_counts(), event_logs())
def test_find_agrees_with_a_dictionary(counts, log):
    known = {variant: number for number, variant in enumerate(sorted(counts))}
    found = histogram(counts).find(trace_batch(log, "ABC"))
    expected: dict[str, list[str]] = {}
    for case, activity, _ in sorted(log, key=lambda event: event[2]):
        expected.setdefault(case, []).append(activity)
    order = list(dict.fromkeys(case for case, _, _ in log))
    assert found.tolist() == [known.get(tuple(expected[case]), -1) for case in order]


def test_histograms_are_equal_if_variants_and_counts_are():
    one = histogram({("A",): 1, ("B",): 2})
    assert one == histogram({("B",): 2, ("A",): 1})
    assert one != histogram({("A",): 2, ("B",): 1})
    assert one != histogram({("A",): 1, ("C",): 2})
    assert one != histogram({("A",): 1})
    assert one != plain(one)
