"""GroupIntoTraces: the one shuffle that brings the events of a case or an individual together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

from tracecloak.schemas.events.events import ACTIVITY, CASE_ID
from tracecloak.schemas.events.traces import (
    INDIVIDUAL_ID,
    TraceBatch,
    carried_columns,
    split_by_shard,
)
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.transforms.arrow_coder import RecordBatchCoder
from tracecloak.transforms.batch.chunks import Chunk, only
from tracecloak.transforms.batch.count import CountBatches, MergeStatistics
from tracecloak.transforms.batch.shards import BATCH_BYTES, DEFAULT_SHARDS
from tracecloak.transforms.operator_log import kept_on_worker

_OPERATOR = logging.getLogger("tracecloak.operator")


class GroupIntoTraces(beam.PTransform):
    """Shuffles canonical events by shard of their privacy unit, sorts each shard into traces.

    Returns `traces`: PCollection[TraceBatch], all of one vocabulary, each of some thousand cases. A
    shard must fit one worker's memory; the results do not depend on the number of shards.
    """

    def __init__(
        self,
        n_shards: int = DEFAULT_SHARDS,
        wait_on: beam.PCollection[Any] | None = None,
        by_individual: bool = False,
    ) -> None:
        """Keeps the options.

        Args:
            n_shards: Number of shards.
            wait_on: No trace is built before this is complete.
            by_individual: Whether the unit is the individual and not the case: then all cases of an
                individual come in one batch; see TraceBatch.from_events. The pipeline fails if an
                event does not name its individual.
        """
        super().__init__()
        self._n_shards = n_shards
        self._wait_on = wait_on
        self._by_individual = by_individual

    def expand(self, events: beam.PCollection[pa.RecordBatch]) -> dict[str, beam.PCollection[Any]]:
        """Groups PCollection[pa.RecordBatch] of canonical events."""
        vocabulary = (
            events
            | "BatchVocabulary"
            >> beam.ParDo(CountBatches({"vocabulary": ActivityVocabulary}, _vocabulary))
            | "Vocabulary" >> MergeStatistics(vocabulary=ActivityVocabulary)
        )  # PCollection[Chunk]
        waited = [] if self._wait_on is None else [pvalue.AsIter(self._wait_on)]
        traces = (
            events
            | "Shard"
            >> beam.FlatMap(_shard, self._n_shards, self._by_individual).with_output_types(
                tuple[int, bytes]
            )
            | "GroupByShard" >> beam.GroupByKey()
            | "SortIntoTraces"
            >> beam.FlatMap(
                _to_traces,
                self._by_individual,
                pvalue.AsIter(vocabulary),
                *waited,
            ).with_output_types(TraceBatch)
        )  # PCollection[TraceBatch]
        return {"traces": traces}


class DropDuplicates(beam.PTransform):
    """Drops events of PCollection[TraceBatch] that equal an earlier one of their case."""

    def __init__(
        self, operator_folder: str | None, note: Callable[[int], None] | None = None
    ) -> None:
        """Keeps what tells the operator how many these are.

        Args:
            operator_folder: Where workers log it; None: in their logs.
            note: Notes it instead, in all.
        """
        super().__init__()
        self._operator_folder = operator_folder
        self._note = note

    def expand(self, traces: beam.PCollection[TraceBatch]) -> beam.PCollection[TraceBatch]:
        """Looks at each batch alone, as a case is in one of them."""
        told = self._operator_folder, self._note is None
        outputs = traces | beam.FlatMap(_once, *told).with_outputs("dropped", main="traces")
        outputs["traces"].element_type, outputs["dropped"].element_type = TraceBatch, int
        if self._note is not None:
            dropped = outputs["dropped"] | "Sum" >> beam.CombineGlobally(sum)
            _ = dropped | "Note" >> beam.Map(self._note)
        return outputs["traces"]


def _once(traces: TraceBatch, operator_folder: str | None, is_logged: bool) -> Iterator[Any]:
    from tracecloak.schemas.events.duplicates import DROPPED, without_duplicates

    left = without_duplicates(traces)
    if n_dropped := traces.n_events - left.n_events:
        if is_logged:
            with kept_on_worker(operator_folder):
                _OPERATOR.warning(DROPPED, n_dropped)
        yield pvalue.TaggedOutput("dropped", n_dropped)
    yield left


def _vocabulary(events: pa.RecordBatch) -> dict[str, ActivityVocabulary]:
    return {"vocabulary": ActivityVocabulary.of(events.column(ACTIVITY).dictionary)}


def _shard(
    events: pa.RecordBatch, n_shards: int, by_individual: bool
) -> Iterable[tuple[int, bytes]]:
    """Encodes batches once, as the runner would decode and encode at every step of the shuffle."""
    key = INDIVIDUAL_ID if by_individual else CASE_ID
    for shard, part in split_by_shard(carried_columns(events, by_individual), n_shards, key):
        yield shard, _BATCHES.encode(part)


_BATCHES = RecordBatchCoder()


def _to_traces(
    shard: tuple[int, Iterable[bytes]],
    by_individual: bool,
    names: Iterable[Chunk],
    waited: Iterable[Any] = (),
) -> Iterator[TraceBatch]:
    parts = [_BATCHES.decode(part) for part in shard[1]]
    vocabulary = only(names).by_name["vocabulary"]
    yield from TraceBatch.from_events(parts, by_individual).recode(vocabulary).split(BATCH_BYTES)
