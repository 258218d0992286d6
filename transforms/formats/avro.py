"""Avro object containers: reads the wanted fields under a schema of our own, writes released rows.

The reader schema is made for each file from the schema it was written with, so a source's schema
may evolve: added fields are skipped, fields may move, and an optional field that an old file lacks
is left out. Fields within records are read by their paths. It does not read single-object or
registry messages.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, cast

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.write import Writer as ContainerWriter

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
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
    times_apart,
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

_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}
# Codecs for which fastavro needs a package that need not be installed.
_OPTIONAL_CODECS = {b"snappy": "cramjam", b"zstandard": "zstandard", b"lz4": "lz4"}

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
        with _opened(stream, self.goes_on) as source:
            return _names(*_read_header(source))

    def empty(self, stream: BinaryIO, wanted: Sequence[str]) -> pa.RecordBatch:
        """Returns the wanted columns without a row; see `TypedReader`."""
        with _opened(stream, self.goes_on) as source:
            _, _, fields = _fields(source, wanted)
            return _columns(fields, [])[0]

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`."""
        with _opened(stream, self.goes_on) as source:
            schema, named, fields = _fields(source, wanted)
            self.check(_names(schema, named), required)
            projection = _projected(schema, fields, 0, named, set())
            steps = steps_of(schema["fields"], named, {tuple(f.names): f.name for f in fields})
            first = 0
            for n_passed, group in _groups(source, projection, self.goes_on, batch_rows):
                if n_passed:
                    yield self._batch(fields, [], first, [first])
                    first += n_passed
                columns = _regular(group, steps, fields) if steps and fields else None
                if columns is not None:
                    records = first + np.arange(columns.num_rows)
                    yield from RawBatch(columns, records, np.zeros(0, np.int64)).cut(batch_rows)
                    first += columns.num_rows
                    continue
                records_of_group = _records(group)
                while rows := list(islice(records_of_group, batch_rows)):
                    yield self._batch(fields, rows, first, [])
                    first += len(rows)

    def _batch(
        self, fields: Sequence[_Field], rows: list[dict[str, Any]], first: int, passed: list[int]
    ) -> RawBatch:
        """Returns records, of which the first has a number, and numbers of what was passed over."""
        records = np.arange(first, first + len(rows))
        return sound_batch(rows, records, passed, partial(_columns, fields), self.goes_on)


class _Source:
    """A stream as fastavro is to see it: no endless read, no silent end, our own header.

    Attributes:
        passed: How many records were passed over in blocks that are too long, since it was set.
        failed: Whether the stream itself, and not its content, raised an error.
    """

    def __init__(self, stream: BinaryIO, goes_on: bool) -> None:
        self.passed = 0
        self.failed = False
        self._stream = stream
        self._goes_on = goes_on
        self._parts: Iterator[bytes] | None = None  # behind the header
        self._part = io.BytesIO()

    def replace_header(self, header: bytes) -> None:
        """Lets `header` come before what is left of the stream, which are blocks."""
        self._part, self._parts = io.BytesIO(header), self._blocks()

    def tell(self) -> int:
        """Returns 0; where a block is matters to nobody."""
        return 0

    def read(self, size: int) -> bytes:
        """Returns `size` bytes, or none where the file ends.

        Raises:
            ValueError: The file ends too early, or a length in it is nonsense.
        """
        if not 0 <= size <= BLOCK_BYTES:
            raise ValueError("no length of a block")
        if self._parts is None:
            return self._whole(size)
        data = self._part.read(size)
        if size and not data:  # no read goes beyond a part
            self._part = io.BytesIO(next(self._parts, b""))
            data = self._part.read(size)
        return data

    def _blocks(self) -> Iterator[bytes]:
        """Yields the lengths, the content and the marker of each block that can be held."""
        while True:
            n_records, head = self._long()
            if not head:
                return
            size, more = self._long()
            if size <= BLOCK_BYTES or not self._goes_on:
                yield head + more
                if size:
                    yield self._whole(size)
                yield self._whole(len(SYNC_MARKER))
                continue
            if not 0 <= n_records <= size:
                raise ValueError("a record takes a byte at least")
            left = size + len(SYNC_MARKER)
            while left:
                left -= len(self._whole(min(left, _SKIPPED_BYTES)))
            self.passed += n_records

    def _long(self) -> tuple[int, bytes]:
        """Returns a number and the bytes that it is written in; none where the file ends."""
        written = b""
        while not written or written[-1] & 0x80:
            byte = self._read(1)
            if len(written) == 10 or (written and not byte):
                raise ValueError("no length of a block")
            if not byte:
                break
            written += byte
        number = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(written))
        return number >> 1 ^ -(number & 1), written

    def _whole(self, size: int) -> bytes:
        data = self._read(size)
        if len(data) < size:
            raise ValueError("the file ends within a block")
        return data

    def _read(self, size: int) -> bytes:
        """Returns `size` bytes, or as many as there are."""
        try:
            return read_fully(self._stream.read, size)
        except Exception:
            self.failed = True
            raise


