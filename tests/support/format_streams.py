"""What formats are read from and written to in tests: streams of bytes, and rows of a release."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

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
        read = records_of(divider.of_piece(piece, lambda _: None), data, wanted)
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
