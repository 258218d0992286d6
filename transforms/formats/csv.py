"""Delimited text: reads CSV of any delimiter, quote and encoding, and writes RFC 4180.

Every field is text: `NA`, `null` and the empty field are values like any other, and nothing is
guessed from the first rows. A record with the wrong number of fields is malformed; blank lines are
no records. It does not read fixed-width files, comment lines, or escapes other than doubled quotes.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from schemas.errors import InputSchemaError, UsageError
from schemas.events import RELEASED_SCHEMA
from transforms.formats.base import RawBatch, missing_columns

# A record must fit one block. Arrow reads up to 36 blocks ahead of a slow consumer, so that this is
# the bound of the memory too: 150 MB. Larger blocks are no faster.
BLOCK_BYTES = 4 << 20
HEADER_CHARACTERS = 1 << 20
_CHUNK_BYTES = 1 << 20
_WRITTEN_ROWS = 1 << 16

_YEAR_1 = pa.scalar(-62135596800000000, pa.timestamp("us", "UTC"))
_YEAR_9999 = pa.scalar(253402300799999999, pa.timestamp("us", "UTC"))

# A year, two groups of digits as in 1/2 or 10:15, or the name of a month beside a digit.
_DATE = re.compile(
    r"\d{4}|\d\s?[-/.:]\s?\d|\d\W*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*\W*\d",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CsvReader:
    """Reads delimited text as columns of strings.

    A quote that is opened and never closed swallows all that follows it, so it is an error of the
    file and not a malformed record.

    Attributes:
        delimiter: The character between fields, one of ASCII.
        encoding: A text encoding that Python knows; a byte order mark is dropped.
        quote_char: The character around fields that hold delimiters or line breaks, one of ASCII.
        header: True if the first line names the columns, otherwise their names in order.

    Raises:
        UsageError: An option is none of these.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    quote_char: str = '"'
    header: Literal[True] | tuple[str, ...] = True

    def __post_init__(self) -> None:
        for option, value in (("delimiter", self.delimiter), ("quote_char", self.quote_char)):
            if len(value) != 1 or not value.isascii() or value in "\r\n\0":
                raise UsageError(f"{option}: must be one ASCII character, got {value!r}")
        if self.delimiter == self.quote_char:
            raise UsageError(f"delimiter and quote_char must differ, both are {self.delimiter!r}")
        if not _decodes_text(self.encoding):
            raise UsageError(
                f"encoding: Python knows no text encoding {self.encoding!r}; usual ones are "
                "utf-8, latin-1, cp1252 and utf-16"
            )
        if self.header is not True:
            if not self.header:
                raise UsageError("header: must be true or the names of the columns")
            if duplicate := _duplicate(self.header):
                raise UsageError(f"header: names the column {duplicate!r} twice")

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns the names in the header line, or those of the option `header`.

        Args:
            stream: The file's bytes; need not be seekable.

        Returns:
            One name per field, in order. Of a file that has no header line, though the options say
            so, they are the fields of its first record.

        Raises:
            InputSchemaError: There is no header line, it is not in the encoding, or two of its
                names are equal.
        """
        return self._names(_Utf8Source(stream, self.encoding))

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`."""
        source = _Utf8Source(stream, self.encoding)
        names = self._names(source)
        self.check(names, required)
        present = [name for name in wanted if name in names]
        # Arrow is told positions, so that no name can be special to it. At least one column is
        # read, because an empty list means all of them.
        keys = [str(names.index(name)) for name in present] or ["0"]
        closing = self.delimiter * len(names)
        source.append(f"\n{closing}\n")
        invalid = _InvalidRows(closing)
        first = 0
        try:
            with arrow_csv.open_csv(
                pa.PythonFile(source, mode="r"),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=BLOCK_BYTES,
                    column_names=[str(number) for number in range(len(names))],
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.delimiter,
                    quote_char=self.quote_char,
                    newlines_in_values=True,
                    invalid_row_handler=invalid,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=keys,
                    column_types=dict.fromkeys(keys, pa.string()),
                    strings_can_be_null=False,
                    check_utf8=False,  # the source has just encoded it
                ),
            ) as blocks:
                for block in blocks:
                    texts = map(source.restored, block.columns[: len(present)])
                    columns = pa.RecordBatch.from_arrays(list(texts), present)
                    records, malformed = invalid.number(first, block.num_rows)
                    first += len(records) + len(malformed)
                    yield from _batches(columns, records, malformed, batch_rows)
        except pa.ArrowInvalid:
            # Arrow's own message may quote the record.
            raise InputSchemaError(
                f"the input holds a record of more than {BLOCK_BYTES >> 20} MiB; a quote "
                f"({self.quote_char}) that is never closed and a wrong option `quote_char` make one"
            ) from None
        none = pa.RecordBatch.from_pylist([], pa.schema([(name, pa.string()) for name in present]))
        yield from _batches(none, np.zeros(0, np.int64), invalid.rest(first), batch_rows)

    def check(self, found: Sequence[str], required: Collection[str]) -> None:
        """Makes sure that the header line has the required columns; see `DeclaringReader`."""
        if set(required) <= set(found):
            return
        if self.header is True and _looks_like_data(found):
            raise InputSchemaError(f"{missing_columns(None, required)}. {_NO_HEADER}")
        # A quote that opens in the header line may take data into a name.
        error = missing_columns([_first_line(name) for name in found], required)
        if len(found) == 1:
            error = InputSchemaError(f"{error}; or set the option `delimiter`: there is one column")
        raise error

    def _names(self, source: _Utf8Source) -> list[str]:
        if self.header is not True:
            return list(self.header)
        names = _first_record(source, self.delimiter, self.quote_char)
        if duplicate := _duplicate(names):
            if _looks_like_data(names):
                raise InputSchemaError(f"two fields of the first line are equal. {_NO_HEADER}")
            raise InputSchemaError(
                f"the header line names a column twice: {_first_line(duplicate)!r}"
            )
        return names


