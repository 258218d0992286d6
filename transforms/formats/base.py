"""What a file format owes the pipeline, and fields of records by their paths."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, BinaryIO, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import LacksColumn
from tracecloak.schemas.events.events import EVENT_PREFIX
from tracecloak.schemas.events.tally import Reject, Unread
from tracecloak.schemas.texts import text_or_null

# --- What a file format owes the pipeline: raw record batches in, released rows out. --------------
# A reader knows bytes and nothing of event logs: it hands over the source's own columns, named as
# in the source, in the order of the records. `schemas.events.columns.ColumnMapping` makes
# canonical events of them, so all formats share one rule for case ids, times, filters and
# malformed records.


_T = TypeVar("_T")

# What an error shows of the columns that a file has.
SHOWN_COLUMNS = 20
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class RawBatch:
    """A run of records as the source has them.

    Attributes:
        columns: One column per requested source column that the file has, in the requested order; a
            value that a record lacks is null. It has the type that the file declares. Where only
            records tell types, or a column has several, it is text by
            `schemas.events.source_column`: no record decides the type of another one's value.
        records: int64[n_rows], the number of each record in its file, counted from 0 in document
            order over all records, the malformed ones too.
        malformed: int64[n_malformed], numbers of the records that could not be parsed at all; of
            records that could only be passed over together, the first one's.
        traces: int64[n_rows], ascending: the number of the trace that holds each record, where a
            format has traces; otherwise None.
        fractional: For columns of text, bool[n_rows]: which values are numbers that can name
            nobody, see `source_column.fractions`; a column that has none may be missing.
    """

    columns: pa.RecordBatch
    records: np.ndarray
    malformed: np.ndarray
    traces: np.ndarray | None = None
    fractional: Mapping[str, np.ndarray] = field(default_factory=dict)

    def cut(self, batch_rows: int) -> Iterator[RawBatch]:
        """Yields the batch in pieces of so many rows, each with the malformed records before it."""
        n, malformed = len(self.records), self.malformed
        for start in range(0, max(n, 1), batch_rows):
            stop = start + batch_rows
            before = len(malformed)
            if stop < n:
                before = int(np.searchsorted(malformed, self.records[stop]))
            if n or before:
                yield RawBatch(
                    self.columns.slice(start, batch_rows),
                    self.records[start:stop],
                    malformed[:before],
                    None if self.traces is None else self.traces[start:stop],
                    {name: marks[start:stop] for name, marks in self.fractional.items()},
                )
            malformed = malformed[before:]


class Reader(Protocol):
    """Reads one file format as a stream of `RawBatch`, in memory bounded by the batch size.

    Made for a `SourceFormat` with `goes_on`, it raises only what no record can cause: the file is
    of another format, its head or schema is none, or its bytes end or change on the way.
    """

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns the columns that the file declares, or None where only its records tell.

        Only records tell in XES and JSON lines. Reads no values, and no more than the file's head.

        Raises:
            InputSchemaError: The file is not of this format.
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
                does not have is an error. For XES and JSON lines it is one that no record has, and
                the error, a LacksColumn, comes behind all records.
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
            InputSchemaError: A required column is not among those found, or is so twice.
        """
        require_columns(found, required)


@runtime_checkable
class TypedReader(DeclaringReader, Protocol):
    """A reader of files that declare the types of their columns, too."""

    def empty(self, stream: BinaryIO, wanted: Sequence[str]) -> pa.RecordBatch:
        """Returns the wanted columns that the file has, without a row, typed as `read` types them.

        Raises:
            InputSchemaError: The file is not of this format, or a column is nested.
        """
        ...


class Writer(Protocol):
    """Writes released rows; equal rows give equal bytes: no clock, no host, no random marker."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of the schema; rows of a case are contiguous, across calls too."""
        ...

    def close(self) -> None:
        """Writes what remains; does not close the stream, which is the caller's."""
        ...


