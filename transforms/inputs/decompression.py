"""Streams of compressed files that say what is wrong with a damaged one in our own words."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from contextlib import closing
from typing import Any, BinaryIO

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError

# Python's own, which also read an empty member, and zeros that fill the last block.
_OPENERS: dict[str, Any] = {"gzip": gzip.open, "bz2": bz2.open}


class DecompressedStream(io.BufferedReader):
    """What a compressed stream holds, also one of several members or frames.

    Attributes:
        packed: The stream as it lies there.
    """

    def __init__(self, raw: BinaryIO, codec: str) -> None:
        """Takes a stream and what it is compressed by, see `transforms.formats.registry.CODECS`."""
        super().__init__(_Raw(raw, codec), buffer_size=1 << 18)
        self.packed = raw


class _Raw(io.RawIOBase):
    def __init__(self, raw: BinaryIO, codec: str) -> None:
        self._raw = raw
        self._codec = codec
        if codec in _OPENERS:
            self._file = _OPENERS[codec](raw)
        else:
            self._file = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
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
        with closing(self._raw):
            super().close()