_NO_HEADER = (
    "The file seems to have no header line: a field of its first line is blank, a number or a "
    "date. If so, name the columns with the option `header`"
)


class _Utf8Source:
    """The text of a stream as a file of UTF-8 for Arrow, which cannot be left to decode it.

    Arrow checks UTF-8 in the columns it converts only, and prints the offending bytes when a
    malformed record holds some. On x86 it overlooks delimiters that follow a NUL closely, so NUL
    is written as a noncharacter and a letter, and that noncharacter as itself and another.
    """

    _MARK = "\ufdd0"
    _NUL = _MARK + "0"
    _MARK_ITSELF = _MARK + "1"

    closed = False

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._closing = b""
        self._started = False
        self._ended = False
        self._has_marks = False

    def append(self, text: str) -> None:
        """Lets the text end with `text`."""
        self._closing = text.encode()

    def unread(self, data: bytes) -> None:
        """Puts the end of what `take` has returned back."""
        self._ready = self._escaped(data)

    def take(self) -> bytes:
        """Returns the next characters of the stream as UTF-8; none only at its end."""
        while not self._ended:
            chunk = self._stream.read(_CHUNK_BYTES)
            self._ended = not chunk
            try:
                text = self._decoder.decode(chunk, final=self._ended)
                if text and not self._started:
                    self._started = True
                    text = text.removeprefix("\ufeff")
                data = text.encode()  # fails on halves of surrogate pairs, which utf-7 can yield
            except UnicodeError:
                raise InputSchemaError(
                    f"the input is not encoded as {self._encoding!r}; set the option `encoding` "
                    "(usual ones are utf-8, latin-1, cp1252 and utf-16)"
                ) from None
            if data:
                return data
        return b""

    def read(self, size: int) -> bytes:
        """Returns exactly `size` bytes, fewer only at the end: a short block splits records."""
        pieces = [self._ready]
        length = len(self._ready)
        while length < size:
            piece = self._escaped(self.take())
            if not piece:
                piece, self._closing = self._closing, b""
            if not piece:
                break
            pieces.append(piece)
            length += len(piece)
        data = b"".join(pieces)
        self._ready = data[size:]
        return data[:size]

    def restored(self, text: pa.Array) -> pa.Array:
        """Returns text that Arrow has read from here as it is in the stream."""
        if not self._has_marks:
            return text
        with_nul = pc.replace_substring(text, self._NUL, "\0")
        return pc.replace_substring(with_nul, self._MARK_ITSELF, self._MARK)

    def _escaped(self, data: bytes) -> bytes:
        if b"\0" not in data and self._MARK.encode() not in data:
            return data
        self._has_marks = True
        text = data.decode().replace(self._MARK, self._MARK_ITSELF).replace("\0", self._NUL)
        return text.encode()

    def close(self) -> None:
        """Does nothing: the stream is the caller's."""