def read_fully(read: Callable[[int], bytes], size: int) -> bytes:
    """Reads `size` bytes or to the end, also from a stream that gives less than it is asked for."""
    pieces = []
    while size and (piece := read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def marked_as(name: str, character: str) -> str:
    """Registers the codecs' error handler of a name, which puts a character for what has none."""
    codecs.register_error(name, lambda error: (character, cast(UnicodeDecodeError, error).end))
    return name


def is_utf8(data: bytes) -> bool:
    """Returns whether bytes are UTF-8."""
    return data.isascii() or text_or_null(data) is not None


def valid_rows(n: int, check: Callable[[int, int], Any]) -> np.ndarray:
    """bool[n]: which rows are sound, found by halving, so that few wrong ones are found fast.

    Args:
        n: The number of rows.
        check: Raises an error of a value or of Arrow unless the rows from one place to another,
            exclusive, all are sound.
    """
    sound = np.ones(n, bool)
    runs = [(0, n)] if n else []
    while runs:
        start, end = runs.pop()
        middle = (start + end) // 2
        try:
            check(start, end)
        except (TypeError, ValueError, pa.ArrowException):
            sound[start] = middle > start
            runs += [(start, middle), (middle, end)] if middle > start else []
    return sound


Columns = tuple[pa.RecordBatch, dict[str, np.ndarray]]
"""Columns of records, and which of their values are fractions; see `RawBatch`."""


def sound_batch(
    rows: Sequence[_T],
    records: np.ndarray,
    malformed: Sequence[int],
    columns_of: Callable[[Sequence[_T]], Columns],
    goes_on: bool = True,
) -> RawBatch:
    """Returns records as a batch; those of which a value is none of its column are malformed.

    Args:
        rows: [n], the records.
        records: int64[n], their numbers.
        malformed: Numbers of others that are malformed.
        columns_of: Makes columns of some, and raises an error of a value or of Arrow if it cannot.
        goes_on: Else such an error passes.
    """
    others = np.asarray(malformed, np.int64)
    try:
        columns, fractional = columns_of(rows)
    except (TypeError, ValueError, pa.ArrowException):
        if not goes_on:
            raise
        sound = valid_rows(len(rows), lambda start, end: columns_of(rows[start:end]))
        others, records = np.union1d(others, records[~sound]), records[sound]
        columns, fractional = columns_of([rows[i] for i in np.flatnonzero(sound).tolist()])
    return RawBatch(columns, records, others, fractional=fractional)


def require_columns(found: Sequence[str], required: Collection[str]) -> None:
    """Raises the error of missing columns if there are any."""
    if not set(required) <= set(found):
        raise missing_columns(found, required)


def missing_columns(found: Sequence[str] | None, required: Collection[str]) -> LacksColumn:
    """Returns the error of a file that lacks required columns, ready to raise.

    Args:
        found: The names of the columns that the file has, or None where they must not be shown.
        required: The columns that the file must have; those of `found` among them are not missing.

    Returns:
        The error; it names the missing columns, up to 20 of those found, and the remedy.
    """
    missing = sorted(set(required) - set(found or ()))
    plural = "s" if len(missing) > 1 else ""
    message = f"the input has no column{plural} {_listed(missing)}"
    if found is not None:
        message += f"; its columns are {_listed(found)}" if found else "; it has no columns"
    moved = [EVENT_PREFIX + name for name in missing if EVENT_PREFIX + name in (found or ())]
    remedy = "Name the right column in case_id, activity, timestamp, order or where"
    if moved:
        remedy = (
            f"Events have the key, and traces do not: map {_listed(moved)} in its place, as "
            f"{moved[0]} for case_id if it is the case id"
        )
    error = LacksColumn(f"{message}. {remedy}")
    error.columns, error.names = frozenset(missing), tuple(found or ())
    return error


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:_SHOWN_CHARACTERS]) for name in names[:SHOWN_COLUMNS])
    left = len(names) - SHOWN_COLUMNS
    return f"{shown} and {left} more" if left > 0 else shown


