"""Canonical events: the one shape in which every reader hands an event log to the pipeline.

One row is one event. Rows of one case may be spread over batches and files; what orders them is
(`timestamp`, `event_index`), so that events with equal stamps keep their order in the source.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

# A record number within a file stays below this, so `file rank * FILE_STRIDE + record number` is
# unique and grows in the order of the files and, within a file, of the records.
FILE_STRIDE = 1 << 40

_TEXT = pa.dictionary(pa.int32(), pa.string())

CASE_ID = "case_id"
ACTIVITY = "activity"
TIMESTAMP = "timestamp"
EVENT_INDEX = "event_index"

# Stamps lie in the years 1 to 9999, which every format can write; differences fit int64 with room.
MIN_TIME_US = -62_135_596_800_000_000
MAX_TIME_US = 253_402_300_799_999_999

# Text columns that a source may or may not have; a mapping that names one makes it required.
OPTIONAL_TEXT = ("individual_id", "resource", "lifecycle")

EVENT_SCHEMA = pa.schema(
    [
        pa.field(CASE_ID, _TEXT, nullable=False),
        pa.field(ACTIVITY, _TEXT, nullable=False),
        pa.field(TIMESTAMP, pa.int64(), nullable=False),  # microseconds since 1970-01-01 UTC
        pa.field(EVENT_INDEX, pa.int64(), nullable=False),
    ]
)


def event_schema(optional: Iterable[str] = ()) -> pa.Schema:
    """Returns EVENT_SCHEMA followed by the named optional text columns, in canonical order.

    Raises:
        ValueError: A name is not one of OPTIONAL_TEXT.
    """
    wanted = set(optional)
    unknown = wanted - set(OPTIONAL_TEXT)
    if unknown:
        raise ValueError(f"optional columns are {OPTIONAL_TEXT}, got {sorted(unknown)}")
    fields = [pa.field(name, _TEXT) for name in OPTIONAL_TEXT if name in wanted]
    return pa.schema([*EVENT_SCHEMA, *fields])


# What a released log consists of; `timestamp` is in UTC.
RELEASED_SCHEMA = pa.schema(
    [
        pa.field(CASE_ID, pa.string(), nullable=False),
        pa.field(ACTIVITY, pa.string(), nullable=False),
        pa.field(TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
    ]
)
