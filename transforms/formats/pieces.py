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

import io
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Protocol, cast, runtime_checkable

import numpy as np

from tracecloak.schemas.errors import InputSchemaError, RetryLater
from tracecloak.transforms.formats.base import SHOWN_COLUMNS, RawBatch, Reader, missing_columns

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


@dataclass(frozen=True)
class MissingColumns:
    """Which required columns no record has, of a file or a piece of which only records tell them.

    Attributes:
        columns: The required columns that no record has.
        names: Columns that records have, up to the number that an error shows.
        has_records: Whether there is a record at all; a file without any lacks no column.
    """

    columns: frozenset[str]
    names: tuple[str, ...]
    has_records: bool

    @classmethod
    def merge(cls, pieces: Sequence[MissingColumns]) -> MissingColumns:
        """Returns what a file lacks by all of its pieces, in their order."""
        with_records = [piece for piece in pieces if piece.has_records]
        columns = [piece.columns for piece in with_records]
        names = dict.fromkeys(name for piece in with_records for name in piece.names)
        return cls(
            frozenset.intersection(*columns) if columns else frozenset(),
            tuple(names)[:SHOWN_COLUMNS],
            bool(with_records),
        )

    def error(self) -> InputSchemaError | None:
        """Returns the error of the file that lacks them, ready to raise; None: there is none."""
        if not self.has_records or not self.columns:
            return None
        if not self.names:
            return InputSchemaError("no record of the input is a JSON object with a plain value")
        return missing_columns(self.names, self.columns)


class Divider(Protocol):
    """Divides a file into pieces that several workers read.

    The file is looked at in some places, in any order and by whoever has time; all looks together
    tell the pieces. Places and looks are the divider's own affair; they pickle.
    """

    def places(self, n_bytes: int, max_bytes: int) -> list[Any]:
        """Returns the places at which a file is looked at.

        Args:
            n_bytes: Its size.
            max_bytes: About how large its pieces are to be.
        """
        ...

    def look(self, stream: BinaryIO, place: Any) -> Any:
        """Returns what is seen at one of `places`; the stream is the file's bytes, seekable.

        Raises:
            InputSchemaError: The file is not of this format.
            RetryLater: The file is changed meanwhile.
        """
        ...

    def pieces(self, looks: Sequence[Any]) -> list[Piece]:
        """Returns the pieces in the order of the file, by the looks at all places in their order.

        No piece changes what is read of another, and together they have the file's records.
        """
        ...

    def of_piece(self, piece: Piece, tell: Callable[[MissingColumns], None]) -> Reader:
        """Returns what reads a piece of a file, whose bytes it is given as a whole.

        Records have their numbers in the file. Where only records tell the columns, `tell` is
        called at the end unless each required column is there: no piece knows what others have.
        """
        ...


@runtime_checkable
class DividedReader(Reader, Protocol):
    """A reader of files that can be divided."""

    def divider(self) -> Divider | None:
        """Returns what divides its files; None: nothing can, as they are encoded."""
        ...


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
    return RetryLater(
        "the input was changed after it was listed, and nothing was released: run the same command "
        "again once nobody writes to it, or of a copy"
    )


@dataclass(frozen=True)
class Passed:
    """What a look passes, if the bytes before it end in a certain state.

    Attributes:
        n_records: The records that end there.
        begin: Where in the file the first record begins that does so behind a line break of the
            look, or at its begin; None: none does.
        n_before: How many of the records that end there end before that.
        is_quoted: Whether the look ends within quotes.
    """

    n_records: int
    begin: int | None
    n_before: int
    is_quoted: bool


@dataclass(frozen=True)
class Look:
    """What a look at a stretch tells.

    Attributes:
        end: Where in the file it ends.
        passed: By whether the bytes before it end within quotes; None: the file begins there with
            what keeps it from being divided.
    """

    end: int
    passed: tuple[Passed, Passed] | None


