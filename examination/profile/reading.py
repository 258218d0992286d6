"""All columns of a file, as they lie there, whether or not anything is mapped to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats.base import ListingReader, RawBatch, Reader, TypedReader
from tracecloak.transforms.inputs.source_files import SourceFile, open_source
from tracecloak.transforms.sources import EventSource, named

# Of files that declare no columns, so many records are looked at for them.
_LISTED_RECORDS = 10_000
_BATCH_ROWS = 1 << 16


def all_columns(source: EventSource, file: SourceFile, max_records: int) -> Iterator[RawBatch]:
    """Yields all columns of the first records of a file, nested ones aside.

    Where only records tell which columns there are, these are those of the first 10,000.

    Raises:
        InputSchemaError: The file cannot be read; names it.
    """
    reader = source.format.reader_of(file.path, file.seen)
    n_left = max_records
    with named(file, source.format):
        names = [name for name in _names(reader, file) if _is_plain(reader, file, name)]
        with contextlib.closing(open_source(file)) as stream:
            for raw in reader.read(stream, names, (), min(_BATCH_ROWS, max_records)):
                yield raw
                n_left -= len(raw.records)
                if n_left <= 0:
                    return


def _names(reader: Reader, file: SourceFile) -> list[str]:
    with contextlib.closing(open_source(file)) as stream:
        declared = reader.column_names(stream)
    if declared is not None or not isinstance(reader, ListingReader):
        return declared or []
    with contextlib.closing(open_source(file)) as stream:
        return reader.names_in(stream, _LISTED_RECORDS)


def _is_plain(reader: Reader, file: SourceFile, name: str) -> bool:
    """Returns whether a column can be read: of files that declare types, one that is not nested."""
    if not isinstance(reader, TypedReader):
        return True
    with contextlib.closing(open_source(file)) as stream:
        try:
            return bool(reader.empty(stream, (name,)).num_columns)
        except InputSchemaError:
            return False
