"""From canonical events to traces: the events of a case together, in order, in batches."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.decorators import IOTypeHints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.windowed_value import WindowedValue

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.arrays.merging import Mergeable, Statistics, Totals
from tracecloak.schemas.events.events import ACTIVITY, ActivityVocabulary
from tracecloak.schemas.events.traces import DROPPED, TraceBatch, split_by_shard, without_duplicates
from tracecloak.transforms.arrow_coder import RecordBatchCoder, TotalsCoder, pack, unpack
from tracecloak.transforms.batch import BATCH_BYTES, DEFAULT_PARTS, DEFAULT_SHARDS
from tracecloak.transforms.batch.job import WindowPart
from tracecloak.transforms.operator_log import kept_on_worker

# --- Large values between stages, in chunks: no element of a pipeline grows with the log. ---------
# A runner sorts, copies and sends elements one by one, each in memory as a whole and, on some,
# within a buffer that many stages share: Flink refuses an element that does not fit with "Record
# too large". So statistics and decisions of a whole log travel as chunks of their wire form, and
# the worker that needs a value puts its chunks together.


# Name of the value, the chunk's number in it from 0, how many there are, and its bytes.
Chunk = tuple[bytes, int, int, bytes]
# The same type in Beam's own words. Where Beam has to translate a hint, it takes different coders
# at different places, and an element is then decoded as something else.
CHUNK = convert_to_beam_type(Chunk)

CHUNK_BYTES = 1 << 20


# Values that are in use in this process, by the names of their chunks. Each stage that needs a
# decision has it from here; else every one would hold a copy, and what it worked out of that.
_IN_USE: WeakValueDictionary[bytes, Any] = WeakValueDictionary()


# Decisions that chunks only name, by release and by name, of releases of which each stage is one
# bundle in this process: its runner would hold a copy for every stage that depends on them.
SHARED: dict[str, dict[bytes, Any]] = {}


def cut(value: Any, shared: dict[bytes, Any] | None = None) -> Iterator[Chunk]:
    """Yields a columnar value in chunks of at most CHUNK_BYTES; equal values stay apart.

    Args:
        value: The value.
        shared: Gets the value itself, where chunks only name it.
    """
    name = uuid.uuid4().bytes
    if shared is not None:
        shared[name] = value
        release_memory()
        yield name, 0, 1, b""
        return
    message = pack(encode(value))
    release_memory()
    firsts = range(0, len(message), CHUNK_BYTES)
    for number, first in enumerate(firsts):
        yield name, number, len(firsts), message[first : first + CHUNK_BYTES]


def release_memory() -> None:
    """Returns to the system what Arrow keeps of memory that it took for a large value."""
    pa.default_memory_pool().release_unused()


def whole(chunks: Iterable[Chunk]) -> Iterator[Any]:
    """Yields each value whose chunks are given, in any order, as soon as it is complete.

    Raises:
        ValueError: A value lacks a chunk.
    """
    open_values: dict[bytes, dict[int, bytes]] = {}
    for name, number, n_chunks, part in chunks:
        parts = open_values.setdefault(name, {})
        parts[number] = part
        if len(parts) == n_chunks:
            del open_values[name]
            # The same one as long as somebody has it.
            shared = (values[name] for values in [*SHARED.values()] if name in values)
            value = next(shared, _IN_USE.get(name))
            if value is None:
                value = _IN_USE[name] = decode(
                    unpack(b"".join([parts[i] for i in range(n_chunks)]))
                )
            yield value
    if open_values:
        raise ValueError(f"{len(open_values)} values lack chunks: the runner lost some")


def only(chunks: Iterable[Chunk]) -> Any:
    """Returns the one value whose chunks are given.

    Raises:
        ValueError: They are of no value, or of several.
    """
    (value,) = whole(chunks)
    return value


# --- Counting: a combiner for all statistics of a round, by parts of their rows. ------------------
# A bundle adds its batches to one columnar statistic. At its end that is cut by a hash of the keys
# of rows into a public number of parts, which Beam combines by their numbers: each worker merges
# its parts, and none the whole log. An element by row would take twenty times as long.


class MergeStatisticsFn(beam.CombineFn):
    """The combiner of all statistics of batches.

    Deterministic and exact: `extract_output` may run any number of times and never adds noise. An
    accumulator is changed only by the calls that own it; of those merged, only the first is.
    """

    def __init__(self, kinds: Mapping[str, type[Mergeable]]) -> None:
        super().__init__()
        self._kinds = dict(kinds)

    def create_accumulator(self) -> Totals:
        """Returns the accumulator of an empty log."""
        return Totals(self._kinds)

    def add_input(self, accumulator: Totals, batch: Statistics) -> Totals:
        """Takes in one batch's statistics."""
        accumulator.add(batch.by_name)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Totals]) -> Totals:
        """Merges into the first accumulator."""
        merged, *others = accumulators
        for other in others:
            merged.absorb(other)
        return merged

    def compact(self, accumulator: Totals) -> Totals:
        """Merges what is pending before the accumulators travel."""
        accumulator.result()
        return accumulator

    def extract_output(self, accumulator: Totals) -> Statistics:
        """Returns the statistics."""
        return Statistics(accumulator.result())

    def get_accumulator_coder(self) -> beam.coders.Coder:
        """Returns the coder of the merged statistics."""
        return TotalsCoder(self._kinds)