# --- Fields of a record or message: what a path leads to, and what of it is a scalar. -------------
# Take `payload.after.case_id`. A record that has a field of just that name gives this one; in any
# other, each dot leads into an object, in which the same holds of the rest. Each record is read
# by itself, and no other has a say in it. Where a file declares its fields, they decide alike for
# all of its records. No path leads into a list.


Field = Callable[[Mapping[str, Any]], Any]
"""Returns what a record has in a field; a default where it has none."""

NO_OBJECT: dict[str, Any] = {}
"""What a field is, which is no scalar, where a dot of its path leads into what is no object."""

# No more objects than these are looked into for a list of fields, and none within so many others.
_LISTED_OBJECTS = 1_000
_LISTED_DEPTH = 32

# How JSON names the branches of an Avro union that hold a scalar, and what a value of them is.
_BRANCHES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    **dict.fromkeys(("int", "long"), (int,)),
    **dict.fromkeys(("float", "double"), (int, float)),
}


class UnreadError(ValueError):
    """A message is no event, for one of MESSAGE_REASONS."""


class Stamp(int):
    """A number that its schema calls a time.

    Attributes:
        micros: Microseconds since 1970, of any size.
        is_local: Whether by the clock of the zone in which times are read; else it is UTC.
    """

    micros: int
    is_local: bool = False


def field_at(path: str, default: Any = None) -> Field:
    """Returns what reads the field of a name, or of names within one another.

    Args:
        path: The name, or the names with dots between them.
        default: What is read where there is no such field.
    """
    if "." not in path:
        return methodcaller("get", path, default)
    head, _, rest = path.partition(".")
    inner = field_at(rest, default)

    def value(body: Mapping[str, Any]) -> Any:
        if path in body:
            return body[path]
        outer = body.get(head)
        if type(outer) is dict:
            return inner(outer)
        return default if outer is None else NO_OBJECT

    return value


def declared_at(
    fields: Mapping[str, _T], path: str, within: Callable[[_T], Mapping[str, _T] | None]
) -> tuple[tuple[str, ...], _T] | None:
    """Returns the names that lead to a declared field as `field_at` reads it, and the field.

    Args:
        fields: Those of the file, by name.
        path: See `field_at`.
        within: Returns the fields of a field that is an object, and None of others.

    Returns:
        None if there is no such field.
    """
    if path in fields:
        return (path,), fields[path]
    head, _, rest = path.partition(".")
    inner = within(fields[head]) if head in fields else None
    found = None if inner is None else declared_at(inner, rest, within)
    return None if found is None else ((head, *found[0]), found[1])


def paths_of(
    fields: Mapping[str, _T], within: Callable[[_T], Mapping[str, _T] | None]
) -> Iterator[tuple[str, _T]]:
    """Yields fields by their paths: all at the top, then those within them, and so on.

    Looks into 1,000 objects, and none within 32 others.

    Args:
        fields: See `declared_at`.
        within: See `declared_at`.
    """
    objects = [("", fields)]
    for prefix, inner in objects:  # those that are found meanwhile, too
        for name, one in inner.items():
            yield prefix + name, one
            # A dot in the name of an object would be read as a path.
            is_entered = "." not in name and prefix.count(".") < _LISTED_DEPTH
            if is_entered and len(objects) < _LISTED_OBJECTS and (deeper := within(one)):
                objects.append((f"{prefix}{name}.", deeper))


def scalar(value: Any) -> Any:
    """Returns a field as a scalar of Python; None where there is none.

    Raises:
        UnreadError: It is no scalar, no finite number, or no UTF-8.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise UnreadError(Unread.NO_UTF8) from None
        return value
    if value is None or kind is int or kind is bool:
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is Stamp:
        return int(value)
    if kind is dict and len(value) == 1:  # a branch of an Avro union, as JSON has it
        (branch,) = value.items()
        if type(branch[1]) in _BRANCHES.get(branch[0], ()):
            return scalar(branch[1])
    raise UnreadError(Reject.NO_SCALAR)
