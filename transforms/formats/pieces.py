"""Files in pieces: what a format owes whoever has several workers read one file, and text so.

A file of text is looked at in stretches of bytes, each by itself and by whoever has time. A look
begins behind the first line break of its stretch and ends behind the first one of the next. It
counts the records that end there; where line breaks can stand within quotes, it does so for both
answers to the question that the bytes before would settle. All looks settle it: an automaton of two
states, whose steps over a stretch are a function of the state before it, and such functions are
composed (Ladner and Fischer, Parallel Prefix Computation, J. ACM 1980).

Bytes are compared alone, so this is for encodings in which the byte of an ASCII character is
nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, cast

import numpy as np

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.formats.base import RawBatch, Reader

if TYPE_CHECKING:
    from tracecloak.transforms.formats.csv import CsvReader
    from tracecloak.transforms.formats.jsonl import JsonLinesReader
    from tracecloak.transforms.formats.parquet import RowGroups

BOM = b"\xef\xbb\xbf"
_LINE_FEED = 10
_CARRIAGE_RETURN = 13
_READ_BYTES = 1 << 20
_SOUGHT_BYTES = 1 << 16

Place = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """A run of a file's records that is read without the rest.

    Attributes:
        begin: Where it begins in the file: a byte of text, a row group of Parquet.
        end: Where it ends, exclusive.
        first_record: The number in the file of its first record.
        n_bytes: About how many bytes of the file it takes.
        n_pieces: How many pieces its file has.
    """

    begin: int
    end: int
    first_record: int
    n_bytes: int
    n_pieces: int


def check_size(stream: BinaryIO, n_bytes: int) -> None:
    """Makes sure that a file has the size that it was listed with, and goes to its begin.

    Raises:
        RetryLater: It has another one.
    """
    if stream.seek(0, os.SEEK_END) != n_bytes:
        raise changed()
    stream.seek(0)


def changed() -> RetryLater:
    """Returns the error of a file that changes after it was listed."""
    return RetryLater("the input was changed after it was listed: run the same command again")


@dataclass(frozen=True)
class Look:
    """What a look at a stretch tells.

    Attributes:
        begin: Where in the file it begins.
        end: Where it ends.
        scanners: What has passed over it, by whether the bytes before it end within quotes; none:
            the file begins there with what keeps it from being divided.
    """

    begin: int
    end: int
    scanners: Sequence[LineScanner | QuotedScanner]


@dataclass(frozen=True)
class TextDivider:
    """Divides files of text into pieces that several workers read.

    A file is looked at in some places, in any order and by whoever has time; all looks together
    tell the pieces. Places and looks are the divider's own affair; they pickle.

    Attributes:
        reader: What reads them.
        scanners: Makes what counts their records: one, or one outside of quotes and one within.
        has_bom: Whether a byte order mark at a file's begin is no part of its text.
        n_head: How many of a file's first records are its head, which is in the first piece.
        undivided: What a file begins with that is one piece; None: no file is for that reason.
    """

    reader: CsvReader | JsonLinesReader
    scanners: Callable[[], Sequence[LineScanner | QuotedScanner]]
    has_bom: bool
    n_head: int = 0
    undivided: re.Pattern[bytes] | None = None

    def places(self, n_bytes: int, max_bytes: int) -> list[Place]:
        """Returns the places at which a file is looked at: its stretches.

        Args:
            n_bytes: Its size.
            max_bytes: About how large its pieces are to be.
        """
        return [(at, min(at + max_bytes, n_bytes)) for at in range(0, n_bytes, max_bytes)]

    def look(self, stream: BinaryIO, place: Place) -> Look | None:
        """Returns what is seen at one of `places`; None: no line begins in it.

        Args:
            stream: The file's bytes, seekable.
            place: One of `places`.

        Raises:
            RetryLater: The file is changed meanwhile.
        """
        begin, end = place
        if begin:
            line_break = _line_break(stream, begin - 1, end - 1)
            if line_break is None:
                return None
            begin = line_break + 1
        last = _line_break(stream, end - 1, None)
        end = stream.seek(0, os.SEEK_END) if last is None else last + 1
        stream.seek(begin)
        scanners = self.scanners()
        at = begin
        while at < end:
            block = stream.read(min(_READ_BYTES, end - at))
            if not block:
                raise changed()
            text = block.removeprefix(BOM) if self.has_bom and not at else block
            if not at and self.undivided is not None and self.undivided.match(text):
                return Look(begin, end, ())
            for scanner in scanners:
                scanner.feed(text)
            at += len(block)
        return Look(begin, end, scanners)

    def pieces(self, looks: Sequence[Look | None]) -> list[Piece]:
        """Returns the pieces in the order of the file, by the looks at all places in their order.

        All but the first begin behind a line break. No piece changes what is read of another, and
        together they have the file's records.
        """
        taken = [one for one in looks if one is not None]
        n_bytes = taken[-1].end
        begins: list[tuple[int, int]] = [(0, 0)]
        n_records, is_quoted = 0, False
        for one in taken if taken[0].scanners else ():
            scanner = one.scanners[is_quoted]
            if scanner.begin is not None:
                begin, n_before = scanner.begin
                first = n_records + n_before - self.n_head
                if 0 < one.begin + begin < n_bytes and first >= 0:
                    begins.append((one.begin + begin, first))
            n_records, is_quoted = n_records + scanner.n_records, scanner.is_quoted
        ends = [*(begin for begin, _ in begins[1:]), n_bytes]
        return [
            Piece(begin, end, first, end - begin, len(begins))
            for (begin, first), end in zip(begins, ends, strict=True)
        ]

    def piece_reader(self, piece: Piece) -> Reader:
        """Returns what reads a piece of a file, whose bytes it is given as a whole.

        Records have their numbers in the file.
        """
        return _PieceReader(self.reader, piece)


Divider: TypeAlias = "TextDivider | RowGroups"
"""Divides a file: of text, or of Parquet in the same way."""


@dataclass(frozen=True)
class _PieceReader:
    inner: CsvReader | JsonLinesReader
    piece: Piece

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        return self.inner.column_names(stream)

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        reader = self.inner
        if self.piece.begin and (names := self.column_names(stream)) is not None:
            reader = replace(cast("CsvReader", reader), header=tuple(names))
        first, text = self.piece.first_record, cast(BinaryIO, _Window(stream, self.piece))
        batches = reader.read(text, wanted, required, batch_rows)
        for batch in batches:
            yield replace(batch, records=batch.records + first, malformed=batch.malformed + first)


def _line_break(stream: BinaryIO, at: int, end: int | None) -> int | None:
    """Returns the place of the first line feed from one place to another; None: there is none."""
    stream.seek(at)
    while end is None or at < end:
        block = stream.read(_SOUGHT_BYTES if end is None else min(_SOUGHT_BYTES, end - at))
        if not block:
            return None
        found_at = block.find(b"\n")
        if found_at >= 0:
            return at + found_at
        at += len(block)
    return None


class _Window:
    """The bytes of a piece of text.

    Those of a piece within a file begin with the line break before it. So its first record is none
    that follows a byte order mark, and it is noticed if no line begins there any more.

    Raises:
        RetryLater: The file is not what was divided.
    """

    def __init__(self, stream: BinaryIO, piece: Piece) -> None:
        begin = max(piece.begin - 1, 0)
        stream.seek(begin)
        if piece.begin and stream.read(1) != b"\n":
            raise changed()
        stream.seek(begin)
        self._stream = stream
        self._n_left = piece.end - begin

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._n_left))
        self._n_left -= len(data)
        if self._n_left and not data:
            raise changed()
        return data


_NO_RECORD = re.compile(rb"\n[ \t\r]*+[\[\]]?[ \t\r]*+(?=\n)")


class LineScanner:
    """Counts lines that are records, as JSON lines are split; they have no quotes.

    Attributes:
        n_records: The records that end in what was fed.
        begin: As of `QuotedScanner`.
        is_quoted: Likewise.
    """

    def __init__(self, max_bytes: int) -> None:
        """Begins; a line that is longer is a record, whatever it holds."""
        self.n_records = 0
        self.begin = (0, 0)
        self.is_quoted = False
        self._max_bytes = max_bytes
        self._held = b""  # of a line that goes on

    def feed(self, block: bytes) -> None:
        """Takes in what follows."""
        text = self._held + block
        first = text.find(b"\n")
        if (len(text) if first < 0 else first) > self._max_bytes:
            text = b"-" + (b"" if first < 0 else text[first:])
        end = text.rfind(b"\n") + 1
        self._held = text[end:]
        if end:
            lines = b"\n" + text[:end]
            self.n_records += lines.count(b"\n") - 1 - len(_NO_RECORD.findall(lines))


class QuotedScanner:
    """Counts records of delimited text, whose line breaks within quotes end none.

    A quote opens a field at its begin alone, and a doubled one closes none. So of quotes in a run,
    an even number changes nothing. An odd number closes what is open; else it opens a field, if one
    begins there, and changes nothing if none does.

    Attributes:
        n_records: The records that end in what was fed.
        begin: Where in it the first record begins that does so at its begin or behind a line feed,
            and how many records end before that; None: none does.
        is_quoted: Whether it ends within quotes.
    """

    def __init__(self, delimiter: bytes, quote: bytes, is_quoted: bool = False) -> None:
        """Begins where a record does, or within quotes; without a quote nothing is within any."""
        self.n_records = 0
        self.begin = None if is_quoted else (0, 0)
        self.is_quoted = is_quoted
        self._quote = quote
        self._opens = np.zeros(256, bool)  # which bytes a field can begin behind
        self._opens[[_LINE_FEED, _CARRIAGE_RETURN, delimiter[0]]] = True
        self._held = b"\n"  # the byte before what follows, and quotes that may be a part of more
        self._n_fed = 0

    def feed(self, block: bytes) -> np.ndarray:
        """Takes in what follows.

        Returns:
            int64[n], ascending: the places behind line breaks that are not within quotes, counted
            from the first byte that was fed.
        """
        text = self._held + block
        end = len(text.rstrip(self._quote))
        at = self._n_fed - (len(self._held) - 1)  # of text[1] in all that was fed
        self._n_fed += len(block)
        self._held = text[end - 1 :]
        data = np.frombuffer(text, np.uint8, end)
        is_break = (data == _LINE_FEED) | (data == _CARRIAGE_RETURN)
        breaks = np.flatnonzero(is_break[1:]) + 1
        breaks = breaks[~self._are_within(data, breaks)]
        ended = np.cumsum(~is_break[breaks - 1])  # no record ends on a blank line
        line_feeds = np.flatnonzero(data[breaks] == _LINE_FEED)
        if self.begin is None and len(line_feeds):
            first = line_feeds[0]
            self.begin = at + int(breaks[first]), self.n_records + int(ended[first])
        self.n_records += int(ended[-1]) if len(ended) else 0
        return at + breaks

    def _are_within(self, data: np.ndarray, breaks: np.ndarray) -> np.ndarray:
        """bool[n_breaks]: which stand within quotes; notes whether the data end so.

        Args:
            data: uint8[n], of which the first belongs to what was before, and the last is no quote.
            breaks: int64[n_breaks], ascending places in it.
        """
        quotes = np.flatnonzero(data[1:] == (self._quote[0] if self._quote else -1)) + 1
        is_first = np.diff(quotes, prepend=-1) > 1
        lengths = np.diff(np.append(np.flatnonzero(is_first), len(quotes)))
        odd = quotes[is_first][lengths % 2 == 1]
        # A run that can open a field changes the state, and one that cannot ends outside for sure.
        opens = self._opens[data[odd - 1]]
        changes = np.cumsum(opens)
        closed = np.maximum.accumulate(np.where(opens, -1, np.arange(len(odd))))
        before = np.where(closed < 0, -int(self.is_quoted), changes[closed])
        states = np.append(self.is_quoted, (changes - before) % 2 == 1)
        self.is_quoted = bool(states[-1])
        return states[np.searchsorted(odd, breaks)]
