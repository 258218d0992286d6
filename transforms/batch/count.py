"""Counting: one exact combiner for all statistics of a round, one accumulator a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam

from tracecloak.schemas.arrays.merging import Mergeable, Pieces, Statistics
from tracecloak.transforms.arrow_coder import PiecesCoder


class MergeStatistics(beam.PTransform):
    """Merges PCollection[Statistics] of batches into one element, that of an empty log included."""

    def __init__(self, **kinds: type[Mergeable]) -> None:
        """Keeps the statistics' types, by name."""
        super().__init__()
        self._kinds = kinds

    def expand(self, batches: beam.PCollection[Statistics]) -> beam.PCollection[Statistics]:
        """Combines globally."""
        return batches | "Merge" >> beam.CombineGlobally(
            MergeStatisticsFn(self._kinds)
        ).with_output_types(Statistics)


class MergeStatisticsFn(beam.CombineFn):
    """Merges the statistics of batches.

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
