"""JSON lines: reads one flat JSON object a line, and writes released rows so.

A line that cannot be read is a malformed record and never ends the file; blank lines are no
records. Where an object has a key twice, the last value counts. It does not read arrays of objects,
objects over several lines, or values within nested objects.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from tracecloak.schemas.events.events import RELEASED_SCHEMA
from tracecloak.schemas.events.scalars import texts_of_scalars
from tracecloak.transforms.formats.base import RawBatch
from tracecloak.transforms.formats.csv_writer import iso_utc
from tracecloak.transforms.formats.pieces import Divider, Lacks
from tracecloak.transforms.formats.registry import SourceFormat

_OPERATOR = logging.getLogger("tracecloak.operator")

LINE_BYTES = 16 << 20
# A batch ends at so many bytes of lines, for its objects are held whole until then.
BATCH_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 20
_BLANKS = b" \t\r"
_WRITTEN_ROWS = 1 << 16
_NAMED_KEYS = 20

_decoder = json.JSONDecoder()
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class JsonLinesReader:
    """Reads JSON lines in UTF-8.

    A column is text, each value by itself: see `schemas.events.scalars`. A nested value or one that
    is not finite in a wanted column makes the record malformed.

    Attributes:
        goes_on: See `SourceFormat`: whether a column that no record has is told as a warning.
    """

    goes_on: bool = False

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns None: each record has its own keys."""
        return None

    def names_in(self, stream: BinaryIO, max_records: int) -> list[str]:
        """Returns the keys of the first objects that have a plain value; see `ListingReader`."""
        keys: dict[str, None] = {}
        for line in islice(_lines(stream), max_records):
            row = (None if line is None else _parse(line)) or {}
            keys.update(dict.fromkeys(n for n, v in row.items() if type(v) not in (dict, list)))
        return list(keys)

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`.

        A wanted column that has no value in a batch is left out of it unless it is required. A file
        without any line has no records, and lacks no column.
        """
        lacks: list[Lacks] = []
        yield from self.read_piece(stream, None, wanted, required, batch_rows, lacks.append)
        error = Lacks.merge(lacks).error()
        if error is None:
            return
        if not self.goes_on:
            raise error
        _OPERATOR.warning("%s", error)

    def divider(self) -> Divider:
        """Returns what divides a file between its lines; see `DividedReader`."""
        from tracecloak.transforms.formats.text_pieces import LineScanner, TextDivider

        return TextDivider(self, lambda: LineScanner(_BLANKS, LINE_BYTES), has_bom=True)

    def read_piece(
        self,
        text: BinaryIO,
        names: Sequence[str] | None,
        wanted: Sequence[str],
        required: Collection[str],
        batch_rows: int,
        tell: Callable[[Lacks], None],
    ) -> Iterator[RawBatch]:
        """Yields the records of a text; see `transforms.formats.text_pieces.TextReader`."""
        unseen = set(required)
        keys: dict[str, None] = {}
        lines = False
        for objects, records, malformed in _runs(text, batch_rows):
            lines = True
            if unseen:
                for row in objects:
                    unseen.difference_update(row)
                    keys.update(dict.fromkeys(list(row)[: _NAMED_KEYS - len(keys)]))
            yield _batch(objects, records, malformed, wanted, required)
        if unseen:
            tell(Lacks(frozenset(unseen), tuple(keys), lines))


def _runs(
    stream: BinaryIO, batch_rows: int
) -> Iterator[tuple[list[dict[str, Any]], list[int], list[int]]]:
    """Yields runs of objects, their record numbers, and the numbers of the lines that are none."""
    objects: list[dict[str, Any]] = []
    records: list[int] = []
    malformed: list[int] = []
    size = 0
    for number, line in enumerate(_lines(stream)):
        row = None if line is None else _parse(line)
        if row is None:
            malformed.append(number)
        else:
            objects.append(row)
            records.append(number)
        size += len(line or b"")
        if len(objects) == batch_rows or len(malformed) == batch_rows or size >= BATCH_BYTES:
            yield objects, records, malformed
            objects, records, malformed, size = [], [], [], 0
    if objects or malformed:
        yield objects, records, malformed


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yields the lines that are not blank, None for one that is longer than LINE_BYTES."""
    first = True
    for line in _split(stream):
        if line is not None:
            if first:
                line = line.removeprefix(b"\xef\xbb\xbf")
            line = line.strip(_BLANKS)
        first = False
        if line != b"":
            yield line


def _split(stream: BinaryIO) -> Iterator[bytes | None]:
    held = b""
    too_long = False
    while chunk := stream.read(_CHUNK_BYTES):
        head, *lines = chunk.split(b"\n")
        held += head
        if len(held) > LINE_BYTES or too_long:
            held = b""
            too_long = True
        if lines:
            yield None if too_long else held
            yield from lines[:-1]
            held = lines[-1]
            too_long = False
    yield None if too_long else held


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        text = line.decode()
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict and end == len(text) else None


def _batch(
    objects: list[dict[str, Any]],
    records: list[int],
    malformed: list[int],
    wanted: Sequence[str],
    required: Collection[str],
) -> RawBatch:
    try:
        columns, fractional = _columns(objects, wanted, required)
    except (TypeError, ValueError):
        sound = [all(_is_sound(row.get(name)) for name in wanted) for row in objects]
        malformed = sorted(
            [*malformed, *(n for n, good in zip(records, sound, strict=True) if not good)]
        )
        records = [n for n, good in zip(records, sound, strict=True) if good]
        objects = [row for row, good in zip(objects, sound, strict=True) if good]
        columns, fractional = _columns(objects, wanted, required)
    return RawBatch(
        columns,
        np.asarray(records, np.int64),
        np.asarray(malformed, np.int64),
        fractional=fractional,
    )


def _columns(
    objects: list[dict[str, Any]], wanted: Sequence[str], required: Collection[str]
) -> tuple[pa.RecordBatch, dict[str, np.ndarray]]:
    columns, fractional = {}, {}
    for name in wanted:
        values = [row.get(name) for row in objects]
        if name in required or any(value is not None for value in values):
            if not all(math.isfinite(value) for value in values if type(value) is float):
                raise ValueError("a value is not finite")
            columns[name], fractional[name] = texts_of_scalars(values)
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), fractional


def _is_sound(value: Any) -> bool:
    if type(value) is str:
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int)


class JsonLinesWriter:
    """Writes released rows as JSON lines in UTF-8, stamps as ISO 8601 in UTC."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of RELEASED_SCHEMA."""
        rows = rows.cast(RELEASED_SCHEMA)
        for start in range(0, rows.num_rows, _WRITTEN_ROWS):
            case_id, activity, timestamp = rows.slice(start, _WRITTEN_ROWS).columns
            columns = [case_id, activity, iso_utc(timestamp)]
            lines = [
                _encoder.encode(dict(zip(RELEASED_SCHEMA.names, row, strict=True))) + "\n"
                for row in zip(*(column.to_pylist() for column in columns), strict=True)
            ]
            self._stream.write("".join(lines).encode())

    def close(self) -> None:
        """Does nothing more: every row is written by then."""


def reader(how: SourceFormat, path: str) -> JsonLinesReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    return JsonLinesReader(how.goes_on)


def writer(stream: BinaryIO, schema: pa.Schema, about: Mapping[str, Any] | None) -> JsonLinesWriter:
    """Returns what writes RELEASED_SCHEMA; the file says nothing of a release."""
    return JsonLinesWriter(stream)
