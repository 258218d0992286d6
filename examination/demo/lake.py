r"""A data lake of the synthetic hospital: a folder of Parquet files, one partition a day.

    python -m tracecloak.examination.demo.lake lake --first_day 2026-08-31 --days 91
    python -m tracecloak.examination.demo.lake lake --first_day 2026-08-31 --days 91 \
        --only 2026-10-14

The first command writes `lake/day=2026-08-31/part-0000.parquet` to `lake/day=2026-11-29/…`, with
the columns case_id, activity and timestamp. An event is in the partition of its own day, in UTC, so
a stay of a week is in several. With `--held_back 2026-10-14` that day is left out, and the second
command adds it, as data that comes late does. With `--corrupt DAY` a day's file ends in its middle.

The same flags write the same events. What has not happened at the end of the last day is in no
file.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.examination.demo.hospital import FIRST_DAY, hospital_log
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events.events import CASE_ID, TIMESTAMP

PARTITION = "day"

_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
_WEEK = 7


@dataclass(frozen=True)
class Lake:
    """A lake, and what happens in its hospital.

    Attributes:
        folder: Where the partitions are.
        first_day: The first day with events. Cases begin on it or later.
        n_days: Days with a partition.
        n_cases: Cases that begin within them; fewer where they are no whole number of weeks.

    Raises:
        UsageError: A number is not positive.
    """

    folder: Path
    first_day: date
    n_days: int = 91
    n_cases: int = 3000

    def __post_init__(self) -> None:
        for flag, number in (("days", self.n_days), ("cases", self.n_cases)):
            if number < 1:
                raise UsageError(f"{flag} must be at least 1, got {number}")

    @property
    def days(self) -> list[date]:
        """Its days in their order."""
        return [self.first_day + timedelta(n) for n in range(self.n_days)]

    def path(self, day: date) -> Path:
        """Returns where the file of a day is."""
        return self.folder / f"{PARTITION}={day.isoformat()}" / "part-0000.parquet"

    def write(self, days: Collection[date]) -> None:
        """Writes the partitions of some days; a file that is there is replaced as a whole."""
        for day in days:
            self._put(day, _parquet(self._of(day)))

    def corrupt(self, day: date) -> None:
        """Writes the file of a day as far as its middle, as a copy that was cut off leaves it."""
        whole = _parquet(self._of(day))
        self._put(day, whole[: len(whole) // 2])

    def _put(self, day: date, content: bytes) -> None:
        path = self.path(day)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"_{path.name}")  # which readers of a lake pass over
        part.write_bytes(content)
        os.replace(part, path)

    def _of(self, day: date) -> pa.Table:
        """The events of a day, in the order of time."""
        number = (day - self.first_day).days
        if not 0 <= number < self.n_days:
            raise UsageError(f"{day} is no day of the lake, {self.days[0]} to {self.days[-1]}")
        table, bounds = self._events
        return table.slice(bounds[number], bounds[number + 1] - bounds[number])

    @cached_property
    def _events(self) -> tuple[pa.Table, list[int]]:
        """All events in the order of time, and where each day begins among them, and the end."""
        log = hospital_log(self.n_cases)
        table = pa.Table.from_batches(_moved(rows, self.first_day, self.n_days) for rows in log)
        times_us = np.asarray(table.column(TIMESTAMP).cast(pa.int64()))
        order = np.argsort(times_us, kind="stable")  # tests of one draw of blood share their stamp
        begins = ((self.first_day - _EPOCH).days + np.arange(self.n_days + 1)) * _DAY_US
        return table.take(pa.array(order)), np.searchsorted(times_us[order], begins).tolist()


def _moved(batch: pa.RecordBatch, first_day: date, n_days: int) -> pa.RecordBatch:
    """Returns cases whose three years are folded into some weeks; each keeps its weekday."""
    case = np.asarray(batch.column(CASE_ID).dictionary_encode().indices)
    times_us = np.asarray(batch.column(TIMESTAMP).cast(pa.int64()))
    heads = np.flatnonzero(np.diff(case, prepend=-1))
    began = times_us[heads] // _DAY_US  # days since 1970
    first = (first_day - _EPOCH).days
    weeks = -(-n_days // _WEEK) * _WEEK
    since = began - FIRST_DAY.astype(np.int64)
    place = (since + (FIRST_DAY.astype(np.int64) - first) % _WEEK) % weeks
    moved = times_us + ((first + place - began) * _DAY_US)[case]
    column = batch.schema.get_field_index(TIMESTAMP)
    stamps = pa.array(moved).cast(pa.timestamp("us", "UTC"))
    return batch.set_column(column, batch.schema.field(column), stamps)


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes a lake and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="where the partitions go")
    parser.add_argument(
        "--first_day", type=date.fromisoformat, required=True, help="the first day with events"
    )
    parser.add_argument("--days", type=int, default=91, help="how many days (default 91)")
    parser.add_argument("--cases", type=int, default=3000, help="how many cases (default 3000)")
    for name, help_text in (
        ("held_back", "a day that is left out, as it comes late; may be given again"),
        ("only", "a day that is written, and no other one; may be given again"),
        ("corrupt", "a day whose file ends in its middle; may be given again"),
    ):
        parser.add_argument(
            f"--{name}", type=date.fromisoformat, action="append", default=[], help=help_text
        )
    flags = parser.parse_args(arguments)
    try:
        lake = Lake(flags.folder, flags.first_day, flags.days, flags.cases)
        lake.write([day for day in flags.only or lake.days if day not in flags.held_back])
        for day in flags.corrupt:
            lake.corrupt(day)
    except TracecloakError as error:
        sys.stderr.write(f"lake: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
