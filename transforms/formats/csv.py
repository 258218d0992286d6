"""Delimited text: reads CSV of any delimiter, quote and encoding.

Every field is text: `NA`, `null` and the empty field are values like any other, and nothing is
guessed from the first rows. A record with the wrong number of fields is malformed; blank lines are
no records. It does not read fixed-width files, comment lines, or escapes other than doubled quotes.

Where a record ends is told by the quotes alone, also that of one which is too long to be held: what
stands within quotes is never read as records, and a quote that is never closed takes all the rest.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.transforms.formats.base import RawBatch, missing_columns
from tracecloak.transforms.formats.registry import SourceFormat

if TYPE_CHECKING:
    from tracecloak.transforms.formats.pieces import Divider, Lacks

_OPERATOR = logging.getLogger("tracecloak.operator")

# Text is parsed in blocks that end where a record does; a longer record makes a longer block.
BLOCK_BYTES = 4 << 20
RECORD_BYTES = 16 << 20
HEADER_CHARACTERS = 1 << 20
_CHUNK_BYTES = 1 << 20
# Codecs, as Python names them, of which the byte of an ASCII character is never anything else.
_OF_ASCII = ("utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252")


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
    file and not a malformed record; so is a record of more than 16 MiB, which mostly comes of one,
    and a character that the encoding does not have. A reader that goes on takes each for a
    malformed record instead, and warns of the swallowing; characters of no wanted column do not
    matter to it.

    Attributes:
        delimiter: The character between fields, one of ASCII.
        encoding: A text encoding that Python knows; a byte order mark is dropped.
        quote_char: The character around fields that hold delimiters or line breaks, one of ASCII.
        header: True if the first line names the columns, otherwise their names in order.
        goes_on: See `SourceFormat`.

    Raises:
        UsageError: An option is none of these.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    quote_char: str = '"'
    header: Literal[True] | tuple[str, ...] = True
    goes_on: bool = False

    def __post_init__(self) -> None:
        for option, value in (("delimiter", self.delimiter), ("quote_char", self.quote_char)):
            if len(value) != 1 or not value.isascii() or value in "\r\n\0":
                raise UsageError(f"{option}: must be one ASCII character, got {value!r}")
        if self.delimiter == self.quote_char:
            raise UsageError(
                f"delimiter: must be another character than the quote, got {self.delimiter!r}"
            )
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
        names, _ = self._header(_utf8(stream, self.encoding, self.goes_on))
        return names

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`."""
        chunks = _utf8(stream, self.encoding, self.goes_on)
        names, rest = self._header(chunks)
        self.check(names, required)
        present = [name for name in wanted if name in names]
        parser = _Parser(
            self.delimiter,
            self.quote_char,
            len(names),
            [names.index(name) for name in present],
            self.goes_on,
        )
        first = 0
        for columns, malformed in _blocks(rest, chunks, parser):
            count = len(columns[0]) + len(malformed)
            records = first + np.delete(np.arange(count), malformed)
            batch = pa.RecordBatch.from_arrays(columns[: len(present)], present)
            yield from _batches(batch, records, first + malformed, batch_rows)
            first += count

    def divider(self) -> Divider | None:
        """Returns what divides a file between its records; see `DividedReader`."""
        codec = codecs.lookup(self.encoding).name
        if codec not in _OF_ASCII:
            return None
        from tracecloak.transforms.formats.pieces import QuotedScanner, TextDivider

        signs = self.delimiter.encode(), self.quote_char.encode()
        n_head = int(self.header is True)
        return TextDivider(self, lambda: QuotedScanner(*signs), codec == "utf-8", n_head)

    def read_piece(
        self,
        text: BinaryIO,
        names: Sequence[str] | None,
        wanted: Sequence[str],
        required: Collection[str],
        batch_rows: int,
        tell: Callable[[Lacks], None],
    ) -> Iterator[RawBatch]:
        """Yields the records of a text; see `transforms.formats.pieces.TextReader`."""
        if names is None:
            return self.read(text, wanted, required, batch_rows)
        self.check(names, required)
        headless = replace(self, header=tuple(names))
        return headless.read(text, wanted, required, batch_rows)

    def check(self, found: Sequence[str], required: Collection[str]) -> None:
        """Makes sure that the header line has the required columns; see `DeclaringReader`."""
        if set(required) <= set(found):
            return
        if self.header is True and _looks_like_data(found):
            raise InputSchemaError(f"{missing_columns(None, required)}. {_NO_HEADER}")
        # A quote that opens in the header line may take data into a name.
        error = missing_columns([_first_line(name) for name in found], required)
        if len(found) == 1:
            error = InputSchemaError(f"{error}; or set --delimiter: there is one column")
        raise error

    def _header(self, chunks: Iterator[bytes]) -> tuple[list[str], bytes]:
        """Returns the names of the columns and what has been read beyond them."""
        if self.header is not True:
            return list(self.header), b""
        names, rest = _first_record(chunks, self.delimiter, self.quote_char)
        if self.goes_on and any(_UNREADABLE in name for name in names):
            raise _not_encoded(self.encoding)
        if duplicate := _duplicate(names):
            if _looks_like_data(names):
                raise InputSchemaError(f"two fields of the first line are equal. {_NO_HEADER}")
            raise InputSchemaError(
                f"the header line names a column twice: {_first_line(duplicate)!r}"
            )
        return names, rest


