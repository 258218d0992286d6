"""Variant histograms: against a loop, order of codes, looking cases up.

Cases by activity: addition, order, merging, the wire.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.logs import (
    event_logs,
    histogram,
    naive_variants,
    read_variants,
    trace_batch,
    variant_counts,
)
from tracecloak.schemas.arrays.sequences import encode_sequences
from tracecloak.schemas.statistics.variants import VariantHistogram

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
@given(variant_counts(), event_logs())
def test_find_agrees_with_a_dictionary(counts, log):
    known = {variant: number for number, variant in enumerate(sorted(counts))}
    found = histogram(counts).find(trace_batch(log, "ABC"))
    expected: dict[str, list[str]] = {}
    for case, activity, _ in sorted(log, key=lambda event: event[2]):
        expected.setdefault(case, []).append(activity)
    order = list(dict.fromkeys(case for case, _, _ in log))
    assert found.tolist() == [known.get(tuple(expected[case]), -1) for case in order]