_NUMBERED = convert_to_beam_type(tuple[int, Statistics])


@dataclass(eq=False, repr=False)
class CountBatches(beam.DoFn):
    """Merges what `counted` returns for the elements of a bundle, and gives it in parts.

    Attributes:
        kinds: Types of the statistics, by name.
        counted: Counts an element, which comes first, with the side inputs.
        n_parts: Into how many parts rows are cut.
    """

    kinds: Mapping[str, type[Mergeable]]
    counted: Callable[..., Mapping[str, Any]]
    n_parts: int

    def default_type_hints(self) -> IOTypeHints:
        """Returns only the output's type, as Beam's check fails if there are no side inputs."""
        return IOTypeHints.empty().with_output_types(_NUMBERED)

    def start_bundle(self) -> None:
        """Begins with nothing."""
        self._totals: Totals | None = None

    def process(self, element: Any, *known: Any) -> None:
        """Counts an element; the same bundle may be counted again after a failure."""
        self._totals = self._totals or Totals(self.kinds)
        self._totals.add(self.counted(element, *known))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yields the numbers and the parts of what was counted, if anything was."""
        if self._totals is not None:
            counted = Statistics(self._totals.result())
            self._totals = None
            release_memory()
            yield from map(GlobalWindows.windowed_value, counted.split(self.n_parts))


def once(
    pipeline: beam.Pipeline, name: str, function: Callable[..., Iterable[Any]], *inputs: Any
) -> beam.PCollection[Any]:
    """Adds a stage that calls a function once.

    Args:
        pipeline: Gets the stage.
        name: Its name.
        function: Returns the elements of the output.
        inputs: What it is called with, side inputs among them.
    """
    alone = pipeline | f"{name} once" >> beam.Impulse()
    return alone | name >> beam.FlatMap(_called, function, *inputs)


def _called(alone: bytes, function: Callable[..., Iterable[Any]], *inputs: Any) -> Iterable[Any]:
    return function(*inputs)


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def CountStatistics(  # noqa: N802  # runners know it by this name
    elements: beam.PCollection[Any],
    kinds: Mapping[str, type[Mergeable]],
    counted: Callable[..., Mapping[str, Any]],
    *known: pvalue.AsSideInput,
    n_parts: int = DEFAULT_PARTS,
) -> beam.PCollection[Statistics]:
    """Counts a collection; returns PCollection[Statistics], the parts of what was counted.

    `total` merges them. The parts of an empty collection are none.

    What bounds an element is the number of parts: a part holds that share of the rows of its
    statistics, whatever hash they have, as equal keys are one row. A statistic without keys of rows
    is one element; those are as large as their alphabet or grid, and none grows with the cases.
    So no part needs a fan-out: it gets one element from each bundle. The shuffle makes the parts
    durable where a runner can.

    Args:
        elements: The collection.
        kinds: Types of the statistics, by name.
        counted: Counts an element.
        known: The side inputs that it is called with.
        n_parts: Number of parts, public; no result depends on it.
    """
    kinds = dict(kinds)
    return (
        elements
        | "Count" >> beam.ParDo(CountBatches(kinds, counted, n_parts), *known)
        | "Merge" >> beam.CombinePerKey(MergeStatisticsFn(kinds)).with_output_types(_NUMBERED)
        | "Parts" >> beam.Values().with_output_types(Statistics)
    )


def total(kinds: Mapping[str, type[Mergeable]], parts: Iterable[Statistics]) -> dict[str, Any]:
    """Returns the statistics of some kinds, by name, of the parts that `CountStatistics` returns.

    Args:
        kinds: Types of those that are wanted, by name.
        parts: All parts, in any order.
    """
    totals = Totals(kinds)
    for part in parts:
        totals.add(part.by_name)
    return totals.result()


_OPERATOR = logging.getLogger("tracecloak.operator")


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def GroupIntoTraces(  # noqa: N802  # runners know it by this name
    events: beam.PCollection[pa.RecordBatch],
    n_shards: int = DEFAULT_SHARDS,
    wait_on: beam.PCollection[Any] | None = None,
    by_individual: bool = False,
) -> beam.PCollection[TraceBatch]:
    """Shuffles canonical events by shard of their privacy unit, sorts each shard into traces.

    Returns PCollection[TraceBatch], all of one vocabulary, each of some thousand cases. A
    shard must fit one worker's memory; the results do not depend on the number of shards.

    Args:
        events: Batches of canonical events.
        n_shards: Number of shards.
        wait_on: No trace is built before this is complete.
        by_individual: Whether the unit is the individual and not the case: then all cases of an
            individual come in one batch; see TraceBatch.from_events. The pipeline fails if an
            event does not name its individual.
    """
    vocabulary = vocabulary_of(events, _names)
    waited = [] if wait_on is None else [pvalue.AsIter(wait_on)]
    shard = beam.FlatMap(_shard, n_shards, by_individual)
    sort = beam.FlatMap(_to_traces, by_individual, vocabulary, *waited)
    return (
        events
        | "Shard" >> shard.with_output_types(tuple[int, bytes])
        | "GroupByShard" >> beam.GroupByKey()
        | "SortIntoTraces" >> sort.with_output_types(TraceBatch)
    )


@beam.ptransform_fn  # type: ignore[untyped-decorator]
def DropDuplicates(  # noqa: N802  # runners know it by this name
    traces: beam.PCollection[TraceBatch],
    operator_folder: str | None,
    note: Callable[[int], None] | None = None,
) -> beam.PCollection[TraceBatch]:
    """Drops events that equal an earlier one of their case, in each batch alone.

    Args:
        traces: The cases, each in one batch.
        operator_folder: Where workers log how many these are; None: in their logs.
        note: Notes it instead, in all.
    """
    drop = beam.FlatMap(_once, operator_folder, note is None)
    outputs = traces | drop.with_outputs("dropped", main="traces")
    outputs["traces"].element_type, outputs["dropped"].element_type = TraceBatch, int
    if note is not None:
        dropped = outputs["dropped"] | "Sum" >> beam.CombineGlobally(sum)
        _ = dropped | "Note" >> beam.Map(note)
    return outputs["traces"]


def _once(traces: TraceBatch, operator_folder: str | None, is_logged: bool) -> Iterator[Any]:
    left = without_duplicates(traces)
    if n_dropped := traces.n_events - left.n_events:
        if is_logged:
            with kept_on_worker(operator_folder):
                _OPERATOR.warning(DROPPED, n_dropped)
        yield pvalue.TaggedOutput("dropped", n_dropped)
    yield left


def vocabulary_of(
    batches: beam.PCollection[Any], names: Callable[[Any], dict[str, ActivityVocabulary]]
) -> pvalue.AsIter:
    """Returns the vocabulary of all batches as a side input, under the name `vocabulary`.

    Args:
        batches: Of events or cases.
        names: Returns that of one, under that name.
    """
    return pvalue.AsIter(batches | "Vocabulary" >> CountStatistics(VOCABULARY, names))


VOCABULARY: dict[str, type[Any]] = {"vocabulary": ActivityVocabulary}
"""The type of the side input of `vocabulary_of`, by its name."""


def _names(events: pa.RecordBatch) -> dict[str, ActivityVocabulary]:
    return {"vocabulary": ActivityVocabulary.of(events.column(ACTIVITY).dictionary)}


def _shard(
    events: pa.RecordBatch, n_shards: int, by_individual: bool
) -> Iterable[tuple[int, bytes]]:
    """Encodes batches once, as the runner would decode and encode at every step of the shuffle."""
    for shard, part in split_by_shard(events, n_shards, by_individual):
        yield shard, _BATCHES.encode(part)


_BATCHES = RecordBatchCoder()


def _to_traces(
    shard: tuple[int, Iterable[bytes]],
    by_individual: bool,
    names: Iterable[Statistics],
    waited: Iterable[Any] = (),
) -> Iterator[TraceBatch]:
    parts = [_BATCHES.decode(part) for part in shard[1]]
    vocabulary = total(VOCABULARY, names)["vocabulary"]
    yield from TraceBatch.from_events(parts, by_individual).recode(vocabulary).split(BATCH_BYTES)


# --- A window's cases that may count. -------------------------------------------------------------


def keep_counted(
    traces: beam.PCollection[TraceBatch], part: WindowPart
) -> beam.PCollection[TraceBatch]:
    """Keeps the window's cases that may count, of one vocabulary."""
    counted = traces | "OfWindow" >> beam.FlatMap(_counted, part).with_output_types(TraceBatch)
    vocabulary = vocabulary_of(counted, lambda batch: {"vocabulary": batch.vocabulary})
    return counted | "Recode" >> beam.Map(_recoded, vocabulary).with_output_types(TraceBatch)


def _counted(traces: TraceBatch, part: WindowPart) -> Iterator[TraceBatch]:
    counted = part.counted(traces)
    if counted.n_cases:
        yield counted


def _recoded(traces: TraceBatch, names: Iterable[Statistics]) -> TraceBatch:
    return traces.recode(total(VOCABULARY, names)["vocabulary"])
