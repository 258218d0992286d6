"""A data lake of the synthetic hospital: a folder of Parquet files, one partition a day.

    python -m tracecloak.examination.demo.lake lake --first_day 2026-08-31 --days 91

The command writes `lake/day=2026-08-31/part-0000.parquet` to `lake/day=2026-11-29/…`, with the
columns case_id, activity and timestamp. An event is in the partition of its own day, in UTC, so a
stay of a week is in several. The same flags write the same events. What has not happened at the end
of the last day is in no file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.examination.demo.hospital import FIRST_DAY, hospital_log
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.events import CASE_ID, TIMESTAMP

_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_WEEK = 7


def write_lake(folder: Path, first_day: date, n_days: int = 91, n_cases: int = 3000) -> list[Path]:
    """Writes a lake and returns its files by day; one that is there is replaced as a whole.

    Args:
        folder: Where the partitions go.
        first_day: The first day with events. Cases begin on it or later.
        n_days: Days with a partition.
        n_cases: Cases that begin within them; fewer where they are no whole number of weeks.

    Raises:
        UsageError: A number is not positive.
    """
    for flag, number in (("days", n_days), ("cases", n_cases)):
        if number < 1:
            raise UsageError(f"{flag} must be at least 1, got {number}")
    first = (first_day - _EPOCH).days
    table = pa.Table.from_batches(_moved(rows, first, n_days) for rows in hospital_log(n_cases))
    times_us = np.asarray(table.column(TIMESTAMP).cast(pa.int64()))
    order = np.argsort(times_us, kind="stable")  # tests of one draw of blood share their stamp
    table = table.take(pa.array(order))
    bounds = np.searchsorted(times_us[order], (first + np.arange(n_days + 1)) * _DAY_US).tolist()
    paths = []
    for number in range(n_days):
        path = folder / f"day={first_day + timedelta(number)}" / "part-0000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"_{path.name}")  # which readers of a lake pass over
        pq.write_table(table.slice(bounds[number], bounds[number + 1] - bounds[number]), part)
        os.replace(part, path)
        paths.append(path)
    return paths


def _moved(batch: pa.RecordBatch, first: int, n_days: int) -> pa.RecordBatch:
    """Returns cases whose three years are folded into some weeks; each keeps its weekday."""
    case = np.asarray(batch.column(CASE_ID).dictionary_encode().indices)
    times_us = np.asarray(batch.column(TIMESTAMP).cast(pa.int64()))
    began = times_us[np.flatnonzero(np.diff(case, prepend=-1))] // _DAY_US  # days since 1970
    weeks = -(-n_days // _WEEK) * _WEEK
    origin = FIRST_DAY.astype(np.int64)
    place = (began - origin + (origin - first) % _WEEK) % weeks
    moved = times_us + ((first + place - began) * _DAY_US)[case]
    column = batch.schema.get_field_index(TIMESTAMP)
    stamps = pa.array(moved).cast(pa.timestamp("us", "UTC"))
    return batch.set_column(column, batch.schema.field(column), stamps)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes a lake and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=Path, help="where the partitions go")
    parser.add_argument(
        "--first_day", type=date.fromisoformat, required=True, help="the first day with events"
    )
    parser.add_argument("--days", type=int, default=91, help="how many days (default 91)")
    parser.add_argument("--cases", type=int, default=3000, help="how many cases (default 3000)")
    flags = parser.parse_args(arguments)
    try:
        write_lake(flags.folder, flags.first_day, flags.days, flags.cases)
    except TracecloakError as error:
        sys.stderr.write(f"lake: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
