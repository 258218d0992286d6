"""Delimited text: reads CSV of any delimiter, quote, escape and encoding.

Every field is text: `NA`, `null` and the empty field are values like any other, and nothing is
guessed from the first rows. A record with the wrong number of fields is malformed; blank lines and
lines of comments are no records. It does not read fixed-width files.

Where a record ends is told by the quotes and escapes alone, also that of one which is too long to
be held: what stands within quotes is never read as records, and a quote that is never closed takes
all the rest.
"""

from __future__ import annotations

import codecs
import itertools
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.transforms.formats.base import RawBatch, marked_as, missing_columns
from tracecloak.transforms.formats.pieces import (
    Divider,
    QuotedScanner,
    TextDivider,
)
from tracecloak.transforms.formats.registry import SourceFormat, unpacked

_OPERATOR = logging.getLogger("tracecloak.operator")

# Text is parsed in blocks that end where a record does; a longer record makes a longer block.
BLOCK_BYTES = 4 << 20
RECORD_BYTES = 16 << 20
HEADER_BYTES = 1 << 20
_NAME_BYTES = 1 << 17
_CHUNK_BYTES = 1 << 20
# Codecs, as Python names them, of which the byte of an ASCII character is never anything else.
_OF_ASCII = ("utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252")
# The first line by which Excel is told the delimiter: a sign, not a letter that a word ends with.
_SEP_LINE = re.compile(rb'"?sep=([\t !#-/:-@\[-`{-~])"?(?:\r\n|[\r\n]|\Z)', re.IGNORECASE)
_SEP_LINE_BYTES = 9
NO_QUOTE = "none"


