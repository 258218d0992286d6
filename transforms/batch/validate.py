"""CheckRejects: malformed records to the dead letter; too many of them end the run."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.schemas.errors import InputSchemaError

_LOG = logging.getLogger("tracecloak")


@dataclass(frozen=True)
class DeadLetter:
    """Where malformed records are listed, and how many may be.

    A line says the file's rank among the inputs, the record's number in it and the reason; nothing
    of the record itself. The list is the operator's: the numbers in it come from private data.

    Attributes:
        folder: Gets one `file-<rank>.jsonl` per input with malformed records.
        max_error_ratio: Largest share of malformed records among all, in [0, 1].
    """

    folder: str
    max_error_ratio: float

    def write(self, rank: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Lists the malformed records of one input file, in the order of their numbers."""
        rows = sorted((row for b in batches for row in b.to_pylist()), key=lambda r: r["record"])
        path = FileSystems.join(self.folder, f"file-{rank:05d}.jsonl")
        stream = FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
        with contextlib.closing(stream):
            stream.write("".join(json.dumps(row) + "\n" for row in rows).encode())

    def check(self, n_events: int, n_rejects: int) -> None:
        """Ends the run if too many records were malformed.

        Raises:
            InputSchemaError: They are more than `max_error_ratio` of all records.
        """
        if n_rejects > self.max_error_ratio * (n_events + n_rejects):
            raise InputSchemaError(
                f"more than max_error_ratio={self.max_error_ratio:g} of the records are malformed; "
                f"their places and the reasons are in {self.folder}. Mend the source or its column "
                "mapping, or raise max_error_ratio"
            )
        if n_rejects:
            _LOG.warning("malformed records were left out; see %s", self.folder)


class CheckRejects(beam.PTransform):
    """Lists the rejects of an input; returns one element if the run may go on, and fails if not."""

    def __init__(self, dead_letter: DeadLetter) -> None:
        super().__init__()
        self._dead_letter = dead_letter

    def expand(self, read: dict[str, beam.PCollection[pa.RecordBatch]]) -> beam.PCollection[bool]:
        """Takes the two outputs of ReadEventLog."""
        counts = (
            [batches | f"Count {name}" >> beam.Map(_n_rows, name) for name, batches in read.items()]
            | "Flatten" >> beam.Flatten()
            | "Sum" >> beam.CombineGlobally(beam.combiners.TupleCombineFn(sum, sum))
        )  # PCollection[tuple[int, int]], events and rejects
        written = (
            read["rejects"]
            | "ByFile" >> beam.Map(_with_file).with_output_types(tuple[int, pa.RecordBatch])
            | "GroupByFile" >> beam.GroupByKey()
            | "WriteDeadLetter" >> beam.Map(_write, self._dead_letter)
        )
        return counts | "Check" >> beam.Map(_check, self._dead_letter, pvalue.AsIter(written))


def _n_rows(batch: pa.RecordBatch, name: str) -> tuple[int, int]:
    return (batch.num_rows, 0) if name == "events" else (0, batch.num_rows)


def _with_file(rejects: pa.RecordBatch) -> tuple[int, pa.RecordBatch]:
    return rejects.column("file")[0].as_py(), rejects


def _write(grouped: tuple[int, Iterable[pa.RecordBatch]], dead_letter: DeadLetter) -> int:
    rank, batches = grouped
    dead_letter.write(rank, batches)
    return rank


def _check(counts: tuple[int, int], dead_letter: DeadLetter, written: Iterable[int]) -> bool:
    dead_letter.check(*counts)
    return True
