"""Canonical events: columns, vocabulary, and the order of events of a case."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import rows_in_order

# --- Canonical events, the one shape that every reader gives, and the vocabulary of activities. ---


# --- Canonical events: the one shape in which every reader hands an event log to the pipeline. ----
# One row is one event. Rows of one case may be spread over batches and files; what orders them is
# (`timestamp`, `order`, `event_index`), see `schemas.events.events`.


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


# --- Activity names and their codes, agreed for a whole run so that counts add without strings. ---
# A vocabulary is read from the log (published methods only; that its names were seen is then part
# of the release), or public. A public one has OTHER, which every activity that it does not name
# becomes: no event is lost, and nothing depends on which other names a log has. Codes are the
# ranks of the names in the order of their UTF-8 bytes, so the same names have the same codes
# whatever the order in which the log was read.


# The name of all activities that a public vocabulary does not have.
OTHER = "__other__"

ESCAPES_REMARK = (
    r"# A backslash begins an escape here: \\ is a backslash, \x1b, \u202e and \U000e0001 are "
    "characters by their number."
)
"""The remark with which the names of a file are read with escapes; without it they have none."""


class ActivityVocabulary(Columnar, wire_name="activity-vocabulary"):
    """Distinct activity names in the order of their bytes.

    Attributes:
        names: string[n], sorted and distinct; the code of a name is its position (int32).
    """

    names: pa.StringArray

    @classmethod
    def of(cls, names: Iterable[str] | pa.Array) -> ActivityVocabulary:
        """Makes a vocabulary of names in any order, with or without repetition."""
        column = names if isinstance(names, pa.Array) else pa.array(list(names), pa.string())
        distinct = pc.unique(column.cast(pa.string()))
        return cls(distinct.take(pc.sort_indices(distinct)))

    @classmethod
    def public(cls, names: Iterable[str], closed: bool = False) -> ActivityVocabulary:
        """Makes a vocabulary of public names, and of OTHER unless they are closed."""
        return cls.of(names if closed else [*names, OTHER])

    @classmethod
    def merge(cls, pieces: Sequence[ActivityVocabulary]) -> ActivityVocabulary:
        """Returns the vocabulary of all names of the pieces."""
        if len(pieces) == 1:
            return pieces[0]
        return cls.of(pa.concat_arrays([pa.array([], pa.string()), *(p.names for p in pieces)]))

    def __len__(self) -> int:
        return len(self.names)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.names.to_pylist()))

    @property
    def start(self) -> int:
        """Code of the artificial start, before every case's first activity."""
        return len(self.names)

    @property
    def end(self) -> int:
        """Code of the artificial end, after every case's last activity."""
        return len(self.names) + 1

    @cached_property
    def labels(self) -> list[str]:
        """The names by code, with START and END written as in directly-follows graphs: ▶ and ■."""
        return [*self.names.to_pylist(), "▶", "■"]

    def codes(self, names: pa.Array) -> np.ndarray:
        """Returns int32[n], the codes of names.

        Raises:
            ValueError: A name is not in the vocabulary.
        """
        codes = pc.index_in(names, value_set=self.names)
        if codes.null_count:
            raise ValueError("an activity is not in the vocabulary")
        return np.asarray(codes, np.int32)

    def codes_or_other(self, names: pa.Array) -> np.ndarray:
        """Returns int32[n], codes of names; one that is not here has the code of OTHER, or -1."""
        codes = pc.index_in(names, value_set=self.names)
        if not codes.null_count:
            return np.asarray(codes, np.int32)
        other = pc.index(self.names, OTHER).as_py()
        return np.asarray(pc.fill_null(codes, other), np.int32)


# ---
# The order of the events of a case: by time, the order column, the place in the source, content.
# An order column is read value by value, whatever its type: a text that writes a number is that
# number, numbers come before other texts, and what is missing comes last. A file and a frame give
# their records places. Rows of a query, of a table or of a pipeline have none, and a retried bundle
# brings them in another order. There events that are equal so far are put in the order of their
# content, which no runner can change: by the name of the activity first. That order is a convention
# and says nothing of what happened first.