class Scanner(Protocol):
    """Counts records in text that comes in blocks, which end anywhere."""

    def feed(self, block: bytes) -> None:
        """Takes in what follows."""
        ...

    def passed(self) -> tuple[Passed, Passed]:
        """Returns what was passed, see `Look`; places count from the first byte that was fed."""
        ...


class TextReader(Reader, Protocol):
    """A reader of text of which parts can be read."""

    def read_piece(
        self,
        text: BinaryIO,
        names: Sequence[str] | None,
        wanted: Sequence[str],
        required: Collection[str],
        batch_rows: int,
        tell: Callable[[MissingColumns], None],
    ) -> Iterator[RawBatch]:
        """Yields the records of a part of a file, as `read` does of a file.

        Args:
            text: The part: the file's begin, or a blank line and some of its records.
            names: The columns that the file declares; None: the text begins where the file does.
            wanted: See `Reader.read`.
            required: See `Reader.read`.
            batch_rows: See `Reader.read`.
            tell: See `Divider.of_piece`.
        """
        ...


@dataclass(frozen=True)
class TextDivider:
    """Divides files of text; see `Divider`.

    Attributes:
        reader: What reads them.
        scanner: Makes what counts their records.
        has_bom: Whether a byte order mark at a file's begin is no part of its text.
        n_head: How many of a file's first records are its head, which is in the first piece.
        undivided: What a file begins with that is one piece; None: no file is for that reason.
    """

    reader: TextReader
    scanner: Callable[[], Scanner]
    has_bom: bool
    n_head: int = 0
    undivided: re.Pattern[bytes] | None = None

    def places(self, n_bytes: int, max_bytes: int) -> list[Place]:
        """Returns the stretches of a file."""
        return [(at, min(at + max_bytes, n_bytes)) for at in range(0, n_bytes, max_bytes)]

    def look(self, stream: BinaryIO, place: Place) -> Look | None:
        """Returns what is seen in a stretch of a file; None: no line begins in it."""
        begin, end = place
        if begin:
            line_break = _line_break(stream, begin - 1, end - 1)
            if line_break is None:
                return None
            begin = line_break + 1
        last = _line_break(stream, end - 1, None)
        end = stream.seek(0, os.SEEK_END) if last is None else last + 1
        stream.seek(begin)
        scanner = self.scanner()
        at = begin
        while at < end:
            block = stream.read(min(_READ_BYTES, end - at))
            if not block:
                raise changed()
            text = block.removeprefix(BOM) if self.has_bom and not at else block
            if not at and self.undivided is not None and self.undivided.match(text):
                return Look(end, None)
            scanner.feed(text)
            at += len(block)
        first, second = (
            replace(one, begin=None if one.begin is None else begin + one.begin)
            for one in scanner.passed()
        )
        return Look(end, (first, second))

    def pieces(self, looks: Sequence[Look | None]) -> list[Piece]:
        """Returns the pieces of a file, of which all but the first begin behind a line break."""
        taken = [one for one in looks if one is not None]
        n_bytes = taken[-1].end
        begins: list[tuple[int, int]] = [(0, 0)]
        n_records, is_quoted = 0, False
        for one in taken if taken[0].passed else ():
            assert one.passed is not None
            passed = one.passed[is_quoted]
            first = n_records + passed.n_before - self.n_head
            if passed.begin and passed.begin < n_bytes and first >= 0:
                begins.append((passed.begin, first))
            n_records, is_quoted = n_records + passed.n_records, passed.is_quoted
        ends = [*(begin for begin, _ in begins[1:]), n_bytes]
        return [
            Piece(begin, end, first, end - begin, len(begins))
            for (begin, first), end in zip(begins, ends, strict=True)
        ]

    def of_piece(self, piece: Piece, tell: Callable[[MissingColumns], None]) -> Reader:
        """Returns what reads a piece of a file."""
        return _PieceReader(self.reader, piece, tell)


@dataclass(frozen=True)
class _PieceReader:
    inner: TextReader
    piece: Piece
    tell: Callable[[MissingColumns], None]

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        return self.inner.column_names(stream)

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        names = (self.column_names(stream) or ()) if self.piece.begin else None
        first = self.piece.first_record
        batches = self.inner.read_piece(
            _window(stream, self.piece), names, wanted, required, batch_rows, self.tell
        )
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


