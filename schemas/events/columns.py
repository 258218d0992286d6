"""From a source's columns to canonical events: names, text, times, row filters, malformed records.

All formats pass through here, so a case id, a time stamp or a broken record means the same in each.
A value is its text (`events.source_column`), whatever the type of its column, and no record has a
say in what another one becomes. What the mapping does not name is dropped. Nothing is repaired: a
record without case, without activity or without a readable time is rejected with its place and a
reason, and never with a value; so is one whose case or individual is a number that can name nobody,
one without an individual where individuals are the unit of privacy, and one whose activity is none
of those that are declared to be all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events import tally as reasons
from tracecloak.schemas.events.events import (
    ACTIVITY,
    ATTRIBUTE_PREFIX,
    CASE_ID,
    EVENT_INDEX,
    FILE_STRIDE,
    OPTIONAL_TEXT,
    ORDER,
    START_TIMESTAMP,
    TIMESTAMP,
    attribute_column,
    event_schema,
)
from tracecloak.schemas.events.row_masks import RowFilter, mask_of, mask_of_times, times_of_bounds
from tracecloak.schemas.events.source_column import SourceColumn, joined_times
from tracecloak.schemas.events.tally import FileTally, Noted, Reject, SetAside
from tracecloak.schemas.events.timestamps import UNITS_US, from_period

# Where a rejected record stands and why; `file` is the file's rank in the sorted list of inputs.
REJECT_SCHEMA = pa.schema(
    [
        pa.field("file", pa.int64(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

XES_NAMES = {
    CASE_ID: "case:concept:name",
    ACTIVITY: "concept:name",
    TIMESTAMP: "time:timestamp",
}
"""What XES calls the columns that every event has."""
_XES_OPTIONAL = {"lifecycle": "lifecycle:transition", "resource": "org:resource"}
# The columns that name a person or a case. A number with a fraction cannot name one, and is
# rejected for the reason beside the column.
_IDENTITIES = {"individual_id": Reject.FRACTION_INDIVIDUAL, CASE_ID: Reject.FRACTION_CASE}


@dataclass(frozen=True)
class ColumnMapping:
    """Which source column plays which part, and how its times are to be read.

    Attributes:
        case_id: Source column of the case id; None takes `case_id`, or else `case:concept:name`.
        activity: Source column of the activity; None takes `activity`, or else `concept:name`.
        timestamp: Source column of the time; None takes `timestamp`, or else `time:timestamp`.
            Several hold parts of it, such as a date and an hour: see `joined_times`.
        individual_id: Source column naming the individual behind a case; None: there is none.
        resource: Source column of the resource; None: dropped.
        lifecycle: Source column of the lifecycle transition; None: dropped. If no filter is on it,
            records of starts and of completions are the two ends of events (`has_records_of_ends`).
        order: Source column by which events of a case with equal stamps are ordered, see
            `schemas.events.events`; no value of it makes a record malformed. None: there is
            none.
        start_timestamp: Source column of the time at which an event began, written as `timestamp`
            is, or several; a record without one is an event without a known start, and one with
            nothing else is an event at its start, without a known completion. None: there is none.
        start_transitions: Lifecycle transitions that are starts beside those of `events.starts`,
            without regard to case.
        complete_transitions: Likewise, completions.
        time_zone: IANA zone in which a stamp without an offset is read.
        timestamp_format: `strptime` format of textual stamps, or several that are tried in turn on
            each; None reads ISO 8601, with `-` or `/` between the parts of the date and with or
            without an offset.
        timestamp_unit: Unit since 1970 of numeric stamps, also of those written as text: `s`, `ms`,
            `us` or `ns`; None refuses numbers.
        whole_numbers: Columns in which text of a whole number with nothing behind its point, such
            as `5.0`, is read as that number; source columns, or names of this mapping. In others
            text stays as it is, so `5.0` is another value than `5`.
        filters: All of them must pass.
        needs_individual: Whether a record that names no individual is malformed: it is where the
            individual is the unit of privacy.
        attributes: Name and source column of each attribute that is carried, as text; an event may
            lack its value.
        activities: All activities that there are; a record with another one is malformed. None
            allows any.
        renames: Activities as the source calls them, each with the name that it is read by; no name
            is renamed twice. Filters see the names of the source.
        clock: Of `time_zone`; None: it is made here. It stays with the mapping wherever that is
            sent, as other machines may have other zone files.
    """

    case_id: str | None = None
    activity: str | None = None
    timestamp: str | tuple[str, ...] | None = None
    individual_id: str | None = None
    resource: str | None = None
    lifecycle: str | None = None
    order: str | None = None
    start_timestamp: str | tuple[str, ...] | None = None
    start_transitions: tuple[str, ...] = ()
    complete_transitions: tuple[str, ...] = ()
    time_zone: str = "UTC"
    timestamp_format: str | tuple[str, ...] | None = None
    timestamp_unit: str | None = None
    whole_numbers: tuple[str, ...] = ()
    filters: tuple[RowFilter, ...] = ()
    needs_individual: bool = False
    attributes: tuple[tuple[str, str], ...] = ()
    activities: tuple[str, ...] | None = None
    renames: tuple[tuple[str, str], ...] = ()
    clock: LocalClock = field(default=cast(LocalClock, None), repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in (TIMESTAMP, START_TIMESTAMP, "timestamp_format"):
            if isinstance(several := getattr(self, name), list | tuple):
                one = several[0] if len(several) == 1 else tuple(several) or None
                object.__setattr__(self, name, one)
        if self.timestamp_unit is not None and self.timestamp_unit not in UNITS_US:
            raise UsageError(f"timestamp_unit must be s, ms, us or ns, got {self.timestamp_unit!r}")
        layouts = self.timestamp_format or ()
        for layout in (layouts,) if isinstance(layouts, str) else layouts:
            if re.search(r"%[YyGcxDFs]", layout) is None:
                raise UsageError(f"timestamp_format has no date, got {layout!r}")
        if self.clock is None or self.clock.time_zone != self.time_zone:
            object.__setattr__(self, "clock", LocalClock.of(self.time_zone))
        if self.needs_individual and self.individual_id is None:
            raise UsageError("needs_individual is for a mapping that has an individual_id")
        declared = self.start_transitions, self.complete_transitions
        if any(declared) and self.lifecycle is None:
            raise UsageError("start_transitions and complete_transitions need a lifecycle column")
        usual = reasons.STARTS, reasons.COMPLETIONS
        starts, completions = (
            {text.strip().lower() for text in (*known, *more)}
            for known, more in zip(usual, declared, strict=True)
        )
        if both := starts & completions:
            raise UsageError(
                f"start_transitions and complete_transitions must differ, also from the usual "
                f"ones and in more than case; leave out {min(both)!r} in one of them"
            )
        ours = [CASE_ID, ACTIVITY, *(c for c in OPTIONAL_TEXT if getattr(self, c) is not None)]
        others = {source for _, source in self.attributes} | {f.column for f in self.filters}
        readable = others.union(*map(self._names_of, ours))
        for name in self.whole_numbers:
            if name not in readable:
                raise UsageError(
                    f"whole_numbers names {name!r}, which is not read as text; it takes case_id, "
                    "activity, and other columns that are mapped or that a filter has"
                )
        if len(dict(self.attributes)) < len(self.attributes):
            raise UsageError(f"attributes must differ in their names, got {self.attributes}")
        time_columns = {TIMESTAMP, _named(self.timestamp or XES_NAMES[TIMESTAMP])}
        for row_filter in self.filters:
            if row_filter.column in time_columns:
                times_of_bounds(row_filter, self.time_of)

    @property
    def has_records_of_ends(self) -> bool:
        """Whether starts and completions of events are records of their own.

        They are where the lifecycle is mapped, unless a filter on it says which records are read.
        """
        filtered = {f.column for f in self.filters}
        names = {"lifecycle", _XES_OPTIONAL["lifecycle"], self.lifecycle}
        return self.lifecycle is not None and filtered.isdisjoint(names)

    @property
    def has_starts(self) -> bool:
        """Whether events have starts, in a column or in records of their own."""
        return self.start_timestamp is not None or self.has_records_of_ends

    def has_whole_numbers(self, column: str) -> bool:
        """Returns whether text like `5.0` is a whole number in a canonical column."""
        return not self._names_of(column).isdisjoint(self.whole_numbers)

    def _names_of(self, column: str) -> set[str]:
        """What a canonical column can be called, here and in the source."""
        given = getattr(self, column)
        return {column, XES_NAMES.get(column, column) if given is None else given}

    def time_of(self, text: str) -> int | None:
        """Returns the time that a text stands for, microseconds since 1970 UTC; None: it is none.

        Read as the times of the records are, and else as a year, a month, a day or an hour, which
        stand for their begin.
        """
        written = pa.array([text], pa.string())
        time_us = _time_of(SourceColumn("", written), 1, self)[0].as_py()
        return from_period(written, self.clock.to_utc)[0].as_py() if time_us is None else time_us

    @property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The source columns of each time that has several, by the name that it has for itself."""
        return {
            _named(names): names
            for names in (self.timestamp, self.start_timestamp)
            if isinstance(names, tuple)
        }

    def time_column(self, columns: pa.RecordBatch, name: str) -> SourceColumn | None:
        """Returns the column of times of a name; None: the records lack it, or a part of it."""
        parts = self.parts.get(name, (name,))
        if not set(parts) <= set(columns.schema.names):
            return None
        read = [SourceColumn(part, columns.column(part)) for part in parts]
        return joined_times(name, read) if len(parts) > 1 else read[0]

    def may_match(self, known: Mapping[str, str | None], xes_names: bool) -> bool:
        """Returns whether a file can hold records that the filters let pass.

        Args:
            known: The columns whose value is the same in all of its records, as its path tells.
            xes_names: As for `resolve`.
        """
        resolved = self.resolve(None, xes_names)
        for row_filter in self.filters:
            source = resolved.filtered[row_filter.column]
            if source in known:
                column = SourceColumn(source, pa.array([known[source]], pa.string()))
                time = None
                if source == resolved.names[TIMESTAMP]:
                    time = _time_of(column, 1, self)
                    if self.start_timestamp is not None and column.is_empty()[0]:
                        continue  # the start may pass
                if not np.any(self._mask(row_filter, column, time)):
                    return False
        return True

    @property
    def order_alone(self) -> str | None:
        """The column that orders events, if it has no other part, so that it may hold anything."""
        named = [name for xes in (True, False) for name in self.resolve(None, xes).named]
        return self.order if named.count(self.order or "") == 2 else None

    def _mask(
        self, row_filter: RowFilter, column: SourceColumn | None, time: pa.Array | None
    ) -> np.ndarray | bool:
        """bool[n]: which values of a column a filter lets pass; no value passes where it is None.

        Those of the column of times are compared as `time`, the times of the events, int64[n].
        """
        mapping = self
        if time is None:
            if column is None:
                return False
            if not (row_filter.bounds and column.is_of_times):
                return mask_of(row_filter, column.text(of_attribute=True), self.clock)
            mapping = replace(self, timestamp_format=None, timestamp_unit=None, filters=())
            time = _time_of(column, len(column.values), mapping)
        try:
            passed = mask_of_times(row_filter, time, mapping.time_of, self.clock)
        except UsageError as error:
            raise InputSchemaError(str(error)) from None
        if row_filter.bounds or column is None:
            return passed
        return passed | mask_of(row_filter, column.text(of_attribute=True), self.clock)

    def resolve(self, declared: Sequence[str] | None, xes_names: bool) -> ResolvedColumns:
        """Fixes the source column of each canonical one.

        Args:
            declared: The columns that the file declares; None: only its records tell.
            xes_names: Which of the default names holds where `declared` cannot decide.
        """
        names: dict[str, str] = {}
        for canonical, xes_name in XES_NAMES.items():
            given = getattr(self, canonical)
            if given is None:
                candidates = (xes_name, canonical) if xes_names else (canonical, xes_name)
                known = candidates if declared is None else [c for c in candidates if c in declared]
                given = known[0] if known else canonical
            names[canonical] = _named(given)
        names.update({c: n for c in OPTIONAL_TEXT if (n := getattr(self, c)) is not None})
        if self.start_timestamp is not None:
            names[START_TIMESTAMP] = _named(self.start_timestamp)
        # A filter may name a canonical column that is not carried by the name that XES gives it.
        filtered = {f.column: names.get(f.column, f.column) for f in self.filters}
        for column, xes_name in _XES_OPTIONAL.items():
            is_xes = (
                xes_names if declared is None else column not in declared and xes_name in declared
            )
            if column in filtered and column not in names and is_xes:
                filtered[column] = xes_name
        needed = {*names.values(), *filtered.values()}
        names.update({attribute_column(name): source for name, source in self.attributes})
        # Whether any record has a value depends on the data, so no error may say it.
        may_lack = frozenset(names.values()) - needed if declared is None else frozenset()
        return ResolvedColumns(self, names, filtered, may_lack)


