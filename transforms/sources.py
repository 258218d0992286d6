"""What a release reads: files, their format and what their columns mean; without Beam."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import CASE_ID, is_case_attribute
from tracecloak.schemas.events.tally import SAME_NAME, ReadTally, TallyOfFile, TraceNames
from tracecloak.transforms.files import SourceFile, open_source, position_in
from tracecloak.transforms.formats.base import DeclaringReader, TypedReader
from tracecloak.transforms.formats.registry import FORMATS, SourceFormat

_LOG = logging.getLogger("tracecloak")

# Rows to a batch: a shuffle of many shards pays for every piece of every batch.
_BATCH_ROWS = 1 << 16
# How far a file is, is told so often at most.
_TOLD_APART_S = 5.0
# Batches of a file in which records are looked for to be tried.
_TRIED_BATCHES = 20


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

    def progress_of(self, file: SourceFile, n_read: int | None = None) -> dict[str, Any]:
        """Returns what a record of the log says of progress: bytes of a file, of those of all.

        Args:
            file: One of `files`.
            n_read: How many of its bytes were read; None: all.
        """
        return {
            "stage": "reading",
            "part": file.rank,
            "done": file.n_bytes if n_read is None else n_read,
            "total": sum(each.n_bytes for each in self.files),
        }

    def columns_of(self, file: SourceFile) -> list[str] | None:
        """Returns the columns that a file declares; None where only its records tell.

        Reads no values.

        Raises:
            InputSchemaError: A required column is not among them, or has a type that cannot be what
                it is mapped to, or the file is not of its format.
        """
        reader = self.format.reader_of(file.path)
        with _named(file):
            with open_source(file.path) as stream:
                found = reader.column_names(stream)
            if found is None:
                return None
            columns = self._resolve(file, found)
            cast(DeclaringReader, reader).check(found, columns.required)
            if isinstance(reader, TypedReader):
                with open_source(file.path) as stream:
                    empty = reader.empty(stream, columns.wanted)
                none = np.zeros(0, np.int64)
                columns.canonicalise(empty, none, none, file.rank)
        return found

    def first_records(self, n_records: int, n_files: int) -> ReadTally:
        """Reads some records at the beginning, and returns what was found of them.

        Those that a filter drops are not among them, and not all of a file are looked through for
        some that pass.

        Args:
            n_records: How many, over all files.
            n_files: How many files are opened at most.

        Raises:
            InputSchemaError: As `read`.
        """
        tallies: list[ReadTally] = []
        left = n_records
        for file in self.files[:n_files]:
            tally = TallyOfFile(file.rank)
            n_read = 0
            for _ in islice(self._read(file, tally, left), _TRIED_BATCHES):
                n_read = tally.result().n_records
                if n_read >= left:
                    break
            tallies.append(tally.result())
            left -= n_read
            if left <= 0:
                break
        return ReadTally.merge(tallies)

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
        return self._read(file, tally, _BATCH_ROWS)

    def _read(
        self, file: SourceFile, tally: TallyOfFile | None, batch_rows: int
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        reader = self.format.reader_of(file.path)
        with _named(file):
            with open_source(file.path) as stream:
                found = reader.column_names(stream)
            columns = self._resolve(file, found)
            case_id = columns.names[CASE_ID]
            names = TraceNames()
            told_s = time.monotonic()
            with open_source(file.path) as stream:
                for raw in reader.read(stream, columns.wanted, columns.required, batch_rows):
                    if tally is not None and raw.traces is not None and is_case_attribute(case_id):
                        repeated = names.repeated(raw.traces, raw.columns.column(case_id))
                        tally.add(SAME_NAME, raw.records[repeated])
                    if time.monotonic() - told_s >= _TOLD_APART_S:
                        told_s = time.monotonic()
                        self._tell(file, stream)
                    yield columns.canonicalise(
                        raw.columns, raw.records, raw.malformed, file.rank, tally
                    )

    def _tell(self, file: SourceFile, stream: BinaryIO) -> None:
        """Tells whoever watches how far a long file is, if it is read from its begin to its end."""
        if FORMATS[self.format.name_of(file.path)].is_packed:
            return
        with contextlib.suppress(OSError, ValueError):  # no place, or read and closed already
            told = self.progress_of(file, position_in(stream))
            _LOG.info("reading input %d of %d", file.rank + 1, len(self.files), extra=told)

    def _resolve(self, file: SourceFile, found: list[str] | None) -> ResolvedColumns:
        xes_names = self.format.has_xes_names(file.path)
        return self.mapping.resolve(found, xes_names, self.format.goes_on)


@contextlib.contextmanager
def _named(file: SourceFile) -> Iterator[None]:
    """Puts the file's name in front of an error about it."""
    try:
        yield
    except InputSchemaError as error:
        raise InputSchemaError(f"{file.path}: {error}") from error
