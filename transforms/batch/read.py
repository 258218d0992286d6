"""ReadEventLog: files of any format to canonical events and rejects."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.schemas.events.tally import TallyOfFile
from tracecloak.transforms.files import SourceFile
from tracecloak.transforms.sources import EventSource

_LOG = logging.getLogger("tracecloak")
EVENTS = "events"
REJECTS = "rejects"
TALLIES = "tallies"


class ReadEventLog(beam.PTransform):
    """Reads an event log; returns a dict of PCollections.

    `events` holds batches of canonical events, `rejects` batches of the places and reasons of
    malformed records, `tallies` a ReadTally for each file.
    """

    def __init__(self, source: EventSource) -> None:
        super().__init__()
        self._source = source

    def expand(self, begin: beam.pvalue.PBegin) -> dict[str, beam.PCollection[Any]]:
        """Reads one file per element: a file is the unit of parallel reading."""
        outputs = (
            begin
            | "Files" >> beam.Create(list(self._source.files))
            | "Spread" >> beam.Reshuffle()
            | "Read"
            >> beam.ParDo(_ReadFile(self._source)).with_outputs(REJECTS, TALLIES, main=EVENTS)
        )
        # PCollection[pa.RecordBatch] twice, PCollection[ReadTally]
        return {name: outputs[name] for name in (EVENTS, REJECTS, TALLIES)}


class _ReadFile(beam.DoFn):
    def __init__(self, source: EventSource) -> None:
        self._source = source

    def process(self, file: SourceFile) -> Iterable[pa.RecordBatch]:
        tally = TallyOfFile(file.rank)
        for events, rejects in self._source.read(file, tally):
            if events.num_rows:
                yield events
            if rejects.num_rows:
                yield pvalue.TaggedOutput(REJECTS, rejects)
        yield pvalue.TaggedOutput(TALLIES, tally.result())
        _LOG.info(
            "read input %d of %d",
            file.rank + 1,
            len(self._source.files),
            extra=self._source.progress_of(file),
        )

    def infer_output_type(self, input_type: Any) -> Any:
        return pa.RecordBatch
