"""MakeCanonical: rows, dicts and batches of somebody's pipeline to canonical events.

What is malformed is counted by its reason in metrics of the runner, for the operator alone: these
numbers are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam import pvalue
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.pipelines.embedded.elements import Elements
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import renamed
from tracecloak.schemas.events.events import ACTIVITY, EVENT_SCHEMA, ORDER
from tracecloak.schemas.events.tally import NO_INDIVIDUAL, OTHER_ACTIVITY, ReadTally, TallyOfFile
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, with_attributes
from tracecloak.transforms.batch.chunks import Chunk, only
from tracecloak.transforms.batch.read import MergeTallies
from tracecloak.transforms.formats.base import missing_columns

METRICS = "tracecloak"
RECORDS = "records read"
REJECTED = "records rejected: "
"""Counters of what is read, and of each reason why a record is malformed."""

EVENTS, REJECTS, TALLIES = "events", "rejects", "tallies"
_MOST_ROWS = 1 << 14


class MakeCanonical(beam.PTransform):
    """Reads a collection; returns a dict of PCollections.

    `events` holds batches of canonical events, `rejects` the reasons of malformed records, one
    each, `tallies` a ReadTally for each bundle.
    """

    def __init__(self, elements: Elements) -> None:
        super().__init__()
        self._elements = elements

    def expand(self, rows: beam.PCollection[Any]) -> dict[str, beam.PCollection[Any]]:
        """Adds one stage."""
        read = _ReadBatches if self._elements.kind == "batches" else _ReadRows
        outputs = rows | "Read" >> beam.ParDo(read(self._elements)).with_outputs(
            REJECTS, TALLIES, main=EVENTS
        )
        events, rejects, tallies = (outputs[name] for name in (EVENTS, REJECTS, TALLIES))
        events.element_type, rejects.element_type = pa.RecordBatch, str
        return {EVENTS: events, REJECTS: rejects, TALLIES: tallies}


def count_records(tally: ReadTally) -> None:
    """Counts in the runner's metrics what was read."""
    Metrics.counter(METRICS, RECORDS).inc(tally.n_records)
    for finding in tally.found():
        if finding.is_lost:
            Metrics.counter(METRICS, REJECTED + finding.what).inc(finding.n_records)


class _Counted(beam.DoFn):
    """Counts in metrics what was read."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements

    def _outputs(
        self, events: pa.RecordBatch, reasons: Iterable[str], tally: ReadTally
    ) -> Iterator[Any]:
        count_records(tally)
        if events.num_rows:
            yield events
        yield from (pvalue.TaggedOutput(REJECTS, reason) for reason in reasons)
        yield pvalue.TaggedOutput(TALLIES, tally)


class _ReadRows(_Counted):
    def start_bundle(self) -> None:
        self._rows: list[Any] = []

    def process(self, row: Any) -> Iterator[Any]:
        self._rows.append(row.get if self._elements.kind == "dicts" else partial(_field, row))
        if len(self._rows) == _MOST_ROWS:
            yield from self._read()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._rows:
            for output in self._read():
                if isinstance(output, pvalue.TaggedOutput):
                    value = GlobalWindows.windowed_value(output.value)
                    yield pvalue.TaggedOutput(output.tag, value)
                else:
                    yield GlobalWindows.windowed_value(output)

    def _read(self) -> Iterator[Any]:
        reader, tally = self._elements.reader, TallyOfFile(0)
        assert reader is not None  # which batches alone have not
        events, reasons = reader.read(self._rows, tally)
        self._rows = []
        yield from self._outputs(events, reasons, tally.result())


def _field(row: Any, name: str) -> Any:
    return getattr(row, name, None)


class _ReadBatches(_Counted):
    def process(self, batch: pa.RecordBatch) -> Iterator[Any]:
        tally, mapping = TallyOfFile(0), self._elements.mapping
        is_ours = all(field in batch.schema for field in EVENT_SCHEMA)
        if is_ours:
            if mapping.filters:
                raise InputSchemaError(
                    "where filters columns as they are read, and canonical events are read "
                    "already: give it to ReadEventLog, and leave it out here"
                )
            yield from self._checked(batch, tally)
            return
        resolved = mapping.resolve(batch.schema.names, xes_names=False)
        if missing := set(resolved.required) - set(batch.schema.names):
            raise missing_columns(batch.schema.names, missing)
        wanted = batch.select([name for name in resolved.wanted if name in batch.schema.names])
        none = np.zeros(0, np.int64)
        places = np.zeros(batch.num_rows, np.int64)
        events, rejects = resolved.canonicalise(wanted, places, none, 0, tally)
        yield from self._outputs(events, rejects.column("reason").to_pylist(), tally.result())

    def _checked(self, events: pa.RecordBatch, tally: TallyOfFile) -> Iterator[Any]:
        """Yields canonical events with the columns of the mapping, and what it makes malformed.

        Raises:
            InputSchemaError: They lack an attribute that the method reads, or the individual.
        """
        mapping = self._elements.mapping
        events = with_attributes(events, list(self._elements.carried))
        if mapping.needs_individual and INDIVIDUAL_ID not in events.schema.names:
            raise InputSchemaError(
                "the canonical events name no individuals, whom the method protects: read them "
                "with individual_id"
            )
        if mapping.order is not None and ORDER not in events.schema.names:
            raise InputSchemaError(
                "the canonical events have no order column: give order to ReadEventLog, too"
            )
        if mapping.renames:
            names = renamed(events.column(ACTIVITY).cast("string"), mapping.renames)
            index = events.schema.get_field_index(ACTIVITY)
            events = events.set_column(index, events.schema.field(index), names.dictionary_encode())
        reason = np.full(events.num_rows, "", object)
        if mapping.activities is not None:
            known = pc.is_in(events.column(ACTIVITY).cast("string"), pa.array(mapping.activities))
            reason[~np.asarray(known)] = OTHER_ACTIVITY
        if mapping.needs_individual:
            reason[np.asarray(events.column(INDIVIDUAL_ID).is_null())] = NO_INDIVIDUAL
        for why in set(reason.tolist()) - {""}:
            tally.add(why, np.flatnonzero(reason == why))
        good = events.filter(pa.array(reason == ""))
        tally.add_events(good.num_rows)
        yield from self._outputs(good, reason[reason != ""].tolist(), tally.result())


class CheckMalformed(beam.PTransform):
    """Ends the run if too many records are malformed; gives one element if it may go on."""

    def __init__(self, max_error_ratio: float) -> None:
        super().__init__()
        self._max_error_ratio = max_error_ratio

    def expand(self, tallies: beam.PCollection[ReadTally]) -> beam.PCollection[bool]:
        """Takes the tallies of MakeCanonical."""
        tally = tallies | MergeTallies()
        return (
            tally.pipeline
            | "Once" >> beam.Create([None])
            | "Check" >> beam.Map(_check, self._max_error_ratio, pvalue.AsIter(tally))
        )


def _check(once: None, max_error_ratio: float, tally: Iterable[Chunk]) -> bool:
    whole = cast(ReadTally, only(tally).by_name["tally"])
    whole.check(max_error_ratio, f"the runner's counters {REJECTED.strip()!r} say why")
    return True
