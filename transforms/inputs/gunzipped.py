"""Streams of gzip that say what is wrong with a damaged file in our own words."""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import closing
from typing import BinaryIO

from tracecloak.schemas.errors import InputSchemaError


class Gunzipped(io.BufferedReader):
    """What a gzip stream holds.

    Attributes:
        packed: The stream as it lies there.
    """

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(_Raw(raw), buffer_size=1 << 18)
        self.packed = raw


class _Raw(io.RawIOBase):
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
