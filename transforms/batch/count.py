"""Counting: one exact combiner for all statistics of a round.

Beam runs it for the steps of a stream. For a whole log, an accumulator can be as large as the log,
and Beam would send it as one element. So the statistics of a log are combined bundle by bundle
where they are counted, travel in chunks (`chunks.py`), and are combined again in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.decorators import IOTypeHints
from apache_beam.utils.windowed_value import WindowedValue

from tracecloak.schemas.arrays.merging import Mergeable, Pieces, Statistics
from tracecloak.transforms.arrow_coder import PiecesCoder
from tracecloak.transforms.batch.chunks import CHUNK, Chunk, cut, whole


class MergeStatisticsFn(beam.CombineFn):
    """The combiner of all statistics of batches.

    Deterministic and exact: `extract_output` may run any number of times and never adds noise. An
    accumulator is changed only by the calls that own it; of those merged, only the first is.
    """

    def __init__(self, kinds: Mapping[str, type[Mergeable]]) -> None:
        super().__init__()
        self._kinds = dict(kinds)

    def create_accumulator(self) -> dict[str, Pieces[Any]]:
        """Returns the accumulators of an empty log."""
        return {name: Pieces(kind) for name, kind in self._kinds.items()}

    def add_input(
        self, accumulator: dict[str, Pieces[Any]], batch: Statistics
    ) -> dict[str, Pieces[Any]]:
        """Takes in one batch's statistics."""
        for name, piece in batch.by_name.items():
            accumulator[name].add(piece)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[dict[str, Pieces[Any]]]
    ) -> dict[str, Pieces[Any]]:
        """Merges into the first accumulator."""
        merged, *others = accumulators
        for other in others:
            for name, pieces in other.items():
                merged[name].absorb(pieces)
        return merged

    def compact(self, accumulator: dict[str, Pieces[Any]]) -> dict[str, Pieces[Any]]:
        """Merges what is pending before the accumulators travel."""
        for pieces in accumulator.values():
            pieces.compact()
        return accumulator

    def extract_output(self, accumulator: dict[str, Pieces[Any]]) -> Statistics:
        """Returns the statistics."""
        return Statistics({name: pieces.result() for name, pieces in accumulator.items()})

    def get_accumulator_coder(self) -> beam.coders.Coder:
        """Returns the coder of the merged statistics."""
        return PiecesCoder(self._kinds)


class CountBatches(beam.DoFn):
    """Merges what `counted` returns for the elements of a bundle, and gives it in chunks."""

    # Element type of the output, for its coder.
    gives: ClassVar[Any] = CHUNK

    def __init__(
        self, kinds: Mapping[str, type[Mergeable]], counted: Callable[..., Mapping[str, Any]]
    ) -> None:
        """Keeps what to do.

        Args:
            kinds: Types of the statistics, by name.
            counted: Counts an element, which comes first, with the side inputs.
        """
        self._combine = MergeStatisticsFn(kinds)
        self._counted = counted

    def default_type_hints(self) -> IOTypeHints:
        """Returns only the output's type, as Beam's check fails if there are no side inputs."""
        return IOTypeHints.empty().with_output_types(self.gives)

    def start_bundle(self) -> None:
        """Begins with nothing."""
        self._totals = self._combine.create_accumulator()
        self._has_any = False

    def process(self, element: Any, *known: Any) -> None:
        """Counts an element; the same bundle may be counted again after a failure."""
        counted = Statistics(dict(self._counted(element, *known)))
        self._totals = self._combine.add_input(self._totals, counted)
        self._has_any = True

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yields the chunks of what was counted, if anything was."""
        if self._has_any:
            for chunk in cut(self._combine.extract_output(self._totals)):
                yield GlobalWindows.windowed_value(chunk)
        del self._totals


class MergeStatistics(beam.PTransform):
    """Merges statistics in chunks into those of one value, that of an empty log included."""

    def __init__(self, **kinds: type[Mergeable]) -> None:
        """Keeps the statistics' types, by name."""
        super().__init__()
        self._kinds = kinds

    def expand(self, counted: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        """Shuffles the chunks, which makes them durable where a runner can, and merges them."""
        shuffled = counted | "Shuffle" >> beam.Reshuffle()
        return (
            counted.pipeline
            | "Once" >> beam.Create([None])
            | "Merge"
            >> beam.FlatMap(
                _merge, MergeStatisticsFn(self._kinds), pvalue.AsIter(shuffled)
            ).with_output_types(Chunk)
        )


def _merge(once: None, combine: MergeStatisticsFn, counted: Iterable[Chunk]) -> Iterator[Chunk]:
    totals = combine.create_accumulator()
    for statistics in whole(counted):
        totals = combine.add_input(totals, statistics)
    yield from cut(combine.extract_output(totals))
