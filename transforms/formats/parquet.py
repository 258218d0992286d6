"""Parquet: reads the columns of a file by row groups, and writes released rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.transforms.formats.base import (
    RawBatch,
    Reader,
    TypedReader,
    declared_at,
    paths_of,
    valid_rows,
)
from tracecloak.transforms.formats.pieces import Divider, Piece
from tracecloak.transforms.formats.registry import SourceFormat

# --- Parquet of released rows; equal rows give equal bytes. ---------------------------------------


ROW_GROUP_ROWS = 1_000_000
_ABOUT = "tracecloak.release"


class ParquetWriter:
    """Writes released rows as Parquet, the same bytes however they are batched.

    Row groups hold 1,000,000 rows, and so many are buffered. Text is written from plain strings: a
    dictionary would carry the names that were filtered out of it.

    Args:
        stream: Where the bytes go; stays open.
        schema: Of the rows: RELEASED_SCHEMA, or that with attributes.
        about: The manifest of the release that it is of, which is in the file's metadata as JSON.
    """

    def __init__(
        self,
        stream: BinaryIO,
        schema: pa.Schema = RELEASED_SCHEMA,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            store_schema=False,
            write_page_checksum=True,
        )
        body = {} if about is None else {_ABOUT: json.dumps(about, ensure_ascii=False)}
        self._writer.add_key_value_metadata(body)  # which leaves its mark if it is empty, too
        self._rows: list[pa.RecordBatch] = []
        self._buffered = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of the schema."""
        self._rows.append(rows.cast(self._schema))
        self._buffered += rows.num_rows
        while self._buffered >= ROW_GROUP_ROWS:
            self._flush(ROW_GROUP_ROWS)

    def close(self) -> None:
        """Writes the last row group and the footer."""
        if self._buffered:
            self._flush(self._buffered)
        self._writer.close()

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._rows, self._schema)
        self._rows = table.slice(rows).to_batches()
        self._buffered -= rows
        # Pages end where chunks end, so chunks would let the batching show in the bytes.
        table = table.slice(0, rows).combine_chunks()  # and the batches are not needed any more
        self._writer.write_table(table, row_group_size=rows)


# --- Parquet: reads the columns of a file by row groups, those within structs by their paths. -----
# Columns keep their native types; lists and maps can be in the file but cannot be asked for. It
# does not read encrypted files.


# Column chunks are read in pieces of this size rather than whole, which bounds the memory for files
# of one huge row group.
_READ_BYTES = 1 << 20
# Where Arrow keeps the id of a field, by which tables know a column whatever it is called.
_ID = b"PARQUET:field_id"
_INSTANT = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class ParquetReader(TypedReader):
    """Reads Parquet files; the stream must be seekable.

    Attributes:
        goes_on: See `SourceFormat`: whether a record with a value that its column's type does not
            allow, such as text that is no UTF-8, is malformed. Else the file is damaged.
        piece: The row groups that are read; None: all.
        enters: Whether a path such as `case.id` leads into a struct, if no column has that name.
        has_local_int96: Whether INT96 are local times, as Impala writes them, and not instants, as
            Spark does.
    """

    goes_on: bool = False
    piece: Piece | None = None
    enters: bool = True
    has_local_int96: bool = False

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns the names of the top-level columns, and the paths of those within structs.

        Args:
            stream: The file's bytes, seekable.

        Returns:
            The names in the order of the file; a name may hold any character, dots too.

        Raises:
            InputSchemaError: The file is no Parquet file, or two columns share a name.
        """
        with _opened(stream) as file:
            return self._names(file.schema_arrow)

    def fields(self, stream: BinaryIO) -> dict[str, int | None]:
        """Returns the ids of the top-level columns by their names; None of one that has none.

        Raises:
            InputSchemaError: As `column_names`.
        """
        with _opened(stream) as file:
            ids = {field.name: (field.metadata or {}).get(_ID) for field in file.schema_arrow}
        return {name: None if number is None else int(number) for name, number in ids.items()}

    def empty(self, stream: BinaryIO, wanted: Sequence[str]) -> pa.RecordBatch:
        """Returns the wanted columns without a row; see `TypedReader`."""
        with _opened(stream) as file:
            present = self._present(file, wanted)
            columns = [_plain(pa.array([], field.type)) for _, field in present.values()]
            return pa.RecordBatch.from_arrays(columns, list(present))

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`."""
        with _opened(stream) as file:
            self.check(self._names(file.schema_arrow), required)
            present = self._present(file, wanted)
            groups, first = range(file.num_row_groups), 0
            if self.piece is not None:
                groups = range(self.piece.begin, self.piece.end)
                first = self.piece.first_record
            # Of what is called alike, columns and paths, Arrow hands over all; the ones that are
            # meant are selected afterwards.
            batches = file.iter_batches(
                batch_rows, row_groups=list(groups), columns=list(present), use_threads=False
            )
            for batch in batches:
                columns = pa.RecordBatch.from_arrays(
                    [_plain(_value(batch, names, field)) for names, field in present.values()],
                    list(present),
                )
                records = np.arange(first, first + batch.num_rows)
                malformed = np.zeros(0, np.int64)
                try:
                    columns.validate(full=True)  # Parquet does not check that text is UTF-8
                except pa.ArrowInvalid:
                    if not self.goes_on:
                        raise
                    sound = _sound(columns)
                    malformed = records[~sound]
                    records = records[sound]
                    columns = _decoded(columns).filter(pa.array(sound))
                yield RawBatch(columns, records, malformed)
                first += batch.num_rows

    def divider(self) -> Divider:
        """Returns what divides a file between its row groups."""
        return RowGroups(lambda piece: replace(self, piece=piece))

    def _names(self, schema: pa.Schema) -> list[str]:
        return [name for name, _ in paths_of(_by_name(schema), self._within)]

    def _within(self, field: pa.Field) -> dict[str, pa.Field] | None:
        return _by_name(field.type) if self.enters and pa.types.is_struct(field.type) else None

    def _present(self, file: pq.ParquetFile, wanted: Sequence[str]) -> dict[str, Any]:
        """Returns the wanted columns that there are, with the names that lead to them.

        INT96 does not say whether its times are instants.

        Raises:
            InputSchemaError: One is nested.
        """
        fields, present = _by_name(file.schema_arrow), {}
        leaves = [] if self.has_local_int96 else map(file.schema.column, range(len(file.schema)))
        instants = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
        for name in wanted:
            if (found := declared_at(fields, name, self._within)) is not None:
                names, field = found
                require_plain(field.with_name(name))
                is_instant = ".".join(names) in instants
                present[name] = names, field.with_type(_INSTANT) if is_instant else field
        return present


