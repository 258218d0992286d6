"""Which files of a data lake can hold events of a span of time, by their paths; opens none."""

from __future__ import annotations

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.periods import span_of_period
from tracecloak.transforms.inputs.source_files import SourceFile


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