@dataclass(frozen=True)
class ResolvedColumns:
    """A mapping whose source columns are fixed for one file.

    Attributes:
        mapping: The rules for times and filters.
        names: Canonical name to source column. A time with several has a name for itself, see
            `ColumnMapping.parts`.
        filtered: A filter's column to source column.
        may_lack: Source columns that no record need have: those of attributes, where only records
            tell the columns.
    """

    mapping: ColumnMapping
    names: dict[str, str]
    filtered: dict[str, str]
    may_lack: frozenset[str] = frozenset()

    @property
    def named(self) -> list[str]:
        """Source columns to read: the mapped ones, and those of the filters, each for each use."""
        parts = self.mapping.parts
        named = [*self.names.values(), *self.filtered.values()]
        return [column for name in named for column in parts.get(name, (name,))]

    @property
    def wanted(self) -> tuple[str, ...]:
        """Source columns to read, without repetition."""
        return tuple(dict.fromkeys(self.named))

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
        tally: FileTally | None = None,
        span_us: tuple[int, int] | None = None,
        fractional: Mapping[str, np.ndarray] | None = None,
        malformed_as: str = Reject.NO_RECORD,
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Makes canonical events of a run of source records.

        Args:
            columns: Source columns; those of `wanted` that the file has. Their types are those that
                the file declares, and text or `column_of_kinds` where only records tell them.
            records: int64[n_rows], number of each record in its file.
            malformed: int64[n_malformed], numbers of records that could not be parsed at all.
            file_rank: Rank of the file among the inputs.
            tally: Is told what was found, if anybody asks.
            span_us: The times of the events that are wanted, from the first to the second,
                exclusive, since 1970 UTC; None: all. Others are dropped as by a filter.
            fractional: For columns of text, bool[n_rows]: which values are numbers that can name
                nobody, see `schemas.events.source_column.fractions`; a column may be missing.
            malformed_as: Why `malformed` could not be parsed, a `Reject`.

        Returns:
            The events (EVENT_SCHEMA, the mapped optional columns and the attributes, in the order
            of the records) and the rejects (REJECT_SCHEMA). A record that a filter drops is in
            neither.

        Raises:
            InputSchemaError: A column's type can hold no text or no time.
        """
        read = {
            source: SourceColumn(source, columns.column(i), source in self._whole)
            for i, source in enumerate(columns.schema.names)
        }
        for name in self.mapping.parts:
            if (joined := self.mapping.time_column(columns, name)) is not None:
                read[name] = joined
        n, of = columns.num_rows, np.asarray(records, np.int64)
        stamps = read.get(self.names[TIMESTAMP])
        hours = np.zeros(n, np.int8)
        time = _time_of(stamps, n, self.mapping, None if tally is None else hours)
        if self.mapping.has_starts:
            begun = read.get(self.names.get(START_TIMESTAMP, ""))
            starts = _time_of(begun, n, self.mapping)
            lacks_end, lacks_start = (
                np.ones(n, bool) if one is None else one.is_empty() for one in (stamps, begun)
            )
            time = pc.if_else(pa.array(lacks_end), starts, time)
        keep = np.ones(n, bool)
        for row_filter in self.mapping.filters:
            source = self.filtered[row_filter.column]
            is_time = source == self.names[TIMESTAMP]
            keep &= self.mapping._mask(row_filter, read.get(source), time if is_time else None)

        text = {
            c: _text_of(read.get(s), n, c)
            for c, s in self.names.items()
            if c not in (TIMESTAMP, START_TIMESTAMP)
        }
        if self.mapping.renames:
            text[ACTIVITY] = renamed(text[ACTIVITY], self.mapping.renames)

        found = self._reasons(read, text, time, fractional or {})
        marked = None
        if self.mapping.has_starts:
            kinds = None
            if self.mapping.has_records_of_ends:
                declared = self.mapping.start_transitions, self.mapping.complete_transitions
                kinds = reasons.kinds_of_transitions(text["lifecycle"], *declared)
            marked = reasons.marked_starts(time, starts, lacks_end, lacks_start, kinds, found)
        found[~keep] = reasons.CODES[SetAside.FILTERED]
        if span_us is not None:
            inside = pc.and_(pc.greater_equal(time, span_us[0]), pc.less(time, span_us[1]))
            is_outside = ~np.asarray(pc.fill_null(inside, False))
            found[is_outside & (found < 0)] = reasons.CODES[SetAside.OUTSIDE]
        good, bad = found < 0, (found >= 0) & (found < len(Reject))
        if tally is not None:
            if tally.transitions is not None and "lifecycle" in text:
                tally.transitions.update(text["lifecycle"].to_pylist())
            tally.add_events(int(good.sum()))
            tally.add(malformed_as, malformed)
            _count_found(tally, of, found, stamps)
            tally.add(Noted.SKIPPED_HOUR, of[good & (hours < 0)])
            tally.add(Noted.REPEATED_HOUR, of[good & (hours > 0)])
        rows = pa.array(np.flatnonzero(good))
        if len(rows) < n:
            text = {c: values.take(rows) for c, values in text.items()}
            time = time.take(rows)
        arrays: dict[str, pa.Array] = {c: v.dictionary_encode() for c, v in text.items()}
        if tally is not None:
            _count_keys(tally, arrays[CASE_ID], of[good])
        arrays[TIMESTAMP] = time
        named = dict(self.mapping.attributes)
        if marked is not None:
            arrays[attribute_column(START_TIMESTAMP)] = marked.take(rows)
            named = {START_TIMESTAMP: "", **named}
        arrays[EVENT_INDEX] = pa.array(file_rank * FILE_STRIDE + of[good])
        schema = event_schema((c for c in self.names if c in OPTIONAL_TEXT), named)
        events = pa.RecordBatch.from_arrays([arrays[f.name] for f in schema], schema=schema)

        numbers = np.concatenate([of[bad], malformed]).astype(np.int64)
        whys = [reasons.FINDINGS[code] for code in found[bad]] + [malformed_as] * len(malformed)
        ranks = np.full(len(numbers), file_rank, np.int64)
        columns_ = [pa.array(ranks), pa.array(numbers), pa.array(whys, pa.string())]
        return events, pa.RecordBatch.from_arrays(columns_, schema=REJECT_SCHEMA)

    def _reasons(
        self,
        read: Mapping[str, SourceColumn],
        text: Mapping[str, pa.Array],
        time: pa.Array,
        fractional: Mapping[str, np.ndarray],
    ) -> np.ndarray:
        """int8[n]: the place in FINDINGS of why a record is none; -1 where nothing is wrong.

        A record with several reasons gets the one that is assigned last, such as the lack of a case
        id before any other.
        """
        reason = np.full(len(time), -1, np.int8)
        if self.mapping.activities is not None:
            known = pc.is_in(text[ACTIVITY], value_set=pa.array(self.mapping.activities))
            reason[~np.asarray(known)] = reasons.CODES[Reject.OTHER_ACTIVITY]
        for name, why in _IDENTITIES.items():
            column = read.get(self.names.get(name, ""))
            if column is not None:
                marked = fractional.get(column.name)
                unfit = column.fractions() if marked is None else marked
                reason[unfit] = reasons.CODES[why]
        required = {
            Reject.NO_TIME: time,
            Reject.NO_ACTIVITY: text[ACTIVITY],
            Reject.NO_CASE: text[CASE_ID],
        }
        if self.mapping.needs_individual:
            required = {Reject.NO_INDIVIDUAL: text["individual_id"], **required}
        for why, values in required.items():
            reason[np.asarray(pc.is_null(values))] = reasons.CODES[why]
        return reason

    @cached_property
    def _whole(self) -> frozenset[str]:
        """Source columns in which text such as `5.0` is a whole number."""
        return frozenset(
            {**self.filtered, **self.names}.get(name, name) for name in self.mapping.whole_numbers
        )

    def readings(self, columns: pa.RecordBatch) -> list[str]:
        """Returns how each column of times is read, a line for each, by the types of columns.

        Args:
            columns: No record of them; those that are not there are text.
        """
        texts = dict.fromkeys(self.wanted, pa.array([], pa.string()))
        given = dict(zip(columns.schema.names, columns.columns, strict=True))
        batch = pa.RecordBatch.from_pydict({**texts, **given})
        times = (self.names[c] for c in (TIMESTAMP, START_TIMESTAMP) if c in self.names)
        read = [self.mapping.time_column(batch, name) for name in times]
        return [f"{c.name}: {_reading(c, self.mapping)}" for c in read if c is not None]


def _count_found(
    tally: FileTally, records: np.ndarray, found: np.ndarray, stamps: SourceColumn | None
) -> None:
    """Counts records by what is found; a missing time counts apart from a text that is no time."""
    has_none = found == reasons.CODES[Reject.NO_TIME]
    if has_none.any():
        has_none &= True if stamps is None else stamps.is_empty()
        found = np.where(has_none, reasons.CODES[reasons.EMPTY_TIME], found)
    for code in np.unique(found[found >= 0]).tolist():
        tally.add(reasons.FINDINGS[code], records[found == code])


def _count_keys(tally: FileTally, case_ids: pa.DictionaryArray, records: np.ndarray) -> None:
    """Counts the case ids that are whole numbers, and those with nothing behind their point.

    A table that was written with empty cells has 5.0 where another has 5.
    """
    for name, form in ((Noted.WHOLE_KEY, r"^-?\d+$"), (Noted.POINT_KEY, r"^-?\d+\.0+$")):
        is_so = np.asarray(pc.match_substring_regex(case_ids.dictionary, form), bool)
        if is_so.any():
            tally.add(name, records[is_so[np.asarray(case_ids.indices)]])


def renamed(text: pa.Array, renames: Sequence[tuple[str, str]]) -> pa.Array:
    """string[n]: texts with the new name of each that has one."""
    old, new = (pa.array(names, pa.string()) for names in zip(*renames, strict=True))
    return pc.coalesce(new.take(pc.index_in(text, value_set=old)), text)


def _text_of(column: SourceColumn | None, n: int, canonical: str) -> pa.Array:
    if column is None:
        return pa.nulls(n, pa.string())
    if canonical == ORDER:
        return column.order_text()
    return column.text(of_attribute=canonical.startswith(ATTRIBUTE_PREFIX))


def _reading(column: SourceColumn, mapping: ColumnMapping) -> str:
    """Returns what the values of a column of times are."""
    if column.parts:
        return ", or ".join(dict.fromkeys(_reading(part, mapping) for part in column.parts))
    kind, unit, layouts = column.values.type, mapping.timestamp_unit, mapping.timestamp_format
    local = f"local times of {mapping.time_zone}"
    if pa.types.is_timestamp(kind):
        return local if kind.tz is None else "instants"
    if pa.types.is_date(kind):
        return f"midnights of {mapping.time_zone}"
    if column.is_of_numbers:
        return (
            "numbers, which need timestamp_unit" if unit is None else f"numbers, {unit} since 1970"
        )
    shown = layouts if layouts is None or isinstance(layouts, str) else " or ".join(layouts)
    form = "ISO 8601" if shown is None else f"the format {shown}"
    texts = f"text in {form}; without an offset, {local}"
    return texts if unit is None or layouts is not None else f"{unit} since 1970, or {texts}"


def _named(source: str | Sequence[str]) -> str:
    """Returns a source column, or the name for itself of what has several."""
    return source if isinstance(source, str) else " + ".join(source)


def _time_of(
    column: SourceColumn | None, n: int, mapping: ColumnMapping, hours: np.ndarray | None = None
) -> pa.Array:
    """int64[n], the times of a column; see `SourceColumn.times`, and `LocalClock.to_utc`."""
    if column is None:
        return pa.nulls(n, pa.int64())
    to_utc = partial(mapping.clock.to_utc, hours=hours)
    return column.times(to_utc, mapping.timestamp_format, mapping.timestamp_unit)
