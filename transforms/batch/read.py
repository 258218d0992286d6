"""ReadFiles: files of any format to canonical events and rejects."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.schemas.events.tally import ReadTally, TallyOfFile
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.sources import EventSource

_OPERATOR = logging.getLogger("tracecloak.operator")
EVENTS = "events"
REJECTS = "rejects"
TALLIES = "tallies"

# Small files are read together, as an element and its batches cost more than the records in them.
# Not too many are, as each file far away takes a while to answer, and workers can share this
# waiting.
_MOST_FILES = 64
_MOST_BYTES = 8 << 20
# Events of several files are put into one batch, up to this number.
_FULL_ROWS = 1 << 15


class ReadFiles(beam.PTransform):
    """Reads an event log; returns a dict of PCollections.

    `events` holds batches of canonical events, `rejects` batches of the places and reasons of
    malformed records, each of one file, `tallies` a ReadTally for each element that was read.

    Args:
        source: What is read.
        operator_folder: Where workers put their findings in the data, see
            `transforms.operator_log`; None: into their logs.
    """

    def __init__(self, source: EventSource, operator_folder: str | None = None) -> None:
        super().__init__()
        self._source = source
        self._operator_folder = operator_folder

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection[Any]]:
        """Reads one file per element, or a few small ones; elements are read in parallel."""
        outputs = (
            begin
            | "Files" >> beam.Create(list(_together(self._source.files)))
            | "Spread" >> beam.Reshuffle()
            | "Read"
            >> beam.ParDo(_ReadFiles(self._source, self._operator_folder)).with_outputs(
                REJECTS, TALLIES, main=EVENTS
            )
        )
        # PCollection[pa.RecordBatch] twice, PCollection[ReadTally]
        return {name: outputs[name] for name in (EVENTS, REJECTS, TALLIES)}


def _together(files: Iterable[SourceFile]) -> Iterator[tuple[SourceFile, ...]]:
    """Yields runs of files that one element reads: a large one alone, or small ones."""
    run: list[SourceFile] = []
    n_bytes = 0
    for file in files:
        if run and (len(run) == _MOST_FILES or n_bytes + file.n_bytes > _MOST_BYTES):
            yield tuple(run)
            run, n_bytes = [], 0
        run.append(file)
        n_bytes += file.n_bytes
    if run:
        yield tuple(run)


class _ReadFiles(beam.DoFn):
    def __init__(self, source: EventSource, operator_folder: str | None) -> None:
        self._source = source
        self._operator_folder = operator_folder

    def process(self, files: tuple[SourceFile, ...]) -> Iterable[pa.RecordBatch]:
        with kept_on_worker(self._operator_folder):
            yield from self._read(files)

    def _read(self, files: tuple[SourceFile, ...]) -> Iterable[pa.RecordBatch]:
        tallies: list[ReadTally] = []
        small: list[pa.RecordBatch] = []
        n_rows = 0
        for file in files:
            tally = TallyOfFile(file.rank)
            for events, rejects in self._source.read(file, tally):
                if events.num_rows:
                    small.append(events)
                    n_rows += events.num_rows
                if n_rows >= _FULL_ROWS:
                    yield from _joined(small)
                    small, n_rows = [], 0
                if rejects.num_rows:  # of one file in each batch
                    yield pvalue.TaggedOutput(REJECTS, rejects)
            tallies.append(tally.result())
            _OPERATOR.info(
                "read input %d of %d",
                file.rank + 1,
                len(self._source.files),
                extra=self._source.progress_of(file),
            )
        yield from _joined(small)
        yield pvalue.TaggedOutput(TALLIES, ReadTally.merge(tallies))

    def infer_output_type(self, input_type: Any) -> Any:
        return pa.RecordBatch


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns batches of events as one, as a shuffle pays for the pieces of each."""
    if len(batches) < 2:
        return batches
    joined = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    pieces: list[pa.RecordBatch] = joined.to_batches()
    return pieces
