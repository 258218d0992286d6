"""Counted durations per group, and the search in sorted segments."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.statistics.durations import DurationIndex, DurationTable

FAR = 2**62
values = st.one_of(st.integers(-3, 3), st.sampled_from([-FAR, FAR, FAR - 1]))
pairs = st.lists(st.tuples(st.integers(0, 4), values), max_size=30)


def table_of(rows: list[tuple[int, int]]) -> DurationTable:
    columns = np.array(rows, np.int64).reshape(-1, 2)
    return DurationTable.from_events(columns[:, 0], columns[:, 1])


def test_durations_by_hand():
    table = table_of([(2, 5), (0, 7), (2, 5), (0, 3), (2, -1), (2, 5)])
    assert table.groups.tolist() == [0, 0, 2, 2]
    assert table.values.tolist() == [3, 7, -1, 5]
    assert table.counts.tolist() == [1, 1, 1, 3]
    assert table.weight == 4
    assert table.offsets(4).tolist() == [0, 2, 2, 4, 4]
    smallest, largest = table.extremes(4)
    assert smallest.tolist() == [3, 0, -1, 0] and largest.tolist() == [7, 0, 5, 0]


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
    assert index.find(table.groups, table.values).tolist() == list(range(table.weight))
    columns = np.array(rows, np.int64).reshape(-1, 2)
    found = index.find(columns[:, 0], columns[:, 1])
    counted = np.bincount(found, minlength=table.weight)
    assert counted.tolist() == table.counts.tolist()


def test_many_pairs_are_counted_as_few_are():
    """Enough of them to be packed into one key, and to be sorted by it."""
    rng = np.random.default_rng(5)
    groups, values = rng.integers(0, 300, 5_000), rng.integers(-9, 2_000, 5_000) ** 3
    table = DurationTable.from_events(groups, values)
    rows = zip(groups.tolist(), values.tolist(), strict=True)
    counted = zip(
        *(getattr(table, name).tolist() for name in ("groups", "values", "counts")), strict=True
    )
    assert [((g, v), n) for g, v, n in counted] == sorted(Counter(rows).items())
    index = table.index(300)
    assert index.find(table.groups, table.values).tolist() == list(range(table.weight))


def test_tables_are_equal_if_all_pairs_are():
    tables = [
        table_of(rows) for rows in ([(0, 1)], [(0, 2)], [(1, 1)], [(0, 1), (0, 1)], [], [(0, 1)])
    ]
    assert tables[0] == tables[5] and tables[4] == DurationTable.merge(())
    assert all(a != b for i, a in enumerate(tables[:5]) for b in tables[:i])
    assert tables[0] != "table"


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


@pytest.mark.parametrize("n", [1, 2, 3, 127, 128, 129, 10_000])
def test_search_in_segments_of_every_length(n):
    own = list(range(0, 2 * n, 2))
    queries = [(1, value) for value in (-1, 0, 1, n, 2 * n - 2, 2 * n)]
    assert search([[5], own, [5]], queries) == [1 + bisect_right(own, v) for _, v in queries]
