"""Whole cases in columns: what the shuffle delivers and every statistic counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.arrays.merging import equal_to_previous, offsets_of, order_of_small, ranges
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_INDEX,
    EVENT_SCHEMA,
    IS_OPEN,
    IS_START,
    ORDER,
    START_TIMESTAMP,
    TIMESTAMP,
    ActivityVocabulary,
    attribute_column,
    attribute_names,
    event_rows,
    event_schema,
    is_case_attribute,
    released_schema,
)

# --- Whole cases in columns: what the shuffle delivers and every statistic counts. ----------------
# A batch holds complete cases only, their events in order, in CSR form: the events of case `i`
# are `offsets[i]:offsets[i+1]` of the event arrays. Sorting, splitting by shard and recoding are
# here; counting is in the modules of the statistics.
#
# Where the privacy unit is the individual, a batch holds complete individuals, and a case is the
# pair of an individual and a case id: the events of one case id that name two individuals are one
# case of each. So whatever a case contributes to a statistic is a function of one individual's
# own events.
#
# Attributes that the events have are carried along. Those of the source are texts in
# dictionaries, which can hold values that nobody declared: such a batch has no rows to release.


INDIVIDUAL_ID = "individual_id"


class TraceBatch(Columnar, wire_name="traces"):
    """Some complete cases of a log.

    Attributes:
        case_ids: string[n_cases], distinct, or distinct within each individual.
        offsets: int64[n_cases+1]; every case has at least one event.
        activities: int32[n_events], codes of `vocabulary`.
        times: int64[n_events], microseconds since 1970-01-01 UTC, not decreasing within a case.
        vocabulary: What the codes mean; its names may be more than those that occur here.
        individuals: string[n_cases], whose case each one is; None where cases stand for themselves.
        attributes: Name to an array of n_events: dictionary<int32, string> as read from a source,
            string, int64 or float64 in a released log. One of the case is the same in all of its
            events. START_TIMESTAMP has int64, or timestamp[us] in a released log; null where it is
            not known, and IS_OPEN where the completion is not. A released log without times has
            EVENT_INDEX, int64, from 1 in each case, whose values are its `times` too.
    """

    case_ids: pa.StringArray
    offsets: np.ndarray
    activities: np.ndarray
    times: np.ndarray
    vocabulary: ActivityVocabulary
    individuals: pa.StringArray | None = None
    attributes: dict[str, pa.Array] = field(default_factory=dict)

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return len(self.case_ids)

    @property
    def n_events(self) -> int:
        """Number of events of all cases."""
        return len(self.activities)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, each of which this batch may share with others."""
        n_bytes = self.case_ids.nbytes + self.offsets.nbytes + self.activities.nbytes
        n_bytes += 0 if self.individuals is None else self.individuals.nbytes
        return n_bytes + self.times.nbytes + sum(a.nbytes for a in self.attributes.values())

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64[n_cases], events per case."""
        return np.diff(self.offsets)

    @cached_property
    def is_first(self) -> np.ndarray:
        """bool[n_events], whether an event begins its case."""
        first = np.zeros(self.n_events, bool)
        first[self.offsets[:-1]] = True
        return first

    @property
    def starts(self) -> np.ndarray:
        """int64[n_cases], time of each case's first event in microseconds."""
        return self.times[self.offsets[:-1]]

    @cached_property
    def durations(self) -> np.ndarray:
        """int64[n_events], microseconds since the predecessor in the case; 0 for a first event."""
        since = np.diff(self.times, prepend=self.times[:1])
        since[self.offsets[:-1]] = 0
        return since

    @property
    def is_tied(self) -> np.ndarray:
        """bool[n_events], whether an event has case and time of one with another activity."""
        heads = np.flatnonzero(self.is_first | (self.durations != 0))
        if not len(heads):
            return np.zeros(0, bool)
        lowest = np.minimum.reduceat(self.activities, heads)
        highest = np.maximum.reduceat(self.activities, heads)
        return np.repeat(lowest != highest, np.diff(heads, append=self.n_events))

    @property
    def attribute_types(self) -> dict[str, pa.DataType]:
        """Type of each attribute, in their order."""
        return {name: values.type for name, values in self.attributes.items()}

    def take(self, cases: np.ndarray) -> TraceBatch:
        """Returns the cases at the given positions, in that order.

        A position that repeats makes a batch whose case ids repeat, as copies of a case do.
        """
        lengths = self.lengths[cases]
        return self._rows(cases, lengths, ranges(self.offsets[cases], lengths))

    def _rows(
        self, cases: np.ndarray | slice, lengths: np.ndarray, events: np.ndarray | slice
    ) -> TraceBatch:
        """The cases at some positions, with so many events each, and those at other positions."""
        return replace(
            self,
            case_ids=_taken(self.case_ids, cases),
            offsets=offsets_of(lengths),
            activities=self.activities[events],
            times=self.times[events],
            individuals=None if self.individuals is None else _taken(self.individuals, cases),
            attributes={name: _taken(a, events) for name, a in self.attributes.items()},
        )

    def split(self, max_bytes: int) -> Iterator[TraceBatch]:
        """Yields the same cases in batches of about `max_bytes` each, at least one.

        The cases of an individual stay together, so a batch is larger where one unit is; all are
        taken to have attributes of the same length.
        """
        n_bytes = self.nbytes
        n_events_each = max(1, max_bytes * self.n_events // max(n_bytes, 1))
        if n_bytes <= max_bytes or self.n_cases <= 1:
            yield self
            return
        # Where a batch may begin: at a case, or at the first case of an individual.
        begins = np.arange(self.n_cases)
        if self.individuals is not None:
            begins = begins[
                np.append(True, pc.not_equal(self.individuals[1:], self.individuals[:-1]))
            ]
        number = self.offsets[begins] // n_events_each
        firsts = begins[np.flatnonzero(np.diff(number, prepend=-1))]
        for first, end in zip(firsts, [*firsts[1:], self.n_cases], strict=True):
            part = self._rows(
                slice(first, end), self.lengths[first:end], slice(*self.offsets[[first, end]])
            )
            own = {name: _without_unused_names(a) for name, a in part.attributes.items()}
            yield replace(part, attributes=own)

    def truncate(self, max_length: int) -> TraceBatch:
        """Returns the same cases without the events after each one's first `max_length`."""
        if self.n_events == 0 or self.lengths.max() <= max_length:
            return self
        lengths = np.minimum(self.lengths, max_length)
        return self._rows(slice(None), lengths, ranges(self.offsets[:-1], lengths))

    def recode(self, vocabulary: ActivityVocabulary) -> TraceBatch:
        """Returns the same cases with the codes of a vocabulary that has all their activities.

        Raises:
            ValueError: It has not.
        """
        used = np.unique(self.activities)
        codes = np.full(len(self.vocabulary), -1, np.int32)
        codes[used] = vocabulary.codes(self.vocabulary.names.take(pa.array(used)))
        activities = codes[self.activities] if self.n_events else self.activities
        return replace(self, activities=activities, vocabulary=vocabulary)

    def with_used_names(self) -> TraceBatch:
        """Returns the same cases with a vocabulary of their own activities alone."""
        used = pa.array(np.unique(self.activities))
        return self.recode(ActivityVocabulary(self.vocabulary.names.take(used)))

    def recode_public(self, vocabulary: ActivityVocabulary) -> TraceBatch:
        """Returns the cases with the codes of a public vocabulary.

        Activities that it does not have become OTHER. A closed vocabulary has no OTHER: there the
        events of such activities are left out, and so are cases without any other event.
        """
        codes = vocabulary.codes_or_other(self.vocabulary.names)
        activities = codes[self.activities] if self.n_events else self.activities
        recoded = replace(self, activities=activities, vocabulary=vocabulary)
        known = activities >= 0
        return recoded if known.all() else recoded.events_where(known)

    def events_where(self, is_kept: np.ndarray) -> TraceBatch:
        """Returns the events of bool[n_events], and the cases that have any, in their order."""
        case = np.repeat(np.arange(self.n_cases), self.lengths)[is_kept]
        lengths = np.bincount(case, minlength=self.n_cases)
        cases = np.flatnonzero(lengths)
        return self._rows(cases, lengths[cases], np.flatnonzero(is_kept))

    @classmethod
    def from_events(
        cls, events: Sequence[pa.RecordBatch], by_individual: bool = False
    ) -> TraceBatch:
        """Sorts canonical events, all events of their cases, into traces.

        Events of a case are in the order of `event_rows`, of what is carried. Records of starts
        are joined with those of completions (`arrays.pairing`), which stand for the event; one that
        has none is an event by itself, IS_OPEN.

        Args:
            events: Batches of EVENT_SCHEMA, of `individual_id` if that is asked for, of the same
                attributes, and all or none of ORDER; further columns are not carried. An attribute
                of the case takes, in all of its events, the first value that one of them has.
            by_individual: A case is a pair of an individual and a case id, so that everything a
                case holds comes from one individual's own events, and a case id that names two
                individuals is one case of each. All events of each individual must be given.

        Raises:
            InputSchemaError: `by_individual`, and an event names no individual, or the batches
                have different attributes, or just some have ORDER.
        """
        carried = [carried_columns(batch, by_individual) for batch in events]
        schema = event_schema([INDIVIDUAL_ID] if by_individual else [])
        schema = carried[0].schema if carried else schema
        names = attribute_names(schema)
        if any(batch.schema.names != schema.names for batch in carried):
            raise InputSchemaError("events need the same attributes, and all or none an order")
        no_events = pa.RecordBatch.from_pylist([], schema)
        batches = [batch for batch in carried if batch.num_rows] or [no_events]
        table = pa.Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()
        case_column = table.column(CASE_ID).chunk(0)
        activity_column = table.column(ACTIVITY).chunk(0)
        case = np.asarray(case_column.indices)
        n_ids = len(case_column.dictionary)
        if by_individual:
            individual_column = table.column(INDIVIDUAL_ID).chunk(0)
            case = case + np.asarray(individual_column.indices).astype(np.int64) * n_ids
        time = np.asarray(table.column(TIMESTAMP).chunk(0))
        order = event_rows(case, {n: table.column(n).chunk(0) for n in schema.names})
        if START_TIMESTAMP in names:
            activity = np.asarray(activity_column.indices)
            order, starts = _joined_records(order, case, activity, table)
        case, time = case[order], time[order]

        heads = np.flatnonzero(np.diff(case, prepend=case[:1] - 1))
        offsets = np.append(heads, len(case)).astype(np.int64)
        vocabulary = ActivityVocabulary.of(activity_column.dictionary)
        codes = vocabulary.codes(activity_column.dictionary)
        individuals = None
        if by_individual:
            individuals = individual_column.dictionary.take(pa.array(case[heads] // n_ids))
        attributes = {}
        for name in names:
            if name == START_TIMESTAMP:
                attributes[name] = starts
                continue
            values = table.column(attribute_column(name)).chunk(0).take(pa.array(order))
            attributes[name] = _case_values(values, offsets) if is_case_attribute(name) else values
        return cls(
            case_column.dictionary.take(pa.array(case[heads] % n_ids)),
            offsets,
            codes[np.asarray(activity_column.indices)[order]],
            time,
            vocabulary,
            individuals,
            attributes,
        )

    def to_rows(self) -> pa.RecordBatch:
        """Returns the events as rows of RELEASED_SCHEMA and attributes, cases one after the other.

        Texts are written out, not as dictionaries: a dictionary could hold a name that no row has.

        Raises:
            ValueError: An attribute has the values of a source.
        """
        if any(pa.types.is_dictionary(kind) for kind in self.attribute_types.values()):
            raise ValueError("an attribute with the values of a source cannot be released")
        schema = released_schema(self.attribute_types)
        row = np.repeat(np.arange(self.n_cases), self.lengths)
        return pa.RecordBatch.from_arrays(
            [
                self.case_ids.take(pa.array(row)),
                self.vocabulary.names.take(pa.array(self.activities)),
                pa.array(self.times).cast(schema.field(2).type),
                *(values for name, values in self.attributes.items() if name != EVENT_INDEX),
            ],
            schema=schema,
        )

    @classmethod
    def concat(cls, batches: Sequence[TraceBatch]) -> TraceBatch:
        """Returns the cases of all batches, which share one vocabulary.

        Raises:
            ValueError: There is no batch, the vocabularies or the attributes and their types
                differ, or just some have individuals.
        """
        if not batches or any(b.vocabulary != batches[0].vocabulary for b in batches):
            raise ValueError("concat needs at least one batch, and batches of one vocabulary")
        whose = [b.individuals for b in batches if b.individuals is not None]
        if len(whose) not in (0, len(batches)):
            raise ValueError("concat needs batches that all have individuals, or none of them")
        first, *others = (list(batch.attribute_types.items()) for batch in batches)
        if any(attributes != first for attributes in others):
            raise ValueError("concat needs batches of the same attributes")
        return cls(
            pa.concat_arrays([b.case_ids for b in batches]),
            offsets_of(np.concatenate([b.lengths for b in batches])),
            np.concatenate([b.activities for b in batches]),
            np.concatenate([b.times for b in batches]),
            batches[0].vocabulary,
            pa.concat_arrays(whose) if whose else None,
            {name: pa.concat_arrays([b.attributes[name] for b in batches]) for name, _ in first},
        )


def _joined_records(
    order: np.ndarray, case: np.ndarray, activity: np.ndarray, table: pa.Table
) -> tuple[np.ndarray, pa.Array]:
    """Returns int64[m], the rows that stand for events, in order, and int64[m], their starts.

    Args:
        order: int64[n], the rows by case, time and index.
        case: int64[n], the case of each row.
        activity: int32[n], the activity of each row.
        table: The rows.
    """
    column = table.column(attribute_column(START_TIMESTAMP)).chunk(0).take(pa.array(order))
    known, starts = np.array(column.is_valid()), np.array(pc.fill_null(column, 0))
    is_start, is_event = starts == IS_START, np.ones(len(order), bool)
    if is_start.any():
        from tracecloak.schemas.events.tally import pairs_of_records

        groups = case[order].astype(np.int64) * (int(activity.max()) + 1) + activity[order]
        ends_of_events = np.flatnonzero(starts != IS_OPEN)  # others complete nothing
        begins, ends = pairs_of_records(groups[ends_of_events], is_start[ends_of_events])
        begins, ends = ends_of_events[begins], ends_of_events[ends]
        starts[is_start] = IS_OPEN
        starts[ends] = np.asarray(table.column(TIMESTAMP).chunk(0))[order[begins]]
        known[ends], is_event[begins] = True, False
    return order[is_event], pa.array(starts[is_event], mask=~known[is_event])


def _taken(values: pa.Array, rows: np.ndarray | slice) -> pa.Array:
    return values[rows] if isinstance(rows, slice) else values.take(pa.array(rows))


def _without_unused_names(values: pa.Array) -> pa.Array:
    """The same values; a dictionary holds just those that occur."""
    if not pa.types.is_dictionary(values.type):
        return values
    return values.cast(pa.string()).dictionary_encode()


def _case_values(values: pa.Array, offsets: np.ndarray) -> pa.Array:
    """The first value that is not missing in each case, for all of its events."""
    # A value can be missing in either of two ways.
    named = pc.fill_null(values.dictionary.is_valid().take(values.indices), False)
    present = np.flatnonzero(np.asarray(pc.and_(values.is_valid(), named)))
    place = np.searchsorted(present, offsets[:-1])
    first = np.append(present, offsets[-1])[place]
    missing = first >= offsets[1:]
    first_values = values.take(pa.array(first, mask=missing))
    return first_values.take(pa.array(np.repeat(np.arange(len(first)), np.diff(offsets))))


def carried_columns(events: pa.RecordBatch, by_individual: bool = False) -> pa.RecordBatch:
    """Returns the columns of canonical events that traces are made of, the attributes among them.

    Args:
        events: Batch of EVENT_SCHEMA, optional columns and attributes.
        by_individual: Whether `individual_id` is one of them.

    Raises:
        InputSchemaError: It is, and an event names no individual.
    """
    names = [*EVENT_SCHEMA.names, *([INDIVIDUAL_ID] if by_individual else ())]
    names += [ORDER] if ORDER in events.schema.names else []
    if by_individual:
        _require_values(events, INDIVIDUAL_ID)
    names += [attribute_column(name) for name in attribute_names(events.schema)]
    return events.select(names)


def with_attributes(events: pa.RecordBatch, attributes: Sequence[str]) -> pa.RecordBatch:
    """Returns canonical events with just the named ones of their attributes, in that order.

    Raises:
        InputSchemaError: The events do not have one.
    """
    present = attribute_names(events.schema)
    missing = [name for name in attributes if name not in present]
    if missing:
        names = ", ".join(map(repr, missing))
        raise InputSchemaError(f"the events have no attribute {names}; map them with attributes")
    if present == list(attributes):
        return events
    wanted = [attribute_column(name) for name in attributes]
    others = {attribute_column(name) for name in present}
    return events.select([*(n for n in events.schema.names if n not in others), *wanted])


def _require_values(events: pa.RecordBatch, name: str) -> None:
    remedy = "map a column that every event has, or drop the events without it by a filter"
    position = events.schema.get_field_index(name)
    if position < 0:
        raise InputSchemaError(f"the events have no column {name!r}; {remedy}")
    column = events.column(position)
    if column.null_count or column.dictionary.null_count:  # either way to write a missing value
        raise InputSchemaError(f"an event has no value in column {name!r}; {remedy}")


def split_by_shard(
    events: pa.RecordBatch, n_shards: int, by_individual: bool = False
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Splits canonical events so that all events of a case get the same shard number.

    Args:
        events: Batch of EVENT_SCHEMA, optional columns and attributes.
        n_shards: Number of shards.
        by_individual: Whether all events of an individual get the same number instead, and the
            events of a case may get several.

    Yields:
        (shard, events), non-empty, with the events in their order, the columns of
        `carried_columns`, and dictionaries that hold just the shard's own, but for activities.

    Raises:
        InputSchemaError: `by_individual`, and an event names no individual.
    """
    if events.num_rows == 0:
        return
    events = carried_columns(events, by_individual)
    key = INDIVIDUAL_ID if by_individual else CASE_ID
    unit = events.column(key)
    value_shard = (hash_text(unit.dictionary) % np.uint64(n_shards)).astype(np.int64)
    # Dictionary values are brought into the order of their shards, so each shard's dictionary is a
    # slice of one array instead of a re-encoding of its own.
    value_order = np.argsort(value_shard, kind="stable")
    new_code = np.empty(len(value_order), np.int32)
    new_code[value_order] = np.arange(len(value_order), dtype=np.int32)
    values = unit.dictionary.take(pa.array(value_order))
    value_offsets = np.searchsorted(value_shard[value_order], np.arange(n_shards + 1))

    codes = np.asarray(unit.indices)
    row_shard = value_shard[codes]
    row_order = order_of_small(row_shard, n_shards - 1)
    row_offsets = np.searchsorted(row_shard[row_order], np.arange(n_shards + 1))
    ordered = events.take(pa.array(row_order))
    ordered_codes = new_code[codes[row_order]]
    for shard in np.flatnonzero(np.diff(row_offsets)):
        first, last = row_offsets[shard], row_offsets[shard + 1]
        first_value, last_value = value_offsets[shard], value_offsets[shard + 1]
        part = ordered.slice(first, last - first)
        units = pa.DictionaryArray.from_arrays(
            pa.array(ordered_codes[first:last] - np.int32(first_value)),
            values.slice(first_value, last_value - first_value),
        )
        own = {key: units, ACTIVITY: part.column(ACTIVITY)}
        arrays = [
            own[name] if name in own else _without_unused_names(part.column(name))
            for name in events.schema.names
        ]
        yield int(shard), pa.RecordBatch.from_arrays(arrays, schema=events.schema)


# --- Events that a case has more than once, as systems deliver them twice. ------------------------


DROPPED = "%d events were dropped, as they equal one of their case"
"""What the operator is told of them, with their number."""


def is_duplicate(traces: TraceBatch) -> np.ndarray:
    """bool[n_events]: which events equal an earlier one of their case.

    They are equal in their activity, their time and every attribute that the batch carries; what is
    missing equals what is missing. Each case is looked at alone.
    """
    case = np.repeat(np.arange(traces.n_cases), traces.lengths)
    coded = (values.dictionary_encode().indices for values in traces.attributes.values())
    codes = [np.asarray(pc.fill_null(indices, -1)) for indices in coded]  # of what is missing
    keys = [*codes, traces.activities, traces.times, case]
    order = np.lexsort(keys)  # stable, so the earlier one stands first
    is_equal, _ = equal_to_previous(keys, order)
    duplicates = np.zeros(traces.n_events, bool)
    duplicates[order[1:][is_equal]] = True
    return duplicates


def without_duplicates(traces: TraceBatch) -> TraceBatch:
    """Returns the same cases without the events that equal an earlier one; see `is_duplicate`."""
    duplicates = is_duplicate(traces)
    if not duplicates.any():
        return traces
    return traces.events_where(~duplicates)
