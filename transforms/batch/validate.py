"""CheckRejects: malformed records to the dead letter; too many of them end the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.schemas.events.tally import ReadTally
from tracecloak.transforms.batch.chunks import Chunk, only
from tracecloak.transforms.batch.count import CountBatches, MergeStatistics
from tracecloak.transforms.batch.dead_letter import DeadLetter


class CheckRejects(beam.PTransform):
    """Lists the rejects of an input; returns one element if the run may go on, and fails if not."""

    def __init__(self, dead_letter: DeadLetter) -> None:
        super().__init__()
        self._dead_letter = dead_letter

    def expand(self, read: dict[str, beam.PCollection[Any]]) -> beam.PCollection[bool]:
        """Takes the outputs of ReadFiles."""
        tally = read["tallies"] | MergeTallies()
        written = (
            read["rejects"]
            | "ByFile" >> beam.Map(_with_file).with_output_types(tuple[int, pa.RecordBatch])
            | "GroupByFile" >> beam.GroupByKey()
            | "WriteDeadLetter" >> beam.Map(_write, self._dead_letter)
        )
        return (
            tally.pipeline
            | "Once" >> beam.Create([None])
            | "Check"
            >> beam.Map(_check, self._dead_letter, pvalue.AsIter(tally), pvalue.AsIter(written))
        )


class MergeTallies(beam.PTransform):
    """Merges tallies into the one of a whole log, under the name `tally` of a Chunk."""

    def expand(self, tallies: beam.PCollection[ReadTally]) -> beam.PCollection[Chunk]:
        """Adds up bundles, and then what came of them."""
        return (
            tallies
            | "CountTallies" >> beam.ParDo(CountBatches({"tally": ReadTally}, _as_statistics))
            | "Tally" >> MergeStatistics(tally=ReadTally)
        )


def _as_statistics(tally: ReadTally) -> dict[str, ReadTally]:
    return {"tally": tally}


def _with_file(rejects: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    return rejects.column("file")[0].as_py(), rejects


def _write(grouped: tuple[int, Iterable[pa.RecordBatch]], dead_letter: DeadLetter) -> int:
    rank, batches = grouped
    dead_letter.write(rank, batches)
    return rank


def _check(
    once: None, dead_letter: DeadLetter, tally: Iterable[Chunk], written: Iterable[int]
) -> bool:
    dead_letter.check(only(tally).by_name["tally"])
    return True