class _Field:
    """A field of the file's records and how its values become a column.

    Attributes:
        name: What it is asked for by.
        names: What leads to it.
        schema: The type that it is read by.
    """

    def __init__(self, name: str, names: Sequence[str], schema: Any, named: Any) -> None:
        self.name = name
        self.names = names
        branches = schema if isinstance(schema, list) else [schema]
        kinds = [definition(branch, named) for branch in branches]
        present = [kind for kind in kinds if kind["type"] != "null"]
        for kind in present:
            if kind["type"] not in TYPES:
                raise InputSchemaError(f"field {name[:80]!r} is nested; name one in it: case.id")
        self.schema = sorted(branches, key=promotion) if len(branches) > 1 else branches[0]
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


def _fields(
    source: _Source, wanted: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any], list[_Field]]:
    """Reads the header; returns the schema, the named types in it, and the wanted fields."""
    schema, named = _read_header(source)
    found = [declared_at(_types(schema), name, partial(_within, named)) for name in wanted]
    return schema, named, [_Field(n, *at, named) for n, at in zip(wanted, found, strict=True) if at]


def _types(record: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in record["fields"]}


def _within(named: Mapping[str, Any], schema: Any) -> dict[str, Any] | None:
    """Returns the types of the fields of a type that is a record, or one or null."""
    record = record_of(schema, named)
    return None if record is None else _types(record)


def _names(schema: Mapping[str, Any], named: Mapping[str, Any]) -> list[str]:
    return [name for name, _ in paths_of(_types(schema), partial(_within, named))]


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
    group: Sequence[Any], steps: Sequence[Step], fields: Sequence[_Field]
) -> pa.RecordBatch | None:
    """Returns the records of blocks as the columns of fields, or None if they are not regular."""
    data, n_records = ([b.bytes_.getvalue() for b in group], [b.num_records for b in group])
    values = read_regular(steps, data, n_records)
    if values is None:
        return None
    try:
        return pa.RecordBatch.from_arrays(
            [field.typed(values[field.name]) for field in fields], [field.name for field in fields]
        )
    except pa.ArrowInvalid:  # such as a date beyond all days
        return None


