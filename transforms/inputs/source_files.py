"""The files that a release reads: their partitions, bytes and compression."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import os
import re
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError, NoSuchFile, UsageError
from tracecloak.schemas.texts import text_or_null
from tracecloak.transforms.files import is_on_this_machine, open_raw
from tracecloak.transforms.formats.registry import unpacked
from tracecloak.transforms.inputs.listing import (
    FOLDERS,
    Listed,
    Listing,
    Table,
    check_no_table,
    expression,
    first_wildcard,
    is_skipped,
    parent_folders,
    table_of_marker,
)

# --- Which files of a data lake can hold events of a span of time, by their paths; opens none. ----
# The hour, day, month or year that a partition of a data lake is named by, as a span of time.


_DASHED = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:[-T ](\d{2}))?)?)?(Z?)", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)
_FURTHER = re.compile(r"\d{1,2}", re.ASCII)
_HOUR_US = 3_600_000_000


@lru_cache(maxsize=4096)
def span_of_period(values: tuple[str, ...], time_zone: str) -> tuple[int, int] | None:
    """Returns from when to when a period is, exclusive, microseconds since 1970 UTC.

    `("2026-11-01",)` is a day, and so are `("20261101",)` and `("2026", "11", "1")`; a month is
    `("2026-11",)`, an hour `("2026-11-01-13",)`, `("2026-11-01T13",)` or `("2026-11-01", "13")`.

    Args:
        values: A year, month, day or hour, and one after the other what is smaller, as numbers.
        time_zone: IANA zone whose calendar and clock it is of, unless it ends in `Z`. An hour that
            the clock shows twice is two hours long, and one that it skips the hour after it.

    Returns:
        The span, or None: the values are not written so, or beyond the years 1 to 9998.
    """
    match = values and (_DASHED.fullmatch(values[0]) or _COMPACT.fullmatch(values[0]))
    if not match or not all(map(_FURTHER.fullmatch, values[1:])):
        return None
    year, *parts = [part for part in (*match.groups()[:4], *values[1:]) if part is not None]
    if len(parts) > 3 or not 1 <= int(year) <= 9998:
        return None
    text = year + "".join(sign + part.zfill(2) for sign, part in zip("--T", parts, strict=False))
    try:
        begin = np.datetime64(text)  # of the unit that it is written to
    except ValueError:
        return None
    shown = pa.array(np.array([begin, begin + 1], "M8[us]")).cast(pa.int64())
    clock = LocalClock.of("UTC" if "Z" in match.groups() else time_zone)
    begin_us, end_us = clock.to_utc(shown).to_pylist()
    return begin_us, max(end_us, begin_us + _HOUR_US)


def can_hold(
    file: SourceFile, column: str, zone: str, span_us: tuple[int, int], spread_us: int
) -> bool:
    """Returns whether a file can hold events of a span, by the partition that it lies in.

    In `lake/day=2026-11-01/part-0.parquet` lie the events of that day, and with a spread of two
    hours those up to two hours before and after it, too. A file is kept if what its partition is
    named by cannot be read as a time.

    Args:
        file: Whose path is looked at.
        column: The partition column of the year, month, day or hour of the events; or several
            between commas, from the largest to the smallest, such as `year,month,day`.
        zone: IANA zone in which the partitions are named.
        span_us: From the first to the second, exclusive, microseconds since 1970 UTC.
        spread_us: How far events lie from the time that their partition is named by, at most.

    Raises:
        InputSchemaError: The path has no such column; names both.
    """
    partitions = dict(file.partitions)
    values = []
    for name in column.split(","):
        if name.strip() not in partitions:
            raise InputSchemaError(
                f"{file.path}: its path has no partition column {name.strip()!r}; correct it"
            )
        value = partitions[name.strip()]
        if value is None:
            return True
        values.append(value)
    period = span_of_period(tuple(values), zone)
    if period is None:
        return True
    begin_us, end_us = period
    return begin_us - spread_us < span_us[1] and end_us + spread_us > span_us[0]


# --- Streams of compressed files that say what is wrong with a damaged one in our own words. ------


# Python's own, which also read an empty member, and zeros that fill the last block.
_OPENERS: dict[str, Any] = {"gzip": gzip.open, "bz2": bz2.open}


class DecompressedStream(io.RawIOBase):
    """What a compressed stream holds, also one of several members or frames.

    Attributes:
        packed: The stream as it lies there.
    """

    def __init__(self, packed: BinaryIO, codec: str) -> None:
        """Takes a stream and what it is compressed by, see `transforms.formats.registry.CODECS`."""
        self.packed = packed
        self._codec = codec
        if codec in _OPENERS:
            self._file = _OPENERS[codec](packed)
        else:
            self._file = pa.CompressedInputStream(pa.PythonFile(packed, "r"), codec)

    def readable(self) -> bool:
        """Returns that it is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads some bytes; an error says what is wrong with a damaged file."""
        try:
            return int(self._file.readinto(buffer))
        except (EOFError, zlib.error, pa.ArrowException, OSError) as error:
            # Errors of the stream itself have a number, or a type of their own.
            is_foreign = type(error) not in (OSError, gzip.BadGzipFile)
            if isinstance(error, OSError) and (is_foreign or error.errno is not None):
                raise
            if isinstance(error, EOFError) or "Truncated" in str(error):
                message = f"the {self._codec} stream ends too early: the file is truncated"
            else:
                message = f"the file is not an intact {self._codec} stream"
            raise InputSchemaError(message) from error

    def close(self) -> None:
        """Ends reading, of the stream as it lies there, too."""
        with closing(self.packed):
            super().close()


# --- The files that a release reads: which ones its patterns match, and their bytes. --------------


# As long as a path of Linux may be; the expressions below are slow on texts without an end.
_LONGEST_PATTERN = 4096

# A folder for the records of one value, as Hive and Spark name them.
_PARTITION = re.compile(r"(?<=/)[^/=]+=[^/]*|^[^/=]+=[^/]*")
# What Hive and Spark write where the value is null, or empty text.
_NULL = ("__HIVE_DEFAULT_PARTITION__", "")


@dataclass(frozen=True)
class SourceFile:
    """One input file.

    Attributes:
        rank: Its place in the sorted list of all inputs, which orders events with equal stamps.
        path: Where it is.
        n_bytes: Its size.
        partitions: The columns that its path gives all of its records, with their value; None: it
            is null. See `partitions_of`; a table says itself which they are.
        digest: What tells it from any other, where that is known and nothing else can be read
            under its name; None: of each run that begins, its bytes are digested.
        seen: How the table sees it that it belongs to, see `transforms.lakes.seen.Seen`; None: it
            belongs to none.
        version: What it is read by, so that it is read as it was listed; see `Listed`.
        piece: Which of its records are meant, see `transforms.formats.pieces.Piece`; None: all.
    """

    rank: int
    path: str
    n_bytes: int
    partitions: tuple[tuple[str, str | None], ...] = ()
    digest: str | None = None
    seen: Any = None
    version: str | None = None
    piece: Any = None

    @property
    def folder(self) -> str:
        """The folder that it lies in, with all partitions: what is before the first of them."""
        folder = self.path.rpartition("/")[0]
        partition = _PARTITION.search(folder + "/")
        return folder if partition is None else folder[: partition.start()].rstrip("/")


def partitions_of(path: str) -> tuple[tuple[str, str | None], ...]:
    """Returns the columns that a file's path gives its records, sorted by name.

    Of `lake/claims/day=2026-11-01/hospital=A%2FB/part-0.parquet` these are `day` and `hospital`,
    whose value is `A/B`. `__HIVE_DEFAULT_PARTITION__` is null, and so are empty text and what is no
    UTF-8, as in every other column. Where a name stands in the path twice, the last one counts.
    """
    columns: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        column = _unescaped(name)
        if sign and column:
            columns[column] = None if value in _NULL else _unescaped(value)
    return tuple(sorted(columns.items()))


def _unescaped(text: str) -> str | None:
    """Returns text without its percent signs for bytes; None if that is no UTF-8."""
    return text_or_null(unquote_to_bytes(text.encode(errors="surrogatepass")))


def match_files(patterns: Sequence[str], may_be_none: bool = False) -> list[SourceFile]:
    """Returns the files that the patterns match, sorted by path, each once.

    A pattern is a file, a folder, whose files count at any depth, or a glob. In folders and globs,
    what begins with `.` or `_` is passed over unless the glob says so: such as `_SUCCESS`, which
    says that a folder is complete, and no part of it.

    Args:
        patterns: On this machine or any Beam file system.
        may_be_none: Whether a folder or a glob may hold no file, as a partition without events
            does. The folder before its first wildcard, and before its first part that is named
            `column=value`, must be there all the same.

    Raises:
        NoSuchFile: A file is not there, or a folder or a glob holds none and must hold one.
        InputSchemaError: What is there is a table of a lake (`tables.py`).
        UsageError: A pattern cannot be listed.
    """
    listed: dict[str, Listed] = {}
    looked_into: dict[str, Table | None] = {}  # as many patterns can lie in one folder
    for pattern in patterns:
        if len(pattern) > _LONGEST_PATTERN:
            raise UsageError(f"log {pattern[:80]!r}… is too long; write a list")
        if is_on_this_machine(pattern):
            listing = _listed_here(pattern)
        else:
            from tracecloak.transforms.inputs.remote_files import list_remote_files

            listing = list_remote_files(pattern)
        if not listing.files and not (may_be_none and _may_be_empty(pattern)):
            raise NoSuchFile(f"No such file: {_no_match_message(pattern, may_be_none)}")
        # Tables that hold the root of a listing, as far as the listing did not see them.
        is_here = is_on_this_machine(pattern)
        root = listing.root
        if is_here:  # of links and of `..` the folder that they lead to
            root = os.path.realpath(root or ("/" if pattern.startswith("/") else os.curdir))
        folders = [*([] if listing.is_root_seen else [root]), *parent_folders(root)]
        new = [folder for folder in folders if folder not in looked_into]
        if is_here:
            looked_into.update(_tables_here(new))
        elif new:
            from tracecloak.transforms.inputs.remote_files import remote_tables

            looked_into.update(remote_tables(pattern, new))
        around = [table for folder in folders if (table := looked_into[folder]) is not None]
        check_no_table(pattern, listing.root, listing.files, listing.tables, around)
        listed.update(listing.files)
    return [
        SourceFile(i, path, one.n_bytes, partitions_of(path), one.digest, version=one.version)
        for i, (path, one) in enumerate(sorted(listed.items()))
    ]


def _no_match_message(pattern: str, may_be_none: bool) -> str:
    if first_wildcard(pattern) is not None:
        return f"log {pattern!r} matches no file; correct the glob or its folder"
    if os.path.isdir(pattern):
        return f"log {pattern!r} is a folder without files"
    sentence = f"log {pattern!r} is not there; correct the path"
    if may_be_none and not pattern.endswith("/"):
        sentence += (
            ", or end it with / if it is a partition that may be missing, such as day=2026-11-22/"
        )
    return sentence


def _may_be_empty(pattern: str) -> bool:
    """Returns whether a pattern that matches nothing is a source without cases."""
    is_here = is_on_this_machine(pattern)
    if is_here and os.path.isdir(pattern):
        return True
    wildcard = first_wildcard(pattern)
    if wildcard is None and not pattern.endswith("/"):
        return False
    folder = pattern if wildcard is None else pattern[:wildcard].rpartition("/")[0]
    partition = _PARTITION.search(folder)
    if partition is not None:
        folder = folder[: partition.start()]
    if is_here:
        # In a pattern such as *.csv the folder is that at work; before /*.csv it is the root.
        return os.path.isdir(folder or ("/" if pattern.startswith("/") else os.curdir))
    # There, folders are but the beginnings of names: one is there if anything is in it.
    from tracecloak.transforms.inputs.remote_files import match_remote_files

    return any(match_remote_files(pattern, [f"{folder.rstrip('/')}/**"], 1))


def _listed_here(pattern: str) -> Listing:
    """Lists the files that Beam would find, whose wildcards are not those of a shell."""
    first = first_wildcard(pattern)
    if first is None and not os.path.isdir(pattern):
        is_there = os.path.exists(pattern)
        files = {pattern: Listed(os.path.getsize(pattern))} if is_there else {}
        return Listing(os.path.dirname(pattern), files, is_root_seen=False)
    if first is None:
        pattern = os.path.join(pattern.rstrip("/") or "/", "**")
        first = len(pattern) - 2
    elif pattern.endswith(("/", "\\")):  # what lies in the folders that match
        pattern += "*"
    test = expression(pattern, pattern)
    folder = os.path.dirname(pattern[:first])
    listing = Listing(folder.rstrip("/"))

    def path_of(parent: str, name: str) -> str:
        return os.path.join(parent, name) if folder else os.path.relpath(f"{parent}/{name}")

    for parent, folders, names in os.walk(folder or os.curdir):
        for name in [*folders]:
            if name in FOLDERS:
                listing.note(f"{path_of(parent, name)}/")
            if is_skipped(f"/{name}", "", pattern[len(folder) :]):
                folders.remove(name)
        for name in names:
            path = path_of(parent, name)
            listing.note(path)
            is_file = test.fullmatch(path) and os.path.isfile(path)
            if is_file and not is_skipped(path, folder, pattern):
                listing.files[path] = Listed(os.path.getsize(path))
    return listing


def _tables_here(folders: Sequence[str]) -> dict[str, Table | None]:
    tables: dict[str, Table | None] = {}
    for folder in folders:
        marks = [f"{folder}/{name}/" for name in FOLDERS if os.path.isdir(f"{folder}/{name}")]
        with contextlib.suppress(OSError):  # it is not there, or not for this user to see
            marks += [f"{folder}/metadata/{name}" for name in os.listdir(f"{folder}/metadata")]
        tables[folder] = next(filter(None, map(table_of_marker, marks)), None)
    return tables


def open_source(file: SourceFile) -> BinaryIO:
    """Opens a file for reading, decompressed if the ending of its name says so.

    Beam's own decompression takes a file that ends too early for a whole one, so it is not used.
    """
    packed = open_packed(file)
    _, codec = unpacked(file.path)
    if codec is None:
        return packed
    return io.BufferedReader(DecompressedStream(packed, codec), buffer_size=1 << 18)


def open_packed(file: SourceFile) -> BinaryIO:
    """Opens a file for reading as it lies there.

    One that was listed with a version is read as that version, or ends with a RetryLater.
    """
    if file.version is None:
        return open_raw(file.path)
    from tracecloak.transforms.inputs.stores import open_version

    return open_version(file.path, file.version, file.n_bytes)


def position_in(stream: BinaryIO) -> int:
    """Returns how many bytes of a file were read, as they lie there, of one that is open.

    Args:
        stream: What `open_source` returned.
    """
    packed: BinaryIO = getattr(getattr(stream, "raw", None), "packed", stream)
    return packed.tell()
