"""Finding and opening source files on any Beam file system."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, cast

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tracecloak.schemas.errors import InputSchemaError, UsageError


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


def match_files(patterns: Sequence[str]) -> list[SourceFile]:
    """Returns the files that the patterns match, sorted by path, each once.

    Raises:
        UsageError: A pattern matches nothing.
    """
    sizes: dict[str, int] = {}
    for pattern in patterns:
        try:
            found = FileSystems.match([pattern])[0].metadata_list
        except (BeamIOError, ValueError) as error:
            raise UsageError(
                f"input {pattern!r} cannot be listed: {type(error).__name__}"
            ) from error
        if not found:
            raise UsageError(f"input {pattern!r} matches no file")
        sizes.update({m.path: m.size_in_bytes for m in found})
    return [SourceFile(i, path, sizes[path]) for i, path in enumerate(sorted(sizes))]


def open_source(path: str) -> BinaryIO:
    """Opens a file for reading, decompressed if its name ends in `.gz`.

    Beam's own decompression takes a file that ends too early for a whole one, so it is not used.
    """
    raw = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    return cast(BinaryIO, _Gunzipped(raw) if path.endswith(".gz") else raw)


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
