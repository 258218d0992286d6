"""Equal events of a case count once, wherever they come from, and no case has a say in another."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.record_files import canonical
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import attribute_column, event_schema
from tracecloak.schemas.events.traces import TraceBatch, is_duplicate, without_duplicates

Row = tuple[str, str, int, str | None]

ROWS = st.lists(
    st.tuples(
        st.sampled_from("pqr"), st.sampled_from("AB"), st.integers(0, 2),
        st.sampled_from(["x", "y", None]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


def batch(rows: list[Row], first: int = 0) -> pa.RecordBatch:
    """Canonical events with one attribute, numbered from a number on."""
    cases, names, times, values = zip(*rows, strict=True)
    schema = event_schema((), ("note",))
    columns = {
        "case_id": pa.array(cases).dictionary_encode(),
        "activity": pa.array(names).dictionary_encode(),
        "timestamp": pa.array(times, pa.int64()),
        "event_index": pa.array(range(first, first + len(rows)), pa.int64()),
        attribute_column("note"): pa.array(values, pa.string()).dictionary_encode(),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def plain(traces: TraceBatch) -> dict[str, list[tuple[int, str, str | None]]]:
    names = traces.vocabulary.names.to_pylist()
    notes = traces.attributes["note"].to_pylist()
    return {
        case: [
            (int(traces.times[i]), names[traces.activities[i]], notes[i])
            for i in range(traces.offsets[n], traces.offsets[n + 1])
        ]
        for n, case in enumerate(traces.case_ids.to_pylist())
    }


def naive(rows: list[Row]) -> dict[str, list[tuple[int, str, str | None]]]:
    cases: dict[str, list[tuple[int, str, str | None]]] = {}
    for case, name, time, note in sorted(rows, key=lambda row: row[2]):
        events = cases.setdefault(case, [])
        if (time, name, note) not in events:
            events.append((time, name, note))
    return cases


@given(ROWS)
def test_the_first_of_equal_events_stays(rows: list[Row]) -> None:
    traces = TraceBatch.from_events([batch(rows)])
    assert plain(without_duplicates(traces)) == naive(rows)
    assert is_duplicate(traces).sum() == traces.n_events - sum(map(len, naive(rows).values()))


@given(ROWS, st.integers(0, 12), st.integers(1, 4))
def test_borders_of_batches_and_shards_do_not_matter(
    rows: list[Row], cut: int, n_shards: int
) -> None:
    """Catches duplicates that stay as they came in two files, or that fall out with a shard."""
    parts = [batch(p, first) for p, first in ((rows[:cut], 0), (rows[cut:], cut)) if p]
    merged = {}
    for traces in group_into_traces(parts, n_shards, drops_duplicates=True):
        merged |= plain(traces)
    assert merged == naive(rows)


@given(ROWS)
def test_no_case_has_a_say_in_another(rows: list[Row]) -> None:
    """Catches a sensitivity that grows: without a case, all others are what they were."""
    whole = plain(without_duplicates(TraceBatch.from_events([batch(rows)])))
    for case in whole:
        others = [row for row in rows if row[0] != case]
        if others:
            fewer = plain(without_duplicates(TraceBatch.from_events([batch(others)])))
            assert fewer == {name: events for name, events in whole.items() if name != case}


@pytest.mark.parametrize("closed", [False, True])
def test_an_activity_is_read_by_its_new_name(closed: bool) -> None:
    """Catches a chain of renames, a filter that sees new names, and a reject of an old one."""
    mapping = ColumnMapping(
        activities=("A", "B", "C") if closed else None, renames=(("a", "B"), ("B", "C"))
    )
    columns = {"case_id": ["p"] * 4, "activity": ["a", "B", "A", None]}
    events, rejects = canonical({**columns, "timestamp": ["2026-01-01"] * 4}, mapping)
    assert events.column("activity").to_pylist() == ["B", "C", "A"]
    assert rejects.column("record").to_pylist() == [3]
