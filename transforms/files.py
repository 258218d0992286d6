"""Finding and opening files: this machine's without Beam, and those of its file systems with it."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tracecloak.schemas.errors import InputSchemaError, UsageError

_SCHEME = re.compile(r"\s*[a-zA-Z][-a-zA-Z0-9+.]*://")
# What stands for other characters in a pattern: as in Beam, ? is any one, a slash too.
_WILDCARD = re.compile(r"\*\*|\*|\?|\[!?+\]?+[^\]]*+\]")


@dataclass(frozen=True)
class SourceFile:
    """One input file.

    Attributes:
        rank: Its place in the sorted list of all inputs, which orders events with equal stamps.
        path: Where it is.
        n_bytes: Its size.
    """

    rank: int
    path: str
    n_bytes: int


def is_on_this_machine(path: str) -> bool:
    """Returns whether a path is one of this machine, and not of another file system of Beam's."""
    return _SCHEME.match(path) is None


def match_files(patterns: Sequence[str]) -> list[SourceFile]:
    """Returns the files that the patterns match, sorted by path, each once.

    Raises:
        UsageError: A pattern matches nothing.
    """
    sizes: dict[str, int] = {}
    for pattern in patterns:
        found = _matched_here if is_on_this_machine(pattern) else _matched_elsewhere
        matched = dict(found(pattern))
        if not matched:
            raise UsageError(f"input {pattern!r} matches no file")
        sizes.update(matched)
    return [SourceFile(i, path, sizes[path]) for i, path in enumerate(sorted(sizes))]


def _matched_here(pattern: str) -> Iterator[tuple[str, int]]:
    """Yields the paths and sizes that Beam would find, whose wildcards are not those of a shell."""
    if pattern.endswith("/"):
        pattern += "*"
    first = re.search(r"[*?[]", pattern)
    if first is None:
        if os.path.exists(pattern):
            yield pattern, os.path.getsize(pattern)
        return
    try:
        test = re.compile(_expression(pattern), re.DOTALL)
    except re.error as error:  # such as [z-a]
        raise UsageError(f"input {pattern!r} cannot be listed: {error}") from None
    folder = os.path.dirname(pattern[: first.start()])
    for parent, _, names in os.walk(folder or os.curdir):
        for name in names:
            path = os.path.join(parent, name) if folder else os.path.relpath(f"{parent}/{name}")
            if test.fullmatch(path) and os.path.isfile(path):
                yield path, os.path.getsize(path)


def _expression(pattern: str) -> str:
    made, end = "", 0
    for wildcard in _WILDCARD.finditer(pattern):
        made += re.escape(pattern[end : wildcard.start()])
        end = wildcard.end()
        sign = wildcard[0]
        if sign.startswith("["):
            inside = sign[1:-1].replace("\\", r"\\")
            mark = {"!": "^", "^": r"\^"}.get(inside[0])
            made += f"[{inside}]" if mark is None else f"[{mark}{inside[1:]}]"
        else:
            made += {"**": ".*", "*": r"[^/\\]*", "?": "."}[sign]
    return made + re.escape(pattern[end:])


def _matched_elsewhere(pattern: str) -> Iterator[tuple[str, int]]:
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    try:
        found = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, ValueError) as error:
        raise UsageError(f"input {pattern!r} cannot be listed: {type(error).__name__}") from error
    yield from ((file.path, file.size_in_bytes) for file in found)


def open_raw(path: str) -> BinaryIO:
    """Opens a file for reading, as it is."""
    if is_on_this_machine(path):
        return Path(path).open("rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def open_source(path: str) -> BinaryIO:
    """Opens a file for reading, decompressed if its name ends in `.gz`.

    Beam's own decompression takes a file that ends too early for a whole one, so it is not used.
    """
    raw = open_raw(path)
    return _Gunzipped(raw) if path.endswith(".gz") else raw


class _Gunzipped(io.BufferedReader):
    """A gzip stream that says what is wrong with a damaged file in our own words."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(_GunzippedRaw(raw), buffer_size=1 << 18)


class _GunzippedRaw(io.RawIOBase):
    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._file = gzip.GzipFile(fileobj=raw, mode="rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            return self._file.readinto(buffer)
        except EOFError as error:
            raise InputSchemaError(
                "the gzip stream ends too early: the file is truncated"
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InputSchemaError("the file is no intact gzip stream") from error

    def close(self) -> None:
        with closing(self._raw):
            super().close()
