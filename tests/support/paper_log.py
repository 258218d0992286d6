"""Table 1 of the Amun paper as canonical events, and its other tables' printed values.

Elkoumy, Pankova, Dumas: Differentially Private Release of Event Logs for Process Mining.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.contract.in_memory import group_into_traces
from tracecloak.schemas.events.events import EVENT_SCHEMA
from tracecloak.schemas.events.traces import TraceBatch

MINUTE_US = 60_000_000
DAY_US = 86_400_000_000

# (case, activity, day of August 2020, time of day), in the order of the table.
TABLE_1 = (
    ("1", "A", 8, "10:20"), ("1", "B", 8, "10:50"), ("1", "C", 8, "16:15"), ("2", "D", 8, "12:37"),
    ("2", "A", 8, "14:37"), ("2", "E", 8, "15:07"), ("2", "C", 8, "20:31"), ("3", "A", 9, "13:30"),
    ("3", "B", 9, "13:55"), ("3", "C", 9, "20:55"), ("4", "D", 9, "15:00"), ("4", "A", 9, "17:00"),
    ("4", "B", 9, "17:40"), ("4", "C", 9, "23:05"), ("5", "A", 9, "17:25"), ("5", "E", 9, "17:55"),
    ("5", "C", 10, "23:55"), ("6", "A", 11, "17:00"), ("6", "B", 11, "17:27"),
    ("6", "C", 11, "23:45"),
)  # fmt: skip


def canonical_events(rows: Iterable[tuple[str, str, int]]) -> pa.RecordBatch:
    """Returns (case, activity, microseconds) rows as canonical events in document order."""
    cases, activities, times = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(cases, pa.string()).dictionary_encode(),
            pa.array(activities, pa.string()).dictionary_encode(),
            pa.array(times, pa.int64()),
            pa.array(np.arange(len(times))),
        ],
        schema=EVENT_SCHEMA,
    )


def traces_of(rows: Iterable[tuple[str, str, int]], n_shards: int = 1) -> list[TraceBatch]:
    """Returns (case, activity, microseconds) rows as batches of cases."""
    return group_into_traces([canonical_events(rows)], n_shards)


def table_1_rows(without: Collection[str] = ()) -> list[tuple[str, str, int]]:
    """Returns the rows of Table 1, but for the cases named."""
    return [
        (case, activity, _microseconds(day, clock))
        for case, activity, day, clock in TABLE_1
        if case not in without
    ]


def table_1(without: Collection[str] = (), n_shards: int = 1) -> list[TraceBatch]:
    """Returns the cases of Table 1, but for those named."""
    return traces_of(table_1_rows(without), n_shards)


def _microseconds(day: int, clock: str) -> int:
    hour, minute = clock.split(":")
    stamp = datetime(2020, 8, day, int(hour), int(minute), tzinfo=UTC)
    return int(stamp.timestamp()) * 1_000_000