# No letter, a number, or a date: a year, two groups of digits as in 1/2 or 10:15, or the name of a
# month beside a digit.
_DATA = re.compile(
    r"\A[\W\d_]*\Z|\A\s*[+-]?(?:[\d._]+e[+-]?\d+|nan|inf(?:inity)?)\s*\Z"
    r"|\d{4}|\d\s?[-/.:]\s?\d"
    r"|\d\W*(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
    r"|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*\W*\d",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CsvReader(SourceFormat):
    """Reads delimited text as columns of strings, by the options of a format.

    A quote that is opened and never closed swallows all that follows it, so it is an error of the
    file and not a malformed record; so is a record of more than 16 MiB, which mostly comes of one,
    and a character that the encoding does not have. A reader that goes on takes each for a
    malformed record instead, and warns of the swallowing; characters of no wanted column do not
    matter to it.

    Attributes:
        delimiter: The character between fields, one of ASCII; None: that of a first line such as
            `sep=;`, or else a comma. Such a line is passed over in any case.
        encoding: A text encoding that Python knows; a byte order mark is dropped.
        quote_char: The character around fields that hold delimiters or line breaks, one of ASCII;
            `none`: quotes are characters like any other.
        escape_char: One character of ASCII that makes the next one text, within quotes and
            outside: a quote of either kind, a delimiter, a line break, or itself. Before any other
            character it is text, but a field that is this character and N is empty, as MySQL writes
            NULL. None, or the quote itself: there is none. Doubled quotes are read in any case.
        comment: What lines begin with that are no records, unless they begin within quotes; None:
            there are none.
        skip_lines: How many lines the file begins with before its header line or first record.

    Raises:
        UsageError: An option is none of these.
    """

    def __post_init__(self) -> None:
        for option in ("delimiter", "quote_char", "escape_char"):
            value = getattr(self, option)
            if value is None or (option == "quote_char" and value == NO_QUOTE):
                continue
            if len(value) != 1 or not value.isascii() or value in "\r\n\0":
                or_none = f", or {NO_QUOTE}" if option == "quote_char" else ""
                raise UsageError(f"{option}: must be one ASCII character{or_none}, got {value!r}")
        if (self.delimiter or ",") in (self.quote_char, self.escape_char):
            raise UsageError(f"delimiter: {self.delimiter or ','!r} is the quote or escape, too")
        if self.comment is not None and (not self.comment or re.search("[\r\n\0]", self.comment)):
            raise UsageError(f"comment: must be what lines begin with, got {self.comment!r}")
        if not _decodes_text(self.encoding):
            raise UsageError(f"encoding: there is no {self.encoding!r}; usual is utf-8 or cp1252")
        if self.header is not None and not self.header:
            raise UsageError("header: must be true or the names of the columns")

    @property
    def signs(self) -> tuple[bytes, bytes, bytes]:
        """The delimiter, the quote and the escape, each empty if there is none."""
        quote = "" if self.quote_char == NO_QUOTE else self.quote_char
        escape = "" if self.escape_char in (None, self.quote_char) else self.escape_char
        return (self.delimiter or ",").encode(), quote.encode(), (escape or "").encode()

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns the names in the header line, or those of the option `header`.

        Args:
            stream: The file's bytes; need not be seekable.

        Returns:
            One name per field, in order. Of a file that has no header line, though the options say
            so, they are the fields of its first record.

        Raises:
            InputSchemaError: There is no header line, or it is not in the encoding.
        """
        reader, chunks = self._begun(stream)
        return reader._header(chunks)[0]

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the records of `stream`; see `transforms.formats.base.Reader`."""
        reader, chunks = self._begun(stream)
        names, rest = reader._header(chunks)
        self.check(names, required)
        counts = Counter(names)
        present = [name for name in wanted if counts[name] == 1]
        parser = _Parser(reader, len(names), [names.index(name) for name in present])
        first = 0
        for columns, malformed in _blocks(rest, chunks, parser):
            count = len(columns[0]) + len(malformed)
            records = first + np.delete(np.arange(count), malformed)
            batch = pa.RecordBatch.from_arrays(columns[: len(present)], present)
            yield from RawBatch(batch, records, first + malformed).cut(batch_rows)
            first += count

    def divider(self) -> Divider | None:
        """Returns what divides a file between its records; None: nothing can, as it is encoded."""
        codec = codecs.lookup(self.encoding).name
        delimiter, quote, escape = self.signs
        # What a line is depends on what was before it: too far back for a look at a stretch.
        if codec not in _OF_ASCII or escape or self.comment or self.skip_lines:
            return None

        def scanners() -> list[QuotedScanner]:
            return [QuotedScanner(delimiter, quote, is_quoted) for is_quoted in (False, True)]

        return TextDivider(self, scanners, codec == "utf-8", int(self.header is None), _SEP_LINE)

    def check(self, found: Sequence[str], required: Collection[str]) -> None:
        """Makes sure that the header line has each required column once; see `DeclaringReader`."""
        counts = Counter(found)
        if twice := sorted(name for name in set(required) if counts[name] > 1):
            raise InputSchemaError(
                f"two columns are called {twice[0]!r}, which is read; map another, or name all in "
                "header, and set skip_lines to 1 if the file has a header line"
            )
        if set(required) <= set(found):
            return
        if self.header is None and any(_DATA.search(field[:80]) for field in found):
            raise InputSchemaError(f"{missing_columns(None, required)}. {_NO_HEADER}")
        # A quote that opens in the header line may take data into a name.
        error = missing_columns([_first_line(name) for name in found], required)
        if len(found) == 1:
            error = type(error)(
                f"{error}; or set delimiter: there is one column; or skip_lines, if the first "
                "lines are a title"
            )
        raise error

    def _begun(self, stream: BinaryIO) -> tuple[CsvReader, Iterator[bytes]]:
        """Returns the reader with the file's delimiter, and the text from the header line on."""
        chunks = _utf8(stream, self.encoding, self.goes_on)
        sep, chunks = _after_title(chunks, self.skip_lines)
        reader = replace(self, delimiter=self.delimiter or sep or ",")
        return reader, _plain(chunks, reader)

    def _header(self, chunks: Iterator[bytes]) -> tuple[list[str], bytes]:
        """Returns the names of the columns and what has been read beyond them."""
        if self.header is not None:
            return list(self.header), b""
        delimiter, quote, _ = self.signs
        names, rest = _first_record(chunks, delimiter, quote)
        for character, mark in _marks(*self.signs).items():
            names = [name.replace(mark.decode(), character.decode()) for name in names]
        if self.goes_on and any(_UNREADABLE in name for name in names):
            raise _not_encoded(self.encoding)
        return names, rest


_NO_HEADER = (
    "The file seems to have no header line: a field of its first line is blank, a number or a "
    "date. If so, name the columns in header"
)


# What a reader that goes on has in place of what the encoding does not have: a noncharacter, which
# no text has for itself. A field that holds one makes its record malformed.
_UNREADABLE = "\ufdd1"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = marked_as("tracecloak.unreadable", _UNREADABLE)


def _not_encoded(encoding: str) -> InputSchemaError:
    return InputSchemaError(f"the input is not encoded as {encoding!r}; set another encoding")


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


def _after_title(chunks: Iterator[bytes], n_lines: int) -> tuple[str | None, Iterator[bytes]]:
    """Returns the delimiter that a line `sep=` names behind some lines, and the text behind it."""
    lines = re.compile(rb"(?:[^\r\n]*+(?>\r\n|[\r\n])){%d}" % n_lines)
    text = b""
    while True:
        more = next(chunks, b"")
        text += more
        title = lines.match(text)
        # What ends close to where the text does may go on in the next chunk.
        if not more or (title and title.end() + _SEP_LINE_BYTES < len(text)):
            break
        if len(text) > HEADER_BYTES and not title:
            raise InputSchemaError(f"the first {n_lines} lines are too long; lower skip_lines")
    text = text[title.end() :] if title else b""
    sep = _SEP_LINE.match(text)
    return sep and sep[1].decode(), itertools.chain([text[sep.end() if sep else 0 :]], chunks)


# On x86 Arrow overlooks delimiters that follow a NUL closely, and it reads escapes in its own way.
# So it is given a noncharacter and another one for NUL, for each sign that is escaped, and for the
# noncharacter itself.
_MARK = "\ufdd0".encode()
# What an escape makes text beside the file's own signs.
_ESCAPED = b"\r", b"\n", b'"', b"'"


def _marks(delimiter: bytes, quote: bytes, escape: bytes) -> dict[bytes, bytes]:
    """Returns what stands for characters, in the order in which they are put back."""
    characters = dict.fromkeys((b"\0", *_ESCAPED, delimiter, quote, escape, _MARK))
    return {one: _MARK + chr(0xFDD2 + i).encode() for i, one in enumerate(filter(None, characters))}


def _has_mark(text: bytes) -> bool:
    return _MARK[0] in text and _MARK in text  # one byte is found many times faster


def _plain(chunks: Iterator[bytes], reader: CsvReader) -> Iterator[bytes]:
    """Yields text with marks, in which escapes and lines of comments are no more."""
    delimiter, quote, escape = reader.signs
    marks = _marks(*reader.signs)
    ends = b"\r\n", *_ESCAPED, delimiter, quote, escape  # the longest first
    escapes = {escape + one: b"".join(marks[bytes([c])] for c in one) for one in ends if one}
    escaped = re.compile(b"|".join(map(re.escape, escapes)))

    def marked(text: bytes) -> bytes:
        if _has_mark(text):
            text = text.replace(_MARK, marks[_MARK])
        if b"\0" in text:
            text = text.replace(b"\0", marks[b"\0"])
        if escape and escape in text:
            text = escaped.sub(lambda one: escapes[one[0]], text)
        return text

    prefix = (reader.comment or "").encode()
    if not (escape or prefix):
        yield from map(marked, chunks)
        return
    comments = _Comments(reader, prefix) if prefix else None
    for text in _lines(chunks, escape):
        if plain := comments.without(text, marked) if comments else marked(text):
            yield plain


def _lines(chunks: Iterator[bytes], escape: bytes) -> Iterator[bytes]:
    """Yields text in pieces that end with lines, as far as these are not too long to be held.

    So no escape and no comment goes on behind one.
    """
    held = b""
    for chunk in chunks:
        text = held + chunk
        cut = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
        if not cut and len(text) > RECORD_BYTES:
            cut = len(text.rstrip(b"\r" + escape))
        yield text[:cut]
        held = text[cut:]
    yield held


class _Comments:
    """Takes lines of comments out of text that comes in pieces; their line breaks stay."""

    def __init__(self, reader: CsvReader, prefix: bytes) -> None:
        delimiter, quote, _ = reader.signs
        self._scanner = QuotedScanner(delimiter, quote)
        # Text is sought before what stands before it, which is many times faster.
        sought = re.escape(prefix)
        self._begin = re.compile(sought + b"(?<=[\r\n]" + sought + b")")
        self._last = b"\n"  # of what was passed on
        self._is_within = False

    def without(self, text: bytes, marked: Callable[[bytes], bytes]) -> bytes:
        """Returns text without comments and marked."""
        text = self._last + text
        parts: list[bytes] = []
        at = sought = 1
        while at < len(text):
            if self._is_within:
                stop = _BREAK.search(text, at)
                at = sought = len(text) if stop is None else stop.start()
                self._is_within = stop is None
                continue
            begin = self._begin.search(text, sought)
            end = len(text) if begin is None else begin.start()
            if end > at:
                parts.append(marked(text[at:end]))
                self._scanner.feed(parts[-1])
                self._last = parts[-1][-1:]
            # A line break that is escaped has become a mark.
            is_line = self._last in b"\r\n" and not self._scanner.is_quoted
            self._is_within = begin is not None and is_line
            at, sought = end, end + 1
        return b"".join(parts)


_BREAK = re.compile(b"[\r\n]")


class _Parser:
    """Parses blocks of whole records with Arrow.

    Not with Arrow's streaming reader: that reads 35 blocks ahead, and once in some ten thousand
    files blocks a thread of Arrow's pool for good, until all reading stops (seen in 25.0).
    """

    def __init__(self, reader: CsvReader, fields: int, wanted: list[int]) -> None:
        self.delimiter, self.quote, escape = reader.signs
        self.goes_on = reader.goes_on
        self._null = escape.decode() + "N" if escape else None
        self._marks = _marks(*reader.signs)
        # A line of one field too many: where it is not the last record, a quote has been open.
        self._closing = self.delimiter.decode() * fields
        # At least one column is read, because an empty list means all of them.
        keys = [str(position) for position in wanted] or ["0"]
        self._names = [str(position) for position in range(fields)]
        self._parsing = _parsing(self.delimiter, self.quote)
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
        marks = [one for one in self._marks.items() if one[1] in data] if _has_mark(data) else []
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
        if self._null is not None:
            columns = [pc.if_else(pc.equal(text, self._null), "", text) for text in columns]
        for character, mark in marks:
            columns = [
                pc.replace_substring(text, mark.decode(), character.decode()) for text in columns
            ]
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
        cut = len(pending)
        if not ended:
            # A record ends behind the last line break if the number of quotes before it is even,
            # unless a field that is not quoted holds quotes, too.
            cut = pending.rfind(b"\n" if b"\n" in pending else b"\r") + 1
            if parser.quote and pending.count(parser.quote, 0, cut) % 2:
                cut = 0
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
            pending = _after_record(pending, chunks, parser)
        else:
            what = "holds a record of more than 16 MiB" if is_long else "ends within a quoted field"
            raise InputSchemaError(
                f"the input {what}: a quote ({parser.quote.decode()}) is never closed; {_QUOTES}"
            )


_QUOTES = (
    "correct the file: a field that contains quotes is enclosed in quotes, and its own are "
    "doubled; or set quote_char, or escape_char if they have a character such as \\ before them"
)


def _last_end(data: bytes, parser: _Parser) -> int:
    """Returns the last place where a record ends, and no record before it is too long; 0: none."""
    ends = QuotedScanner(parser.delimiter, parser.quote).feed(data)
    lengths = np.diff(ends, prepend=0)
    n_fitting = int(np.argmax(np.append(lengths, RECORD_BYTES + 1) > RECORD_BYTES))
    return int(ends[n_fitting - 1]) if n_fitting else 0


def _after_record(pending: bytes, chunks: Iterator[bytes], parser: _Parser) -> bytes:
    """Passes over the record that `pending` begins with; returns what was read behind it."""
    scanner, at = QuotedScanner(parser.delimiter, parser.quote), 0
    for text in itertools.chain([pending], chunks):
        ends = scanner.feed(text)
        if len(ends):
            return text[ends[0] - at :]
        at += len(text)
    if not len(scanner.feed(b"\n")):
        _OPERATOR.warning(
            "a CSV file ends within a quoted field: it is cut off, or a quote is never closed, and "
            "nothing behind that quote is read; correct the file"
        )
    return b""


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


def _first_record(
    chunks: Iterator[bytes], delimiter: bytes, quote: bytes
) -> tuple[list[str], bytes]:
    """Returns the fields of the first line that is not blank, and what follows of its chunk."""
    text, is_end = b"", False
    ends = np.zeros(0, np.int64)
    # What ends exactly where the text does may go on in the next chunk.
    while not is_end and not (len(ends) and ends[0] < len(text)):
        if len(text) > HEADER_BYTES:
            raise InputSchemaError(
                f"the header line is longer than {HEADER_BYTES} bytes: is a quote open?"
            )
        more = next(chunks, b"")
        is_end = not more
        text = (text + more).lstrip(b"\r\n")
        ends = QuotedScanner(delimiter, quote).feed(text + b"\n" * is_end)
    if not text:
        raise InputSchemaError("the input is empty: it has no header line behind skip_lines")
    if not len(ends) and len(text) > _NAME_BYTES:
        raise InputSchemaError(f"a quote {quote.decode()} in the header line is never closed")
    # Such a quote takes in all the rest.
    end, closing = (int(ends[0]), b"") if len(ends) else (len(text), quote)
    record = b"\n" + text[:end] + closing + b"\n"
    reading = arrow_csv.ReadOptions(use_threads=False, block_size=len(record))
    parsing = arrow_csv.ParseOptions(**_parsing(delimiter, quote))
    names = arrow_csv.read_csv(pa.BufferReader(record), reading, parsing).column_names
    return names, text[end:]


def _parsing(delimiter: bytes, quote: bytes) -> dict[str, Any]:
    return {
        "delimiter": delimiter.decode(),
        "quote_char": quote.decode() or False,
        "newlines_in_values": True,
    }


def _first_line(name: str) -> str:
    line, *more = re.split("[\r\n]", name, maxsplit=1)
    return line[:80] + ("…" if more else "")


def _decodes_text(encoding: str) -> bool:
    try:
        return isinstance(codecs.getincrementaldecoder(encoding)().decode(b""), str)
    except (LookupError, TypeError, ValueError):
        return False


def reader(how: SourceFormat, path: str) -> CsvReader:
    """Returns the reader of a file of this format; an ending of its name stands for tabs."""
    is_tabbed = unpacked(path)[0].endswith(".tsv")
    return CsvReader(**vars(how) | {"delimiter": how.delimiter or ("\t" if is_tabbed else None)})
