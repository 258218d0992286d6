"""Avro object containers: reads the wanted fields under a schema of our own, writes released rows.

The reader schema is made for each file from the schema it was written with, so a source's schema
may evolve: added fields are skipped, fields may move, and an optional field that an old file lacks
is left out. Fields within records are read by their paths. It does not read single-object or
registry messages.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import count, islice
from typing import Any, BinaryIO, NamedTuple, cast

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.write import Writer as ContainerWriter

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA, TIMESTAMP
from tracecloak.schemas.events.source_column import joined
from tracecloak.transforms.formats.avro_regular import (
    Step,
    definition,
    read_regular,
    record_of,
    steps_of,
)
from tracecloak.transforms.formats.avro_schemas import (
    TYPES,
    PlainSchemas,
    column_type,
    event_file_schema,
    promotion,
    signed,
    times_apart,
    varint,
)
from tracecloak.transforms.formats.base import (
    Columns,
    RawBatch,
    TypedReader,
    declared_at,
    paths_of,
    read_fully,
    sound_batch,
)
from tracecloak.transforms.formats.registry import SourceFormat

# A block is held whole; what claims to be longer is damage or not meant for streaming.
BLOCK_BYTES = 256 << 20
_SKIPPED_BYTES = 1 << 20
# A batch ends with the block in which it reaches so many bytes.
BATCH_BYTES = 64 << 20
# Blocks are held together until they have so many bytes, or rows for some batches.
_GROUP_BYTES = 16 << 20
_GROUP_BATCHES = 4
# Any fixed value will do: equal rows must give equal bytes.
SYNC_MARKER = b"tracecloak-event"

_META = {"type": "map", "values": "bytes"}

_PYTHON_TYPES = {
    pa.bool_(): bool,
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
}


@dataclass(frozen=True)
class AvroReader(TypedReader):
    """Reads Avro object container files of records.

    A wanted field is a scalar or a union of scalars; a union of unlike ones becomes text, each
    value by itself (`events.source_column`). Instants arrive as timestamp('us', 'UTC') and local
    times as timestamp('us'), but 'ns' where the file has nanoseconds; stamps that overflow are
    null.

    Attributes:
        goes_on: See `SourceFormat`. A record with a value that its type does not allow, such as
            text that is no UTF-8, is malformed then, and so is the first of a block that is too
            long to be held, whose others are passed over. Else the file is damaged.
    """

    goes_on: bool = False

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns the names of the fields, and the paths of those within records.

        Args:
            stream: The file's bytes; need not be seekable.

        Returns:
            The names in the order of the file's schema.

        Raises:
            InputSchemaError: The file is no Avro container of records, or two fields share a name.
        """
        with _opened(stream) as file:
            return file.names()

    def empty(self, stream: BinaryIO, wanted: Sequence[str]) -> pa.RecordBatch:
        """Returns the wanted columns without a row; see `TypedReader`."""
        with _opened(stream) as file:
            return _columns(file.fields(wanted), [])[0]

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`."""
        with _opened(stream) as file:
            schema, fields = file.schema, file.fields(wanted)
            self.check(file.names(), required)
            projected = _projected(schema, fields, 0, file.named, count())
            projection = fastavro.parse_schema(projected, dict(file.named))
            steps = steps_of(schema["fields"], file.named, {tuple(f.names): f.name for f in fields})
            first = 0
            for group in _groups(file.blocks(self.goes_on), batch_rows):
                held = [block for block in group if block.data is not None]
                columns = _regular(held, steps, fields) if steps and fields else None
                if columns is not None:
                    records = first + np.arange(columns.num_rows)
                    yield from RawBatch(columns, records, np.zeros(0, np.int64)).cut(batch_rows)
                    first += columns.num_rows
                else:
                    rows_of_group = self._records(held, schema, projection)
                    while rows := list(islice(rows_of_group, batch_rows)):
                        yield self._batch(fields, rows, first, [])
                        first += len(rows)
                for block in group[len(held) :]:
                    yield self._batch(fields, [], first, [first])
                    first += block.n_records

    def _batch(
        self, fields: Sequence[_Field], rows: list[dict[str, Any]], first: int, passed: list[int]
    ) -> RawBatch:
        """Returns records, of which the first has a number, and numbers of what was passed over."""
        records = np.arange(first, first + len(rows))
        return sound_batch(rows, records, passed, partial(_columns, fields), self.goes_on)

    def _records(
        self, blocks: Iterable[_Block], schema: Any, projection: Any
    ) -> Iterator[dict[str, Any]]:
        """Yields the records of blocks, and makes sure that these hold nothing else."""
        # What is no UTF-8 becomes halves of surrogate pairs, which no column takes.
        how = "surrogateescape" if self.goes_on else "strict"
        for block in blocks:
            data = io.BytesIO(block.data)
            if not 0 <= block.n_records <= len(block.data):
                raise ValueError("a record takes a byte at least")
            for _ in range(block.n_records):
                yield fastavro.schemaless_reader(
                    data, schema, projection, handle_unicode_errors=how
                )
            if data.read(1):
                raise ValueError("a block is longer than its records")


class _File:
    """A file that is read block by block.

    Attributes:
        schema: Of the records, all names in it full.
        named: The named types within it.
        failed: Whether the stream itself, and not its content, raised an error.
    """

    schema: dict[str, Any]
    named: dict[str, Any]

    def __init__(self, stream: BinaryIO) -> None:
        self.failed = False
        self._stream = stream

    def read_header(self) -> None:
        """Reads what the file says of itself."""
        if self.read(4) != b"Obj\x01":
            raise ValueError("no Avro container")
        meta: Any = fastavro.schemaless_reader(cast(BinaryIO, self), _META, None)
        self._end = self.read(16)
        self.named = {}
        plain = PlainSchemas(times_apart).rewritten(json.loads(meta["avro.schema"]))
        schema: Any = fastavro.parse_schema(plain, self.named)
        if not isinstance(schema, dict) or schema["type"] != "record":
            raise InputSchemaError("the input is an Avro file, but not one of records")
        for name, n in Counter(field["name"] for field in schema["fields"]).items():
            if n > 1:
                raise InputSchemaError(f"the input has {n} fields {name[:80]!r}; rename one")
        self.schema = schema
        self._unpacked = _CODECS[meta.get("avro.codec", b"null")]

    def names(self) -> list[str]:
        """Returns the names of the fields, and the paths of those within records."""
        return [name for name, _ in paths_of(_types(self.schema), self._within)]

    def fields(self, wanted: Sequence[str]) -> list[_Field]:
        """Returns the wanted fields."""
        found = [declared_at(_types(self.schema), name, self._within) for name in wanted]
        return [_Field(n, *at, self.named) for n, at in zip(wanted, found, strict=True) if at]

    def _within(self, schema: Any) -> dict[str, Any] | None:
        """Returns the types of the fields of a type that is a record, or one or null."""
        record = record_of(schema, self.named)
        return None if record is None else _types(record)

    def blocks(self, goes_on: bool) -> Iterator[_Block]:
        """Yields the blocks behind the header."""
        while (number := varint(self._read)) is not None:
            n_records, left = signed(number), signed(varint(self._read) or 0)
            if goes_on and left > BLOCK_BYTES:
                if not 0 <= n_records <= left:
                    raise ValueError("a record takes a byte at least")
                left += len(self._end)
                while left:
                    left -= len(self.read(min(left, _SKIPPED_BYTES, BLOCK_BYTES)))
                yield _Block(n_records, None)
                continue
            data = self.read(left)
            if self.read(len(self._end)) != self._end:
                raise ValueError("no end of a block")
            yield _Block(n_records, self._unpacked(data))

    def read(self, size: int) -> bytes:
        """Returns `size` bytes.

        Raises:
            ValueError: The file ends too early, or a length in it is nonsense.
        """
        data = self._read(size) if 0 <= size <= BLOCK_BYTES else b""
        if len(data) != size:
            raise ValueError("the file ends within a block, or a length is none")
        return data

    def _read(self, size: int) -> bytes:
        """Returns `size` bytes, or as many as there are."""
        try:
            return read_fully(self._stream.read, size)
        except Exception:
            self.failed = True
            raise


class _Block(NamedTuple):
    """A block, unpacked; without data one that is too long to be held."""

    n_records: int
    data: Any


class _Field:
    """A field of the file's records and how its values become a column.

    Attributes:
        name: What it is asked for by.
        names: What leads to it.
        schema: The type that it is read by.
    """

    def __init__(self, name: str, path: Sequence[str], schema: Any, named: Any) -> None:
        self.name = name
        self.names = path
        branches = schema if isinstance(schema, list) else [schema]
        kinds = [definition(branch, named) for branch in branches]
        present = [kind for kind in kinds if kind["type"] != "null"]
        for kind in present:
            if kind["type"] not in TYPES:
                raise InputSchemaError(f"field {name[:80]!r} is nested; name one in it: case.id")
        names = [b.get("name", b) if isinstance(b, dict) else b for b in branches]
        self.schema = sorted(names, key=promotion) if len(names) > 1 else names[0]
        self._types = list(dict.fromkeys(map(column_type, present)))
        if pa.float64() in self._types and pa.float32() in self._types:
            self._types.remove(pa.float32())  # its values are doubles, too
        python_types = list(map(_python_type, self._types))
        if len(set(python_types)) < len(python_types):
            raise InputSchemaError(
                f"the field {name[:80]!r} is a union of types that its values do not tell apart: "
                + ", ".join(map(str, self._types))
            )

    def values(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        """Returns what records have in it; None also where a record that it is in is not there."""
        values: list[Any] = list(rows)
        for name in self.names:
            values = [None if value is None else value[name] for value in values]
        return values

    def typed(self, values: pa.Array) -> pa.Array:
        """Returns values of one type as `column` does.

        Raises:
            pa.ArrowInvalid: A value is none of the type.
        """
        return _native(values, *self._types)

    def column(self, values: list[Any]) -> tuple[pa.Array, np.ndarray | None]:
        """Returns the values as one column, whose type is the same for all batches.

        Beside it are, where it is text of several types, bool[n]: which values are numbers that can
        name nobody.
        """
        if not self._types:
            return pa.nulls(len(values), pa.string()), None
        if len(self._types) == 1:
            return _native(values, self._types[0]), None
        return joined(
            [
                _native([v if type(v) is _python_type(t) else None for v in values], t)
                for t in self._types
            ]
        )


def _types(record: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in record["fields"]}


def _columns(fields: Sequence[_Field], rows: Sequence[dict[str, Any]]) -> Columns:
    read = {field.name: field.column(field.values(rows)) for field in fields}
    columns = pa.RecordBatch.from_arrays([values for values, _ in read.values()], list(read))
    return columns, {name: marks for name, (_, marks) in read.items() if marks is not None}


def _python_type(arrow_type: pa.DataType) -> type:
    if pa.types.is_decimal(arrow_type):
        return Decimal
    return _PYTHON_TYPES.get(arrow_type, int)


def _native(values: list[Any] | pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Returns values of one type as a column: milliseconds as microseconds, null if too many."""
    is_of_millis = pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ms"
    if isinstance(values, list):
        values = pa.array(values, pa.int64() if is_of_millis else arrow_type)
    if is_of_millis:
        limit = (1 << 63) // 1000 - 1
        fits = pc.and_(pc.greater_equal(values, -limit), pc.less_equal(values, limit))
        values = pc.multiply(pc.if_else(fits, values, None), 1000)
        return values.cast(pa.timestamp("us", arrow_type.tz))
    return (values.cast(pa.int32()) if pa.types.is_date32(arrow_type) else values).cast(arrow_type)


def _regular(
    group: Sequence[_Block], steps: Sequence[Step], fields: Sequence[_Field]
) -> pa.RecordBatch | None:
    """Returns the records of blocks as the columns of fields, or None if they are not regular."""
    values = read_regular(steps, [b.data for b in group], [b.n_records for b in group])
    if values is None:
        return None
    try:
        return pa.RecordBatch.from_arrays(
            [field.typed(values[field.name]) for field in fields], [field.name for field in fields]
        )
    except pa.ArrowInvalid:  # such as a date beyond all days
        return None


def _snappy(data: bytes) -> bytes:
    size = varint(io.BytesIO(data).read)  # of what is unpacked, which stands first
    return pa.decompress(data[:-4], size, "snappy", asbytes=True)


_CODECS: dict[bytes, Callable[[bytes], bytes]] = {
    b"null": bytes,
    b"deflate": lambda data: zlib.decompress(data, -15),
    b"bzip2": bz2.decompress,
    b"xz": lzma.decompress,
    b"zstandard": lambda data: pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(),
    b"snappy": _snappy,
    b"lz4": lambda data: pa.decompress(
        data[4:], int.from_bytes(data[:4], "little"), "lz4_raw", asbytes=True
    ),
}


def _projected(
    record: Any,
    wanted: Sequence[_Field],
    depth: int,
    named: Mapping[str, Any],
    names: Iterator[int],
) -> dict[str, Any]:
    """Returns the schema by which the wanted fields of a record are read.

    Args:
        record: The schema that it was written by.
        wanted: The fields in it.
        depth: How many of the names that lead to them lead to the record.
        named: The named types.
        names: Numbers for names.
    """
    # A type of record can be met twice, and other fields of it wanted: here it has two names, of
    # which readers compare what follows the last dot.
    name = f"tracecloak{next(names)}.{record['name'].rpartition('.')[2]}"
    types, fields = _types(record), []
    for first in dict.fromkeys(field.names[depth] for field in wanted):
        within = [field for field in wanted if field.names[depth] == first]
        schema = within[0].schema
        if len(within[0].names) > depth + 1:
            schema = _projected(record_of(types[first], named), within, depth + 1, named, names)
            schema = ["null", schema] if isinstance(types[first], list) else schema
        fields.append({"name": first, "type": schema})
    return {"type": "record", "name": name, "fields": fields}


def _groups(blocks: Iterator[_Block], batch_rows: int) -> Iterator[list[_Block]]:
    """Yields blocks that are held and read beside each other, all of them also before an error.

    One that is too long is the last of some.
    """
    group: list[_Block] = []
    n_rows = n_bytes = 0
    try:
        for block in blocks:
            group.append(block)
            n_rows += block.n_records
            n_bytes += len(block.data or b"")
            is_full = n_bytes >= min(_GROUP_BYTES, BATCH_BYTES) or block.data is None
            if is_full or n_rows >= _GROUP_BATCHES * batch_rows:
                yield group
                group, n_rows, n_bytes = [], 0, 0
    except Exception:
        yield group
        raise
    yield group


@contextmanager
def _opened(stream: BinaryIO) -> Iterator[_File]:
    """Turns what damage leads to, which can be any exception, into an InputSchemaError.

    Errors of the stream pass. The original message is dropped, for it may quote the data.
    """
    file = _File(stream)
    try:
        file.read_header()
        yield file
    except InputSchemaError:
        raise
    except Exception:
        if file.failed:
            raise
        raise InputSchemaError("the input is no Avro file, or is damaged or cut off") from None


class AvroWriter:
    """Writes released rows as an Avro object container of `schemas/files/event.avsc`.

    The file says nothing of the release that it is of.
    """

    def __init__(self, stream: BinaryIO, *_: Any) -> None:
        schema = event_file_schema()
        self._writer = ContainerWriter(stream, schema, codec="deflate", sync_marker=SYNC_MARKER)

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of RELEASED_SCHEMA."""
        rows = rows.cast(RELEASED_SCHEMA)
        for row in rows.set_column(2, TIMESTAMP, rows[TIMESTAMP].cast(pa.int64())).to_pylist():
            self._writer.write(row)

    def close(self) -> None:
        """Writes the last block."""
        self._writer.flush()


def reader(how: SourceFormat, path: str) -> AvroReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    return AvroReader(how.goes_on)
