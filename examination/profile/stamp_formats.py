"""By which formats the stamps of a log can be read, where they are no ISO 8601."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.events.source_column import SourceColumn
from tracecloak.schemas.events.stamps import WallClock

_DAYS = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y",
         "%m-%d-%Y", "%Y.%m.%d", "%Y%m%d", "%d-%b-%Y", "%d %b %Y")  # fmt: skip
_HOURS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H%M%S", "%H%M%S", " %H%M%S")
# With a blank before the offset, as SQL Server and Ruby write it, which is not ISO 8601.
_ZONED = ("%Y-%m-%d %H:%M:%S %z", "%Y-%m-%d %H:%M:%S.%f %z")
_UNIT_OF_DIGITS = {10: "s", 13: "ms", 16: "us", 19: "ns"}  # of a time of our days
_SAMPLE = 1_000
_UTC = WallClock(LocalClock.of("UTC"))  # what is readable does not depend on the zone


def keys_that_read(stamps: SourceColumn) -> list[dict[str, str]]:
    """Returns each key of a mapping that reads nine in ten of the first thousand stamps.

    It is `timestamp_unit` where these are digits alone, and else a `timestamp_format`; none is
    where ISO 8601 reads them, or where the column's type says that they are times or numbers.
    """
    if stamps.is_of_times or stamps.is_of_numbers:
        return []
    sample = SourceColumn(stamps.name, stamps.text().drop_null()[:_SAMPLE])

    def is_read(layout: str | None) -> bool:
        return _most(sample.times(_UTC, layout, None).is_valid())

    if is_read(None):
        return []
    for n_digits, unit in _UNIT_OF_DIGITS.items():
        if _most(pc.match_substring_regex(sample.values, f"^[0-9]{{{n_digits}}}$")):
            return [{"timestamp_unit": unit}]
    layouts = [*_ZONED, *(day + hour for day, hour in product(_DAYS, _HOURS))]
    return [{"timestamp_format": layout} for layout in layouts if is_read(layout)]


def _most(flags: pa.Array) -> bool:
    return flags.true_count >= 0.9 * len(flags)