_NO_HEADER = (
    "The file seems to have no header line: a field of its first line is blank, a number or a "
    "date. If so, name the columns with --header"
)


# What a reader that goes on has in place of what the encoding does not have: a noncharacter, which
# no text has for itself. A field that holds one makes its record malformed.
_UNREADABLE = "\ufdd1"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = "tracecloak.unreadable"


def _marked(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _UNREADABLE, error.end


codecs.register_error(_MARKS, _marked)


def _not_encoded(encoding: str) -> InputSchemaError:
    return InputSchemaError(
        f"the input is not encoded as {encoding!r}; set --encoding "
        "(usual ones are utf-8, latin-1, cp1252 and utf-16)"
    )


def _utf8(stream: BinaryIO, encoding: str, goes_on: bool) -> Iterator[bytes]:
    """Yields the text of a stream as UTF-8, whole characters at a time.

    Arrow checks UTF-8 only in the columns that it converts, and prints the offending bytes when a
    malformed record holds some; so nothing but UTF-8 reaches it.
    """
    decoder = codecs.getincrementaldecoder(encoding)(_MARKS if goes_on else "strict")
    started = ended = False
    while not ended:
        chunk = stream.read(_CHUNK_BYTES)
        ended = not chunk
        try:
            text = decoder.decode(chunk, final=ended)
            if text and not started:
                started = True
                text = text.removeprefix("\ufeff")
            data = text.encode()  # fails on halves of surrogate pairs, which utf-7 can yield
        except UnicodeEncodeError:
            if not goes_on:
                raise _not_encoded(encoding) from None
            data = _SURROGATE.sub(_UNREADABLE, text).encode()
        except UnicodeError:
            raise _not_encoded(encoding) from None
        if data:
            yield data


class _Parser:
    """Parses blocks of whole records with Arrow.

    Not with Arrow's streaming reader: that reads 35 blocks ahead, and once in some ten thousand
    files blocks a thread of Arrow's pool for good, until all reading stops (seen in 25.0).
    """

    # On x86 Arrow overlooks delimiters that follow a NUL closely. So it is given a noncharacter and
    # a digit for NUL, and the same noncharacter and another digit for the noncharacter.
    _MARK = "\ufdd0"
    _NUL = _MARK + "0"
    _MARK_ITSELF = _MARK + "1"

    def __init__(
        self, delimiter: str, quote_char: str, fields: int, wanted: list[int], goes_on: bool
    ) -> None:
        self.quote = quote_char.encode()
        self.delimiter = delimiter.encode()
        self.goes_on = goes_on
        # A line of one field too many: where it is not the last record, a quote has been open.
        self._closing = delimiter * fields
        # At least one column is read, because an empty list means all of them.
        keys = [str(position) for position in wanted] or ["0"]
        self._names = [str(position) for position in range(fields)]
        self._parsing = {
            "delimiter": delimiter,
            "quote_char": quote_char,
            "newlines_in_values": True,
        }
        self._conversion = arrow_csv.ConvertOptions(
            include_columns=keys,
            column_types=dict.fromkeys(keys, pa.string()),
            strings_can_be_null=False,
            check_utf8=False,
        )

    def parse(self, data: bytes) -> tuple[list[pa.Array], np.ndarray] | None:
        """Returns the columns and the numbers of the malformed records, counted from 0.

        Args:
            data: UTF-8 that begins with a record.

        Returns:
            None if `data` ends within quotes.

        Raises:
            InputSchemaError: Arrow cannot parse it, and reading does not go on.
        """
        unreadable = self.goes_on and _UNREADABLE.encode() in data
        marked = b"\0" in data or self._MARK.encode() in data
        if marked:
            text = data.decode().replace(self._MARK, self._MARK_ITSELF)
            data = text.replace("\0", self._NUL).encode()
        if data.startswith(codecs.BOM_UTF8):  # which Arrow drops from the first of any records
            data = b"\n" + data
        data += f"\n{self._closing}\n".encode()
        malformed: list[int] = []
        last = ""

        def skip(row: Any) -> str:
            nonlocal last
            malformed.append(row.number - 1)
            last = row.text
            return "skip"

        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(data), column_names=self._names
                ),
                arrow_csv.ParseOptions(**self._parsing, invalid_row_handler=skip),
                self._conversion,
            )
        except pa.ArrowInvalid:
            if self.goes_on:
                return None
            # Not seen so far, but Arrow's message would quote the record.
            raise InputSchemaError("the input is no delimited text that Arrow can parse") from None
        if last != self._closing or malformed[-1] != table.num_rows + len(malformed) - 1:
            return None
        columns = [pa.concat_arrays(column.chunks) for column in table.columns]
        if marked:
            columns = [self._unmarked(column) for column in columns]
        numbers = np.asarray(malformed[:-1], np.int64)
        return self._sound(columns, numbers) if unreadable else (columns, numbers)

    def nothing(self) -> tuple[list[pa.Array], np.ndarray]:
        """Returns what stands for one malformed record and nothing else."""
        return [pa.array([], pa.string()) for _ in self._conversion.include_columns], np.zeros(
            1, np.int64
        )

    @staticmethod
    def _sound(columns: list[pa.Array], malformed: np.ndarray) -> tuple[list[pa.Array], np.ndarray]:
        """Takes out the records of which a field holds what the encoding does not have."""
        sound = np.ones(len(columns[0]), bool)
        for column in columns:
            sound &= ~np.asarray(pc.match_substring(column, _UNREADABLE))
        records = np.delete(np.arange(len(sound) + len(malformed)), malformed)
        mask = pa.array(sound)
        return [column.filter(mask) for column in columns], np.union1d(malformed, records[~sound])

    def _unmarked(self, text: pa.Array) -> pa.Array:
        with_nul = pc.replace_substring(text, self._NUL, "\0")
        return pc.replace_substring(with_nul, self._MARK_ITSELF, self._MARK)


