"""Files, rows, dicts and batches to canonical events, and released rows out of batches."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam import pvalue
from apache_beam.metrics import Metrics
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

import tracecloak.transforms.arrow_coder  # noqa: F401  # registers the coders
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import ReleasePlan, source_of
from tracecloak.pipelines.embedded.elements import Elements, columns_of
from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.schemas.events.columns import ColumnMapping, renamed
from tracecloak.schemas.events.events import ACTIVITY, EVENT_SCHEMA, ORDER, RELEASED_SCHEMA
from tracecloak.schemas.events.tally import FileTally, ReadTally, Reject
from tracecloak.schemas.events.traces import INDIVIDUAL_ID, with_attributes
from tracecloak.transforms.batch.read import EVENTS, REJECTS, TALLIES, ReadFiles, check_tally
from tracecloak.transforms.batch.traces import Chunk, DropDuplicates, GroupIntoTraces, only
from tracecloak.transforms.formats.base import missing_columns

# --- Rows, dicts and batches of somebody's pipeline to canonical events. -----------
# What is malformed is counted by its reason in metrics of the runner, for the operator alone:
# these numbers are exact.


METRICS = "tracecloak"
RECORDS = "records read"
REJECTED = "records rejected: "
"""Counters of what is read, and of each reason why a record is malformed."""

_MOST_ROWS = 1 << 14


def read_rows(
    events: beam.PCollection[Any],
    elements: Elements,
    plan: ReleasePlan,
    operator_folder: str | None,
) -> dict[str, beam.PCollection[Any]]:
    """Adds what comes before a method to a pipeline; many rows are read at once.

    Args:
        events: What is read.
        elements: How it is.
        plan: What they are read for.
        operator_folder: See `ReleaseRun`.

    Returns:
        The cases under `traces`, what must be complete before anything appears under `checked`, and
        the reasons of malformed records under `rejects`.
    """
    read: Any = _read_batch
    if elements.kind != "batches":
        read = _read_rows
        events = events | "Rows" >> beam.BatchElements(_MOST_ROWS, _MOST_ROWS)
    made = events | "MakeCanonical" >> beam.FlatMap(read, elements).with_outputs(
        REJECTS, TALLIES, main=EVENTS
    )
    canonical, rejects = made[EVENTS], made[REJECTS]
    canonical.element_type, rejects.element_type = pa.RecordBatch, str
    by_individual = plan.bounds.max_cases_per_individual is not None
    max_error_ratio = plan.max_error_ratio

    def check(tally: ReadTally) -> None:
        tally.check(max_error_ratio, f"the runner's counters {REJECTED.strip()!r} say why")

    checked = check_tally(made[TALLIES], check)
    traces = canonical | "GroupIntoTraces" >> GroupIntoTraces(
        plan.keys.shards, wait_on=checked, by_individual=by_individual
    )
    if plan.keys.drop_duplicates:
        traces = traces | "DropDuplicates" >> DropDuplicates(operator_folder)
    return {"traces": traces, "checked": checked, REJECTS: rejects}


def count_records(tally: ReadTally) -> None:
    """Counts in the runner's metrics what was read."""
    Metrics.counter(METRICS, RECORDS).inc(tally.n_records)
    for finding in tally.found():
        if finding.is_lost:
            Metrics.counter(METRICS, REJECTED + finding.what).inc(finding.n_records)


def _outputs(events: pa.RecordBatch, reasons: Iterable[str], tally: ReadTally) -> Iterator[Any]:
    count_records(tally)
    if events.num_rows:
        yield events
    yield from (pvalue.TaggedOutput(REJECTS, reason) for reason in reasons)
    yield pvalue.TaggedOutput(TALLIES, tally)


def _read_rows(rows: Sequence[Any], elements: Elements) -> Iterator[Any]:
    assert elements.reader is not None  # which batches alone have not
    tally = FileTally(0)
    fields = [row.get if elements.kind == "dicts" else partial(_field, row) for row in rows]
    events, reasons = elements.reader.read(fields, tally)
    yield from _outputs(events, reasons, tally.result())


