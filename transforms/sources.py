"""What a release reads: files, their format and what their columns mean; without Beam."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import CASE_ID, is_case_attribute
from tracecloak.schemas.events.tally import SAME_NAME, TallyOfFile, TraceNames
from tracecloak.transforms.files import SourceFile, open_source
from tracecloak.transforms.formats.base import DeclaringReader
from tracecloak.transforms.formats.registry import SourceFormat

# Rows to a batch: a shuffle of many shards pays for every piece of every batch.
_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class EventSource:
    """Everything that tells how to read an event log.

    Attributes:
        files: The input files, ranked.
        format: How their bytes are read.
        mapping: What their columns mean.
    """

    files: tuple[SourceFile, ...]
    format: SourceFormat
    mapping: ColumnMapping

    def columns_of(self, file: SourceFile) -> list[str] | None:
        """Returns the columns that a file declares; None where only its records tell.

        Reads no values.

        Raises:
            InputSchemaError: A required column is not among them, or the file is not of its format.
        """
        with _named(file), open_source(file.path) as stream:
            reader = self.format.reader_of(file.path)
            found = reader.column_names(stream)
            if found is not None:
                columns = self._resolve(file, found)
                cast(DeclaringReader, reader).check(found, columns.required)
        return found

    def read(
        self, file: SourceFile, tally: TallyOfFile | None = None
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yields (canonical events, rejects) of a file in document order, either may be empty.

        Args:
            file: One of `files`.
            tally: Is told what was found in what has been read, if anybody asks.

        Raises:
            InputSchemaError: The file cannot be read; names the file and columns, never values.
        """
        reader = self.format.reader_of(file.path)
        with _named(file):
            with open_source(file.path) as stream:
                found = reader.column_names(stream)
            columns = self._resolve(file, found)
            case_id = columns.names[CASE_ID]
            names = TraceNames()
            with open_source(file.path) as stream:
                for raw in reader.read(stream, columns.wanted, columns.required, _BATCH_ROWS):
                    if tally is not None and raw.traces is not None and is_case_attribute(case_id):
                        repeated = names.repeated(raw.traces, raw.columns.column(case_id))
                        tally.add(SAME_NAME, raw.records[repeated])
                    yield columns.canonicalise(
                        raw.columns, raw.records, raw.malformed, file.rank, tally
                    )

    def _resolve(self, file: SourceFile, found: list[str] | None) -> ResolvedColumns:
        return self.mapping.resolve(found, self.format.has_xes_names(file.path))


@contextlib.contextmanager
def _named(file: SourceFile) -> Iterator[None]:
    """Puts the file's name in front of an error about it."""
    try:
        yield
    except InputSchemaError as error:
        raise InputSchemaError(f"{file.path}: {error}") from error
