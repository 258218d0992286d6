"""One version of an object as a file that is open for reading, in few requests.

A small object is got whole, once. Of a large one its begin and its end are got, where formats say
what is in it, and then blocks of some MiB. Small objects, begins and ends are remembered by path
and version as long as this process lives, up to a bound: all windows of a night read them from
there. A version does not change, so what is remembered is never stale.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import Any, BinaryIO, cast

from tracecloak.transforms.inputs.stores import read_version

_WHOLE_BYTES = 1 << 20  # objects up to this size are got whole
_END_BYTES = 1 << 16  # as much as Arrow reads first of a file of Parquet
_BLOCK_BYTES = 4 << 20
_N_BLOCKS = 16  # of one object; the columns of a row group are read side by side
_REMEMBERED_BYTES = 128 << 20

Piece = tuple[int, int]


class _Remembered:
    """Pieces of objects, of which those go first that were not asked for longest."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._pieces: OrderedDict[Any, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> bytes | None:
        """Returns a piece; None: it is not there."""
        with self._lock:
            if key in self._pieces:
                self._pieces.move_to_end(key)
            return self._pieces.get(key)

    def put(self, key: Any, data: bytes) -> None:
        """Takes in a piece, and forgets others in its place."""
        with self._lock:
            self._n_bytes += len(data) - len(self._pieces.pop(key, b""))
            self._pieces[key] = data
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= len(self._pieces.popitem(last=False)[1])


_of_process = _Remembered(_REMEMBERED_BYTES)


class _ObjectReader(io.RawIOBase):
    def __init__(self, path: str, version: str, n_bytes: int) -> None:
        self._path = path
        self._version = version
        self._n_bytes = n_bytes
        self._place = 0
        self._blocks = _Remembered(_N_BLOCKS * _BLOCK_BYTES)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._n_bytes}[whence]
        if begin + offset < 0:
            raise ValueError("a place before the first byte")
        self._place = begin + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Reads what is left of the piece that holds the place, and no more than asked for."""
        if self._place >= self._n_bytes:
            return 0
        begin, end = self._piece_at(self._place)
        n = min(len(buffer), end - self._place)
        at = self._place - begin
        buffer[:n] = memoryview(self._got(begin, end))[at : at + n]
        self._place += n
        return n

    def _piece_at(self, place: int) -> Piece:
        last = self._n_bytes - _END_BYTES
        if self._n_bytes <= _WHOLE_BYTES:
            return 0, self._n_bytes
        if place >= last:
            return last, self._n_bytes
        if place < _END_BYTES:
            return 0, _END_BYTES
        block = place // _BLOCK_BYTES * _BLOCK_BYTES
        return max(block, _END_BYTES), min(block + _BLOCK_BYTES, last)

    def _got(self, begin: int, end: int) -> bytes:
        is_block = self._n_bytes > _WHOLE_BYTES and end - begin != _END_BYTES
        remembered = self._blocks if is_block else _of_process
        key = self._path, self._version, begin, end
        data = remembered.get(key)
        if data is None:
            data = read_version(self._path, self._version, begin, end)
            remembered.put(key, data)
        return data


def open_version(path: str, version: str, n_bytes: int) -> BinaryIO:
    """Opens an object as it was when it was listed; nothing is asked of the store yet.

    Args:
        path: Of the object.
        version: What its store told in the listing.
        n_bytes: Its size then.

    Raises:
        RetryLater: Where it is read: it was replaced or deleted since, or the store is away.
        UsageError: Where it is read: this machine may not.
    """
    return cast(BinaryIO, io.BufferedReader(_ObjectReader(path, version, n_bytes), _END_BYTES))
