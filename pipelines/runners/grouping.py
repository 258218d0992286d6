"""Events are grouped into cases in one process, whatever of them fits into its memory.

Events are dealt to shards as they are read, and each shard is sorted by itself. A shard that would
take more memory than there is for it is dealt out once more, to shards of its own. So which shards
there are depends on the size of the log, and what is released does not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa

from tracecloak.pipelines.runners.held import Block, HeldTraces, Hold
from tracecloak.pipelines.runners.limits import Limits
from tracecloak.pipelines.runners.workers import Workers
from tracecloak.schemas.arrays.merging import Pieces
from tracecloak.schemas.events.events import ACTIVITY, CASE_ID
from tracecloak.schemas.events.traces import (
    INDIVIDUAL_ID,
    TraceBatch,
    carried_columns,
    split_by_shard,
)
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

# Fewer events are one shard: to deal them out would take longer than to sort them.
_SMALL_EVENTS = 1 << 18
# To sort a byte of events takes so many more: their copy in one piece, and their order.
_SORTED_BYTES = 5


class EventsByShard:
    """Events as they are read, by shard of their unit; several threads may add some."""

    def __init__(
        self,
        hold: Hold,
        limits: Limits,
        n_shards: int,
        by_individual: bool = False,
        drops_duplicates: bool = False,
    ) -> None:
        """Begins without an event.

        Args:
            hold: Holds them.
            limits: How much memory there is.
            n_shards: Into how many shards events are dealt as they are read.
            by_individual: See `TraceBatch.from_events`.
            drops_duplicates: Whether equal events of a case count once.
        """
        self._hold = hold
        self._limits = limits
        self._n_shards = n_shards
        self._by_individual = by_individual
        self._drops_duplicates = drops_duplicates
        self._key = INDIVIDUAL_ID if by_individual else CASE_ID
        self._first: list[pa.RecordBatch] | None = []  # until there are more than a few
        self._shards: dict[int, list[Block[pa.RecordBatch]]] = {}
        self._names = Pieces(ActivityVocabulary)
        self._lock = threading.Lock()
        self.n_events = self.n_dropped = 0  # events, and duplicates once they are grouped

    def add(self, events: pa.RecordBatch) -> None:
        """Takes in canonical events.

        Raises:
            InputSchemaError: The unit is the individual, and an event names none.
            TracecloakError: The disk is full.
        """
        if not events.num_rows:
            return
        events = carried_columns(events, self._by_individual)
        names = ActivityVocabulary.of(events.column(ACTIVITY).dictionary)
        with self._lock:
            self._names.add(names)
            self.n_events += events.num_rows
            new = [events]
            if self._first is not None:
                self._first.append(events)
                if self.n_events <= _SMALL_EVENTS:
                    return
                new, self._first = self._first, None
        for batch in new:
            self._deal(batch, self._n_shards, self._shards)

    def _deal(
        self, events: pa.RecordBatch, n_shards: int, to: dict[int, list[Block[pa.RecordBatch]]]
    ) -> None:
        for shard, part in split_by_shard(events, n_shards, self._key):
            block = self._hold.put(part)
            with self._lock:
                to.setdefault(shard, []).append(block)

    def grouped(self, workers: Workers) -> HeldTraces:
        """Returns the cases; no event is held afterwards.

        Raises:
            InputSchemaError: The events have different attributes.
            TracecloakError: The disk is full.
        """
        cases = HeldTraces(self._hold)
        self._vocabulary = self._names.result()
        if self._first:
            cases.add(self._sorted(self._first), self._limits.batch_bytes)
            self._first = None
        for traces in workers.each(self._sorted_shard, self._finer_shards()):
            cases.add(traces, self._limits.batch_bytes)
        return cases

    def _finer_shards(self) -> Iterator[list[Block[pa.RecordBatch]]]:
        """Yields shards each of which can be sorted in the memory that there is for it."""
        for shard in sorted(self._shards):
            blocks = self._shards.pop(shard)
            n_bytes = _SORTED_BYTES * sum(block.n_bytes for block in blocks)
            if n_bytes <= self._limits.step_bytes:
                yield blocks
                continue
            n_finer = -(-n_bytes // self._limits.step_bytes)
            finer: dict[int, list[Block[pa.RecordBatch]]] = {}
            for events in self._joined(blocks):
                self._deal(events, self._n_shards * n_finer, finer)
            yield from finer.values()

    def _joined(self, blocks: list[Block[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Yields the events of blocks in large batches, as there are many shards for their rows."""
        run: list[pa.RecordBatch] = []
        for i, block in enumerate(blocks):
            run.append(self._hold.take(block))
            if i + 1 == len(blocks) or sum(one.nbytes for one in run) >= self._limits.batch_bytes:
                table = pa.Table.from_batches(run).unify_dictionaries().combine_chunks()
                yield from table.to_batches()
                run = []

    def _sorted_shard(self, blocks: list[Block[pa.RecordBatch]]) -> TraceBatch:
        return self._sorted([self._hold.take(block) for block in blocks])

    def _sorted(self, events: list[pa.RecordBatch]) -> TraceBatch:
        traces = TraceBatch.from_events(events, self._by_individual)
        if self._drops_duplicates:
            from tracecloak.schemas.events.duplicates import without_duplicates  # loaded on use

            left = without_duplicates(traces)
            with self._lock:
                self.n_dropped += traces.n_events - left.n_events
            traces = left
        return traces.recode(self._vocabulary)
