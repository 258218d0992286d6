"""What formats are read from and written to in tests: streams of bytes, and rows of a release."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import ModuleType
from typing import Any, BinaryIO
from unittest import mock

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.formats.base import Reader


class Trickle(io.RawIOBase):
    """A stream that cannot be seeked, gives few bytes a read, and may never end or fail."""

    def __init__(self, head: bytes, more: Callable[[], bytes], step: int = 1 << 16) -> None:
        self._data = head
        self._more = more
        self._step = step
        self.taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._data:
            self._data = self._more()
        taken = min(size, self._step)
        data, self._data = self._data[:taken], self._data[taken:]
        self.taken += len(data)
        return data


def read_all(
    reader: Reader,
    source: bytes | BinaryIO,
    wanted: Sequence[str],
    required: Sequence[str],
    batch_rows: int,
) -> tuple[list[pa.RecordBatch], list[int], list[int]]:
    """The columns of all batches, the numbers of records and of malformed ones; checks batches."""
    columns: list[pa.RecordBatch] = []
    records: list[int] = []
    malformed: list[int] = []
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    for batch in reader.read(stream, wanted, required, batch_rows):
        batch.columns.validate(full=True)
        names = batch.columns.schema.names
        assert names == [n for n in wanted if n in names]
        assert not names or len(batch.records) == batch.columns.num_rows <= batch_rows
        assert batch.records.dtype == batch.malformed.dtype == "int64"
        new = [*batch.records.tolist(), *batch.malformed.tolist()]
        assert not new or min(new) > max([*records, *malformed], default=-1)
        columns.append(batch.columns)
        records += batch.records.tolist()
        malformed += batch.malformed.tolist()
    assert records == sorted(set(records)) and malformed == sorted(set(malformed))
    return columns, records, malformed


def table_of(
    reader: Reader, data: bytes, wanted: Sequence[str], required: Sequence[str]
) -> pa.Table:
    """All batches as a table; no record is malformed."""
    batches, records, malformed = read_all(reader, data, wanted, required, 1000)
    assert records == list(range(len(records))) and malformed == []
    return pa.Table.from_batches(batches) if batches else pa.table({})


Records = dict[int, tuple[Any, ...] | None]


def records_of(reader: Reader, data: bytes, wanted: Sequence[str]) -> Records | str:
    """Each record by its number, None if it is malformed; or the error."""
    records: Records = {}
    try:
        for batch in reader.read(io.BytesIO(data), wanted, (), 3):
            rows = batch.columns.to_pylist() or [{}] * len(batch.records)
            values = (tuple(map(row.get, wanted)) for row in rows)
            records.update(zip(batch.records.tolist(), values, strict=True))
            records.update(dict.fromkeys(batch.malformed.tolist()))
    except InputSchemaError as error:
        return str(error)
    return records


def records_of_pieces(
    reader: Any, data: bytes, wanted: Sequence[str], n_bytes: int
) -> Records | str | None:
    """Likewise, of the pieces that a file is divided into; None: it is not."""
    divider = reader.divider()
    if divider is None:
        return None
    looks = [divider.look(io.BytesIO(data), place) for place in divider.places(len(data), n_bytes)]
    pieces = divider.pieces(looks)
    assert [p.n_pieces for p in pieces] == [len(pieces)] * len(pieces)
    records: Records = {}
    for piece in pieces:
        read = records_of(divider.piece_reader(piece), data, wanted)
        if isinstance(read, str):
            return read
        records |= read
    return records


def rows_of(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows of a released log: a case, an activity and a time each."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, RELEASED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RELEASED_SCHEMA)


def written_by(opened: Callable[[io.BytesIO], Any], *batches: pa.RecordBatch) -> bytes:
    """What a writer makes of batches; it must not close what it writes to."""
    stream = io.BytesIO()
    writer = opened(stream)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert not stream.closed
    return stream.getvalue()


# --- Readers that read what is regular together, and all else record by record --------------------


class _Messages(logging.Handler):
    """What the operator is told, such as the line of a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def outcome(
    reader: Reader, data: bytes, wanted: Sequence[str], required: Sequence[str], batch_rows: int
) -> tuple[list[Any], Any]:
    """Everything that a reader says of a file but for where its batches end: rows, and the rest."""
    rows: list[Any] = []
    types: set[tuple[str, str]] = set()
    malformed: list[int] = []
    error, handler = None, _Messages()
    logging.getLogger("tracecloak.operator").addHandler(handler)
    try:
        for batch in reader.read(io.BytesIO(data), wanted, required, batch_rows):
            batch.columns.validate(full=True)
            n = len(batch.records)
            assert n <= batch_rows and batch.columns.num_rows in (n, 0)
            names = batch.columns.schema.names
            types |= {
                (name, str(column.type)) for name, column in zip(names, batch.columns, strict=True)
            }
            columns: list[Sequence[Any]] = [batch.records.tolist()]
            columns += [[None] * n if batch.traces is None else batch.traces.tolist()]
            for name in wanted:
                columns.append(_shown(batch.columns[name]) if name in names else [None] * n)
                columns.append(batch.fractional.get(name, [False] * n))
            rows += zip(*columns, strict=True)
            malformed += batch.malformed.tolist()
    except InputSchemaError as raised:
        error = str(raised)
    finally:
        logging.getLogger("tracecloak.operator").removeHandler(handler)
    return sorted(rows), (sorted(types), sorted(malformed), error, handler.messages)


def _shown(column: pa.Array) -> list[Any]:
    """The values, each as one of which Python can write every one."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return [None if value is None else repr(value) for value in column.to_pylist()]


def share_read_together(
    module: ModuleType,
    bounds: Mapping[str, Sequence[int]],
    reader_of: Callable[[Random], Reader],
    data_of: Callable[[Random], bytes],
    wanted: Sequence[str],
    required: Sequence[Sequence[str]],
    n: int,
    seed: int,
) -> float:
    """Compares files as they are read both ways; returns the share of those with any regular part.

    Args:
        module: Of the format; its `read_regular` reads what is regular.
        bounds: What some of its bounds are to be, drawn for each file.
        reader_of: Draws a reader.
        data_of: Draws a file.
        wanted: The columns that are read.
        required: Those that are required, drawn.
        n: The number of files.
        seed: Of what is drawn.
    """
    draw = Random(seed)
    n_regular = 0
    for _ in range(n):
        data, reader = data_of(draw), reader_of(draw)
        how = wanted, draw.choice(required), draw.choice([1, 2, 5, 1000])
        drawn = {name: draw.choice(each) for name, each in bounds.items()}
        with mock.patch.multiple(module, **drawn):
            read_regular, regular = module.read_regular, []

            def noting(*given: Any, regular: list[bool] = regular) -> Any:
                regular.append((read := read_regular(*given)) is not None)  # noqa: B023
                return read

            with mock.patch.object(module, "read_regular", noting):
                together, said = outcome(reader, data, *how)
            with mock.patch.object(module, "read_regular", lambda *_: None):
                expected, to_say = outcome(reader, data, *how)
        n_regular += any(regular)
        # A batch may have left before a fault was met.
        n_rows = len(expected) if to_say[2] is None else min(len(expected), len(together))
        assert (together[:n_rows], said[1:]) == (expected[:n_rows], to_say[1:]), data
        assert said[0] == to_say[0] or to_say[2] is not None, data
    return n_regular / n