class _InvalidRows:
    """Collects the numbers of the records with a wrong number of fields, and the closing line.

    The closing line is a record that the reader appends, of one field too many. If it is not met as
    the last record, then a quote was open at the end of the file.
    """

    def __init__(self, closing: str) -> None:
        self._closing = closing
        self._numbers: list[int] = []
        self._closed = False

    def __call__(self, row: Any) -> str:
        self._closed = row.text == self._closing
        self._numbers.append(row.number - 1)
        return "skip"

    def number(self, first: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of the next `rows` well-formed records and the malformed among them.

        Args:
            first: The number of the next record.
            rows: How many well-formed records Arrow has delivered after those numbered so far.
        """
        known = np.asarray(self._numbers, np.int64)
        # How many well-formed records lie between `first` and each malformed one; Arrow reads
        # ahead, so some may lie beyond this block.
        before = known - first - np.arange(len(known))
        taken = int(np.searchsorted(before, rows, side="right"))
        if self._closed and taken == len(known):
            taken = max(taken - 1, int(np.searchsorted(before, rows, side="left")))
        del self._numbers[:taken]
        index = np.arange(rows, dtype=np.int64)
        records = first + index + np.searchsorted(before, index, side="right")
        return records, known[:taken]

    def rest(self, first: int) -> np.ndarray:
        """Returns the malformed records after the last well-formed one.

        Raises:
            InputSchemaError: The closing line was not the last record.
        """
        *malformed, last = self._numbers or [-1]
        if not self._closed or last != first + len(malformed):
            raise InputSchemaError(
                "the input ends within a quoted field: it is cut off, a quote is never closed, or "
                "the option `quote_char` is wrong"
            )
        return np.asarray(malformed, np.int64)


def _batches(
    columns: pa.RecordBatch, records: np.ndarray, malformed: np.ndarray, batch_rows: int
) -> Iterator[RawBatch]:
    for start in range(0, max(len(records), 1), batch_rows):
        stop = start + batch_rows
        ends = stop >= len(records)
        cut = len(malformed) if ends else int(np.searchsorted(malformed, records[stop]))
        if len(records) or cut:
            yield RawBatch(columns.slice(start, batch_rows), records[start:stop], malformed[:cut])
        malformed = malformed[cut:]


def _first_record(source: _Utf8Source, delimiter: str, quote_char: str) -> list[str]:
    """Takes the first record that is no blank line from `source` and returns its fields."""
    text = ""
    while True:
        more = source.take()
        text += more.decode()
        lines = io.StringIO(text, newline="")
        try:
            records = csv.reader(lines, delimiter=delimiter, quotechar=quote_char)
            fields = next((record for record in records if record), None)
        except csv.Error:
            raise InputSchemaError(
                "the header line is no line of delimited text; a quote "
                f"({quote_char}) that is never closed makes it so"
            ) from None
        taken = lines.tell()
        # What ends exactly where the text does may go on in the next chunk.
        if not more or (fields is not None and taken < len(text)):
            break
        if len(text) > HEADER_CHARACTERS:
            raise InputSchemaError(
                f"the header line is longer than {HEADER_CHARACTERS} characters; a quote "
                f"({quote_char}) that is never closed makes one"
            )
    if fields is None:
        raise InputSchemaError("the input is empty: it has no header line")
    source.unread(text[taken:].encode())
    return fields


def _duplicate(names: Sequence[str]) -> str | None:
    """Returns a name that occurs twice; blank ones, which spreadsheets append, are no names."""
    return next((name for name, count in Counter(names).items() if name and count > 1), None)


def _first_line(name: str) -> str:
    line, *more = re.split("[\r\n]", name, maxsplit=1)
    return line[:80] + ("…" if more else "")


def _looks_like_data(fields: Sequence[str]) -> bool:
    """Tells whether a field has no letter (blank, number, date) or holds a number or a date."""
    return any(
        not any(map(str.isalpha, field)) or _is_number(field) or _DATE.search(field[:80])
        for field in fields
    )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _decodes_text(encoding: str) -> bool:
    try:
        return isinstance(codecs.getincrementaldecoder(encoding)().decode(b""), str)
    except (LookupError, TypeError, ValueError):
        return False


def iso_utc(stamps: pa.Array) -> pa.Array:
    """Formats instants as ISO 8601 in UTC with microseconds, as 2010-01-01T00:00:00.000000+00:00.

    Args:
        stamps: timestamp('us', 'UTC').

    Returns:
        string array of the same length.

    Raises:
        ValueError: A stamp lies outside the years 1 to 9999, which ISO 8601 cannot write.
    """
    if pc.any(pc.less(stamps, _YEAR_1)).as_py() or pc.any(pc.greater(stamps, _YEAR_9999)).as_py():
        raise ValueError("a time stamp lies outside the years 1 to 9999")
    # Without the zone the cast needs no time-zone database, which slim images lack.
    text = stamps.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(text, " ", "T"), "+00:00", "")


class CsvWriter:
    """Writes released rows as RFC 4180 text in UTF-8 with a header line.

    Lines end with a line feed; fields are quoted only where they must be.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        stream.write((",".join(RELEASED_SCHEMA.names) + "\n").encode())

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows of RELEASED_SCHEMA."""
        rows = rows.cast(RELEASED_SCHEMA)
        for start in range(0, rows.num_rows, _WRITTEN_ROWS):
            case_id, activity, timestamp = rows.slice(start, _WRITTEN_ROWS).columns
            lines = pc.binary_join_element_wise(
                _quoted(case_id), _quoted(activity), iso_utc(timestamp), ","
            )
            self._stream.write(("\n".join(lines.to_pylist()) + "\n").encode())

    def close(self) -> None:
        """Does nothing more: every row is written by then."""


def _quoted(text: pa.Array) -> pa.Array:
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(
        pc.match_substring_regex(text, '[",\r\n]'),
        pc.binary_join_element_wise('"', doubled, '"', ""),
        text,
    )
