"""Starts of events in every format: a column of times, and records of starts and completions."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.record_files import xes_value
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import START_TIMESTAMP
from tracecloak.schemas.events.row_filter import RowFilter
from tracecloak.schemas.events.tally import (
    LATE_START,
    NO_START,
    OTHER_TRANSITION,
    ReadTally,
    TallyOfFile,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource

NAMES = ("case", "activity", "stamp", "begun", "phase")
Row = tuple[str | None, ...]


def jsonl(rows: Sequence[Row]) -> bytes:
    lines = (
        {name: value for name, value in zip(NAMES, row, strict=True) if value is not None}
        for row in rows
    )
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def as_csv(rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([NAMES, *rows])
    return text.getvalue().encode()


def avro(rows: Sequence[Row]) -> bytes:
    fields = [{"name": name, "type": ["null", "string"]} for name in NAMES]
    made = io.BytesIO()
    records = [dict(zip(NAMES, row, strict=True)) for row in rows]
    fastavro.writer(made, {"type": "record", "name": "R", "fields": fields}, records)
    return made.getvalue()


def parquet(rows: Sequence[Row]) -> bytes:
    made = io.BytesIO()
    columns = {n: pa.array([row[i] for row in rows], pa.string()) for i, n in enumerate(NAMES)}
    pq.write_table(pa.table(columns), made)
    return made.getvalue()


def xes(rows: Sequence[Row]) -> bytes:
    traces: dict[str, str] = {}
    for case, activity, stamp, begun, phase in rows:
        date = "" if begun is None else f'<date key="begun" value="{begun}"/>'
        traces[str(case)] = traces.get(str(case), "") + (
            f"<event>{xes_value('concept:name', activity)}{xes_value('phase', phase)}{date}"
            f'<date key="time:timestamp" value="{stamp}"/></event>'
        )
    whole = "".join(
        f"<trace>{xes_value('concept:name', case)}{events}</trace>"
        for case, events in traces.items()
    )
    return f"<log>{whole}</log>".encode()


WRITERS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    "jsonl": jsonl, "csv": as_csv, "avro": avro, "parquet": parquet, "xes": xes
}  # fmt: skip


def at(hour: int, second: str = "00") -> str:
    return f"2026-01-05T{hour:02}:00:{second}Z"


def read(
    folder: Path, ending: str, rows: Sequence[Row], *filters: RowFilter, **mapped: str
) -> tuple[TraceBatch, ReadTally]:
    path = folder / f"log.{ending}"
    path.write_bytes(WRITERS[ending](rows))
    names = dict(zip(("case_id", "activity", "timestamp"), NAMES, strict=False))
    mapping = ColumnMapping(**({} if ending == "xes" else names) | mapped, filters=filters)
    file = SourceFile(0, str(path), path.stat().st_size)
    source = EventSource((file,), SourceFormat(), mapping)
    tally = TallyOfFile(0)
    events = [events for events, _ in source.read(file, tally)]
    return TraceBatch.concat(group_into_traces(events, n_shards=3)), tally.result()


def seen(traces: TraceBatch) -> dict[str, list[tuple[str, int, int | None]]]:
    """By case, each event's activity, hour, and the hour of its start."""
    names, cases = traces.vocabulary.names.to_pylist(), traces.case_ids.to_pylist()
    hours = (traces.times // 3_600_000_000 % 24).tolist()
    starts = traces.attributes[START_TIMESTAMP].to_pylist()
    begun = [None if start is None else start // 3_600_000_000 % 24 for start in starts]
    of_events = zip((names[a] for a in traces.activities), hours, begun, strict=True)
    events = list(of_events)
    return {case: events[traces.offsets[i] : traces.offsets[i + 1]] for i, case in enumerate(cases)}


IN_COLUMN = [
    ("c1", "A", at(3), at(1), None),
    ("c1", "B", at(5), None, None),
    ("c2", "A", at(3), at(3), None),
]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_column_of_starts(tmp_path: Path, ending: str) -> None:
    traces, tally = read(tmp_path, ending, IN_COLUMN, start_timestamp="begun")
    assert seen(traces) == {"c1": [("A", 3, 1), ("B", 5, None)], "c2": [("A", 3, 3)]}
    assert tally.n_events == 3 and not tally.found()


@pytest.mark.parametrize("ending", WRITERS)
def test_a_start_that_cannot_be_is_rejected_for_that(tmp_path: Path, ending: str) -> None:
    late = ("c1", "B", at(5), at(6), None)
    broken = ("c1", "B", at(5), "soon", None)
    traces, tally = read(tmp_path, ending, [*IN_COLUMN, late, broken], start_timestamp="begun")
    assert seen(traces)["c1"] == [("A", 3, 1), ("B", 5, None)]
    found = {finding.what: finding.n_records for finding in tally.found()}
    assert found == {LATE_START: 1, NO_START: 1} and tally.n_rejects == 2


IN_RECORDS = [
    ("c1", "A", at(1), None, "START"),
    ("c1", "B", at(2), None, "start"),  # begins before A ends
    ("c1", "A", at(2), None, "start"),  # A is begun twice: first in, first out
    ("c1", "A", at(3), None, "complete"),
    ("c1", "B", at(4), None, "Complete"),
    ("c1", "A", at(5), None, "complete"),
    ("c2", "A", at(1), None, "complete"),  # nothing began it
    ("c2", "C", at(2), None, "schedule"),
    ("c2", "B", at(3), None, "start"),  # nothing ends it
    ("c2", "B", at(4), None, None),  # of no transition: an event
]


@pytest.mark.parametrize("ending", WRITERS)
def test_records_of_starts_and_completions(tmp_path: Path, ending: str) -> None:
    traces, tally = read(tmp_path, ending, IN_RECORDS, lifecycle="phase")
    assert seen(traces) == {
        "c1": [("A", 3, 1), ("B", 4, 2), ("A", 5, 2)],
        "c2": [("A", 1, None), ("B", 4, 3)],
    }
    assert [(f.what, f.n_records, f.is_malformed) for f in tally.found()] == [
        (OTHER_TRANSITION, 1, False)
    ]
    lone, _ = read(tmp_path, ending, IN_RECORDS[:-1], lifecycle="phase")
    assert seen(lone)["c2"] == [("A", 1, None), ("B", 3, None)]  # no record is lost


def test_a_filter_on_the_lifecycle_says_what_is_read(tmp_path: Path) -> None:
    for name, n_events in (("lifecycle", 4), ("phase", 3)):  # by its own name, case counts
        only = RowFilter(name, equals=("complete",))
        traces, _ = read(tmp_path, "csv", IN_RECORDS, only, lifecycle="phase")
        assert not traces.attributes and traces.n_events == n_events


def test_a_column_of_starts_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputSchemaError, match="nowhere"):
        read(tmp_path, "parquet", IN_COLUMN, start_timestamp="nowhere")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whatever_a_start_is_the_others_stay(tmp_path: Path, ending: str) -> None:
    """Fuzz: no value of a start or a phase has a say in how another record is read."""
    rng = np.random.default_rng(0)
    letters = list("0129-:TZ \x01\ud7ffäSTARTcomplete")
    whole, _ = read(tmp_path, ending, IN_RECORDS, lifecycle="phase", start_timestamp="begun")
    for _ in range(20):
        begun, phase = ("".join(rng.choice(letters, rng.integers(0, 12))) for _ in range(2))
        more = ("c9", "Z", at(9), begun, phase)
        traces, tally = read(
            tmp_path, ending, [*IN_RECORDS, more], lifecycle="phase", start_timestamp="begun"
        )
        cases = seen(traces)
        n_new = len(cases.pop("c9", []))
        others = sum(finding.n_records for finding in tally.found()) - 1
        assert cases == seen(whole) and n_new + others == 1