def _field(row: Any, name: str) -> Any:
    return getattr(row, name, None)


def _read_batch(batch: pa.RecordBatch, elements: Elements) -> Iterator[Any]:
    tally, mapping = FileTally(0), elements.mapping
    if all(field in batch.schema for field in EVENT_SCHEMA):
        if mapping.filters:
            raise InputSchemaError(
                "where filters columns as they are read, and canonical events are read "
                "already: give it to ReadEventLog, and leave it out here"
            )
        yield from _checked(batch, elements, tally)
        return
    resolved = mapping.resolve(batch.schema.names, xes_names=False)
    if missing := set(resolved.required) - set(batch.schema.names):
        raise missing_columns(batch.schema.names, missing)
    wanted = batch.select([name for name in resolved.wanted if name in batch.schema.names])
    none = np.zeros(0, np.int64)
    places = np.zeros(batch.num_rows, np.int64)
    events, rejects = resolved.canonicalise(wanted, places, none, 0, tally)
    yield from _outputs(events, rejects.column("reason").to_pylist(), tally.result())


def _checked(events: pa.RecordBatch, elements: Elements, tally: FileTally) -> Iterator[Any]:
    """Yields canonical events with the columns of the mapping, and what it makes malformed.

    Raises:
        InputSchemaError: They lack an attribute that the method reads, or the individual.
    """
    mapping = elements.mapping
    events = with_attributes(events, list(elements.carried))
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
        reason[~np.asarray(known)] = Reject.OTHER_ACTIVITY
    if mapping.needs_individual:
        reason[np.asarray(events.column(INDIVIDUAL_ID).is_null())] = Reject.NO_INDIVIDUAL
    for why in set(reason.tolist()) - {""}:
        tally.add(why, np.flatnonzero(reason == why))
    good = events.filter(pa.array(reason == ""))
    tally.add_events(good.num_rows)
    yield from _outputs(good, reason[reason != ""].tolist(), tally.result())


# --- ReadEventLog: files of any format to events in somebody's own pipeline. ----------------------
# Released batches as Beam rows with a schema, which SQL, data frames, YAML and sinks take.


OF_PAYING_TRANSFORM = ("rename", "drop_duplicates")
"""Keys of a log that change what counts, and so belong to the transform that pays."""


class ReadEventLog(beam.PTransform):
    """Reads the files of an event log, of any format that the command reads.

    Returns batches of canonical events, which `AnonymizeEventLog` and `WriteRelease` take as they
    are and in the order of the files; or rows with a schema: case_id, activity, timestamp.

    Records that are malformed are left out, and counted by their reasons in the runner's counters,
    for the operator alone. They end nothing: the methods of `max_error_ratio` do not see them.

    Example:
        pipeline | ReadEventLog("lake/*.csv", case_id="claim", activity="step", timestamp="at")
    """

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
        for name in OF_PAYING_TRANSFORM:
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
    return events.select(RELEASED_SCHEMA.names).cast(RELEASED_SCHEMA)


# Rows of a product that are released in one batch.
_PRODUCT_ROWS = 1 << 14

_TEXT, _NUMBER, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TEXTS = pa.list_(_TEXT)
_EDGE = {"source": _TEXT, "target": _TEXT}
_INTERVAL = {"low": _NUMBER, "high": _NUMBER}
_KIND = {"kind": _TEXT, "usable": _FLAG, "grade": _TEXT}

