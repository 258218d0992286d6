"""From a source's columns to canonical events: names, text, times, row filters, malformed records.

All formats pass through here, so a case id, a time stamp or a broken record means the same in each.
What the mapping does not name is dropped. Nothing is repaired: a record without case, without
activity or without a readable time is rejected with its place and a reason, and never with a value;
so is one without an individual where individuals are the unit of privacy, and one whose activity is
none of those that are declared to be all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_INDEX,
    FILE_STRIDE,
    MAX_TIME_US,
    MIN_TIME_US,
    OPTIONAL_TEXT,
    TIMESTAMP,
    attribute_column,
    event_schema,
)
from tracecloak.schemas.events.tally import (
    EMPTY_TIME,
    NO_ACTIVITY,
    NO_CASE,
    NO_INDIVIDUAL,
    NO_RECORD,
    NO_TIME,
    OTHER_ACTIVITY,
    POINT_KEY,
    REJECT_REASONS,
    REPEATED_HOUR,
    SKIPPED_HOUR,
    WHOLE_KEY,
    TallyOfFile,
)

# Where a rejected record stands and why; `file` is the file's rank in the sorted list of inputs.
REJECT_SCHEMA = pa.schema(
    [
        pa.field("file", pa.int64(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

_XES_NAMES = {
    CASE_ID: "case:concept:name",
    ACTIVITY: "concept:name",
    TIMESTAMP: "time:timestamp",
}
_XES_OPTIONAL = {"lifecycle": "lifecycle:transition", "resource": "org:resource"}
_UNITS_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_INT64_MAX = np.iinfo(np.int64).max


@dataclass(frozen=True)
class RowFilter:
    """Keeps the records whose column equals one of some values or begins with a prefix.

    Values are compared as they are written, lifecycle transitions without regard to case.

    Attributes:
        column: A canonical name that the mapping maps (`activity`, `lifecycle`, …) or a column of
            the source.
        equals: The values that pass, or None.
        begins_with: The prefix that passes, or None. Exactly one of the two is given.
    """

    column: str
    equals: tuple[str, ...] | None = None
    begins_with: str | None = None

    def __post_init__(self) -> None:
        if (self.equals is None) == (self.begins_with is None):
            raise UsageError(
                f"the filter on column {self.column!r} needs either equals or begins_with"
            )

    def mask(self, values: pa.Array) -> np.ndarray:
        """Returns bool[n]: which of the text values pass; a missing value does not."""
        if self.equals is not None:
            wanted = pa.array(self.equals, pa.string())
            if self.column in ("lifecycle", _XES_OPTIONAL["lifecycle"]):
                # XES writes `complete`, many logs `COMPLETE`; nobody means to tell them apart.
                values, wanted = pc.utf8_lower(values), pc.utf8_lower(wanted)
            passed = pc.is_in(values, value_set=wanted)
        else:
            passed = pc.starts_with(values, pattern=self.begins_with)
        return np.asarray(pc.fill_null(passed, False))


@dataclass(frozen=True)
class ColumnMapping:
    """Which source column plays which part, and how its times are to be read.

    Attributes:
        case_id: Source column of the case id; None takes `case_id`, or else `case:concept:name`.
        activity: Source column of the activity; None takes `activity`, or else `concept:name`.
        timestamp: Source column of the time; None takes `timestamp`, or else `time:timestamp`.
        individual_id: Source column naming the individual behind a case; None: there is none.
        resource: Source column of the resource; None: dropped.
        lifecycle: Source column of the lifecycle transition; None: dropped.
        time_zone: IANA zone in which a stamp without an offset is read.
        timestamp_format: `strptime` format of textual stamps; None reads ISO 8601, with `-` or `/`
            between the parts of the date and with or without an offset.
        timestamp_unit: Unit since 1970 of numeric stamps, also of those written as text: `s`, `ms`
            or `us`; None refuses numbers.
        filters: All of them must pass.
        needs_individual: Whether a record that names no individual is malformed: it is where the
            individual is the unit of privacy.
        attributes: Name and source column of each attribute that is carried, as text; an event may
            lack its value.
        activities: All activities that there are; a record with another one is malformed. None
            allows any.
    """

    case_id: str | None = None
    activity: str | None = None
    timestamp: str | None = None
    individual_id: str | None = None
    resource: str | None = None
    lifecycle: str | None = None
    time_zone: str = "UTC"
    timestamp_format: str | None = None
    timestamp_unit: str | None = None
    filters: tuple[RowFilter, ...] = ()
    needs_individual: bool = False
    attributes: tuple[tuple[str, str], ...] = ()
    activities: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.timestamp_unit is not None and self.timestamp_unit not in _UNITS_US:
            raise UsageError(f"timestamp_unit must be s, ms or us, got {self.timestamp_unit!r}")
        layout = self.timestamp_format
        if layout is not None and re.search(r"%[YyGcxDFs]", layout) is None:
            raise UsageError(f"timestamp_format has no date, got {layout!r}")
        if layout is not None and "%Z" in layout:
            raise UsageError(
                "timestamp_format cannot have %Z: names of zones are ambiguous; use %z for "
                "offsets, or say time_zone"
            )
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise UsageError(f"time_zone must be an IANA zone, got {self.time_zone!r}") from error
        if self.needs_individual and self.individual_id is None:
            raise UsageError("needs_individual is for a mapping that has an individual_id")
        if len(dict(self.attributes)) < len(self.attributes):
            raise UsageError(f"attributes must differ in their names, got {self.attributes}")

    def resolve(
        self, found: Sequence[str] | None, xes_names: bool, goes_on: bool = False
    ) -> ResolvedColumns:
        """Fixes the source column of each canonical one.

        Args:
            found: The columns that the file declares, or None where only its records tell.
            xes_names: Which of the default names holds where `found` cannot decide.
            goes_on: Whether no record may end the reading.
        """
        names: dict[str, str] = {}
        for canonical, xes_name in _XES_NAMES.items():
            given = getattr(self, canonical)
            if given is None:
                candidates = (xes_name, canonical) if xes_names else (canonical, xes_name)
                known = candidates if found is None else [c for c in candidates if c in found]
                given = known[0] if known else canonical
            names[canonical] = given
        names.update({c: n for c in OPTIONAL_TEXT if (n := getattr(self, c)) is not None})
        # A filter may name a canonical column that is not carried, by what XES calls it.
        filtered = {f.column: names.get(f.column, f.column) for f in self.filters}
        for column, xes_name in _XES_OPTIONAL.items():
            is_xes = xes_names if found is None else column not in found and xes_name in found
            if column in filtered and column not in names and is_xes:
                filtered[column] = xes_name
        needed = {*names.values(), *filtered.values()}
        names.update({attribute_column(name): source for name, source in self.attributes})
        # Whether some record has a value is the data's, and no error may tell it.
        may_lack = frozenset(names.values()) - needed if found is None else frozenset()
        return ResolvedColumns(self, names, filtered, may_lack, found is not None or not goes_on)


@dataclass(frozen=True)
class ResolvedColumns:
    """A mapping whose source columns are fixed for one file.

    Attributes:
        mapping: The rules for times and filters.
        names: Canonical name to source column.
        filtered: A filter's column to source column.
        may_lack: Source columns that no record need have: those of attributes, where only records
            tell the columns.
        refuses_types: Whether a column of a type that can hold no text, or no time, is an error: it
            is where the file declares it. Where only records tell, it makes those of a batch
            malformed, as no record may end the reading.
    """

    mapping: ColumnMapping
    names: dict[str, str]
    filtered: dict[str, str]
    may_lack: frozenset[str] = frozenset()
    refuses_types: bool = True

    @property
    def wanted(self) -> tuple[str, ...]:
        """Source columns to read, without repetition: the mapped ones and those of the filters."""
        return tuple(dict.fromkeys([*self.names.values(), *self.filtered.values()]))

    @property
    def required(self) -> tuple[str, ...]:
        """Source columns without which nothing can be read: every one that somebody named."""
        return tuple(name for name in self.wanted if name not in self.may_lack)

    def canonicalise(
        self,
        columns: pa.RecordBatch,
        records: np.ndarray,
        malformed: np.ndarray,
        file_rank: int,
        tally: TallyOfFile | None = None,
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Makes canonical events of a run of source records.

        Args:
            columns: Source columns; those of `wanted` that the file has.
            records: int64[n_rows], number of each record in its file.
            malformed: int64[n_malformed], numbers of records that could not be parsed at all.
            file_rank: Rank of the file among the inputs.
            tally: Is told what was found, if anybody asks.

        Returns:
            The events (EVENT_SCHEMA, the mapped optional columns and the attributes, in the order
            of the records) and the rejects (REJECT_SCHEMA). A record that a filter drops is in
            neither.

        Raises:
            InputSchemaError: A column's type can hold no text or no time, and that is an error.
        """
        read = {
            source: _Column(source, columns.column(i), self.refuses_types)
            for i, source in enumerate(columns.schema.names)
        }
        keep = np.ones(columns.num_rows, bool)
        for row_filter in self.mapping.filters:
            column = read.get(self.filtered[row_filter.column])
            keep &= row_filter.mask(column.text()) if column else False

        n = columns.num_rows
        attributes = [attribute_column(name) for name, _ in self.mapping.attributes]
        text = {
            c: _text_of(read.get(s), n, c in attributes)
            for c, s in self.names.items()
            if c != TIMESTAMP
        }
        stamps = read.get(self.names[TIMESTAMP])
        clock = _Clock(self.mapping.time_zone, None if tally is None else np.zeros(n, np.int8))
        time = _time_of(stamps, n, self.mapping, clock)

        required = {NO_TIME: time, NO_ACTIVITY: text[ACTIVITY], NO_CASE: text[CASE_ID]}
        if self.mapping.needs_individual:
            required = {NO_INDIVIDUAL: text["individual_id"], **required}
        reason = np.full(n, -1, np.int8)
        if self.mapping.activities is not None:
            known = pc.is_in(text[ACTIVITY], value_set=pa.array(self.mapping.activities))
            reason[~np.asarray(known)] = REJECT_REASONS.index(OTHER_ACTIVITY)
        for name, values in required.items():  # the case id's absence is named first
            reason[np.asarray(pc.is_null(values))] = REJECT_REASONS.index(name)
        good = keep & (reason < 0)
        bad = keep & (reason >= 0)

        if tally is not None:
            tally.add_events(int(good.sum()))
            tally.add(NO_RECORD, malformed)
            of = np.asarray(records)
            for code, name in enumerate(REJECT_REASONS):
                told = bad & (reason == code)
                if name == NO_TIME and told.any():
                    empty = told if stamps is None else told & stamps.is_empty()
                    tally.add(EMPTY_TIME, of[empty])
                    told &= ~empty
                tally.add(name, of[told])
            if clock.hours is not None:
                tally.add(SKIPPED_HOUR, of[good & (clock.hours < 0)])
                tally.add(REPEATED_HOUR, of[good & (clock.hours > 0)])
        index = file_rank * FILE_STRIDE + np.asarray(records, np.int64)
        rows = pa.array(np.flatnonzero(good))
        if len(rows) < n:
            text = {c: values.take(rows) for c, values in text.items()}
            time = time.take(rows)
        arrays: dict[str, pa.Array] = {c: v.dictionary_encode() for c, v in text.items()}
        if tally is not None:
            _tell_keys(tally, arrays[CASE_ID], np.asarray(records)[good])
        arrays[TIMESTAMP] = time
        arrays[EVENT_INDEX] = pa.array(index[good])
        schema = event_schema(
            (c for c in self.names if c in OPTIONAL_TEXT), dict(self.mapping.attributes)
        )
        events = pa.RecordBatch.from_arrays([arrays[f.name] for f in schema], schema=schema)

        reasons = [REJECT_REASONS[code] for code in reason[bad]] + [NO_RECORD] * len(malformed)
        places = np.concatenate([np.asarray(records, np.int64)[bad], malformed])
        rejects = pa.RecordBatch.from_arrays(
            [
                pa.array(np.full(len(places), file_rank, np.int64)),
                pa.array(places.astype(np.int64)),
                pa.array(reasons, pa.string()),
            ],
            schema=REJECT_SCHEMA,
        )
        return events, rejects


