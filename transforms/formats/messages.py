"""MessageFormat: messages of a subscription to columnar batches of canonical events.

A message holds one event: an Avro datum of `schemas/files/event.avsc`, or a JSON object. Which of
the two it is tells its first byte, for no datum of that schema begins with a brace. Where messages
are of schemas of a registry, `transforms.formats.registry_messages` reads what they hold. What
cannot be read goes to the dead letter with the time of its publishing, the place where its service
has it and a reason, and with nothing of itself.
"""

from __future__ import annotations

import functools
import io
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import joined
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.schemas.events import tally as reasons
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_ID,
    EVENT_INDEX,
    MAX_TIME_US,
    MIN_TIME_US,
    PUBLISH_TIME,
    SOURCE_ORDER,
    TIMESTAMP,
    event_schema,
)
from tracecloak.schemas.events.source_column import (
    SourceColumn,
    column_of_kinds,
    text_of,
    texts_of_scalars,
)
from tracecloak.schemas.events.tally import Reject, Unread
from tracecloak.schemas.events.timestamps import UNITS_US, from_iso
from tracecloak.schemas.events.traces import INDIVIDUAL_ID
from tracecloak.transforms.formats.avro_schemas import (
    PlainSchemas,
    event_file_schema,
    times_apart,
)
from tracecloak.transforms.formats.base import Stamp, UnreadError, field_at, scalar
from tracecloak.transforms.formats.jsonl_regular import parsed

if TYPE_CHECKING:
    from tracecloak.transforms.formats.registry_messages import RegistrySchemas

