"""Files in pieces: what a format owes whoever has several workers read one file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, runtime_checkable

from tracecloak.schemas.errors import InputSchemaError, RetryLater
from tracecloak.transforms.formats.base import SHOWN_COLUMNS, Reader, missing_columns


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
class Lacks:
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
    def merge(cls, pieces: Sequence[Lacks]) -> Lacks:
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
            return InputSchemaError("no line of the input is a JSON object with a key")
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

    def of_piece(self, piece: Piece, tell: Callable[[Lacks], None]) -> Reader:
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
        "an input was changed after it was listed, and nothing was released: run the same command "
        "again once nobody writes to it, or of a copy"
    )
