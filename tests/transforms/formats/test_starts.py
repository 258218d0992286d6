"""Starts of events in every format: a column of times, and records of starts and completions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.record_files import ALL_WRITERS as WRITERS
from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import IS_OPEN, START_TIMESTAMP
from tracecloak.schemas.events.row_masks import RowFilter
from tracecloak.schemas.events.tally import (
    UNKNOWN_TRANSITION,
    FileTally,
    ReadTally,
    Reject,
    SetAside,
)
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource

NAMES = ("case", "activity", "stamp", "begun", "phase")
Row = tuple[str | None, ...]


def at(hour: int, second: str = "00") -> str:
    return f"2026-01-05T{hour:02}:00:{second}Z"


def read(
    folder: Path,
    ending: str,
    rows: Sequence[Row],
    *filters: RowFilter,
    span_us: tuple[int, int] | None = None,
    **mapped: Any,
) -> tuple[TraceBatch, ReadTally]:
    path = folder / f"log.{ending}"
    path.write_bytes(WRITERS[ending](rows, NAMES))
    names = dict(zip(("case_id", "activity", "timestamp"), NAMES, strict=False))
    mapping = ColumnMapping(**({} if ending == "xes" else names) | mapped, filters=filters)
    file = SourceFile(0, str(path), path.stat().st_size)
    source = EventSource((file,), SourceFormat(), mapping, span_us)
    tally = FileTally(0)
    events = [events for events, _ in source.read(file, tally)]
    return TraceBatch.concat(group_into_traces(events, n_shards=3)), tally.result()


OPEN = -1


def seen(traces: TraceBatch) -> dict[str, list[tuple[str, int, int | None]]]:
    """By case, each event's activity, hour, and the hour of its start; OPEN without an end."""
    names, cases = traces.vocabulary.names.to_pylist(), traces.case_ids.to_pylist()
    hours = (traces.times // 3_600_000_000 % 24).tolist()
    starts = traces.attributes[START_TIMESTAMP].to_pylist()
    begun = [
        None if start is None else OPEN if start == IS_OPEN else start // 3_600_000_000 % 24
        for start in starts
    ]
    of_events = zip((names[a] for a in traces.activities), hours, begun, strict=True)
    events = list(of_events)
    return {case: events[traces.offsets[i] : traces.offsets[i + 1]] for i, case in enumerate(cases)}


IN_COLUMN = [
    ("c1", "A", at(3), at(1), None),
    ("c1", "B", at(5), None, None),
    ("c2", "A", at(3), at(3), None),
]


@pytest.mark.parametrize("ending", WRITERS)
def test_a_start_that_cannot_be_is_rejected_for_that(tmp_path: Path, ending: str) -> None:
    late = ("c1", "B", at(5), at(6), None)
    broken = ("c1", "B", at(5), "soon", None)
    traces, tally = read(tmp_path, ending, [*IN_COLUMN, late, broken], start_timestamp="begun")
    assert seen(traces)["c1"] == [("A", 3, 1), ("B", 5, None)]
    found = {finding.what: finding.n_records for finding in tally.found()}
    assert found == {Reject.LATE_START: 1, Reject.NO_START: 1} and tally.n_rejects == 2


ONE_TIME = [
    ("c1", "A", at(10), at(9), None),
    ("c1", "B", None, at(10, "30"), None),  # nothing but a start
    ("c1", "B", at(11), None, None),  # another event, which ends no other
    ("c1", "C", at(12), at(11), None),
]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_filters_and_windows_go_by_the_time_that_an_event_has(tmp_path: Path, ending: str) -> None:
    """Also in a file of whose records none has an end, and by the name of the column."""
    lone = [("c1", "B", None, at(hour), None) for hour in (8, 10)]
    day_us = 1_767_571_200_000_000  # 2026-01-05
    with_an_end = [*ONE_TIME[:1], *lone]
    for rows in (with_an_end, lone if ending != "jsonl" else with_an_end):
        for name in ("timestamp", "stamp"):
            late = RowFilter(name, at_least=at(9))
            traces, tally = read(tmp_path, ending, rows, late, start_timestamp="begun")
            assert tally.n_of(SetAside.FILTERED) == 1 and traces.n_events == len(rows) - 1
        span_us = (day_us + 9 * 3_600_000_000, day_us + 24 * 3_600_000_000)
        timeless = ("c1", "B", None, None, None)  # malformed, whatever window is read
        read_rows = [*rows, timeless]
        traces, tally = read(tmp_path, ending, read_rows, span_us=span_us, start_timestamp="begun")
        assert tally.n_of(SetAside.OUTSIDE) == tally.n_rejects == 1
        assert traces.n_events == len(rows) - 1


@pytest.mark.parametrize("ending", WRITERS)
def test_transitions_of_other_systems(tmp_path: Path, ending: str) -> None:
    """STARTED and COMPLETED are the two ends, with blanks or not; others are declared or not."""
    phases = {
        "A": ("STARTED", "Completed  "), "B": ("begin", "END"), "C": ("Start", "ended"),
        "D": (" In Arbeit", "FERTIG"), "E": ("schedule", "ate_abort"),
    }  # fmt: skip
    rows = [
        ("c1", name, at(2 * i + part), None, phase)
        for i, (name, both) in enumerate(phases.items())
        for part, phase in enumerate(both)
    ]
    traces, tally = read(tmp_path, ending, rows, lifecycle="phase")
    assert seen(traces)["c1"] == [("A", 1, 0), ("B", 3, 2), ("C", 5, 4)]
    assert (tally.n_of(UNKNOWN_TRANSITION), tally.n_of(SetAside.OTHER_TRANSITION)) == (2, 2)
    assert (tally.n_used, tally.n_lost, tally.share) == (6, 2, 0.75)
    declared = {"start_transitions": ("in arbeit",), "complete_transitions": ("Fertig",)}
    traces, tally = read(tmp_path, ending, rows, lifecycle="phase", **declared)
    assert seen(traces)["c1"][3] == ("D", 7, 6) and tally.share == 1


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
    assert [(f.what, f.n_records, f.is_lost) for f in tally.found()] == [
        (SetAside.OTHER_TRANSITION, 1, False)
    ]
    lone, _ = read(tmp_path, ending, IN_RECORDS[:-1], lifecycle="phase")
    assert seen(lone)["c2"] == [("A", 1, None), ("B", 3, OPEN)]  # no record is lost


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
