"""On Beam: writing down the units of a window's cases, and keeping the cases that may count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam
from apache_beam import pvalue

from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.transforms.batch.chunks import Chunk, only
from tracecloak.transforms.batch.traces import CountBatches, MergeStatistics
from tracecloak.transforms.batch.window_part import WindowPart


class WriteUnits(beam.PTransform):
    """Writes the units of the window's cases among PCollection[TraceBatch] into files."""

    def __init__(self, part: WindowPart) -> None:
        super().__init__()
        self._part = part

    def expand(self, traces: beam.PCollection[TraceBatch]) -> beam.PCollection[None]:
        """Adds one stage."""
        return traces | "WriteUnits" >> beam.Map(_write_units, self._part)


def _write_units(traces: TraceBatch, part: WindowPart) -> None:
    part.write_units(part.units(traces))


class KeepCounted(beam.PTransform):
    """Keeps of PCollection[TraceBatch] the window's cases that may count, of one vocabulary."""

    def __init__(self, part: WindowPart) -> None:
        super().__init__()
        self._part = part

    def expand(self, traces: beam.PCollection[TraceBatch]) -> beam.PCollection[TraceBatch]:
        """Adds the filter, and the vocabulary of what passes it."""
        counted = traces | "OfWindow" >> beam.FlatMap(_counted, self._part).with_output_types(
            TraceBatch
        )
        vocabulary = (
            counted
            | "BatchVocabulary"
            >> beam.ParDo(CountBatches({"vocabulary": ActivityVocabulary}, _vocabulary))
            | "Vocabulary" >> MergeStatistics(vocabulary=ActivityVocabulary)
        )  # PCollection[Chunk]
        return counted | "Recode" >> beam.Map(
            _recoded, pvalue.AsIter(vocabulary)
        ).with_output_types(TraceBatch)


def _counted(traces: TraceBatch, part: WindowPart) -> Iterator[TraceBatch]:
    counted = part.counted(traces)
    if counted.n_cases:
        yield counted


def _vocabulary(traces: TraceBatch) -> dict[str, ActivityVocabulary]:
    return {"vocabulary": traces.vocabulary}


def _recoded(traces: TraceBatch, names: Iterable[Chunk]) -> TraceBatch:
    return traces.recode(only(names).by_name["vocabulary"])
