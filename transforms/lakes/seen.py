"""How a table sees one of its files: what columns are called there, and which records are deleted.

A table changes without its files: a column is renamed, added or widened, and records are deleted by
lists of their places beside the file. Read without these the file has other columns, and records
that the table no longer has. A record keeps its number in the file.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats.base import RawBatch, TypedReader
from tracecloak.transforms.formats.parquet import ParquetReader, RowGroups, require_plain
from tracecloak.transforms.formats.pieces import Divider


@dataclass(frozen=True)
class SeenColumn:
    """A column of a table.

    Attributes:
        name: What the table calls it.
        type: Its type there.
        names: What files call it that have no ids of fields, or whose table goes by names.
        field_id: Its number in files that have ids of fields; None: the table goes by names.
    """

    name: str
    type: pa.DataType
    names: tuple[str, ...] = ()
    field_id: int | None = None


_Columns = list[tuple[SeenColumn, str | None]]


@dataclass(frozen=True)
class Seen:
    """How a table sees a file.

    Attributes:
        columns: The table's columns, those aside that its partitions give.
        deleted: Which records are deleted, as `deleted_bits` packs them; empty: none.
    """

    columns: tuple[SeenColumn, ...]
    deleted: bytes = b""

    def digest(self, of_file: str) -> str:
        """Returns the digest of what is read of a file, by the digest of its bytes."""
        columns = [(c.name, str(c.type), c.names, c.field_id) for c in self.columns]
        return hashlib.sha256(f"{of_file}\n{columns}\n{self.deleted.hex()}".encode()).hexdigest()

    def reader(self, goes_on: bool) -> SeenReader:
        """Returns what reads the file; see `SourceFormat.goes_on`."""
        return SeenReader(ParquetReader(goes_on, enters=False), self)


def deleted_bits(is_deleted: np.ndarray) -> bytes:
    """Returns which records of a file are deleted, packed; bool[n] of the first n records."""
    return zlib.compress(np.packbits(is_deleted).tobytes()) if is_deleted.any() else b""


@dataclass(frozen=True)
class SeenReader(TypedReader):
    """Reads a file of Parquet as its table sees it: a `TypedReader`.

    Attributes:
        inner: Reads the file as it is.
        seen: How the table sees it.
    """

    inner: ParquetReader
    seen: Seen

    def column_names(self, stream: BinaryIO) -> list[str]:
        """Returns the names of the table's columns; reads nothing."""
        return [column.name for column in self.seen.columns]

    def empty(self, stream: BinaryIO, wanted: Sequence[str]) -> pa.RecordBatch:
        """Returns the wanted columns without a row; see `TypedReader`."""
        columns = self._columns(stream, wanted)
        return _as_in_table(self.inner.empty(stream, _names(columns)), columns, 0)

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records that the table has; see `transforms.formats.base.Reader`."""
        self.check(self.column_names(stream), required)
        columns = self._columns(stream, wanted)
        return self._seen(self.inner.read(stream, _names(columns), (), batch_rows), columns)

    def divider(self) -> Divider:
        """Returns what divides the file between its row groups."""
        return RowGroups(lambda piece: replace(self, inner=replace(self.inner, piece=piece)))

    def _columns(self, stream: BinaryIO, wanted: Sequence[str]) -> _Columns:
        """Returns the wanted columns that the table has, with what the file calls each.

        Raises:
            InputSchemaError: The file does not tell which of its columns is which; or one that it
                lacks is nested.
        """
        by_name = {column.name: column for column in self.seen.columns}
        names = self.inner.fields(stream)
        ids = {number: name for name, number in names.items() if number is not None}
        stream.seek(0)
        columns = []
        for column in (by_name[name] for name in wanted if name in by_name):
            if column.field_id is not None and (ids or not column.names):
                if not ids:
                    raise InputSchemaError(
                        "neither file nor table maps ids of fields; have its engine rewrite it"
                    )
                name = ids.get(column.field_id)
            else:
                name = next((name for name in column.names if name in names), None)
            if name is None:
                require_plain(pa.field(column.name, column.type))
            columns.append((column, name))
        return columns

    def _seen(self, batches: Iterator[RawBatch], columns: _Columns) -> Iterator[RawBatch]:
        for batch in batches:
            kept = self._are_kept(batch.records)
            table = _as_in_table(batch.columns, columns, len(batch.records))
            yield replace(
                batch,
                columns=table if kept.all() else table.filter(pa.array(kept)),
                records=batch.records[kept],
                malformed=batch.malformed[self._are_kept(batch.malformed)],
            )

    def _are_kept(self, records: np.ndarray) -> np.ndarray:
        """bool[n]: which of the records with these numbers the table has."""
        is_deleted = self._is_deleted
        listed = records < len(is_deleted)
        kept = np.ones(len(records), bool)
        kept[listed] = ~is_deleted[records[listed]]
        return kept

    @cached_property
    def _is_deleted(self) -> np.ndarray:
        """bool[n]: which of the first n records are deleted; all that follow are there."""
        packed = self.seen.deleted
        bits = np.frombuffer(zlib.decompress(packed) if packed else b"", np.uint8)
        return np.unpackbits(bits).astype(bool)


def _names(columns: _Columns) -> list[str]:
    return list(dict.fromkeys(name for _, name in columns if name is not None))


def _as_in_table(records: pa.RecordBatch, columns: _Columns, n_records: int) -> pa.RecordBatch:
    """Returns n records of a file with the names and the width of the table's columns."""
    arrays = [
        pa.nulls(n_records, column.type)
        if name is None
        else _widened(records.column(name), column.type)
        for column, name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, [column.name for column, _ in columns])


def _widened(column: pa.Array, to: pa.DataType) -> pa.Array:
    """Returns a column in the type of its table, if that was made wider since the file."""
    of, types = column.type, pa.types
    is_wider = (
        (types.is_integer(of) and types.is_integer(to) and of.bit_width < to.bit_width)
        or (types.is_floating(of) and types.is_floating(to) and of.bit_width < to.bit_width)
        or (types.is_integer(of) and (types.is_floating(to) or types.is_decimal(to)))
        or (types.is_decimal(of) and types.is_decimal(to) and of != to)
        or (types.is_date(of) and types.is_timestamp(to))
    )
    if types.is_timestamp(of) and types.is_timestamp(to) and of.tz is None and to.tz is not None:
        # Stamps that say no zone are UTC by their table.
        return column.cast(pa.timestamp(of.unit, to.tz))
    return column.cast(to) if is_wider else column