def _tell_keys(tally: TallyOfFile, case_ids: pa.DictionaryArray, records: np.ndarray) -> None:
    """Tells a tally which case ids are whole numbers, and which have nothing behind their point.

    A table that was written with empty cells has 5.0 where another has 5.
    """
    for name, form in ((WHOLE_KEY, r"^-?\d+$"), (POINT_KEY, r"^-?\d+\.0+$")):
        is_so = np.asarray(pc.match_substring_regex(case_ids.dictionary, form), bool)
        if is_so.any():
            tally.add(name, records[is_so[np.asarray(case_ids.indices)]])


@dataclass(frozen=True)
class _Column:
    name: str
    values: pa.Array
    refuses_types: bool

    def is_empty(self) -> np.ndarray:
        """bool[n]: where nothing is written; empty text is nothing, too."""
        values = self.values
        if pa.types.is_dictionary(values.type):
            values = values.dictionary.take(values.indices)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = pc.if_else(pc.equal(values, ""), None, values)
        return np.asarray(pc.is_null(values, nan_is_null=True))

    def text(self, of_attribute: bool = False) -> pa.Array:
        """string[n]: the values as text; null for null, empty text, and bytes that are no UTF-8.

        An attribute may also be a decimal number, or `true` or `false`; so may be any value whose
        type is told by the records of its batch alone, as beside text it would be.
        """
        kind = self.values.type
        values = self.values
        if pa.types.is_dictionary(kind):
            values, kind = values.dictionary.take(values.indices), kind.value_type
        if pa.types.is_floating(kind):
            values = pc.if_else(pc.is_nan(values), None, values)
        if not (
            pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_string_view(kind)
            or pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_null(kind)
            or (
                (of_attribute or not self.refuses_types)
                and (pa.types.is_decimal(kind) or pa.types.is_boolean(kind))
            )
        ):
            if not self.refuses_types:
                return pa.nulls(len(values), pa.string())
            raise InputSchemaError(
                f"column {self.name!r} has type {kind}, which cannot serve as text; "
                "convert it to text, or map another column"
            )
        values = _cast_or_null(values, pa.string())
        empty = pc.equal(values, "")
        return pc.if_else(empty, None, values) if pc.any(empty).as_py() else values


