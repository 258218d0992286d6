"""Released rows: their canonical order, and merging sorted streams of them with bounded memory.

Cases are ordered by their new start and, where those tie, by their new id; a case's events keep
their order. The order is a function of the released log alone, so equal releases are equal bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.hashing import hash_text
from tracecloak.schemas.arrays.merging import ranges
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID, RELEASED_SCHEMA, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

# The column that orders rows, by its place: times, or EVENT_INDEX in a log without them.
_ORDER = 2
# Rows are written out for about so many events at once.
_PIECE_EVENTS = 1 << 16


def parts_of(traces: TraceBatch, n_parts: int) -> Iterator[tuple[int, TraceBatch]]:
    """Yields (part, cases) of all that a batch adds to the parts of a release.

    Its cases by the hash of their new ids, and, of a batch that has attributes and no cases, the
    batch itself to every part, for their columns.
    """
    if traces.n_cases == 0 and traces.attributes:
        yield from ((number, traces) for number in range(n_parts))
    part = (hash_text(traces.case_ids) % np.uint64(n_parts)).astype(np.int64)
    for number in np.unique(part):
        yield int(number), traces.take(np.flatnonzero(part == number))


def part_rows(batches: Sequence[TraceBatch]) -> pa.RecordBatch:
    """Returns the rows of one part at once; see `rows_of_part`."""
    return _concat(list(rows_of_part(batches)))


def rows_of_part(batches: Sequence[TraceBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one part in the canonical order, some at a time; of no cases, no rows.

    As rows have their texts written out, all of them together take several times what cases take.

    Args:
        batches: Released cases of one vocabulary. Batches without cases may have another one; with
            them, a part without cases still has the columns of its attributes.

    Raises:
        ValueError: The batches have different attributes.
    """
    if not batches:
        yield _no_rows(RELEASED_SCHEMA)
        return
    filled = [batch for batch in batches if batch.n_cases] or [batches[0]]
    attributes = list(filled[0].attribute_types.items())
    if any(list(batch.attribute_types.items()) != attributes for batch in batches):
        raise ValueError("the cases of a release must have the same attributes")
    traces = filled[0] if len(filled) == 1 else TraceBatch.concat(filled)
    order = _order(traces.starts, traces.case_ids)
    # Where pieces end, so that each has about so many events, or one case.
    pieces = np.cumsum(traces.lengths[order]) // _PIECE_EVENTS
    ends = np.append(np.flatnonzero(np.diff(pieces)) + 1, len(order))
    for first, end in zip([0, *ends], ends, strict=False):
        yield traces.take(order[first:end]).to_rows()


def in_order(traces: TraceBatch) -> TraceBatch:
    """Returns released cases in the canonical order."""
    return traces.take(_order(traces.starts, traces.case_ids))


def traces_of_rows(rows: pa.RecordBatch) -> TraceBatch:
    """Returns released rows, the events of each case one after the other, as traces again.

    Args:
        rows: Of `released_schema` with any attributes.
    """
    offsets = case_offsets(rows)
    names = rows.column(ACTIVITY)
    vocabulary = ActivityVocabulary.of(names)
    others = [n for n in rows.schema.names if n not in RELEASED_SCHEMA.names]
    return TraceBatch(
        rows.column(CASE_ID).take(pa.array(offsets[:-1])),
        offsets,
        vocabulary.codes(names),
        np.asarray(rows.column(_ORDER).cast(pa.int64())),
        vocabulary,
        attributes={name: rows.column(name) for name in others},
    )


def no_traces(attributes: Mapping[str, pa.DataType]) -> TraceBatch:
    """Returns a batch without cases that tells which attributes a released log has."""
    nothing = TraceBatch.from_events([])
    return replace(nothing, attributes={n: pa.array([], kind) for n, kind in attributes.items()})


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def _order(starts: np.ndarray, case_ids: pa.Array) -> np.ndarray:
    table = pa.table({"start": starts, "case": case_ids})
    keys = [("start", "ascending"), ("case", "ascending")]
    return np.asarray(pc.sort_indices(table, sort_keys=keys))


def merge_rows(
    streams: Sequence[Iterator[pa.RecordBatch]], schema: pa.Schema = RELEASED_SCHEMA
) -> Iterator[pa.RecordBatch]:
    """Merges streams of rows, each in the canonical order, into one in that order.

    Holds about one batch a stream, and all of any one case.

    Args:
        streams: Of rows of `schema`.
        schema: RELEASED_SCHEMA, or that with attributes.
    """
    cursors = [_Cursor(stream, schema) for stream in streams]
    while True:
        for cursor in cursors:
            cursor.fill()
        open_ends = [cursor.last_key for cursor in cursors if cursor.may_grow]
        bound = min(open_ends) if open_ends else None
        heads = [head for cursor in cursors if (head := cursor.take(bound)).num_rows]
        if heads:
            yield _sorted(heads)
        elif bound is None:
            return


class _Cursor:
    """One stream: the complete cases read so far, and the beginning of one that may go on."""

    def __init__(self, stream: Iterator[pa.RecordBatch], schema: pa.Schema) -> None:
        self._stream = stream
        self._rows = _no_rows(schema)
        self._offsets = np.zeros(1, np.int64)
        self.may_grow = True

    @property
    def _n_complete(self) -> int:
        n_cases = len(self._offsets) - 1
        return n_cases - 1 if self.may_grow and n_cases else n_cases

    def fill(self) -> None:
        """Reads on until there is a complete case, or the stream ends."""
        while self.may_grow and self._n_complete == 0:
            batch = next(self._stream, None)
            if batch is None:
                self.may_grow = False
            elif batch.num_rows:
                self._hold(_concat([self._rows, batch]))

    def _hold(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._offsets = case_offsets(rows)

    @property
    def last_key(self) -> tuple[int, str]:
        """The order key of the last complete case."""
        return self._key(self._n_complete - 1)

    def _key(self, case: int) -> tuple[int, str]:
        row = int(self._offsets[case])
        start = self._rows.column(_ORDER)[row].cast(pa.int64()).as_py()
        return start, self._rows.column(CASE_ID)[row].as_py()

    def take(self, bound: tuple[int, str] | None) -> pa.RecordBatch:
        """Takes the complete cases up to the bound off the stream."""
        n = self._n_complete
        if bound is not None:
            # The keys ascend, so the cases up to the bound are found by halving.
            n = bisect_right(range(n), bound, key=self._key)
        end = int(self._offsets[n])
        head = self._rows.slice(0, end)
        self._hold(self._rows.slice(end))
        return head


def case_offsets(rows: pa.RecordBatch) -> np.ndarray:
    """Returns int64[n_cases+1], where the cases of contiguous rows begin, and the end."""
    n = rows.num_rows
    if n == 0:
        return np.zeros(1, np.int64)
    ids = rows.column(CASE_ID)
    changes = np.asarray(pc.not_equal(ids.slice(1), ids.slice(0, n - 1)))
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [n]]).astype(np.int64)


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    schema = batches[0].schema
    arrays = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(len(schema))]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sorted(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = _concat(batches)
    offsets = case_offsets(rows)
    heads = pa.array(offsets[:-1])
    starts = np.asarray(rows.column(_ORDER).take(heads).cast(pa.int64()))
    order = _order(starts, rows.column(CASE_ID).take(heads))
    lengths = np.diff(offsets)[order]
    return rows.take(pa.array(ranges(offsets[:-1][order], lengths)))