def _window(stream: BinaryIO, piece: Piece) -> BinaryIO:
    """Returns the bytes of a piece of text.

    Those of a piece within a file begin with the line break before it. So its first record is none
    that follows a byte order mark, and it is noticed if no line begins there any more.

    Raises:
        RetryLater: The file is not what was divided.
    """
    begin = max(piece.begin - 1, 0)
    stream.seek(begin)
    if piece.begin and stream.read(1) != b"\n":
        raise changed()
    return cast(BinaryIO, io.BufferedReader(_Window(stream, begin, piece.end), _READ_BYTES))


class _Window(io.RawIOBase):
    def __init__(self, stream: BinaryIO, begin: int, end: int) -> None:
        self._stream = stream
        self._begin = begin
        self._end = end
        self._at = begin

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at - self._begin

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {0: self._begin, 1: self._at, 2: self._end}[whence]
        return self.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = min(len(buffer), self._end - self._at)
        if n <= 0:
            return 0
        self._stream.seek(self._at)
        data = self._stream.read(n)
        if not data:
            raise changed()
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class LineScanner:
    """Counts lines that are records, as JSON lines are split."""

    def __init__(self, blanks: bytes, no_records: Collection[bytes], max_bytes: int) -> None:
        """Begins.

        Args:
            blanks: What does not count at the begin and the end of a line.
            no_records: Lines, without these, that are no records; the empty one, and ones of a
                character.
            max_bytes: A longer line is not looked at, and is a record.
        """
        self._blanks = blanks
        self._no_records = no_records
        self._max_bytes = max_bytes
        self._doubtful = np.frombuffer(blanks + b"\n" + b"".join(no_records), np.uint8)
        self._n_records = 0
        self._n_held = 0  # bytes of a line that goes on
        self._begin = b""  # its first two characters from the first one on that counts

    def feed(self, block: bytes) -> None:
        """Takes in what follows; see `Scanner`."""
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == _LINE_FEED)
        if not len(ends):
            self._hold(block)
            return
        self._hold(block[: ends[0]])
        self._n_records += self._is_record(self._begin, self._n_held)
        # Most lines are seen to be records by their first character.
        begins, ends = ends[:-1] + 1, ends[1:]
        doubtful = np.isin(data[begins], self._doubtful)
        self._n_records += int((~doubtful).sum())
        for begin, end in zip(begins[doubtful].tolist(), ends[doubtful].tolist(), strict=True):
            line = block[begin:end].strip(self._blanks)
            self._n_records += self._is_record(line, end - begin)
        self._n_held, self._begin = 0, b""
        self._hold(block[block.rfind(b"\n") + 1 :])

    def _is_record(self, line: bytes, n_bytes: int) -> bool:
        return line not in self._no_records or n_bytes > self._max_bytes

    def _hold(self, part: bytes) -> None:
        self._n_held += len(part)
        self._begin = (self._begin + part.strip(self._blanks))[:2]

    def passed(self) -> tuple[Passed, Passed]:
        """Returns what was passed; there are no quotes."""
        passed = Passed(self._n_records, 0, 0, False)
        return passed, passed