def _text_of(column: _Column | None, n: int, of_attribute: bool) -> pa.Array:
    return pa.nulls(n, pa.string()) if column is None else column.text(of_attribute)


def _time_of(column: _Column | None, n: int, mapping: ColumnMapping, clock: _Clock) -> pa.Array:
    """int64[n]: microseconds since 1970-01-01 UTC; null for what is no time of years 1 to 9999."""
    if column is None:
        return pa.nulls(n, pa.int64())
    stamps = _stamps(column, n, mapping, clock)
    inside = pc.and_(pc.greater_equal(stamps, MIN_TIME_US), pc.less_equal(stamps, MAX_TIME_US))
    return stamps if pc.all(inside).as_py() else pc.if_else(inside, stamps, None)


def _stamps(column: _Column, n: int, mapping: ColumnMapping, clock: _Clock) -> pa.Array:
    values = column.values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary.take(values.indices)
    kind = values.type
    if pa.types.is_timestamp(kind):
        local = _floor_to_us(values)
        return local if kind.tz is not None else clock.to_utc(local)
    if pa.types.is_date(kind):
        return clock.to_utc(_floor_to_us(values.cast(pa.timestamp("ms"))))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if mapping.timestamp_unit is None:
            if not column.refuses_types:
                return pa.nulls(n, pa.int64())
            raise InputSchemaError(
                f"column {column.name!r} holds numbers; say their unit since 1970 with "
                "timestamp_unit: s, ms or us"
            )
        return _from_numbers(values, _UNITS_US[mapping.timestamp_unit])
    if pa.types.is_null(kind):
        return pa.nulls(n, pa.int64())
    text = column.text()
    if mapping.timestamp_format is not None:
        return _from_format(text, mapping.timestamp_format, clock)
    if mapping.timestamp_unit is not None:
        numbers = _from_number_text(text, _UNITS_US[mapping.timestamp_unit])
        return pc.coalesce(numbers, _from_iso(text, clock)) if numbers.null_count else numbers
    return _from_iso(text, clock)


