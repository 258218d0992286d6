"""What a file format owes the pipeline: raw record batches in, released rows out.

A reader knows bytes and nothing of event logs: it hands over the source's own columns, named as in
the source, in the order of the records. `schemas.events.columns.ColumnMapping` makes canonical
events of them, so all formats share one rule for case ids, times, filters and malformed records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError

# What an error shows of the columns that a file has.
_SHOWN_COLUMNS = 20
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class RawBatch:
    """A run of records as the source has them.

    Attributes:
        columns: One column per requested source column that the file has, in the requested order
            and with its native Arrow type; a value that a record lacks is null.
        records: int64[n_rows], the number of each record in its file, counted from 0 in document
            order over all records, the malformed ones too.
        malformed: int64[n_malformed], numbers of the records that could not be parsed at all.
        traces: int64[n_rows], ascending: the number of the trace that holds each record, where a
            format has traces; otherwise None.
    """

    columns: pa.RecordBatch
    records: np.ndarray
    malformed: np.ndarray
    traces: np.ndarray | None = None


class Reader(Protocol):
    """Reads one file format as a stream of `RawBatch`, in memory bounded by the batch size."""

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns the columns that the file declares, or None where only its records tell.

        Only records tell in XES and JSON lines. Reads no values.

        Raises:
            InputSchemaError: The file is not of this format, or two columns share a name.
        """
        ...

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream` in order, at most `batch_rows` to a batch.

        Args:
            stream: The file's bytes, already decompressed; need not be seekable unless the format
                is (Parquet).
            wanted: Source columns to hand over; the others are never materialised.
            required: Those of `wanted` without which the file cannot be read; one that the file
                does not have (for XES and JSON lines: that no record has) is an error.
            batch_rows: Upper bound of the rows in a batch.

        Raises:
            InputSchemaError: The file is damaged, not of this format, or lacks a required column.
                Names columns, never values.
        """
        ...


class DeclaringReader(Reader, Protocol):
    """A reader of files that declare their columns."""

    def check(self, found: Sequence[str], required: Collection[str]) -> None:
        """Makes sure that the declared columns are enough, before any value is read.

        Raises:
            InputSchemaError: A required column is not among those found.
        """
        ...


class Writer(Protocol):
    """Writes released rows; equal rows give equal bytes: no clock, no host, no random marker."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of RELEASED_SCHEMA; rows of a case are contiguous, across calls too."""
        ...

    def close(self) -> None:
        """Writes what remains; does not close the stream, which is the caller's."""
        ...


def require_columns(found: Sequence[str], required: Collection[str]) -> None:
    """Raises the error of missing columns if there are any."""
    if not set(required) <= set(found):
        raise missing_columns(found, required)


def missing_columns(found: Sequence[str] | None, required: Collection[str]) -> InputSchemaError:
    """Returns the error of a file that lacks required columns, ready to raise.

    Args:
        found: The names of the columns that the file has, or None where they must not be shown.
        required: The columns that the file must have; those of `found` among them are not missing.

    Returns:
        The error; it names the missing columns, up to 20 of those found, and the mend.
    """
    missing = sorted(set(required) - set(found or ()))
    plural = "s" if len(missing) > 1 else ""
    message = f"the input has no column{plural} {_listed(missing)}"
    if found is not None:
        message += f"; its columns are {_listed(found)}" if found else "; it has no columns"
    return InputSchemaError(
        f"{message}. Map the column with --case_id, --activity or --timestamp, or under `columns:` "
        "in the configuration"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:_SHOWN_CHARACTERS]) for name in names[:_SHOWN_COLUMNS])
    left = len(names) - _SHOWN_COLUMNS
    return f"{shown} and {left} more" if left > 0 else shown
