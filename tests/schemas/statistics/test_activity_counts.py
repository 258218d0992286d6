"""Cases by activity: addition, order, merging, the wire."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.statistics.variants import ActivityCounts

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


@given(entries, st.integers(0, 12), st.integers(0, 12))
def test_merging_is_addition_in_any_order(
    pairs: list[tuple[str, int]], one: int, other: int
) -> None:
    first, second = sorted((one, other))
    pieces = [counted(pairs[:first]), counted(pairs[first:second]), counted(pairs[second:])]
    whole = counted(pairs)
    assert ActivityCounts.merge(pieces) == ActivityCounts.merge(pieces[::-1]) == whole
    nested = ActivityCounts.merge([ActivityCounts.merge(pieces[:2]), pieces[2]])
    assert encode(nested) == encode(whole)


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