# A row for the operator on a message that cannot be read. Kafka finds a message by its partition
# and offset, Pub/Sub by its id; what the service does not have is null.
MESSAGE_REJECT_SCHEMA = pa.schema(
    [
        pa.field(PUBLISH_TIME, pa.int64(), nullable=False),  # microseconds since 1970 UTC
        pa.field("topic", pa.string()),  # where a stream has several inputs
        pa.field("partition", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("message_id", pa.string()),
        pa.field("reason", pa.string(), nullable=False),  # one of MESSAGE_REASONS
    ]
)

_MICROS = pa.timestamp("us", "UTC")
# Set by Pub/Sub on messages of a topic that has an Avro schema and takes them as JSON: such a
# number is of the schema's unit.
_ENCODING = "googclient_schemaencoding"
# Orders of each of several inputs, of which int64 then holds 9,223.
_ORDERS = 10**15
# As many as int64 holds.
_LAST_DIGITS = re.compile(r"[0-9]{1,18}$")


class Message(Protocol):
    """What a message service delivers; `apache_beam.io.gcp.pubsub.PubsubMessage` is one."""

    @property
    def data(self) -> bytes:
        """The event."""
        ...

    @property
    def attributes(self) -> Mapping[str, str]:
        """What is said of it beside."""
        ...


@dataclass(frozen=True)
class Operations:
    """Which messages of a feed of changes, such as Debezium's, are events.

    Attributes:
        field: Path of the field that says what was done to a record.
        events: Its values that are events; a message with another one, or none, is a reject.
    """

    field: str
    events: tuple[str, ...]


@dataclass(frozen=True)
class MessageInput:
    """One of several inputs of a stream, whose events are told from those of the others.

    Attributes:
        place: Its place among them. It comes before the source's own order of events of one moment,
            and an id of an event is known within its input alone.
        name: Its name, by which rejects are found.
        constant_activity: Activity of each of its events; None: they say theirs.
        activity_prefix: Text before each activity.
    """

    place: int
    name: str
    constant_activity: str | None = None
    activity_prefix: str = ""

    def unprefixed(self, closed: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Returns the activities that its messages may have, of all that there are."""
        if closed is None or self.constant_activity is not None:
            return None
        size = len(self.activity_prefix)
        return tuple(name[size:] for name in closed if name.startswith(self.activity_prefix))

    def activities(self, read: pa.DictionaryArray) -> pa.DictionaryArray:
        """Returns the activities of events, of those that were read."""
        names = pc.binary_join_element_wise(self.activity_prefix, read.dictionary, "")
        if self.constant_activity is None:
            return pa.DictionaryArray.from_arrays(read.indices, names)
        codes = pa.array(np.zeros(len(read), np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([self.constant_activity]))


@dataclass(frozen=True)
class MessageFormat:
    """Where a message says what.

    Attributes:
        mapping: Paths of the fields of a JSON object or of a record of a registry's schema (see
            `transforms.formats.base`), how their times are read, and filters. Of a
            datum of `event.avsc` only the filters count, for its names and times are the schema's.
            No attributes are carried. Where it names individuals, every message must name one.
        event_id: Path of the field that identifies the event.
        id_attribute: Attribute of the message that does, before any field; None: there is none.
        time_attribute: Attribute of the message with the time of the event, before any field:
            milliseconds since 1970 or ISO 8601; None: there is none.
        kind: `avro` or `json`, where messages of the other kind are not to be read; None: both are.
            Or what reads messages of another kind.
        operations: Which messages are events, by a field of theirs; it is looked at before the
            filters. None: all are. A datum of `event.avsc` has no such field.
        source: Which of several inputs they are of; None: there is one.

    Raises:
        UsageError: The mapping names attributes to carry, several fields of a time, or filters by
            time.
    """

    mapping: ColumnMapping = field(default_factory=ColumnMapping)
    event_id: str = EVENT_ID
    id_attribute: str | None = None
    time_attribute: str | None = None
    kind: Literal["avro", "json"] | RegistrySchemas | None = None
    operations: Operations | None = None
    source: MessageInput | None = None

    def __post_init__(self) -> None:
        if self.mapping.parts:
            raise UsageError("a stream takes each time from one field; name one")
        if self.mapping.attributes:
            raise UsageError("attributes cannot be carried by a stream; leave them out")
        if any(row_filter.column == TIMESTAMP for row_filter in self.mapping.filters):
            raise UsageError("a stream cannot be filtered by timestamp; leave out that filter")

    @property
    def schema(self) -> pa.Schema:
        """The schema of the events: canonical ones, their ids, when and in which order they came.

        An event that has no id is null there. `event_index` is the place in the batch,
        `source_order` that of the source: see `order_in_source`.
        """
        return pa.schema(
            [
                *event_schema(self._optional),
                pa.field(EVENT_ID, pa.string()),
                pa.field(PUBLISH_TIME, pa.int64(), nullable=False),  # microseconds since 1970 UTC
                pa.field(SOURCE_ORDER, pa.int64(), nullable=False),
            ]
        )

    @property
    def _optional(self) -> list[str]:
        return [INDIVIDUAL_ID] if self.mapping.individual_id is not None else []

    @functools.cached_property
    def _canonical(self) -> ResolvedColumns:
        """The mapping of what `_Rows` has made of a message: every column has its own name."""
        sources, given = self._sources[0], set(self.mapping.whole_numbers)
        mapping = ColumnMapping(
            case_id=CASE_ID,
            activity=ACTIVITY,
            timestamp=TIMESTAMP,
            individual_id=INDIVIDUAL_ID if self._optional else None,
            time_zone=self.mapping.time_zone,
            timestamp_format=self.mapping.timestamp_format,
            whole_numbers=tuple(
                name for name in sources if name != TIMESTAMP and given & {name, sources[name]}
            ),
            filters=self.mapping.filters,
            needs_individual=bool(self._optional),
            activities=self.mapping.activities,
            clock=self.mapping.clock,
        )
        return mapping.resolve(list(sources), xes_names=False)

    @functools.cached_property
    def _sources(self) -> tuple[dict[str, str], dict[str, str]]:
        """Column to the field of a JSON object, and to that of a datum."""
        resolved = self.mapping.resolve(None, xes_names=False)
        wanted = (CASE_ID, ACTIVITY, TIMESTAMP, *self._optional)
        in_json = {**resolved.filtered, **{name: resolved.names[name] for name in wanted}}
        # A filter may name the column by what the source calls it.
        canonical = {source: name for name, source in resolved.names.items()}
        in_datum = {name: canonical.get(name, name) for name in resolved.filtered}
        return in_json, {**in_datum, **{name: name for name in wanted}}

    def decode(
        self, messages: Sequence[Message], publish: Sequence[int] | np.ndarray
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Decodes messages together.

        Args:
            messages: The messages.
            publish: int64[n], microseconds since 1970-01-01 UTC at which each was published.

        Returns:
            The events (`schema`, in the order of the messages) and the rejects
            (MESSAGE_REJECT_SCHEMA). A message that a filter drops is in neither.
        """
        stamps = np.clip(np.asarray(publish, np.int64), MIN_TIME_US, MAX_TIME_US)
        # Some services give them as columns, beside each by itself.
        is_listed = not hasattr(messages, "are_plain")
        columns = _Listed(messages) if is_listed else cast(_Listed, messages)
        rows = _Rows(self)
        for number in rows.read_plain(columns).tolist():
            rows.read(number, messages[number])
        parts = rows.parts()
        batches, unread = [], [*rows.unread.items()]
        for numbers, fields, fractional, _ in parts:
            none = np.zeros(0, np.int64)
            events, rejects = self._canonical.canonicalise(
                fields, numbers, none, 0, fractional=fractional
            )
            batches.append(events)
            unread += [
                (row["record"], rows.reason(row["record"], row["reason"]))
                for row in rejects.to_pylist()
            ]
        table = pa.Table.from_batches(batches, event_schema(self._optional))
        if len(batches) > 1:
            table = table.unify_dictionaries().combine_chunks().sort_by(EVENT_INDEX)
        read = [column.combine_chunks() for column in table.columns]
        at, index = (table.schema.get_field_index(name) for name in (ACTIVITY, EVENT_INDEX))
        known = joined((numbers for numbers, _, _, _ in parts))
        places = pc.index_in(read[index], value_set=pa.array(known))
        ids, topic = joined((ids for _, _, _, ids in parts), pa.string()).take(places), None
        index = np.asarray(read[index])
        orders = columns.orders[index]
        if (source := self.source) is not None:
            topic = source.name
            read[at] = source.activities(read[at])
            ids = pc.binary_join_element_wise(str(source.place), ids, "/")
            orders = source.place * _ORDERS + orders % _ORDERS
        read += [ids, *map(pa.array, (stamps[index], orders))]
        unread.sort()
        letters = [
            (int(stamps[number]), topic, *_place_in_source(messages[number]), reason)
            for number, reason in unread
        ]
        named = [dict(zip(MESSAGE_REJECT_SCHEMA.names, letter, strict=True)) for letter in letters]
        rejected = pa.RecordBatch.from_pylist(named, MESSAGE_REJECT_SCHEMA)
        return pa.RecordBatch.from_arrays(read, schema=self.schema), rejected


def order_in_source(message: Message) -> int:
    """Returns the message's place among those that its source published at the same moment.

    It is the number that the source itself gave the message, such as the one at the end of an id
    of Pub/Sub; 0 where there is none. Unlike the place in a batch that was read it is the same when
    the message is delivered again.
    """
    digits = _LAST_DIGITS.search(str(getattr(message, "message_id", None) or ""))
    return int(digits[0]) if digits else 0


def _place_in_source(message: Message) -> tuple[int | None, int | None, str | None]:
    """(partition, offset, id) by which a service finds a message; None: it has no such thing."""
    offset = getattr(message, "offset", None)
    if offset is not None:  # Kafka has no other id
        return getattr(message, "partition", None), offset, None
    return None, None, str(getattr(message, "message_id", None) or "") or None


class _Listed:
    """The columns of messages that came one by one.

    Attributes:
        data: [n], the events.
        orders: int64[n], what `order_in_source` gives of each.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        contents = [getattr(message, "data", None) for message in messages]
        self.data = [one if type(one) is bytes else b"" for one in contents]
        self.orders = np.array([order_in_source(message) for message in messages], np.int64)

    def are_plain(self, names: Collection[str]) -> np.ndarray:
        """Returns bool[n], which have none of the named attributes."""
        each = [getattr(message, "attributes", None) or {} for message in self._messages]
        plain = [isinstance(one, Mapping) and one.keys().isdisjoint(names) for one in each]
        return np.array(plain, bool)


# Messages that are read together: their numbers, columns, fractions, and the ids of their events.
# Fractions are as in `transforms.formats.base.RawBatch`.
_Part = tuple[np.ndarray, pa.RecordBatch, dict[str, np.ndarray], pa.Array]


class _Rows:
    """Gathers the fields of messages as columns, of which that of times has `column_of_kinds`.

    Attributes:
        unread: Why a message is no event, by its number.
    """

    def __init__(self, layout: MessageFormat) -> None:
        self._layout = layout
        self._sources = layout._sources[0]
        self._names = [name for name in self._sources if name != TIMESTAMP]
        # What reads the fields of JSON, and of a datum: the other ones, the time, the id.
        self._json, self._datum = (
            ([field_at(s[n]) for n in self._names], field_at(s[TIMESTAMP]), field_at(its_id))
            for s, its_id in zip(layout._sources, (layout.event_id, EVENT_ID), strict=True)
        )
        self._unit = UNITS_US.get(layout.mapping.timestamp_unit or "")
        self.unread: dict[int, str] = {}
        # Why there will be no time, if that is known.
        self._timeless: dict[int, str] = {}
        self._plain: list[_Part] = []
        # Of each other message: its number, values, kind of time and time, and the event's id.
        self._others: list[tuple[int, list[Any], str, Any, str | None]] = []

    def read_plain(self, messages: _Listed) -> np.ndarray:
        """Takes in the messages that can be read together; returns int64[m], the other ones.

        Those are the ones of which anything at all is unusual, be it only that they have no time.
        """
        layout, operations = self._layout, self._layout.operations
        fields = [*self._sources.values(), layout.event_id]
        fields += [] if operations is None else [operations.field]
        is_left = np.ones(len(messages.data), bool)
        if layout.kind not in (None, "json"):
            return np.flatnonzero(is_left)
        attributes = {_ENCODING, layout.id_attribute, layout.time_attribute}
        rows = np.flatnonzero(messages.are_plain({name for name in attributes if name}))
        names = self._names
        data = [messages.data[row] for row in rows.tolist()]
        for places, read in parsed(data, dict.fromkeys(fields)):
            texts = {field: text for field, (_, text, _) in read.items()}
            times = self._plain_times(*read[self._sources[TIMESTAMP]][:2])
            is_usual = pc.is_valid(times)
            if operations is not None:
                named = pa.array(operations.events, pa.string())
                is_usual = pc.and_(is_usual, pc.is_in(texts[operations.field], named))
            columns = [*(texts[self._sources[name]] for name in names), times]
            batch = pa.RecordBatch.from_arrays(columns, [*names, TIMESTAMP]).filter(is_usual)
            which = np.asarray(is_usual)
            numbers = rows[places[which]]
            is_left[numbers] = False
            marks = {name: read[self._sources[name]][2][which] for name in names}
            ids = _no_empty(texts[layout.event_id]).filter(is_usual)
            self._plain.append((numbers, batch, marks, ids))
        return np.flatnonzero(is_left)

    def _plain_times(self, kind: pa.DataType, texts: pa.Array) -> pa.Array:
        """The texts, or the times, of values of a type; null where `_time` is to be asked."""
        if pa.types.is_string(kind):
            return _no_empty(texts)
        unit = self._unit
        if unit is None or pa.types.is_boolean(kind):
            return pa.nulls(len(texts), _MICROS)
        to_utc, name = self._layout.mapping.clock.to_utc, self._layout.mapping.timestamp_unit
        return SourceColumn("", texts.cast(kind)).times(to_utc, None, name).cast(_MICROS)

    def read(self, number: int, message: Message) -> None:
        """Takes in one message; what it cannot read it notes."""
        try:
            self._read(number, message)
        except TracecloakError:  # such as a registry that is away, which is no message's fault
            raise
        except Exception as error:  # whatever a message leads to concerns that message alone
            self.unread[number] = str(error) if isinstance(error, UnreadError) else Reject.NO_RECORD

    def reason(self, number: int, reason: str) -> str:
        """Returns why a message is no event: that of its columns, or what is known of its time."""
        return self._timeless.get(number, reason) if reason == Reject.NO_TIME else reason

    def _read(self, number: int, message: Message) -> None:
        if getattr(message, "is_tombstone", False):
            raise UnreadError(Unread.TOMBSTONE)
        data, attributes = message.data, message.attributes or {}
        if not data:
            raise UnreadError(Unread.EMPTY)
        layout = self._layout
        body, is_datum = _body(data, layout.kind)
        fields, time_field, id_field = self._datum if is_datum else self._json
        is_of_schema = is_datum or attributes.get(_ENCODING) == "JSON"
        if layout.operations is not None:
            operation = text_of(scalar(field_at(layout.operations.field)(body)))
            if operation not in layout.operations.events:
                is_none = operation is None
                raise UnreadError(Unread.NO_OPERATION if is_none else Unread.OTHER_OPERATION)
        values = [scalar(field(body)) for field in fields]
        event_id = text_of(scalar(id_field(body)))
        if layout.id_attribute is not None:
            event_id = scalar(attributes.get(layout.id_attribute)) or event_id
        kind, time, why = self._time(time_field(body), 1 if is_of_schema else self._unit)
        if layout.time_attribute is not None and layout.time_attribute in attributes:
            text = scalar(attributes[layout.time_attribute]) or ""
            kind, time, why = _attribute_time(text)
        if why is not None:
            self._timeless[number] = why
        self._others.append((number, values, kind, time, event_id or None))

    def _time(self, value: Any, unit: float | None) -> tuple[str, Any, str | None]:
        """(its kind, what is read of it, why that is no time if that is known)."""
        if type(value) is dict:
            if len(value) != 1:
                raise UnreadError(Reject.NO_SCALAR)
            (value,) = value.values()
        if value is None:
            return "instant", None, reasons.EMPTY_TIME
        if type(value) is Stamp:
            kind = "local" if value.is_local else "instant"
            return kind, _in_range(value.micros), Unread.FAR_TIME
        if type(value) is str:
            return "text", scalar(value), None if value else reasons.EMPTY_TIME
        if type(value) is not int and not (type(value) is float and math.isfinite(value)):
            return "instant", None, Reject.NO_TIME
        if unit is None:
            return "instant", None, Unread.NO_UNIT
        micros = value // 1_000 if unit < 1 else value * unit
        return "instant", _in_range(micros), Unread.FAR_TIME

    def parts(self) -> list[_Part]:
        """Returns the messages that were taken in."""
        if not self._others:
            return self._plain
        numbers, values, kinds, written, ids = zip(*self._others, strict=True)
        # Texts of attributes are ISO 8601, whatever the format of those in fields.
        texts = [t if kind == _ISO else None for kind, t in zip(kinds, written, strict=True)]
        iso = from_iso(pa.array(texts, pa.string()), self._layout.mapping.clock.to_utc)
        read = iso.to_pylist()
        times = column_of_kinds(
            ["instant" if kind == _ISO else kind for kind in kinds],
            [at if kind == _ISO else t for kind, t, at in zip(kinds, written, read, strict=True)],
        )
        columns = [texts_of_scalars(column) for column in zip(*values, strict=True)]
        batch = pa.RecordBatch.from_arrays(
            [*(text for text, _ in columns), times], [*self._names, TIMESTAMP]
        )
        marks = dict(zip(self._names, (marks for _, marks in columns), strict=True))
        others = np.array(numbers, np.int64), batch, marks, pa.array(ids, pa.string())
        return [*self._plain, others]


_ISO = "iso"


def _attribute_time(text: str) -> tuple[str, Any, str | None]:
    """The time in an attribute of a message, as `_Rows._time` returns it, or text of ISO 8601."""
    if text.isascii() and text.removeprefix("-").isdecimal():
        try:
            millis = int(text)
        except ValueError:  # it has more digits than Python reads
            return "instant", None, Unread.FAR_TIME
        return "instant", _in_range(millis * UNITS_US["ms"]), Unread.FAR_TIME
    return _ISO, text, None if text else reasons.EMPTY_TIME


def _no_empty(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(values, ""), None, values)


def _in_range(micros: float) -> int | None:
    return round(micros) if MIN_TIME_US <= micros <= MAX_TIME_US else None


def _body(
    data: bytes, asked: Literal["avro", "json"] | RegistrySchemas | None
) -> tuple[dict[str, Any], bool]:
    """The fields of a message, and whether it is a datum of `event.avsc`.

    Raises:
        UnreadError: It is not of the kind that is asked for, or it cannot be read.
    """
    if not (asked is None or isinstance(asked, str)):
        return asked.body(data), False
    is_json = data[:1] == b"{"
    try:
        body: dict[str, Any] = json.loads(data) if is_json else _datum(data)
    except Exception as error:  # parsers raise what they like
        if asked is not None:
            why = Unread.NOT_JSON if asked == "json" else Unread.NOT_AVRO
        else:
            why = Unread.NOT_JSON if is_json else Unread.NEITHER
        is_other_text = is_json and asked != "avro" and isinstance(error, UnicodeDecodeError)
        raise UnreadError(Unread.NO_UTF8 if is_other_text else why) from None
    if asked not in (None, "json" if is_json else "avro"):
        raise UnreadError(Unread.OTHER_KIND)
    return body, not is_json


def _datum(data: bytes) -> dict[str, Any]:
    stream = io.BytesIO(data)
    datum = fastavro.schemaless_reader(stream, _avro_schema(), None)
    if stream.read(1):
        raise ValueError("a message is longer than its event")
    return datum


@functools.cache
def _avro_schema() -> Any:
    """The schema of events, whose times stay numbers."""
    plain = PlainSchemas(times_apart).rewritten(event_file_schema())
    return fastavro.parse_schema(plain)
