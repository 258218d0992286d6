"""JSON lines: reads one JSON object a line, and writes released rows so.

A line that cannot be read is a malformed record and never ends the file. Where an object has a key
twice, the last value counts. A path such as `case.id` leads into objects; see `field_at`.

Programs write an array with one object a line, too. So blank lines and those with one bracket alone
are no records, and of any other line one bracket or comma at its begin and one at its end do not
count. Each line is read by itself.

A document of JSON is read as if each of its objects had a line: an array of objects, or objects one
after the other, on any lines. They are looked for by their brackets. What stands between them is
passed over if it is brackets, commas and blanks, so it does not matter how objects are listed; each
other run is a malformed record. So is an object that is damaged. It ends with its last bracket, or
with a line whose end is within quotes, which no text may have; so one that lacks a bracket, or a
quote in a file of one line, takes in what follows. No object is looked through for others.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import RELEASED_SCHEMA, TIMESTAMP
from tracecloak.schemas.events.source_column import texts_of_scalars
from tracecloak.transforms.formats.base import (
    NO_OBJECT,
    SHOWN_COLUMNS,
    Columns,
    RawBatch,
    field_at,
    missing_columns,
    paths_of,
    sound_batch,
)
from tracecloak.transforms.formats.csv_writer import iso_utc
from tracecloak.transforms.formats.jsonl_regular import read_regular, types_of
from tracecloak.transforms.formats.pieces import (
    BOM,
    Divider,
    LineScanner,
    TextDivider,
)
from tracecloak.transforms.formats.registry import SourceFormat

_OPERATOR = logging.getLogger("tracecloak.operator")

LINE_BYTES = 16 << 20
# A read, whose lines are held whole.
_CHUNK_BYTES = 16 << 20
_BLANKS = b" \t\r"
_LINE_FEED = ord("\n")
# What separates objects of JSON.
_BETWEEN = np.frombuffer(b"[], \t\r\n", np.uint8)
# Out of more objects than are open within one another.
_TO_THE_TOP = -(1 << 40)
# What of a line stands in no record, its blanks aside.
_NO_RECORDS = (b"", b"[", b"]")
_TRIED_LINES = 1 << 10
_MAX_APART = 1 << 16
_WRITTEN_ROWS = 1 << 16
_LISTED_KEYS = 1_000

_decoder = json.JSONDecoder()
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class JsonLinesReader:
    """Reads JSON lines in UTF-8.

    A column is text, each value by itself: see `events.source_column`. A nested value or one that
    is not finite in a wanted column makes the record malformed.

    Attributes:
        goes_on: See `SourceFormat`: whether it is a warning that a document ends within an object
            or array.
        order: See `SourceFormat`.
        is_document: Whether an object can have several lines, or a line several.
    """

    goes_on: bool = False
    order: str | None = None
    is_document: bool = False

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns None: each record has its own keys."""
        return None

    def names_in(self, stream: BinaryIO, max_records: int) -> list[str]:
        """Returns the first 1,000 names of scalars in the first objects."""
        keys: dict[str, None] = {}
        stream = cast(BinaryIO, _ObjectsAsLines(stream)) if self.is_document else stream
        lines = (line for block in _blocks(stream, max_records) for line in _lines(block))
        for line in islice(lines, max_records):
            _add_names(keys, (None if line is None else _parse(line)) or {}, _LISTED_KEYS)
        return list(keys)

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`.

        A wanted column that has no value in a batch is left out of it unless it is required. A file
        without any line has no records, and lacks no column.
        """
        objects = _ObjectsAsLines(stream)
        text = cast(BinaryIO, objects) if self.is_document else stream
        lines = _Lines(wanted, required, self.order)
        for block in _blocks(text, batch_rows):
            yield from lines.batches(block)
        if objects.is_open:
            error = InputSchemaError("the JSON is damaged or cut off: an object or array is open")
            if not self.goes_on:
                raise error
            _OPERATOR.warning("%s", error)
        elif lines.unseen and lines.n_records:
            raise missing_columns(list(lines.keys), lines.unseen)

    def divider(self) -> Divider | None:
        """Returns what divides a file between its lines; None for a document."""
        if self.is_document:
            return None
        return TextDivider(self, lambda: [LineScanner(LINE_BYTES)], has_bom=True)


class _ObjectsAsLines:
    """A stream of JSON in which each object, and whatever else stands for itself, has a line.

    Attributes:
        is_open: Whether not as many brackets were closed so far as were opened.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.is_open = False
        self._stream = stream
        self._held = b""  # a backslash, whose next character is to come
        self._depth = 0  # of objects that are open
        self._n_lists = 0  # that are open around them
        self._is_quoted = False
        self._last = _LINE_FEED

    def read(self, size: int) -> bytes:
        """Returns about as many bytes as are asked for; none at the end."""
        lines = b""
        while not lines and (chunk := self._stream.read(size)):
            lines = self._lines(self._held + chunk)
        return lines

    def _lines(self, chunk: bytes) -> bytes:
        # Without what backslashes escape, each quote begins or ends a text.
        plain = chunk.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        n = len(chunk) - plain.endswith(b"\\")
        data, self._held = np.frombuffer(chunk, np.uint8)[:n], chunk[n:]
        if not n:
            return b""
        is_break = data == _LINE_FEED
        n_quotes = np.cumsum(np.frombuffer(plain, np.uint8)[:n] == ord('"')) + self._is_quoted
        is_quoted = (n_quotes - np.maximum.accumulate(np.where(is_break, n_quotes, 0))) % 2 == 1
        begins, ends = ((data == ord(sign)) & ~is_quoted for sign in "{}")
        steps = begins.astype(np.int64) - ends
        steps[is_break & np.append(self._is_quoted, is_quoted[:-1])] = _TO_THE_TOP
        depth = self._depth + np.cumsum(steps)
        depth -= np.minimum(np.minimum.accumulate(depth), 0)  # none ends that has not begun
        is_between = (depth == 0) & ~is_quoted
        for sign, step in (("[", 1), ("]", -1)):
            self._n_lists += step * int(np.count_nonzero(is_between & (data == ord(sign))))
        # Within an object a line break is a blank, or what no text may have.
        lines = np.where(is_break, np.uint8(ord("\r")), data)
        lines[is_between & np.isin(data, _BETWEEN)] = _LINE_FEED
        lines = np.insert(lines, np.flatnonzero(begins & (depth == 1)), _LINE_FEED)
        is_needed = (lines != _LINE_FEED) | (np.append(self._last, lines[:-1]) != _LINE_FEED)
        self._is_quoted, self._depth, self._last = is_quoted[-1], depth[-1], lines[-1]
        self.is_open = bool(self._depth or self._n_lists)
        return lines[is_needed].tobytes()


class _Lines:
    """Lines as batches: many together where they are regular, and else one by one.

    Attributes:
        n_records: How many there were.
        unseen: The required columns that no object has had.
        keys: Some keys that objects had while one was unseen.
    """

    def __init__(self, wanted: Sequence[str], required: Collection[str], order: str | None) -> None:
        self.n_records = 0
        self.unseen = set(required)
        self.keys: dict[str, None] = {}
        self._wanted = {name: field_at(name) for name in wanted}
        if order in self._wanted:
            inner = self._wanted[order]
            self._wanted[order] = lambda row: value if _is_sound(value := inner(row)) else None
        self._required = {name: field_at(name, NO_OBJECT) for name in required}
        self._types: Mapping[str, pa.DataType] | None = None
        # So many lines are read one by one before others are tried together.
        self._apart = 0
        self._apart_next = _TRIED_LINES

    def batches(self, block: bytes | None) -> Iterator[RawBatch]:
        """Yields the records of a run of lines, as `_blocks` yields it."""
        n = 1 if block is None else block.count(b"\n")
        if block is None or self._apart > 0:
            self._apart -= n
            yield from self._one_by_one(block)
            return
        if self._types and not self.unseen:
            if block.find(b"},\n", 0, block.find(b"\n") + 1) >= 0:
                block = block.replace(b"},\n", b"}\n")
            columns = read_regular(block, self._types)
            if columns is not None:
                self._apart_next = _TRIED_LINES
                read, marks = self._present(columns)
                records = self.n_records + np.arange(len(next(iter(columns.values()))[0]))
                self.n_records += len(records)
                yield RawBatch(read, records, np.zeros(0, np.int64), fractional=marks)
                return
        if n > _TRIED_LINES:
            # Mostly one line is irregular, or the first ones are to tell what the others are like.
            for part in _cut(block, max(n // 8, _TRIED_LINES)):
                yield from self.batches(part)
        else:
            yield from self._one_by_one(block)
            if self._types is None or not self.unseen:
                self._apart = self._apart_next
                self._apart_next = min(2 * self._apart, _MAX_APART)

    def _one_by_one(self, block: bytes | None) -> Iterator[RawBatch]:
        objects: list[dict[str, Any]] = []
        records: list[int] = []
        malformed: list[int] = []
        for line in _lines(block):
            row = None if line is None else _parse(line)
            if row is None:
                malformed.append(self.n_records)
            else:
                objects.append(row)
                records.append(self.n_records)
            self.n_records += 1
        for row in objects if self.unseen else ():
            self.unseen -= {n for n in self.unseen if self._required[n](row) is not NO_OBJECT}
            _add_names(self.keys, row, SHOWN_COLUMNS)
        if objects:
            self._types = types_of(objects, self._wanted)
        if objects or malformed:
            yield sound_batch(objects, np.array(records, np.int64), malformed, self._columns)

    def _columns(self, objects: Sequence[dict[str, Any]]) -> Columns:
        values = {name: list(map(field, objects)) for name, field in self._wanted.items()}
        for each in values.values():
            if not all(math.isfinite(value) for value in each if type(value) is float):
                raise ValueError("a value is not finite")
        return self._present({name: texts_of_scalars(each) for name, each in values.items()})

    def _present(self, read: Mapping[str, tuple[pa.Array, np.ndarray]]) -> Columns:
        """Returns columns without those that have no value and are not required."""
        present = {
            name: column
            for name, column in read.items()
            if name in self._required or column[0].null_count < len(column[0])
        }
        texts = [text for text, _ in present.values()]
        marks = {name: marks for name, (_, marks) in present.items()}
        return pa.RecordBatch.from_arrays(texts, list(present)), marks


def _blocks(stream: BinaryIO, max_lines: int) -> Iterator[bytes | None]:
    """Yields runs of whole lines, at most so many in each; None for a line beyond LINE_BYTES."""
    part = b""  # of a line
    is_long, is_first = False, True
    while chunk := stream.read(_CHUNK_BYTES):
        first = chunk.find(b"\n") + 1
        is_long |= len(part) + (first - 1 if first else len(chunk)) > LINE_BYTES
        if first and is_long:
            yield None
            part, chunk, is_long, is_first = b"", chunk[first:], False, False
        last = chunk.rfind(b"\n") + 1
        if last:
            lines = part + chunk[:last]
            yield from _cut(lines.removeprefix(BOM) if is_first else lines, max_lines)
            part, is_first = b"", False
        part = b"" if is_long else part + chunk[last:]
    if is_long:
        yield None
    else:
        yield from _cut(part.removeprefix(BOM) if is_first else part, max_lines)


def _cut(lines: bytes, max_lines: int) -> Iterator[bytes]:
    """Yields lines in runs, see `_blocks`; of none there is none."""
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")) + 1
    if lines and not lines.endswith(b"\n"):
        ends = np.append(ends, len(lines))
    begin = 0
    for n in range(max_lines, len(ends) + max_lines, max_lines):
        end = int(ends[min(n, len(ends)) - 1])
        yield lines[begin:end]
        begin = end


def _lines(block: bytes | None) -> Iterator[bytes | None]:
    """Yields the lines of a run that are records, None for one that is too long."""
    if block is None:
        yield None
    else:
        lines = (line.strip(_BLANKS) for line in block.split(b"\n"))
        yield from (line for line in lines if line not in _NO_RECORDS)


def _add_names(names: dict[str, None], row: Mapping[str, Any], at_most: int) -> None:
    """Adds the names of fields that are scalars, those within objects too, up to so many."""
    if len(names) < at_most:
        for name, value in paths_of(row, lambda one: one if type(one) is dict else None):
            if type(value) not in (dict, list):
                names[name] = None
                if len(names) == at_most:
                    return


def _parse(line: bytes) -> dict[str, Any] | None:
    if line[:1] in (b"[", b","):
        line = line[1:].lstrip(_BLANKS)
    if line[-1:] in (b"]", b","):
        line = line[:-1].rstrip(_BLANKS)
    try:
        text = line.decode()
        value, end = _decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if type(value) is dict and end == len(text) else None


def _is_sound(value: Any) -> bool:
    if type(value) is str:
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (bool, int)


class JsonLinesWriter:
    """Writes released rows as JSON lines in UTF-8, stamps as ISO 8601 in UTC.

    The file says nothing of the release that it is of.
    """

    def __init__(self, stream: BinaryIO, *_: Any) -> None:
        self._stream = stream

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of RELEASED_SCHEMA."""
        rows = rows.cast(RELEASED_SCHEMA)
        rows = rows.set_column(2, TIMESTAMP, iso_utc(rows[TIMESTAMP]))
        for start in range(0, rows.num_rows, _WRITTEN_ROWS):
            lines = map(_encoder.encode, rows.slice(start, _WRITTEN_ROWS).to_pylist())
            self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        """Does nothing more: every row is written by then."""


def reader(how: SourceFormat, path: str) -> JsonLinesReader:
    """Returns what reads a file of JSON lines, or of JSON; see `transforms.formats.registry`."""
    return JsonLinesReader(how.goes_on, how.order, is_document=how.name_of(path) == "json")
