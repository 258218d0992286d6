"""The forms of a released log: each read as rows in bounded memory, and compared with the others.

A log is Parquet in one file or in parts, and any of the formats of releases. Its cases come in one
order, by their start and then by their id, so forms are compared row by row as they are read.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.pipelines.verification.folder import (
    ReceivedFolder,
    ReceivedParquet,
    Unsure,
    Wrong,
    quote_names,
)
from tracecloak.schemas.events import events
from tracecloak.schemas.events.columns import XES_NAMES
from tracecloak.schemas.published.rows import case_offsets, merge_rows
from tracecloak.transforms.formats.csv_writer import with_apostrophes, without_apostrophes
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat
from tracecloak.transforms.formats.xes_writer import sanitise, xes_columns

PART = re.compile(r"log/part-([0-9]{5,})\.parquet")
"""The path of a part of a log; its group is the part's number."""
_EVENT_BYTES = 4 << 10
"""What an event may take as it is written out, on the mean over a batch."""
_TEXT_ROWS = 1 << 14
_BUFFER_BYTES = 1 << 18
_SLACK_BYTES = 64 << 20
_MOST_EVENTS = 10**12
_CASE_BYTES = 64 << 20
"""What a case may take that is longer than a batch: two million events of short texts."""
_ATTRIBUTE_TYPES = (pa.string(), pa.int64(), pa.float64())


@dataclass(frozen=True)
class LogForm:
    """One form of a released log.

    Attributes:
        folder: Where its files are.
        kind: A name of FORMATS.
        paths: Its files: one, or the parts in Parquet.
        max_events: How many events it may have.
    """

    folder: ReceivedFolder
    kind: str
    paths: tuple[str, ...]
    max_events: int = _MOST_EVENTS

    @property
    def name(self) -> str:
        """What sentences call it."""
        return quote_names(self.paths)

    def schema(self) -> pa.Schema | None:
        """Returns the columns of its Parquet; None: its files declare no types.

        Raises:
            Wrong: The files cannot be read, differ, or lack a column that every log has.
        """
        if self.kind != "parquet":
            return None
        schemas = []
        for path in self.paths:
            with self.folder.reading(path) as stream:
                file = ReceivedParquet(stream, self.max_events).file
                schemas.append(file.schema_arrow.remove_metadata())
            if not schemas[-1].equals(schemas[0]):
                raise Wrong(
                    f"{quote_names([path])} has other columns than {quote_names(self.paths[:1])}."
                )
        first = schemas[0]
        expected = events.released_schema(
            {} if events.TIMESTAMP in first.names else {events.EVENT_INDEX: pa.int64()}
        )
        leading = [(field.name, field.type) for field in list(first)[: len(expected)]]
        if leading != [(field.name, field.type) for field in expected]:
            raise Wrong(
                f"{self.name}: a log begins with the columns "
                f"{', '.join(events.RELEASED_SCHEMA.names)}, which are two of text and one of "
                f"times in UTC, or {events.EVENT_INDEX} in its place."
            )
        others = list(first)[len(events.RELEASED_SCHEMA) :]
        if len(set(first.names)) < len(first.names) or any(
            field.type not in _ATTRIBUTE_TYPES
            and (field.name, field.type) != (events.START_TIMESTAMP, events.START_TYPE)
            for field in others
        ):
            raise Wrong(f"{self.name} has a column of a type or name that no release has.")
        return first

    def rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields its rows, whole cases to a batch, in the order of a release.

        Args:
            schema: The columns that it must have.

        Raises:
            Wrong: It cannot be read, is in another order, or lacks a value.
        """
        streams = [in_order(self._rows_of(path, schema), path) for path in self.paths]
        if len(streams) == 1:
            yield from streams[0]
        else:
            yield from in_order(merge_rows(streams, schema), self.name)

    def _rows_of(self, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        n_left = self.max_events
        batches: Iterator[pa.RecordBatch]
        with self.folder.reading(path) as stream:
            if self.kind == "parquet":
                parquet = ReceivedParquet(stream, self.max_events)
                batches = (rows.cast(schema) for rows in parquet.batches())
            else:
                batches = _text_rows(stream, path, self.kind, schema)
            for rows in batches:
                n_left -= rows.num_rows
                if n_left < 0:
                    raise Wrong(f"{quote_names([path])} has more events than came_out allows.")
                rows.validate(full=True)
                if any(rows.column(name).null_count for name in schema.names[:3]):
                    raise Wrong(
                        f"{quote_names([path])} has an event without case, activity or time."
                    )
                yield rows


def _text_rows(
    stream: BinaryIO, path: str, kind: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    form = FORMATS.named(kind)
    attributes = schema.names[len(events.RELEASED_SCHEMA) :]
    names = {name: name for name in schema.names}
    if form.has_xes_names:
        names |= XES_NAMES | xes_columns(attributes)
    has_apostrophes = kind == "spreadsheet"
    if has_apostrophes:
        names = {name: with_apostrophes(name).as_py() for name in schema.names}
    required = [names[name] for name in schema.names[:3]]
    # Versions before 0.2 wrote every attribute to XES by its own name.
    wanted = list(dict.fromkeys((*names.values(), *attributes)))
    text = _Text(gzip.GzipFile(fileobj=stream))
    reader = SourceFormat(kind).reader_of(path)
    source = stream if form.is_packed else io.BufferedReader(text, _BUFFER_BYTES)
    for batch in reader.read(source, wanted, required, _TEXT_ROWS):
        text.n_left = _TEXT_ROWS * _EVENT_BYTES + _SLACK_BYTES
        if len(batch.malformed):
            raise Wrong(f"{quote_names([path])} has records that cannot be read.")
        there = dict(zip(batch.columns.schema.names, batch.columns.columns, strict=True))
        columns = []
        for field in schema:
            given = [there[n] for n in {names[field.name]: 0, field.name: 0} if n in there]
            values = pc.coalesce(*given) if given else pa.nulls(batch.columns.num_rows)
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            if field.type != pa.string() and pa.types.is_string(values.type):
                values = pc.if_else(pc.equal(values, ""), None, values)
            values = values.cast(field.type)
            if has_apostrophes and field.type == pa.string():
                written, values = values, without_apostrophes(values)
                if not with_apostrophes(values).equals(written):
                    raise Wrong(f"{quote_names([path])} has a formula without an apostrophe.")
            columns.append(values)
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Text(io.RawIOBase):
    """A text, unpacked, of which no batch of events may take too much.

    Attributes:
        n_left: Bytes that may be read before it is set again.
    """

    def __init__(self, source: gzip.GzipFile) -> None:
        self._source = source
        self.n_left = _TEXT_ROWS * _EVENT_BYTES + _SLACK_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        self.n_left -= len(data)
        if self.n_left < 0:
            raise Wrong("A log has events, or texts between them, that are larger than any.")
        buffer[: len(data)] = data
        return len(data)


def in_order(stream: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a stream with whole cases to a batch.

    Raises:
        Wrong: Its cases are not in the order of a release, or one stands there twice.
        Unsure: A case is too long to be held.
    """
    held: list[pa.RecordBatch] = []  # of one case
    n_bytes = 0
    last: tuple[int, str] | None = None
    for rows in filter(len, stream):
        if held and rows.column(events.CASE_ID)[-1] == held[0].column(events.CASE_ID)[0]:
            held.append(rows)
        else:
            rows = _joined(*held, rows)
            offsets = case_offsets(rows)
            if end := int(offsets[-2]):
                last = _check_order(rows.slice(0, end), offsets[:-1], last, name)
                yield rows.slice(0, end)
            held, n_bytes = [rows.slice(end)], 0
        n_bytes += held[-1].nbytes
        if len(held) > 1 and n_bytes > _CASE_BYTES:
            raise Unsure(f"{quote_names([name])} has a case of more than {_CASE_BYTES >> 20} MiB.")
    if held:
        rows = _joined(*held)
        _check_order(rows, case_offsets(rows), last, name)
        yield rows


