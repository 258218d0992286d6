"""Which files of a data lake can hold events of a span of time, by their paths; opens none.

The hour, day, month or year that a partition of a data lake is named by, as a span of time.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.stamps import WallClock
from tracecloak.transforms.inputs.source_files import SourceFile

_DASHED = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[-T ](\d{2}))?)?)?(Z?)", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)
_FURTHER = re.compile(r"\d{1,2}", re.ASCII)
_HOUR_US = 3_600_000_000


def span_of_period(values: Sequence[str], time_zone: str) -> tuple[int, int] | None:
    """Returns from when to when a period is, exclusive, microseconds since 1970 UTC.

    `("2026-11-01",)` is a day, and so are `("20261101",)` and `("2026", "11", "1")`; a month is
    `("2026-11",)`, an hour `("2026-11-01-13",)`, `("2026-11-01T13",)` or `("2026-11-01", "13")`.

    Args:
        values: A year, month, day or hour, and one after the other what is smaller, as numbers.
        time_zone: IANA zone whose calendar and clock it is of, unless it ends in `Z`. An hour that
            the clock shows twice is two hours long, and one that it skips the hour after it.

    Returns:
        The span, or None: the values are not written so, or beyond the years 1 to 9998.
    """
    return _span_of_period(tuple(values), time_zone)


@lru_cache(maxsize=4096)
def _span_of_period(values: tuple[str, ...], time_zone: str) -> tuple[int, int] | None:
    parsed = _parts(values)
    if parsed is None:
        return None
    parts, is_utc = parsed
    year, month, day, hour = [*parts, *(1, 1, 0)[len(parts) - 1 :]]
    try:
        begin = datetime.datetime(year, month, day, hour)
        if len(parts) > 2:
            end = begin + (datetime.timedelta(days=1) if len(parts) == 3 else _AN_HOUR)
        else:
            next_month = 1 if len(parts) == 1 else month % 12 + 1
            end = datetime.datetime(year + (next_month == 1), next_month, 1)
    except (ValueError, OverflowError):
        return None
    shown = pa.array([begin, end], pa.timestamp("us")).cast(pa.int64())
    clock = WallClock(LocalClock.of("UTC" if is_utc else time_zone))
    begin_us, end_us = clock.to_utc(shown).to_pylist()
    return begin_us, max(end_us, begin_us + _HOUR_US)


_AN_HOUR = datetime.timedelta(hours=1)


def _parts(values: tuple[str, ...]) -> tuple[list[int], bool] | None:
    """Year, month, day and hour, as far as the text has them, and whether it gives them in UTC."""
    if not values:
        return None
    match = _DASHED.fullmatch(values[0]) or _COMPACT.fullmatch(values[0])
    if match is None or not all(_FURTHER.fullmatch(value) for value in values[1:]):
        return None
    first = match.groups()
    parts = [int(part) for part in (*first[:4], *values[1:]) if part is not None]
    return None if len(parts) > 4 else (parts, "Z" in first)


def can_hold(
    file: SourceFile, column: str, zone: str, span_us: tuple[int, int], spread_us: int
) -> bool:
    """Returns whether a file can hold events of a span, by the partition that it lies in.

    In `lake/day=2026-11-01/part-0.parquet` lie the events of that day, and with a spread of two
    hours those up to two hours before and after it, too. A file is kept if what its partition is
    named by cannot be read as a time.

    Args:
        file: Whose path is looked at.
        column: The partition column of the year, month, day or hour of the events; or several
            between commas, from the largest to the smallest, such as `year,month,day`.
        zone: IANA zone in which the partitions are named.
        span_us: From the first to the second, exclusive, microseconds since 1970 UTC.
        spread_us: How far events lie from the time that their partition is named by, at most.

    Raises:
        InputSchemaError: The path has no such column; names both.
    """
    partitions = dict(file.partitions)
    values = []
    for name in column.split(","):
        if name.strip() not in partitions:
            raise InputSchemaError(
                f"{file.path}: its path has no partition column {name.strip()!r}, which is a "
                f"folder such as {name.strip()}=2026-11-01; correct the column's name, or leave "
                "it out to look into every file"
            )
        value = partitions[name.strip()]
        if value is None:
            return True
        values.append(value)
    period = span_of_period(values, zone)
    if period is None:
        return True
    begin_us, end_us = period
    return begin_us - spread_us < span_us[1] and end_us + spread_us > span_us[0]
