"""Released rows: parts, canonical order, and merging sorted streams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.format_streams import rows_of as batch_of
from tests.support.logs import Step, cases_of, event_logs, read_cases, trace_batch
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.published.rows import merge_rows, part_rows, parts_of, traces_of_rows

Case = tuple[str, list[Step]]
Row = tuple[str, str, int]

# Ids whose order differs between bytes, code points and UTF-16, and one that begins another.
ids = st.one_of(
    st.sampled_from(["", "a", "aa", "Z", "é", "\uffff", "\U0001f600", "10", "9"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)
# A case's steps in time order; few times, so that starts tie.
steps = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 3)), min_size=1, max_size=6).map(
    lambda found: sorted(found, key=lambda step: step[1])
)
cases = st.dictionaries(ids, steps, max_size=10)


def canonical(found: dict[str, list[Step]]) -> list[Case]:
    """Cases by start, then by id; the sort is by code points as by UTF-8 bytes."""
    return sorted(found.items(), key=lambda case: (case[1][0][1], case[0]))


def rows_of(ordered: Sequence[Case]) -> list[Row]:
    return [(case, activity, time) for case, own in ordered for activity, time in own]


def read_rows(batches: Sequence[pa.RecordBatch]) -> list[Row]:
    """All rows; each batch is valid and has some."""
    found: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(RELEASED_SCHEMA) and batch.num_rows
        columns = [batch.column(i) for i in range(2)]
        columns.append(batch.column(2).cast(pa.int64()))
        found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def cut(rows: Sequence[Row], borders: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows as batches with the given borders; equal borders make empty batches."""
    places = [0, *sorted(min(border, len(rows)) for border in borders), len(rows)]
    for first, last in itertools.pairwise(places):
        yield batch_of(*rows[first:last])


# --- parts ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(event_logs(n_cases=9), st.sampled_from([1, 2, 3, 8, 1000]))
def test_parts_are_a_partition_of_the_cases_by_their_ids(log, n_parts):
    traces = trace_batch(log, "ABC")
    expected = cases_of(log)
    found: dict[str, list[Step]] = {}
    numbers = []
    for number, part in parts_of(traces, n_parts):
        own = read_cases(part)
        assert own
        assert set((hash_text(part.case_ids) % np.uint64(n_parts)).tolist()) == {number}
        # Within a part the cases keep their order.
        assert list(own) == [case for case in expected if case in own]
        assert not own.keys() & found.keys()
        found |= own
        numbers.append(number)
    assert found == expected and numbers == sorted(set(numbers))


def test_rows_of_no_cases_have_the_schema():
    for rows in (part_rows([]), part_rows([trace_batch({})])):
        assert rows.num_rows == 0 and rows.schema.equals(RELEASED_SCHEMA)


# --- merging streams ------------------------------------------------------------------------------

borders = st.lists(st.integers(0, 40), max_size=8)


@settings(deadline=None)
@given(cases, st.integers(1, 4), st.data())
def test_merged_streams_equal_everything_sorted_at_once(found, n_streams, data):
    ordered = canonical(found)
    place = {case: data.draw(st.integers(0, n_streams - 1)) for case in found}
    streams = [
        # Borders fall between cases and within them.
        cut(rows_of([c for c in ordered if place[c[0]] == k]), data.draw(borders))
        for k in range(n_streams)
    ]
    assert read_rows(list(merge_rows(streams))) == rows_of(ordered)


@given(event_logs())
def test_rows_without_times_have_the_numbers_of_events_in_their_place(log) -> None:
    """Catches numbers that are lost on the way, or cases that are no more in order."""
    timed = trace_batch(log, "ABC")
    numbers = np.arange(timed.n_events) - np.repeat(timed.offsets[:-1], timed.lengths) + 1
    attributes = {"event_index": pa.array(numbers), "who": pa.array(["x"] * timed.n_events)}
    rows = part_rows([replace(timed, times=numbers, attributes=attributes)])
    assert rows.schema.names == ["case_id", "activity", "event_index", "who"]
    again = traces_of_rows(rows)
    assert again.case_ids.to_pylist() == sorted(timed.case_ids.to_pylist())
    assert list(again.attributes) == ["event_index", "who"]
    assert again.to_rows().equals(rows)
    halves = [iter([half]) for half in (rows.slice(0, 0), rows)]
    assert pa.Table.from_batches(merge_rows(halves, rows.schema), rows.schema).equals(
        pa.Table.from_batches([rows])
    )