def _blocks(
    pending: bytes, chunks: Iterator[bytes], parser: _Parser
) -> Iterator[tuple[list[pa.Array], np.ndarray]]:
    """Yields what `parser` makes of `pending` and the chunks behind it, block by block."""
    size = BLOCK_BYTES
    while True:
        pending, ended = _filled(pending, chunks, size)
        if not pending:
            return
        size = BLOCK_BYTES
        cut = len(pending) if ended else _likely_cut(pending, parser.quote)
        block = parser.parse(pending[:cut]) if 0 < cut <= RECORD_BYTES else None
        if block is None:
            cut = _last_end(pending, parser)
            block = (parser.parse(pending[:cut]) or parser.nothing()) if cut else None
        is_long = len(pending) > RECORD_BYTES
        if block is not None:
            yield block
            pending = pending[cut:]
        elif not (is_long or ended):
            size = len(pending) + BLOCK_BYTES
        elif parser.goes_on:
            yield parser.nothing()
            pending = _behind_record(pending, chunks, parser)
        elif is_long:
            raise InputSchemaError(
                f'the input holds a record of more than {RECORD_BYTES >> 20} MiB; a quote (") '
                "that is never closed makes one: a field that holds quotes is written in "
                "quotes, with each of its own doubled"
            )
        else:
            raise InputSchemaError(
                'the input ends within a quoted field: it is cut off, or a quote (") is never '
                "closed; mend the file: a field that holds quotes is written in quotes, with "
                "each of its own doubled"
            )


