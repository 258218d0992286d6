"""Canonical events: the one shape in which every reader hands an event log to the pipeline.

One row is one event. Rows of one case may be spread over batches and files; what orders them is
(`timestamp`, `order`, `event_index`), see `schemas.events.event_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

# A record number within a file stays below this, so `file rank * FILE_STRIDE + record number` is
# unique and grows in the order of the files and, within a file, of the records.
FILE_STRIDE = 1 << 40

_TEXT = pa.dictionary(pa.int32(), pa.string())

CASE_ID = "case_id"
ACTIVITY = "activity"
TIMESTAMP = "timestamp"
# Of messages of a stream alone.
EVENT_ID = "event_id"
PUBLISH_TIME = "publish_time"
EVENT_INDEX = "event_index"
# The text by which a source orders events with equal stamps, such as a number.
ORDER = "order"
# An attribute of events with a type of its own: when the event began, null where that is not known.
START_TIMESTAMP = "start_timestamp"
# In its place, in canonical events alone: the record is one of a start, see `arrays.pairing`.
IS_START = (1 << 63) - 1
# In its place, in canonical events and in traces of a source: the completion is not known, and
# TIMESTAMP is the start.
IS_OPEN = IS_START - 1
SOURCE_ORDER = "source_order"

# Stamps lie in the years 1 to 9999, which every format can write; differences fit int64 with room.
MIN_TIME_US = -62_135_596_800_000_000
MAX_TIME_US = 253_402_300_799_999_999

# Text columns that a source may or may not have; a mapping that names one makes it required.
OPTIONAL_TEXT = ("individual_id", "resource", "lifecycle", ORDER)

EVENT_SCHEMA = pa.schema(
    [
        pa.field(CASE_ID, _TEXT, nullable=False),
        pa.field(ACTIVITY, _TEXT, nullable=False),
        pa.field(TIMESTAMP, pa.int64(), nullable=False),  # microseconds since 1970-01-01 UTC
        pa.field(EVENT_INDEX, pa.int64(), nullable=False),
    ]
)


# In front of an attribute's name in canonical events, so that no attribute is taken for a column.
ATTRIBUTE_PREFIX = "attribute "
# In front of the name of an attribute of the case, as pm4py names columns.
CASE_PREFIX = "case:"
# In front of the key of an XES event that begins with CASE_PREFIX, as the key is the event's.
EVENT_PREFIX = "event:"


def without_numbers(events: pa.RecordBatch) -> pa.RecordBatch:
    """Returns canonical events with an EVENT_INDEX of 0, as their source gives them no places."""
    index = events.schema.get_field_index(EVENT_INDEX)
    zeros = pa.repeat(pa.scalar(0, pa.int64()), events.num_rows)
    return events.set_column(index, events.schema.field(index), zeros)


def attribute_column(name: str) -> str:
    """Returns the column of canonical events that holds an attribute."""
    return ATTRIBUTE_PREFIX + name


def attribute_names(schema: pa.Schema) -> list[str]:
    """Returns the names of the attributes that canonical events have, in the order of columns."""
    return [
        column.removeprefix(ATTRIBUTE_PREFIX)
        for column in schema.names
        if column.startswith(ATTRIBUTE_PREFIX)
    ]


def is_case_attribute(name: str) -> bool:
    """Returns whether an attribute belongs to the case; else it belongs to the event."""
    return name.startswith(CASE_PREFIX)


def event_schema(optional: Iterable[str] = (), attributes: Iterable[str] = ()) -> pa.Schema:
    """Returns EVENT_SCHEMA, the named optional text columns in canonical order, and attributes.

    Args:
        optional: Some of OPTIONAL_TEXT.
        attributes: Names of attributes, whose texts come in columns named by `attribute_column`;
            START_TIMESTAMP has int64, microseconds since 1970-01-01 UTC.

    Raises:
        ValueError: A name is not one of OPTIONAL_TEXT.
    """
    wanted = set(optional)
    unknown = wanted - set(OPTIONAL_TEXT)
    if unknown:
        raise ValueError(f"optional columns are {OPTIONAL_TEXT}, got {sorted(unknown)}")
    fields = [pa.field(name, _TEXT) for name in OPTIONAL_TEXT if name in wanted]
    types = {START_TIMESTAMP: pa.int64()}
    fields += [pa.field(attribute_column(name), types.get(name, _TEXT)) for name in attributes]
    return pa.schema([*EVENT_SCHEMA, *fields])


# Of the starts of events in a released log.
START_TYPE = pa.timestamp("us", "UTC")

# What a released log consists of; `timestamp` is in UTC. A log without times has EVENT_INDEX there.
RELEASED_SCHEMA = pa.schema(
    [
        pa.field(CASE_ID, pa.string(), nullable=False),
        pa.field(ACTIVITY, pa.string(), nullable=False),
        pa.field(TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
    ]
)


def released_schema(attributes: Mapping[str, pa.DataType]) -> pa.Schema:
    """Returns RELEASED_SCHEMA followed by the attributes' columns, any of whose values may lack.

    With EVENT_INDEX among the attributes the log has no times, and that takes their place: the
    number of each event in its case, from 1.
    """
    case_id, activity, timestamp = RELEASED_SCHEMA
    order = EVENT_SCHEMA.field(EVENT_INDEX) if EVENT_INDEX in attributes else timestamp
    fields = [pa.field(name, kind) for name, kind in attributes.items() if name != EVENT_INDEX]
    return pa.schema([case_id, activity, order, *fields])
