"""Counted durations per group, and the search in sorted segments."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.statistics.durations import DurationIndex, DurationTable

FAR = 2**62
values = st.one_of(st.integers(-3, 3), st.sampled_from([-FAR, FAR, FAR - 1]))
pairs = st.lists(st.tuples(st.integers(0, 4), values), max_size=30)


def table_of(rows: list[tuple[int, int]]) -> DurationTable:
    columns = np.array(rows, np.int64).reshape(-1, 2)
    return DurationTable.from_events(columns[:, 0], columns[:, 1])


@settings(deadline=None)
@given(pairs)
def test_durations_are_counted_as_a_loop_counts_them(rows):
    table = table_of(rows)
    expected = sorted(Counter(rows).items())
    found = zip(
        zip(table.groups.tolist(), table.values.tolist(), strict=True),
        table.counts.tolist(),
        strict=True,
    )
    assert list(found) == expected
    assert (table.groups.dtype, table.values.dtype) == (np.int32, np.int64)
    offsets = table.offsets(5)
    smallest, largest = table.extremes(5)
    for group in range(5):
        own = sorted({value for g, value in rows if g == group})
        assert table.values[offsets[group] : offsets[group + 1]].tolist() == own
        assert (smallest[group], largest[group]) == ((own[0], own[-1]) if own else (0, 0))


@settings(deadline=None)
@given(pairs)
def test_an_index_tells_where_each_pair_stands(rows):
    table = table_of(rows)
    index = table.index(5)
    assert index.find(table.groups, table.values).tolist() == list(range(len(table.counts)))
    columns = np.array(rows, np.int64).reshape(-1, 2)
    found = index.find(columns[:, 0], columns[:, 1])
    counted = np.bincount(found, minlength=len(table.counts))
    assert counted.tolist() == table.counts.tolist()


# --- search in segments ---------------------------------------------------------------------------


def search(segments: list[list[int]], queries: list[tuple[int, int]]) -> list[int]:
    offsets = np.cumsum([0, *map(len, segments)], dtype=np.int64)
    flat = np.array([value for segment in segments for value in segment], np.int64)
    asked = np.array(queries, np.int64).reshape(-1, 2)
    kept = offsets.copy()
    found = DurationIndex(offsets, flat).search(asked[:, 0], asked[:, 1])
    assert offsets.tolist() == kept.tolist()
    return found.tolist()


@settings(deadline=None)
@given(
    st.lists(st.lists(values, max_size=9).map(sorted), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), values), max_size=20),
)
def test_search_agrees_with_bisect(segments, queries):
    queries = [(segment % len(segments), value) for segment, value in queries]
    expected = [
        sum(map(len, segments[:segment])) + bisect_right(segments[segment], value)
        for segment, value in queries
    ]
    assert search(segments, queries) == expected
