"""Parquet that somebody sent: how much it comes to is known before anything of it is decoded.

A footer is hostile as everything else is. Pages say on their own how large they are and how many
values they have, and Arrow believes them, so the headers of all pages are read first: they must be
what the footer says, within bounds, and of the encodings that releases have. Text stays coded by
dictionaries until it is known how long it is written out, and is then handed over in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracecloak.pipelines.verification.findings import Wrong

MAX_ROWS = 20_000_000
"""Rows of a product that is not a log."""
MAX_BYTES = 2 * 10**9
"""Bytes of such a product as it is written out."""

_MAX_FOOTER = 16 << 20
_MAX_LIST = 10_000  # of a footer, such as its row groups: one of a release has 1,000,000 rows
_MAX_PAGES = 1_000  # of a column of a row group, and one for so many of its values:
_VALUES_OF_PAGE = 200  # Arrow puts 1,024 at least into a page
_MAX_PAGE_BYTES = 16 << 20  # Arrow ends a page at 1 MiB
_MAX_ROW_BYTES = 1 << 20  # on the mean over a page of each column
_MAX_DICTIONARIES = 64 << 20  # of all columns of a row group together
_HEADER_BYTES = 64 << 10
_BATCH_ROWS = 1 << 16
_PIECE_BYTES = 64 << 20
_TOO_LARGE = "A Parquet file comes to more bytes than any of its kind has."
_TYPES = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY")
# By Thrift's numbers: pages of data (v1, v2) and of dictionaries; PLAIN, PLAIN_DICTIONARY, RLE and
# RLE_DICTIONARY, none of which makes a text of parts of others.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLACES = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
_ENCODINGS = (0, 2, 3, 8)


def footer_of(stream: BinaryIO) -> pq.ParquetFile:
    """Reads the footer of a file alone, within bounds.

    Raises:
        Wrong: It is longer than any.
        pa.ArrowException, OSError, ValueError: It is none.
    """
    stream.seek(-8, 2)
    if int.from_bytes(stream.read(4), "little") > _MAX_FOOTER:
        raise Wrong(f"A footer of Parquet is longer than {_MAX_FOOTER:,} bytes.")
    return pq.ParquetFile(stream, thrift_container_size_limit=_MAX_LIST)


@dataclass(frozen=True)
class BoundedParquet:
    """A Parquet file within bounds.

    Attributes:
        stream: Its bytes, seekable.
        max_rows: How many rows it may have.
        bytes_per_row: What a row of a log may take as it is written out, on the mean; None: it is
            no log, and all rows together may take MAX_BYTES.
    """

    stream: BinaryIO
    max_rows: int = MAX_ROWS
    bytes_per_row: int | None = None

    @cached_property
    def _checked(self) -> tuple[pq.ParquetFile, int]:
        """The file, its headers compared with its footer; and how many rows are read at once.

        Raises:
            Wrong: It is larger than it may be, or not as releases have it.
            pa.ArrowException, OSError, ValueError: It is no Parquet file.
        """
        file = footer_of(self.stream)
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
        rows = [group.num_rows for group in groups]
        if sum(rows) > self.max_rows:
            raise Wrong(f"A Parquet file has more than the {self.max_rows:,} rows that it may.")
        is_sound = bool(leaves) and min(rows, default=0) >= 0
        is_sound &= all(leaf.physical_type in _TYPES for leaf in leaves)
        n_bytes = largest_row = 0
        for group in groups:
            n_of_dictionaries = of_row = 0
            for i, leaf in enumerate(leaves):
                chunk = group.column(i)
                max_pages = _MAX_PAGES + max(chunk.num_values, 0) // _VALUES_OF_PAGE
                pages = list(islice(self._pages(chunk), max_pages + 1))
                n_values = sum(n for kind, n, _ in pages if kind != _DICTIONARY)
                most = MAX_ROWS if leaf.max_repetition_level else group.num_rows
                is_sound &= group.num_rows <= n_values <= most and len(pages) <= max_pages
                is_sound &= n_values == chunk.num_values
                n_bytes += sum(size for _, _, size in pages)
                n_of_dictionaries += sum(size for kind, _, size in pages if kind == _DICTIONARY)
                of_row += max(
                    (size // (n or 1) for k, n, size in pages if k != _DICTIONARY), default=0
                )
            is_sound &= n_of_dictionaries <= _MAX_DICTIONARIES and of_row <= _MAX_ROW_BYTES
            largest_row = max(of_row, largest_row)
        if not is_sound or sum(rows) != file.metadata.num_rows:
            raise ValueError("the pages are not those of the footer, or not as releases have them")
        if n_bytes > self._max_bytes(sum(rows)):
            raise Wrong(_TOO_LARGE)
        return file, min(_BATCH_ROWS, _PIECE_BYTES // (largest_row or 1))

    def _max_bytes(self, n_rows: int) -> int:
        """How many bytes the columns may take as they are written out."""
        of_row = self.bytes_per_row
        return MAX_BYTES if of_row is None else _MAX_DICTIONARIES + n_rows * of_row

    @cached_property
    def schema(self) -> pa.Schema:
        """Its columns, without metadata."""
        return self._checked[0].schema_arrow.remove_metadata()

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return int(self._checked[0].metadata.num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields its rows, written out and valid, in batches of some MiB.

        Raises:
            Wrong: They are larger than they may be.
            pa.ArrowException, OSError, ValueError: They are damaged.
        """
        whole, n_rows = self._checked
        leaves = (whole.schema.column(i) for i in range(len(whole.schema)))
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        file = pq.ParquetFile(
            self.stream,
            metadata=whole.metadata,
            read_dictionary=texts,
            buffer_size=1 << 20,
            page_checksum_verification=True,
        )
        n_left = self._max_bytes(self.n_rows)
        for rows in file.iter_batches(n_rows, use_threads=False):
            n_left -= sum(map(_written_out, rows.columns))
            if n_left < 0:
                raise Wrong(_TOO_LARGE)
            for piece in self._pieces(rows):
                plain = piece.cast(self.schema)
                plain.validate(full=True)
                yield plain

    def _pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Divides rows until each piece can be written out."""
        if sum(map(_written_out, rows.columns)) <= _PIECE_BYTES:
            yield rows
            return
        half = rows.num_rows // 2
        if not half:
            raise Wrong(_TOO_LARGE)
        yield from self._pieces(rows.slice(0, half))
        yield from self._pieces(rows.slice(half))

    def _pages(self, chunk: Any) -> Iterator[tuple[int, int, int]]:
        """Yields (kind, values, bytes when unpacked) of each page of a column of a row group."""
        at = chunk.data_page_offset
        if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < at:
            at = chunk.dictionary_page_offset
        end = at + chunk.total_compressed_size
        while at < end:
            self.stream.seek(at)
            fields, n_bytes = _thrift(self.stream.read(min(_HEADER_BYTES, end - at)))
            kind, size, packed = (fields[i] for i in (1, 2, 3))
            page = fields[_PLACES[kind]]
            encodings = page[4 if kind == _DATA_V2 else 2], page.get(3, 3), page.get(4, 3)
            is_known = all(one in _ENCODINGS for one in encodings[: 3 if kind == _DATA else 1])
            if not is_known or not 0 <= size <= _MAX_PAGE_BYTES or packed < 0 or page[1] < 0:
                raise ValueError("the header of a page")
            yield kind, page[1], size
            at += n_bytes + packed
        if at != end:
            raise ValueError("the end of a column")


def _written_out(column: pa.Array) -> int:
    """Returns how many bytes a column takes as it is written out."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        return (pc.sum(lengths).as_py() or 0) + 4 * len(column)
    if pa.types.is_list(column.type):
        return _written_out(pc.list_flatten(column)) + 4 * len(column)
    if pa.types.is_nested(column.type):
        raise ValueError("a column of a type that no release has")
    return int(column.nbytes)