def _read_header(source: _Source) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads the container's header and puts back one whose schema says what we need of it.

    Returns:
        The schema of the records, all names in it full, and the named types within it.
    """
    header: Any = fastavro.schemaless_reader(cast(BinaryIO, source), _HEADER, None)
    if header["magic"] != b"Obj\x01":
        raise ValueError("no Avro container")
    _require_codec(header["meta"].get("avro.codec"))
    named: dict[str, Any] = {}
    plain = PlainSchemas(times_apart).rewritten(json.loads(header["meta"]["avro.schema"]))
    schema: Any = fastavro.parse_schema(plain, named, _write_hint=False)
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise InputSchemaError("the input is an Avro file, but not one of records")
    for name, count in Counter(field["name"] for field in schema["fields"]).items():
        if count > 1:
            raise InputSchemaError(f"the input has {count} fields {name[:80]!r}; rename one")
    header["meta"]["avro.schema"] = json.dumps(schema).encode()
    rewritten = io.BytesIO()
    fastavro.schemaless_writer(rewritten, _HEADER, header)
    source.replace_header(rewritten.getvalue())
    return schema, named


def _require_codec(codec: bytes | None) -> None:
    if codec in _OPTIONAL_CODECS:
        try:
            fastavro.writer(io.BytesIO(), "null", [None], codec=codec.decode())
        except ValueError:
            package = _OPTIONAL_CODECS[codec]
            raise InputSchemaError(
                f"the input is compressed with {codec.decode()}, which needs {package}: install it"
            ) from None


def _projected(
    record: Any, wanted: Sequence[_Field], depth: int, named: Mapping[str, Any], defined: set[str]
) -> dict[str, Any]:
    """Returns the schema by which the wanted fields of a record are read.

    Args:
        record: The schema that it was written by.
        wanted: The fields in it.
        depth: How many of the names that lead to them lead to the record.
        named: The named types.
        defined: Those that are defined already; each is where it is first met.
    """
    # A type of record can be met twice, and other fields of it wanted: here it has two names, of
    # which readers compare what follows the last dot.
    name = f"n{len(defined)}.{record['name'].rpartition('.')[2]}"
    defined.add(name)
    types, fields = _types(record), []
    for first in dict.fromkeys(field.names[depth] for field in wanted):
        within = [field for field in wanted if field.names[depth] == first]
        if len(within[0].names) == depth + 1:
            schema = _complete(within[0].schema, named, defined)
        else:
            outer = record_of(types[first], named)
            schema = _projected(outer, within, depth + 1, named, defined)
            schema = ["null", schema] if isinstance(types[first], list) else schema
        fields.append({"name": first, "type": schema})
    return {"type": "record", "name": name, "fields": fields}


def _complete(schema: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    """Returns the type of a scalar, with the definition of a named one where it is first met."""
    if isinstance(schema, list):
        return [_complete(branch, named, defined) for branch in schema]
    name = schema if isinstance(schema, str) else schema.get("name")
    if name not in named:
        return schema
    if name in defined:
        return name
    defined.add(name)
    return named[name]


def _groups(
    source: _Source, projection: dict[str, Any], goes_on: bool, batch_rows: int
) -> Iterator[tuple[int, list[Any]]]:
    """Yields blocks that are held and read beside each other, all of them also before an error.

    With them comes how many records were passed over before them; the last may be none.
    """
    blocks: Any = fastavro.block_reader(
        cast(BinaryIO, source),
        projection,
        # What is no UTF-8 becomes halves of surrogate pairs, which no column takes.
        handle_unicode_errors="surrogateescape" if goes_on else "strict",
    )
    group: list[Any] = []
    n_passed = n_rows = n_bytes = 0
    is_end = False
    while not is_end:
        try:
            block = next(blocks, None)
        except Exception:
            yield n_passed, group
            raise
        is_end = block is None
        if is_end or source.passed:
            yield n_passed, group
            group, n_rows, n_bytes = [], 0, 0
            n_passed, source.passed = source.passed, 0
        if block is not None:
            group.append(block)
            n_rows += block.num_records
            n_bytes += block.bytes_.getbuffer().nbytes
        if n_rows >= _GROUP_BATCHES * batch_rows or n_bytes >= min(_GROUP_BYTES, BATCH_BYTES):
            yield n_passed, group
            group, n_passed, n_rows, n_bytes = [], 0, 0, 0
    yield n_passed, group


def _records(blocks: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yields the records of blocks, and makes sure that these hold nothing else."""
    for block in blocks:
        if not 0 <= block.num_records <= block.bytes_.getbuffer().nbytes:
            raise ValueError("a record takes a byte at least")
        yield from block
        if block.bytes_.read(1):
            raise ValueError("a block is longer than its records")


@contextmanager
def _opened(stream: BinaryIO, goes_on: bool) -> Iterator[_Source]:
    """Turns what damage leads to, which can be any exception, into an InputSchemaError.

    Errors of the stream pass. The original message is dropped, for it may quote the data.
    """
    source = _Source(stream, goes_on)
    try:
        yield source
    except InputSchemaError:
        raise
    except Exception:
        if source.failed:
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
        case_id, activity, timestamp = rows.cast(RELEASED_SCHEMA).columns
        columns = [case_id, activity, timestamp.cast(pa.int64())]
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            self._writer.write(dict(zip(RELEASED_SCHEMA.names, row, strict=True)))

    def close(self) -> None:
        """Writes the last block."""
        self._writer.flush()


def reader(how: SourceFormat, path: str) -> AvroReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    return AvroReader(how.goes_on)