@dataclass(frozen=True)
class RowGroups:
    """Divides files between row groups by what their footers say; as `TextDivider` does text.

    Attributes:
        reader_of: Returns what reads a piece.
    """

    reader_of: Callable[[Piece], Reader]

    def places(self, n_bytes: int, max_bytes: int) -> list[Any]:
        """Returns the one place, the footer."""
        return [(n_bytes, max_bytes)]

    def look(self, stream: BinaryIO, place: Any) -> list[Piece]:
        """Returns the pieces, which a footer tells."""
        n_bytes, max_bytes = place
        with _opened(stream) as file:
            metadata = file.metadata
        n_rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        firsts = np.append(0, np.cumsum(n_rows)).astype(np.int64)
        # A piece has the row groups whose middles lie within the same of its shares of all rows.
        max_rows = max(int(max_bytes / n_bytes * firsts[-1]), 1)
        shares = (firsts[:-1] + firsts[1:]) // 2 // max_rows
        begins = np.flatnonzero(np.diff(shares, prepend=-1))
        ends = np.append(begins[1:], len(n_rows))
        per_row = n_bytes / max(int(firsts[-1]), 1)
        return [
            Piece(begin, end, first, int((last - first) * per_row), len(begins))
            for begin, end, first, last in zip(
                *(column.tolist() for column in (begins, ends, firsts[begins], firsts[ends])),
                strict=True,
            )
        ]

    def pieces(self, looks: Sequence[list[Piece]]) -> list[Piece]:
        """Returns the pieces."""
        return looks[0]

    def piece_reader(self, piece: Piece) -> Reader:
        """Returns what reads a piece."""
        return self.reader_of(piece)


def _by_name(fields: Iterable[pa.Field]) -> dict[str, pa.Field]:
    return {field.name: field for field in fields}


def _value(batch: pa.RecordBatch, names: Sequence[str], field: pa.Field) -> pa.Array:
    """Returns what a path leads to; null where any struct on the way is."""
    top, *inner = names
    value = pc.struct_field(batch[top], inner) if inner else batch[top]
    return value.cast(_INSTANT) if field.type == _INSTANT else value


def _plain(column: pa.Array) -> pa.Array:
    """Returns an extension array as what it is made of, and UUIDs, as DuckDB writes, as text."""
    if not isinstance(column, pa.ExtensionArray):
        return column
    if column.type.extension_name != "arrow.uuid":
        return column.storage
    return pa.array(
        [None if value is None else str(value) for value in column.to_pylist()], pa.string()
    )


def _decoded(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Returns columns without dictionaries, of which one value may be wrong and the rest not."""
    values = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in columns.columns
    ]
    return pa.RecordBatch.from_arrays(values, columns.schema.names)


def _sound(columns: pa.RecordBatch) -> np.ndarray:
    """bool[n]: the rows of which all values are what their types allow."""
    decoded = _decoded(columns)
    return valid_rows(len(decoded), lambda a, b: decoded.slice(a, b - a).validate(full=True))


def require_plain(field: pa.Field) -> None:
    """Makes sure that a column is not a struct, list or map.

    Raises:
        InputSchemaError: It is.
    """
    if pa.types.is_nested(getattr(field.type, "storage_type", field.type)):
        kind = str(field.type).partition("<")[0]
        raise InputSchemaError(
            f"the column {field.name[:80]!r} is nested ({kind}); name one within it: case.id"
        )


@contextmanager
def _opened(stream: BinaryIO) -> Iterator[pq.ParquetFile]:
    """Turns what Arrow raises on a damaged file into an InputSchemaError without Arrow's message.

    Errors of the stream pass: an OSError with a number is the operating system's.
    """
    try:
        file = pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=_READ_BYTES,
            # INT96, which Spark writes, is read as nanoseconds otherwise: the year 9999 overflows.
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        for name, count in Counter(file.schema_arrow.names).items():
            if count > 1:
                raise InputSchemaError(f"the input has {count} columns {name[:80]!r}")
        yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputSchemaError("the input is no Parquet file, or is damaged or encrypted") from None


def reader(how: SourceFormat, path: str) -> ParquetReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    return ParquetReader(how.goes_on, has_local_int96=how.int96_timestamps == "local")