def _thrift(data: bytes) -> tuple[dict[int, Any], int]:
    """Reads a struct of Thrift's compact protocol, of numbers and structs of them.

    Texts are passed over.

    Returns:
        The fields by their numbers, and how many bytes they take.

    Raises:
        ValueError, IndexError: It is none, or has a list.
    """
    at = 0

    def unsigned() -> int:
        nonlocal at
        value = shift = 0
        while shift < 70:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                break
        return value

    def number() -> int:
        value = unsigned()
        return value >> 1 ^ -(value & 1)

    def struct(depth: int) -> dict[int, Any]:
        nonlocal at
        fields: dict[int, Any] = {}
        field = 0
        while head := data[at]:
            at += 1
            kind, step = head & 15, head >> 4
            field = field + step if step else number()
            if field in fields or not 0 < field < 100:  # Arrow takes the last 16 bits
                raise ValueError("the number of a field")
            if kind in (4, 5, 6):
                fields[field] = number()
            elif kind == 8:
                fields[field] = n_bytes = unsigned()
                at += n_bytes
            elif kind == 12 and depth < 4:
                fields[field] = struct(depth + 1)
            elif kind in (1, 2):
                fields[field] = kind == 1
            else:
                raise ValueError("a field that no header of a page has")
        at += 1
        return fields

    return struct(0), at