def _floor_to_us(values: pa.Array) -> pa.Array:
    """int64[n]: ticks of any unit as microseconds, rounded down; null where that overflows."""
    unit = values.type.unit
    ticks = values.cast(pa.int64())
    if unit == "ns":
        raw = np.asarray(pc.fill_null(ticks, 0)) // 1_000
        return pa.array(raw, mask=np.asarray(pc.is_null(ticks)))
    return _from_numbers(ticks, _UNITS_US[unit])


def _from_numbers(values: pa.Array, factor: int) -> pa.Array:
    missing = np.asarray(pc.is_null(values, nan_is_null=True))
    raw = np.asarray(pc.fill_null(values, 0))
    with np.errstate(invalid="ignore", over="ignore"):
        missing |= ~(np.abs(raw.astype(np.float64)) < _INT64_MAX / factor)
        safe = np.where(missing, 0, raw)
        whole = raw.dtype.kind != "f"
        us = safe.astype(np.int64) * factor if whole else np.rint(safe.astype(float) * factor)
    return pa.array(us.astype(np.int64), mask=missing)


_WHOLE = r"^\s*[+-]?\d+(?:\.0*)?\s*$"
_DECIMAL = r"^\s*[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\s*$"


def _from_number_text(text: pa.Array, factor: int) -> pa.Array:
    """int64[n]: numbers written as text as microseconds; null for what is no number."""
    trimmed = pc.utf8_ltrim(pc.utf8_trim_whitespace(text), "+")
    is_whole = pc.fill_null(pc.match_substring_regex(text, _WHOLE), False)
    without_point = pc.replace_substring_regex(pc.if_else(is_whole, trimmed, None), r"\..*$", "")
    exact = _from_numbers(_cast_or_null(without_point, pa.int64()), factor)
    if pc.all(is_whole).as_py():
        return exact
    is_decimal = pc.fill_null(pc.match_substring_regex(text, _DECIMAL), False)
    rounded = _cast_or_null(pc.if_else(is_decimal, trimmed, None), pa.float64())
    return pc.coalesce(exact, _from_numbers(rounded, factor))


