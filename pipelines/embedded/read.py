"""ReadEventLog: files of any format to events in somebody's own pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam import pvalue

from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.python_words import told_in_python
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.pipelines.embedded.asked import columns_of
from tracecloak.pipelines.embedded.canonical import count_records
from tracecloak.pipelines.embedded.released_rows import ReleasedRows
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.batch.read import EVENTS, TALLIES, ReadFiles


class ReadEventLog(beam.PTransform):
    """Reads the files of an event log, of any format that the command reads.

    Returns batches of canonical events, which `AnonymizeEventLog` and `WriteRelease` take as they
    are and in the order of the files; or rows with a schema: case_id, activity, timestamp.

    Records that are malformed are left out, and counted by their reasons in the runner's counters,
    for the operator alone. They end nothing: the methods of `max_error_ratio` do not see them.

    Example:
        pipeline | ReadEventLog("lake/*.csv", case_id="claim", activity="step", timestamp="at")
    """

    @told_in_python()
    def __init__(
        self,
        log: str | Sequence[str],
        *,
        columns: ColumnMapping | Mapping[str, Any] | None = None,
        attributes: Sequence[str] | Mapping[str, str] = (),
        output: Literal["batches", "rows"] = "batches",
        **keys: Any,
    ) -> None:
        """Checks what is asked for; the files are looked for when the pipeline is built.

        Args:
            log: Paths or globs, on any Beam file system.
            columns: Which column plays which part; the keys can be keywords as well.
            attributes: Columns that are read as attributes, for a method that releases them; a
                mapping has their columns by their names.
            output: `batches` of Arrow, or `rows`.
            keys: Keys of a configuration: those of `columns`, `where`, `input_format`, and those
                of CSV, such as `delimiter`.

        Raises:
            UsageError: A key is unknown or wrong.
        """
        super().__init__()
        if output not in ("rows", "batches"):
            raise UsageError(f"output must be rows or batches, got {output!r}")
        for name in ("rename", "drop_duplicates"):
            if name in keys:
                raise UsageError(
                    f"{name} changes what counts, so the transform that pays says it: give it to "
                    "AnonymizeEventLog or WriteRelease"
                )
        if attributes and output == "rows":
            raise UsageError("attributes are in the batches; leave out output, or attributes")
        self._config = load_log({**columns_of(columns), **keys, "log": log})
        named = attributes if isinstance(attributes, Mapping) else {n: n for n in attributes}
        self._attributes = tuple(named.items())
        self._rows = ReleasedRows(RELEASED_SCHEMA) if output == "rows" else None

    @told_in_python()
    def expand(self, begin: pvalue.PBegin) -> beam.PCollection[Any]:
        """Looks for the files, and reads a file or a few small ones an element."""
        source = source_of(self._config)
        if self._attributes:
            source = replace(source, mapping=replace(source.mapping, attributes=self._attributes))
            source.check(source.files)
        read = begin | "ReadFiles" >> ReadFiles(source)
        _ = read[TALLIES] | "CountRecords" >> beam.Map(count_records)
        events: beam.PCollection[Any] = read[EVENTS]
        events.element_type = pa.RecordBatch  # which a composite of several outputs forgets
        if self._rows is None:
            return events
        batches = events | "WithoutNumbers" >> beam.Map(_as_rows).with_output_types(pa.RecordBatch)
        return batches | "Rows" >> self._rows

    def display_data(self) -> dict[str, Any]:
        """Returns what a runner shows of the transform: no value of a filter."""
        return {"log": ", ".join(self._config.log)}


def _as_rows(events: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        events.column(name).cast(kind)
        for name, kind in zip(RELEASED_SCHEMA.names, RELEASED_SCHEMA.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RELEASED_SCHEMA)
