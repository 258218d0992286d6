"""The bytes of an XES file, in an encoding that expat reads, which can be given back."""

from __future__ import annotations

import codecs
from typing import BinaryIO

from tracecloak.transforms.formats.base import marked_as, read_fully

# A character that XML forbids, in place of what the encoding does not have.
_MARKS = marked_as("tracecloak.no-character", "\uffff")
_BYTES_OF_CODE_UNITS = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}


class Source:
    """The bytes of a file, UTF-16 as UTF-8, which can be given back.

    So its ASCII characters are single bytes, as they are in any other encoding that expat reads.

    Attributes:
        encoding: That of the bytes, if it is not the one that the file declares.
    """

    def __init__(self, stream: BinaryIO) -> None:
        first = read_fully(stream.read, 2)
        codec = _BYTES_OF_CODE_UNITS.get(first)
        self.encoding = None if codec is None else "utf-8"
        self._stream = stream
        self._decoder = None if codec is None else codecs.getincrementaldecoder(codec)(_MARKS)
        self._held, self._at = self._decoded(first), 0

    def _decoded(self, data: bytes) -> bytes:
        return data if self._decoder is None else self._decoder.decode(data, not data).encode()

    def read(self, size: int) -> bytes:
        """Returns some bytes, mostly as many as asked for; none at the end."""
        while self._at == len(self._held):
            piece = self._stream.read(size)
            if self._decoder is None:
                return piece
            self._held, self._at = self._decoded(piece), 0
            if not piece:
                break
        data = self._held[self._at : self._at + size]
        self._at += len(data)
        return data

    def unread(self, data: bytes) -> None:
        """Lets bytes come again."""
        self._held, self._at = data + self._held[self._at :], 0