def _check_order(
    rows: pa.RecordBatch, offsets: np.ndarray, last: tuple[int, str] | None, name: str
) -> tuple[int, str]:
    heads = pa.array(offsets[:-1])
    starts = np.asarray(rows.column(2).take(heads).cast(pa.int64()))
    ids = rows.column(events.CASE_ID).take(heads)
    n = len(ids)
    ascends = np.asarray(pc.less(ids.slice(0, n - 1), ids.slice(1)), bool)
    in_turn = (starts[:-1] < starts[1:]) | ((starts[:-1] == starts[1:]) & ascends)
    first = (int(starts[0]), ids[0].as_py())
    if not in_turn.all() or (last is not None and not last < first):
        raise Wrong(
            f"{quote_names([name])}: the cases are not in the order of a release, or come twice."
        )
    return int(starts[-1]), ids[n - 1].as_py()


def check_same(left: LogForm, right: LogForm, schema: pa.Schema) -> None:
    """Makes sure that two forms of a log have the same rows.

    What XML cannot hold is compared as it is written there, and a text that is empty is none.

    Raises:
        Wrong: They do not.
    """
    streams = [form.rows(schema) for form in (left, right)]
    none = pa.RecordBatch.from_pylist([], schema)
    held = [none, none]
    while True:
        pairs = zip(held, streams, strict=True)
        held = [rows if rows.num_rows else next(stream, none) for rows, stream in pairs]
        n = min(rows.num_rows for rows in held)
        if not any(rows.num_rows for rows in held):
            return
        one, other = (_comparable(rows.slice(0, n)) for rows in held)
        if not n or not one.equals(other):
            raise Wrong(f"{right.name} holds another log than {left.name}.")
        held = [rows.slice(n) for rows in held]


def _comparable(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = []
    for values in rows.columns:
        if pa.types.is_string(values.type):
            coded = pc.fill_null(values, "").dictionary_encode()
            plain = pa.array(map(sanitise, coded.dictionary.to_pylist()), pa.string())
            values = plain.take(coded.indices)
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, rows.schema.names)


def _joined(*batches: pa.RecordBatch) -> pa.RecordBatch:
    [whole] = pa.Table.from_batches(batches).combine_chunks().to_batches() or [batches[0]]
    return whole


def forms_of(
    folder: ReceivedFolder, paths: Sequence[str], under: str = "", max_events: int | None = None
) -> list[LogForm]:
    """Returns the forms of a log among some files: Parquet first, and XES last.

    The first one stands for the log, and XML cannot hold every text.

    Args:
        folder: Where the files are.
        paths: The files.
        under: What the paths of the log begin with.
        max_events: How many events the manifest allows it; None: it does not say.
    """
    forms = []
    most = _MOST_EVENTS if max_events is None else max_events
    # A part by another name, such as one that browsers open, is none.
    parts = tuple(sorted(p for p in paths if PART.fullmatch(p.removeprefix(under))))
    if parts:
        forms.append(LogForm(folder, "parquet", parts, most))
    for kind, form in FORMATS.items():
        path = f"{under}log{form.log_ending}"
        if path in paths and form.is_of_releases:
            forms.append(LogForm(folder, kind, (path,), most))
    return sorted(forms, key=lambda form: (form.kind != "parquet", form.kind == "xes"))