PRODUCT_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "dfg": {**_EDGE, "count": _NUMBER, **_INTERVAL, **_KIND},
    "groups": {**_EDGE, "count": _NUMBER, **_INTERVAL, **_KIND},
    "durations": {**_EDGE, "from_us": _NUMBER, "to_us": _NUMBER, "count": _NUMBER}
    | {**_INTERVAL, **_KIND},
    "figures": {"figure": _TEXT, **_EDGE, "value": _NUMBER, **_INTERVAL, **_KIND},
    "indicators": {"indicator": _TEXT, "group": _TEXT, "value": _REAL, "low": _REAL}
    | {"high": _REAL, "unit": _TEXT, **_KIND},
    "measures": {"what": _TEXT, "of": _TEXTS, "value": _REAL, "deviation": _REAL},
    "tree": {"node": _NUMBER, "parent": _NUMBER, "kind": _TEXT, "activity": _TEXT},
    "variants": {"variant": _TEXTS, "count": _NUMBER, **_INTERVAL, **_KIND},
}
"""The columns of products by the products' names; a method can leave out the last ones."""

_TYPES: Mapping[pa.DataType, Any] = {
    _TEXT: str, _NUMBER: int, _REAL: float, _FLAG: bool, _TEXTS: Sequence[str]
}  # fmt: skip


class ReleasedRows(beam.PTransform):
    """Turns PCollection[pa.RecordBatch] into rows; a column that a batch lacks is null."""

    def __init__(self, schema: pa.Schema) -> None:
        """Takes the columns that are released, of the types of a log or of a product.

        Raises:
            UsageError: Two of them would have one name in a row.
        """
        super().__init__()
        self._names = {field.name: field_name(field.name) for field in schema}
        if len(set(self._names.values())) < len(self._names):
            raise UsageError(
                "two attributes would have one name in a row of Beam, where a name has letters, "
                "digits and _: give the attributes other names, or take output='batches'"
            )
        self._type = RowTypeConstraint.from_fields(
            [(self._names[field.name], _python_type(field)) for field in schema]
        )

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[Any]:
        """Adds one stage."""
        return batches | "ToRows" >> beam.FlatMap(_rows_of, self._names).with_output_types(
            self._type
        )


def product_schema(name: str) -> pa.Schema:
    """Returns the columns of a product.

    Raises:
        UsageError: It is none whose columns are known when a pipeline is built.
    """
    if name not in PRODUCT_COLUMNS:
        raise UsageError(
            f"product must be one of {', '.join(PRODUCT_COLUMNS)} to come as rows, got {name!r}; "
            "others come as they are with output='batches'"
        )
    return pa.schema(PRODUCT_COLUMNS[name])


def field_name(name: str) -> str:
    """Returns the name of a column in a row of Beam: `case:region` is `case_region` there."""
    clean = re.sub(r"\W", "_", name)
    is_fit = clean.isidentifier() and not clean.startswith("_") and not keyword.iskeyword(clean)
    return clean if is_fit else f"attribute_{clean}"


def product_batches(name: str, products: Iterable[Chunk]) -> list[pa.RecordBatch]:
    """Returns the table of a product in batches.

    Raises:
        UsageError: The method has no such product; names those that it has.
    """
    by_name = only(products).by_name
    if name not in by_name:
        raise UsageError(
            f"the release has no product {name!r}: its products are {', '.join(sorted(by_name))}. "
            "The same release_id gives them without paying again"
        )
    batches: list[pa.RecordBatch] = by_name[name].to_table().to_batches(_PRODUCT_ROWS)
    return batches


def _python_type(field: pa.Field) -> Any:
    kind = Timestamp if pa.types.is_timestamp(field.type) else _TYPES[field.type]
    return Optional[kind] if field.nullable else kind  # noqa: UP045  # a type of Beam's rows


def _rows_of(batch: pa.RecordBatch, names: Mapping[str, str]) -> Iterator[beam.Row]:
    columns: dict[str, list[Any]] = {name: [None] * batch.num_rows for name in names}
    for field, values in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_timestamp(field.type):
            micros = values.cast(pa.int64()).to_pylist()
            columns[field.name] = [one if one is None else Timestamp(micros=one) for one in micros]
        else:
            columns[field.name] = values.to_pylist()
    for row in zip(*(columns[name] for name in names), strict=True):
        yield beam.Row(**dict(zip(names.values(), row, strict=True)))