_STARTS = attribute_column(START_TIMESTAMP)
# The columns that sort content first; that of starts is there for those that are records of their
# own. The last ones were compared before.
_FIRST = (ACTIVITY, _STARTS)
_COMPARED = (CASE_ID, TIMESTAMP, ORDER, EVENT_INDEX)
_INT64_TEXT = r"^-?[0-9]{1,18}$"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LAST = (2,)


def event_rows(case: np.ndarray, columns: Mapping[str, pa.Array]) -> np.ndarray:
    """int64[n]: the rows of canonical events by case, time, ORDER, EVENT_INDEX and content.

    Content is the activity, the start, and then the other columns by name, each by value: texts by
    their bytes in UTF-8, what is missing first. A start that is a record of its own comes before
    all other starts, so that its completion comes after it. Rows that are equal in all of it are
    interchangeable, so the same events have one order, however they are delivered.

    Args:
        case: int64[n], the case of each row; cases are in the order of these numbers.
        columns: Of canonical events by their names, [n] each; ORDER may be missing.
    """
    keys = [case, np.asarray(columns[TIMESTAMP])]
    if ORDER in columns:
        keys.append(_ranks(columns[ORDER]))
    keys.append(np.asarray(columns[EVENT_INDEX]))
    names = [*(n for n in _FIRST if n in columns), *sorted({*columns} - {*_FIRST, *_COMPARED})]

    def content(tied: np.ndarray) -> list[np.ndarray]:
        return [key for n in names for key in _keys(columns[n].take(pa.array(tied)), n)]

    return rows_in_order(keys, content)


def in_order(events: pa.RecordBatch) -> pa.RecordBatch:
    """Returns canonical events in the order of `event_rows`, numbered in EVENT_INDEX from 0.

    ORDER has had its say and is left out, and dictionaries are sorted and hold just the texts that
    there are: events that are in the same order give the same batch.
    """
    columns = {
        name: _with_sorted_dictionary(values) if pa.types.is_dictionary(values.type) else values
        for name, values in zip(events.schema.names, events.columns, strict=True)
    }
    rows = event_rows(np.asarray(columns[CASE_ID].indices), columns)
    columns = {name: values.take(pa.array(rows)) for name, values in columns.items()}
    columns[EVENT_INDEX] = pa.array(np.arange(len(rows), dtype=np.int64))
    schema = pa.schema([field for field in events.schema if field.name != ORDER])
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _ranks(values: pa.DictionaryArray) -> np.ndarray:
    """int64[n]: texts by what they write: numbers exactly, other texts by UTF-8, nothing last."""
    texts = values.dictionary
    if pc.all(pc.match_substring_regex(texts, _INT64_TEXT)).as_py() and not texts.null_count:
        _, ranks = np.unique(np.asarray(texts.cast(pa.int64())), return_inverse=True)
    else:
        keys = list(map(_written, texts.to_pylist()))
        numbers = {key: rank for rank, key in enumerate(sorted({*keys}))}
        ranks = np.array([numbers[key] for key in keys])
    last = pa.scalar(len(texts))
    return np.asarray(pc.fill_null(pa.array(ranks, pa.int64()).take(values.indices), last))


def _written(text: str | None) -> tuple[Any, ...]:
    """Returns by what to sort a text of an order column."""
    if text is None:
        return _LAST
    if _NUMBER.fullmatch(text.strip()):
        try:
            return 0, Decimal(text.strip())
        except InvalidOperation:  # an exponent of more digits than decimals have
            pass
    return 1, text.encode()


def _with_sorted_dictionary(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """Returns the same texts with a sorted dictionary of just these, so that codes are ranks.

    Args:
        values: dictionary<int32, string>[n]; its dictionary may hold anything in any order.
    """
    names = pc.unique(values.dictionary.take(pc.unique(values.indices)).drop_null())
    names = names.take(pc.array_sort_indices(names))
    codes = pc.index_in(values.dictionary, names).take(values.indices)
    return pa.DictionaryArray.from_arrays(codes, names)


def _keys(values: pa.Array, name: str) -> list[np.ndarray]:
    """[n] each: by which to sort a column of content, the first key first."""
    if pa.types.is_dictionary(values.type):
        return [np.asarray(pc.fill_null(_with_sorted_dictionary(values).indices, -1))]
    keys = [np.asarray(pc.is_valid(values)), np.asarray(pc.fill_null(values, 0))]
    return [keys[1] != IS_START, *keys] if name == _STARTS else keys
