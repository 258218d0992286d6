"""Parquet that somebody sent: how much it comes to is known before anything of it is decoded.

A footer is hostile as everything else is. Pages say on their own how large they are and how many
values they have, and Arrow believes them, so the headers of all pages are read first: they must be
what the footer says, within bounds, and of the encodings that releases have. Text stays coded by
dictionaries until it is known how long it is written out, and is then handed over in pieces.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracecloak.pipelines.verification.folder import Unsure, Wrong

MAX_ROWS = 20_000_000
"""Rows of a product that is not a log."""
MAX_BYTES = 2 * 10**9
"""Bytes of such a product as it is written out."""

_MAX_FOOTER = 16 << 20
# Numbers, texts and structs in a footer: Arrow takes 1.4 kB for the shortest column of a row group,
# which has two, and one of a release has some fifty.
_MAX_FIELDS = 300_000
_MAX_DEPTH = 12
_MAX_COLUMNS = 1_000
_MAX_PAGES = 10_000  # of a file, and
_PAGES_OF_COLUMN = 4  # of each column of a row group, and one for so many values:
_VALUES_OF_PAGE = 1_000  # Arrow puts 1,024 at least into a page
_MAX_PAGE_BYTES = 16 << 20  # Arrow ends a page at 1 MiB
_MAX_ROW_BYTES = 1 << 20  # on the mean over a page of each column
_MAX_DICTIONARIES = 64 << 20  # of all columns of a row group together
_MAX_OPEN_BYTES = 192 << 20  # their dictionaries and their largest pages
_MAX_PLAIN = 80 << 20  # of texts without a dictionary in a row group, of which Arrow makes one
_MAX_LISTED = 8_000_000  # values in lists of a row group, all of which may be in one row
_VALUE_BYTES = 8  # at most, as it is written out, without the bytes of a text
_HEADER_BYTES = 64 << 10
_BATCH_ROWS = 1 << 16
_PIECE_BYTES = 8 << 20
_TOO_LARGE = "A Parquet file comes to more bytes than any of its kind has."
_NOT_READ = (
    f"Not checked: a row group with more than {_MAX_LISTED:,} values in lists, or "
    f"{_MAX_PLAIN >> 20} MiB of texts of which few are equal, is not read here."
)
_UNLIKE = "the pages are not those of the footer, or not as releases have them"
_TYPES = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE", "BYTE_ARRAY")
# By Thrift's numbers: pages of data (v1, v2) and of dictionaries; PLAIN, PLAIN_DICTIONARY, RLE and
# RLE_DICTIONARY, none of which makes a text of parts of others.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLACES = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
_ENCODINGS = (0, 2, 3, 8)


def footer_of(stream: BinaryIO) -> pq.ParquetFile:
    """Reads the footer of a file alone, within bounds.

    Raises:
        Wrong: It is longer than any, or has a key of its metadata twice.
        pa.ArrowException, OSError, ValueError, IndexError: It is none.
    """
    stream.seek(-8, 2)
    n_bytes = int.from_bytes(stream.read(4), "little")
    if n_bytes > _MAX_FOOTER:
        raise Wrong(f"A footer of Parquet is longer than {_MAX_FOOTER:,} bytes.")
    stream.seek(-8 - n_bytes, 2)
    footer = stream.read(n_bytes)
    keys = [pair[1] for pair in _thrift(footer)[0].get(5, ())]
    if len(set(keys)) < len(keys):
        raise Wrong("A footer of Parquet has a key of its metadata twice.")
    # Arrow's own schema may have tables within tables many times over; Parquet's says the same.
    footer = footer.replace(b"ARROW:schema", b"arrow:schema")
    whole = b"PAR1" + footer + n_bytes.to_bytes(4, "little") + b"PAR1"
    return pq.ParquetFile(stream, metadata=pq.read_metadata(io.BytesIO(whole)))


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
            Wrong: It is larger than it may be.
            Unsure: It is larger than what is read here.
            pa.ArrowException, OSError, ValueError, IndexError: It is no Parquet file, or none as
                releases have it.
        """
        file = footer_of(self.stream)
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
        n_rows = sum(group.num_rows for group in groups)
        if n_rows > self.max_rows:
            raise Wrong(f"A Parquet file has more than the {self.max_rows:,} rows that it may.")
        # Of a group without rows the footer names a page, and Arrow writes none.
        groups = [group for group in groups if group.num_rows]
        columns = [[group.column(i) for i in range(len(leaves))] for group in groups]
        chunks = list(chain(*columns))
        is_sound = 0 < len(leaves) <= _MAX_COLUMNS and all(
            leaf.physical_type in _TYPES for leaf in leaves
        )
        is_sound &= n_rows == file.metadata.num_rows
        is_sound &= all(group.num_rows > 0 for group in groups)
        is_sound &= all(chunk.total_compressed_size > 0 for chunk in chunks)
        n_packed = sum(chunk.total_compressed_size for chunk in chunks)
        is_sound &= n_packed <= self.stream.seek(0, 2)  # so no pages are of two columns
        max_listed = max(self.max_rows, _MAX_LISTED)
        for group, of_group in zip(groups, columns, strict=True):
            n_listed = 0
            for leaf, chunk in zip(leaves, of_group, strict=True):
                n_listed += chunk.num_values if leaf.max_repetition_level else 0
                most = max_listed if leaf.max_repetition_level else group.num_rows
                is_sound &= group.num_rows <= chunk.num_values <= most
            if n_listed > _MAX_LISTED:
                raise Unsure(_NOT_READ)
        if not is_sound:
            raise ValueError(_UNLIKE)
        n_values = sum(chunk.num_values for chunk in chunks)
        n_bytes, largest_row = n_values * _VALUE_BYTES, 1
        n_pages = _MAX_PAGES + _PAGES_OF_COLUMN * len(chunks) + n_values // _VALUES_OF_PAGE
        for of_group in columns if n_bytes <= self._max_bytes(n_rows) else ():
            n_open = n_of_dictionaries = n_bytes_of_row = n_plain = 0
            for chunk in of_group:
                pages = list(islice(self._pages(chunk), n_pages + 1))
                data = [(n, size) for kind, n, size, _ in pages if kind != _DICTIONARY]
                if chunk.physical_type == "BYTE_ARRAY":
                    n_plain += sum(
                        size for kind, _, size, code in pages if kind != _DICTIONARY and not code
                    )
                n_pages -= len(pages)
                is_sound &= n_pages >= 0 and min(data, default=(0, 0))[0] > 0
                if not is_sound or sum(n for n, _ in data) != chunk.num_values:
                    raise ValueError(_UNLIKE)
                n_of_pages = sum(size for _, _, size, _ in pages)
                n_bytes += n_of_pages
                n_of_dictionaries += n_of_pages - sum(size for _, size in data)
                n_open += max(size for _, size in data)
                n_bytes_of_row += max(_VALUE_BYTES, *(size // n for n, size in data))
            n_open += n_of_dictionaries
            is_sound &= n_of_dictionaries <= _MAX_DICTIONARIES and n_open <= _MAX_OPEN_BYTES
            if not is_sound or n_bytes_of_row > _MAX_ROW_BYTES:
                raise ValueError(_UNLIKE)
            if n_plain > _MAX_PLAIN:
                raise Unsure(_NOT_READ)
            largest_row = max(n_bytes_of_row, largest_row)
        if n_bytes > self._max_bytes(n_rows):
            raise Wrong(_TOO_LARGE)
        return file, min(_BATCH_ROWS, _PIECE_BYTES // largest_row)

    def _max_bytes(self, n_rows: int) -> int:
        """How many bytes the columns may take as they are written out."""
        n_bytes_of_row = self.bytes_per_row
        return MAX_BYTES if n_bytes_of_row is None else _MAX_DICTIONARIES + n_rows * n_bytes_of_row

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
            buffer_size=1 << 18,
            page_checksum_verification=True,
        )
        n_left = self._max_bytes(self.n_rows)
        sizes = [whole.metadata.row_group(i).num_rows for i in range(whole.num_row_groups)]
        groups = [i for i, size in enumerate(sizes) if size]
        for rows in file.iter_batches(n_rows, groups, use_threads=False):
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

    def _pages(self, chunk: Any) -> Iterator[tuple[int, int, int, int]]:
        """Yields (kind, values, bytes when unpacked, encoding) of the pages of a column chunk."""
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
            yield kind, page[1], size, encodings[0]
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
    """Reads a struct of Thrift's compact protocol, of numbers, texts, structs and lists of them.

    Returns:
        The fields by their numbers, and how many bytes they take.

    Raises:
        ValueError, IndexError: It is none, or has too many values.
    """
    at, n_left = 0, _MAX_FIELDS

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

    def value_of(kind: int, depth: int) -> Any:
        nonlocal at, n_left
        n_left -= 1
        if n_left < 0 or depth > _MAX_DEPTH:
            raise ValueError("more values than any has")
        if kind in (4, 5, 6):
            return number()
        if kind == 8:
            n_bytes = unsigned()
            at += n_bytes
            return data[at - n_bytes : at]
        if kind == 9:
            head, at = data[at], at + 1
            n_items = head >> 4 if head >> 4 < 15 else unsigned()
            return [value_of(head & 15, depth + 1) for _ in range(n_items)]
        if kind == 12:
            return struct(depth + 1)
        raise ValueError("a field that neither a footer nor a header of a page has")

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
            fields[field] = kind == 1 if kind in (1, 2) else value_of(kind, depth)
        at += 1
        return fields

    return struct(0), at