def _likely_cut(data: bytes, quote: bytes) -> int:
    """Returns a place behind a line break where most likely a record ends; 0: where is doubtful.

    One ends behind the last line break if the number of quotes before it is even, unless a field
    that is not quoted holds quotes, too.
    """
    cut = data.rfind(b"\n" if b"\n" in data else b"\r") + 1
    return 0 if data.count(quote, 0, cut) % 2 else cut


def _last_end(data: bytes, parser: _Parser) -> int:
    """Returns the last place where a record ends, and no record before it is too long; 0: none."""
    from tracecloak.transforms.formats.pieces import QuotedScanner

    ends = QuotedScanner(parser.delimiter, parser.quote).ends(data)
    lengths = np.diff(ends, prepend=0)
    n_fitting = int(np.argmax(np.append(lengths, RECORD_BYTES + 1) > RECORD_BYTES))
    return int(ends[n_fitting - 1]) if n_fitting else 0


def _behind_record(pending: bytes, chunks: Iterator[bytes], parser: _Parser) -> bytes:
    """Passes over the record that `pending` begins with; returns what was read behind it."""
    scanner = _Scanner(parser.delimiter, parser.quote)
    for text in itertools.chain([pending], chunks):
        end = scanner.end(text, 0)
        if end is not None:
            return text[end:]
    if scanner.is_within_quotes:
        _OPERATOR.warning(
            "a CSV file ends within a quoted field: it is cut off, or a quote is never closed, and "
            "nothing behind that quote is read; mend the file"
        )
    return b""


class _Scanner:
    """Finds where records end, as Arrow does, in text that comes in pieces."""

    def __init__(self, delimiter: bytes, quote: bytes) -> None:
        self._delimiter = delimiter
        self._quote = quote
        self._stops = re.compile(b"[" + re.escape(delimiter) + b"\r\n]")
        self._state: Literal["begin", "plain", "quoted", "closing"] = "begin"  # of a field

    @property
    def is_within_quotes(self) -> bool:
        """Whether the text so far ends within a quoted field."""
        return self._state == "quoted"

    def end(self, text: bytes, at: int) -> int | None:
        """Returns where the record ends that goes on at a place, behind its line break, or None."""
        while at < len(text):
            if self._state in ("begin", "closing"):
                # A quote opens a field at its beginning alone; a second one does not close it.
                is_quote = text.startswith(self._quote, at)
                self._state = "quoted" if is_quote else "plain"
                at += is_quote
            elif self._state == "quoted":
                at = text.find(self._quote, at) + 1
                if at == 0:
                    return None
                self._state = "closing"
            else:
                stop = self._stops.search(text, at)
                if stop is None:
                    return None
                at = stop.end()
                self._state = "begin"
                if stop[0] != self._delimiter:
                    return at
        return None


def _filled(pending: bytes, chunks: Iterator[bytes], size: int) -> tuple[bytes, bool]:
    """Returns `pending` and chunks behind it, of `size` bytes or more, and whether they ended."""
    parts = [pending]
    length = len(pending)
    while length < size:
        chunk = next(chunks, None)
        if chunk is None:
            return b"".join(parts), True
        parts.append(chunk)
        length += len(chunk)
    return b"".join(parts), False


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


def _first_record(
    chunks: Iterator[bytes], delimiter: str, quote_char: str
) -> tuple[list[str], bytes]:
    """Returns the fields of the first line that is not blank, and what follows of its chunk."""
    text = ""
    while True:
        more = next(chunks, b"")
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
    return fields, text[taken:].encode()


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


def reader(how: SourceFormat, path: str) -> CsvReader:
    """Returns the reader of a file of this format; an ending of its name stands for tabs."""
    tabs = path.removesuffix(".gz").lower().endswith(".tsv")
    return CsvReader(
        delimiter=how.delimiter or ("\t" if tabs else ","),
        encoding=how.encoding,
        header=how.header or True,
        goes_on=how.goes_on,
    )
