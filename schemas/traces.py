"""Whole cases in columns: what the shuffle delivers and every statistic counts.

A batch holds complete cases only, their events in order, in CSR form: the events of case `i` are
`offsets[i]:offsets[i+1]` of the event arrays. Sorting, splitting by shard and recoding are here;
counting is in the modules of the statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from schemas.events import (
    ACTIVITY,
    CASE_ID,
    EVENT_INDEX,
    EVENT_SCHEMA,
    RELEASED_SCHEMA,
    TIMESTAMP,
)
from schemas.hashing import hash_text
from schemas.merging import offsets_of, order_of_small, ranges
from schemas.vocabulary import ActivityVocabulary


@dataclass(frozen=True, eq=False)
class TraceBatch:
    """Some complete cases of a log.

    Attributes:
        case_ids: string[n_cases], distinct.
        offsets: int64[n_cases+1]; every case has at least one event.
        activities: int32[n_events], codes of `vocabulary`.
        times: int64[n_events], microseconds since 1970-01-01 UTC, not decreasing within a case.
        vocabulary: What the codes mean; its names may be more than those that occur here.
    """

    case_ids: pa.StringArray
    offsets: np.ndarray
    activities: np.ndarray
    times: np.ndarray
    vocabulary: ActivityVocabulary

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return len(self.case_ids)

    @property
    def n_events(self) -> int:
        """Number of events of all cases."""
        return len(self.activities)

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

    def take(self, cases: np.ndarray) -> TraceBatch:
        """Returns the cases at the given positions, in that order.

        A position that repeats makes a batch whose case ids repeat, as copies of a case do.
        """
        events = ranges(self.offsets[cases], self.lengths[cases])
        return TraceBatch(
            self.case_ids.take(pa.array(cases)),
            offsets_of(self.lengths[cases]),
            self.activities[events],
            self.times[events],
            self.vocabulary,
        )

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

    @classmethod
    def from_events(cls, events: Sequence[pa.RecordBatch]) -> TraceBatch:
        """Sorts canonical events, all events of their cases, into traces.

        Events of a case are ordered by time, then by event index.

        Args:
            events: Batches of EVENT_SCHEMA; further columns are not carried.
        """
        columns = [batch.select(EVENT_SCHEMA.names) for batch in events if batch.num_rows]
        table = pa.Table.from_batches(columns, EVENT_SCHEMA).unify_dictionaries().combine_chunks()
        if table.num_rows == 0:
            empty = np.zeros(0, np.int64)
            return cls(
                pa.array([], pa.string()),
                np.zeros(1, np.int64),
                np.zeros(0, np.int32),
                empty,
                ActivityVocabulary.of([]),
            )
        case_column = table.column(CASE_ID).chunk(0)
        activity_column = table.column(ACTIVITY).chunk(0)
        case = np.asarray(case_column.indices)
        time = np.asarray(table.column(TIMESTAMP).chunk(0))
        index = np.asarray(table.column(EVENT_INDEX).chunk(0))
        order = _event_order(case, time, index)
        case, time = case[order], time[order]

        heads = np.flatnonzero(np.diff(case, prepend=case[0] - 1))
        offsets = np.append(heads, len(case)).astype(np.int64)
        vocabulary = ActivityVocabulary.of(activity_column.dictionary)
        codes = vocabulary.codes(activity_column.dictionary)
        return cls(
            case_column.dictionary.take(pa.array(case[heads])),
            offsets,
            codes[np.asarray(activity_column.indices)[order]],
            time,
            vocabulary,
        )

    def to_rows(self) -> pa.RecordBatch:
        """Returns the events as rows of RELEASED_SCHEMA, cases one after the other.

        Texts are written out, not as dictionaries: a dictionary could hold a name that no row has.
        """
        row = np.repeat(np.arange(self.n_cases), self.lengths)
        return pa.RecordBatch.from_arrays(
            [
                self.case_ids.take(pa.array(row)),
                self.vocabulary.names.take(pa.array(self.activities)),
                pa.array(self.times).cast(RELEASED_SCHEMA.field(TIMESTAMP).type),
            ],
            schema=RELEASED_SCHEMA,
        )

    @classmethod
    def concat(cls, batches: Sequence[TraceBatch]) -> TraceBatch:
        """Returns the cases of all batches, which share one vocabulary.

        Raises:
            ValueError: There is no batch, or the vocabularies differ.
        """
        if not batches or any(b.vocabulary != batches[0].vocabulary for b in batches):
            raise ValueError("concat needs at least one batch, and batches of one vocabulary")
        return cls(
            pa.concat_arrays([b.case_ids for b in batches]),
            offsets_of(np.concatenate([b.lengths for b in batches])),
            np.concatenate([b.activities for b in batches]),
            np.concatenate([b.times for b in batches]),
            batches[0].vocabulary,
        )


def _event_order(case: np.ndarray, time: np.ndarray, index: np.ndarray) -> np.ndarray:
    """int64[n]: the order by case, time, event index; sorts no more keys than it must."""
    order = np.argsort(case, kind="stable")
    case, time, index = case[order], time[order], index[order]
    same = case[1:] == case[:-1]
    ordered = (time[1:] > time[:-1]) | ((time[1:] == time[:-1]) & (index[1:] >= index[:-1]))
    if not (same & ~ordered).any():
        return order  # sources in document order arrive this way
    return order[np.lexsort((index, time, case))]


def split_by_shard(events: pa.RecordBatch, n_shards: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Splits canonical events so that all events of a case get the same shard number.

    Yields:
        (shard, events), non-empty, with the events in their order and dictionaries of case ids that
        hold just the shard's own.
    """
    if events.num_rows == 0:
        return
    position = events.schema.get_field_index(CASE_ID)
    case = events.column(position)
    value_shard = (hash_text(case.dictionary) % np.uint64(n_shards)).astype(np.int64)
    # Dictionary values are brought into the order of their shards, so each shard's dictionary is a
    # slice of one array instead of a re-encoding of its own.
    value_order = np.argsort(value_shard, kind="stable")
    new_code = np.empty(len(value_order), np.int32)
    new_code[value_order] = np.arange(len(value_order), dtype=np.int32)
    values = case.dictionary.take(pa.array(value_order))
    value_offsets = np.searchsorted(value_shard[value_order], np.arange(n_shards + 1))

    codes = np.asarray(case.indices)
    row_shard = value_shard[codes]
    row_order = order_of_small(row_shard, n_shards - 1)
    row_offsets = np.searchsorted(row_shard[row_order], np.arange(n_shards + 1))
    ordered = events.take(pa.array(row_order))
    ordered_codes = new_code[codes[row_order]]
    for shard in np.unique(row_shard):
        first, last = row_offsets[shard], row_offsets[shard + 1]
        first_value, last_value = value_offsets[shard], value_offsets[shard + 1]
        own = pa.DictionaryArray.from_arrays(
            pa.array(ordered_codes[first:last] - np.int32(first_value)),
            values.slice(first_value, last_value - first_value),
        )
        part = ordered.slice(first, last - first)
        arrays = [own if i == position else part.column(i) for i in range(part.num_columns)]
        yield int(shard), pa.RecordBatch.from_arrays(arrays, schema=events.schema)