@dataclass(frozen=True, eq=False)
class _Clock:
    """Reads wall-clock times of a zone.

    Attributes:
        time_zone: An IANA zone.
        hours: int8[n], for each record: negative if its time is in a skipped hour, positive if in a
            repeated one; None where nobody asks.
    """

    time_zone: str
    hours: np.ndarray | None = None

    def to_utc(self, local_us: pa.Array) -> pa.Array:
        """Reads wall-clock microseconds; of a repeated hour the first, of a skipped one its end."""
        if self.time_zone == "UTC":
            return local_us
        local = local_us.cast(pa.timestamp("us"))
        read = self._read(local, "earliest", "latest")
        if self.hours is not None:
            # Of a repeated hour this is the second, of a skipped one the moment before it.
            other = self._read(local, "latest", "earliest")
            apart = np.asarray(pc.fill_null(pc.subtract(other, read), 0))
            np.copyto(self.hours, np.sign(apart), where=apart != 0, casting="unsafe")
        return read

    def _read(self, local: pa.Array, ambiguous: str, nonexistent: str) -> pa.Array:
        zoned = pc.assume_timezone(
            local, self.time_zone, ambiguous=ambiguous, nonexistent=nonexistent
        )
        return zoned.cast(pa.int64())


_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_NAIVE = rf"^{_DATE}(?:{_CLOCK})?$"
_ZONED = rf"^{_DATE}{_CLOCK}(?:Z|[+-]\d{{2}}(?::?\d{{2}})?)$"


def _from_iso(text: pa.Array, clock: _Clock) -> pa.Array:
    text = pc.utf8_trim_whitespace(text)
    if pc.any(pc.match_substring(text, "/")).as_py():
        text = pc.replace_substring_regex(text, r"^(\d{4})/(\d{2})/(\d{2})", r"\1-\2-\3")
    # Finer than a microsecond is cut off: the pipeline's unit is the microsecond.
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONED), False)
    stamped = _cast_or_null(pc.if_else(zoned, text, None), pa.timestamp("us", "UTC"))
    if pc.all(zoned).as_py():
        return stamped.cast(pa.int64())
    naive = pc.fill_null(pc.match_substring_regex(text, _NAIVE), False)
    local = _cast_or_null(pc.if_else(naive, text, None), pa.timestamp("us"))
    return pc.coalesce(stamped.cast(pa.int64()), clock.to_utc(local.cast(pa.int64())))


def _from_format(text: pa.Array, layout: str, clock: _Clock) -> pa.Array:
    local = pa.nulls(len(text), pa.int64())
    if re.search(r"%(f|z)", layout) is None:  # Arrow's strptime knows no fractions, no offsets
        parsed = pc.strptime(text, format=layout, unit="s", error_is_null=True)
        # It carries 30 February into March: what it writes differently is left to Python's.
        exact = pc.fill_null(pc.equal(pc.strftime(parsed, format=layout), text), False)
        local = pc.if_else(exact, parsed.cast(pa.timestamp("us")).cast(pa.int64()), None)
        text = pc.if_else(exact, None, text)
    encoded = text.dictionary_encode()
    read = [_strptime_us(value, layout) for value in encoded.dictionary.to_pylist()]
    zoned, naive = (
        pa.array([stamp[i] for stamp in read], pa.int64()).take(encoded.indices) for i in (0, 1)
    )
    return pc.coalesce(zoned, clock.to_utc(pc.coalesce(local, naive)))


def _strptime_us(value: str, layout: str) -> tuple[int | None, int | None]:
    """(microseconds UTC, wall-clock microseconds) of one stamp: one of them, or neither."""
    try:
        stamp = datetime.strptime(value, layout)
        is_zoned = stamp.tzinfo is not None
        since = (stamp if is_zoned else stamp.replace(tzinfo=UTC)) - datetime(
            1970, 1, 1, tzinfo=UTC
        )
    except (ValueError, OverflowError):
        return None, None
    us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return (us, None) if is_zoned else (None, us)


def _cast_or_null(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Casts what can be cast; halves the array around each value that cannot, and nulls it."""
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        n = len(values)
        if n == 1:
            return pa.nulls(1, target)
        halves = (values.slice(0, n // 2), values.slice(n // 2))
        return pa.concat_arrays([_cast_or_null(half, target) for half in halves])