def _breaks(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bool[n]: what is a line break, int64: the places of those behind the first byte)."""
    is_break = (data == _LINE_FEED) | (data == _CARRIAGE_RETURN)
    return is_break, np.flatnonzero(is_break[1:]) + 1


class QuotedScanner:
    """Counts records of delimited text, whose line breaks within quotes end none.

    A quote opens a field at its begin alone, and a doubled one closes none. So of quotes in a run,
    an even number changes nothing. An odd number closes what is open; else it opens a field, if one
    begins there, and changes nothing if none does.

    Attributes:
        end: Of what was fed, the place behind the first line break that is not within quotes, if
            the text begins outside of them; None: there is none so far.
    """

    def __init__(self, delimiter: bytes, quote: bytes) -> None:
        """Begins where a record does, or within quotes; without a quote nothing is within any."""
        self._quote = quote
        self._opens = np.zeros(256, bool)  # which bytes a field can begin behind
        self._opens[[_LINE_FEED, _CARRIAGE_RETURN, delimiter[0]]] = True
        self._held = b"\n"  # the byte before what follows, and quotes that may be a part of more
        self._n_fed = 0
        self.end: int | None = None
        # By the state at the begin: the state, the records that ended, and the first begin.
        self._is_quoted = [False, True]
        self._n_records = [0, 0]
        self._begins: list[tuple[int | None, int]] = [(0, 0), (None, 0)]

    def feed(self, block: bytes) -> None:
        """Takes in what follows; see `Scanner`."""
        whole = self._held + block
        end = len(whole.rstrip(self._quote))
        at = self._n_fed - (len(self._held) - 1)  # of whole[1] in all that was fed
        self._n_fed += len(block)
        self._held = whole[end - 1 :]
        if end < 2:
            return
        data = np.frombuffer(whole, np.uint8, end)
        is_break, breaks = _breaks(data)
        ends_record = ~is_break[breaks - 1]  # no record ends on a blank line
        states, last = self._states(data, breaks)
        if self.end is None:
            outside = ~states[int(self._is_quoted[0])]
            self.end = at + int(breaks[outside][0]) if outside.any() else None
        for begun in (0, 1):
            is_quoted = self._is_quoted[begun]
            outside = ~states[int(is_quoted)]
            ended = outside & ends_record
            if self._begins[begun][0] is None:
                first = np.flatnonzero(outside & (data[breaks] == _LINE_FEED))[:1]
                if len(first):
                    n_before = self._n_records[begun] + int(ended[: first[0] + 1].sum())
                    self._begins[begun] = at + int(breaks[first[0]]), n_before
            self._n_records[begun] += int(ended.sum())
            self._is_quoted[begun] = last[int(is_quoted)]

    def ends(self, text: bytes) -> np.ndarray:
        """int64[n], ascending: the places behind line breaks that are not within quotes.

        Args:
            text: It begins where a record does, and may end anywhere.
        """
        data = np.frombuffer(b"\n" + text, np.uint8)
        _, breaks = _breaks(data)
        (is_within, _), _ = self._states(data, breaks)
        return breaks[~is_within]

    def _states(
        self, data: np.ndarray, breaks: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], tuple[bool, bool]]:
        """(bool[n_breaks]: which stand within quotes, and whether the data end so), by the begin.

        Args:
            data: uint8[n], of which the first belongs to what was before, and the last is no quote.
            breaks: int64[n_breaks], ascending places in it.
        """
        quotes = np.flatnonzero(data[1:] == (self._quote[0] if self._quote else -1)) + 1
        is_first = np.diff(quotes, prepend=-1) > 1
        firsts = quotes[is_first]
        lengths = np.diff(np.append(np.flatnonzero(is_first), len(quotes)))
        odd = firsts[lengths % 2 == 1]
        if not len(odd):
            within = np.ones(len(breaks), bool)
            return (~within, within), (False, True)
        # A run that can open a field changes the state, and one that cannot ends outside for sure.
        opens = self._opens[data[odd - 1]]
        changes = np.append(0, np.cumsum(opens))
        closed = np.append(-1, np.maximum.accumulate(np.where(opens, -1, np.arange(len(odd)))))
        since = changes - np.where(closed < 0, 0, changes[closed + 1])
        from_outside = since % 2 == 1
        from_within = np.where(closed < 0, ~from_outside, from_outside)
        after = np.searchsorted(odd, breaks)
        return (
            (from_outside[after], from_within[after]),
            (bool(from_outside[-1]), bool(from_within[-1])),
        )

    def passed(self) -> tuple[Passed, Passed]:
        """Returns what was passed; see `Scanner`."""
        first, second = (
            Passed(self._n_records[i], *self._begins[i], self._is_quoted[i]) for i in (0, 1)
        )
        return first, second
