"""What a run in memory holds of a log: in memory up to a bound, and beyond it in a file on a disk.

The file has no name, or loses it as soon as it is there, so it ends with the process however that
ends. Only the user of this process could open it. What is in it are records as they were read and
cases as they will be released, neither of them encrypted.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO
from typing import Generic, TypeVar, cast

import pyarrow as pa

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import TracecloakError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

Columns = TypeVar("Columns", pa.RecordBatch, TraceBatch)


class Block(Generic[Columns]):
    """Some columns that a `Hold` has.

    Attributes:
        n_bytes: What they take.
    """

    __slots__ = ("_columns", "_kind", "_place", "n_bytes")

    def __init__(self, columns: Columns) -> None:
        self.n_bytes: int = columns.nbytes
        self._columns: Columns | None = columns
        self._kind: type[Columns] = type(columns)
        self._place = (0, 0)


class Hold:
    """Holds blocks of columns; threads share it.

    Args:
        max_bytes: How many bytes of blocks stay in memory.
        folder: Where the file lies that gets all others; None: where the system has such files.
    """

    def __init__(self, max_bytes: int, folder: str | None) -> None:
        self._max_bytes = max_bytes
        self._folder = folder
        self._n_bytes = 0
        self._file: FileIO | None = None
        self._lock = threading.Lock()

    def put(self, columns: Columns) -> Block[Columns]:
        """Takes in columns.

        Raises:
            TracecloakError: They must go to the disk, which is full or cannot be written.
        """
        block = Block(columns)
        with self._lock:
            fits = self._n_bytes + block.n_bytes <= self._max_bytes
            if fits:
                self._n_bytes += block.n_bytes
        if not fits:
            message = _message(columns)
            block._place = self._write(message), len(message)
            block._columns = None
        return block

    def look(self, block: Block[Columns]) -> Columns:
        """Returns the columns of a block, which stays."""
        if block._columns is not None:
            return block._columns
        first, n_bytes = block._place
        with self._lock:
            assert self._file is not None  # something was put there
            self._file.seek(first)
            parts: list[bytes] = []
            while n_bytes:  # the system reads no more than 2 GiB at once
                parts.append(self._file.read(n_bytes))
                n_bytes -= len(parts[-1])
        message = b"".join(parts)
        if block._kind is TraceBatch:
            return cast(Columns, decode(message))
        with pa.ipc.open_stream(pa.py_buffer(message)) as reader:
            return cast(Columns, reader.read_next_batch())

    def take(self, block: Block[Columns]) -> Columns:
        """Returns the columns of a block, which is held no longer."""
        columns = self.look(block)
        self.drop(block)
        return columns

    def drop(self, block: Block[Columns]) -> None:
        """Holds a block no longer."""
        if block._columns is not None:
            block._columns = None
            with self._lock:
                self._n_bytes -= block.n_bytes

    def _write(self, message: memoryview | bytes) -> int:
        """Returns where in the file a message begins."""
        try:
            with self._lock:
                if self._file is None:
                    # Its mode is 0600, and where the system lets it has no name at any time.
                    self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)
                first = self._file.seek(0, os.SEEK_END)
                left = memoryview(message)
                while left:
                    left = left[self._file.write(left) :]
            return first
        except OSError as error:
            folder = self._folder or tempfile.gettempdir()
            what = "is full" if error.errno == errno.ENOSPC else "cannot be written"
            raise TracecloakError(
                f"what does not fit into memory is put into {folder}, whose disk {what}, and "
                "nothing was released: free some of it, or allow more memory with --memory"
            ) from error

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the file back; nothing that it has can be looked at any more."""
        if self._file is not None:
            self._file.close()


def _message(columns: pa.RecordBatch | TraceBatch) -> pa.Buffer | bytes:
    if isinstance(columns, TraceBatch):
        return encode(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return sink.getvalue()


class HeldTraces:
    """Batches of complete cases, which can be gone through any number of times.

    All have one vocabulary when they come out, whatever they had when they went in.
    """

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._blocks: list[Block[TraceBatch]] = []
        self._vocabulary = ActivityVocabulary.of([])
        self.n_events = 0

    def add(self, traces: TraceBatch, max_bytes: int) -> None:
        """Takes in cases, in batches of about `max_bytes`."""
        for batch in traces.split(max_bytes) if traces.n_cases else ():
            self._blocks.append(self._hold.put(batch))
        if traces.vocabulary is not self._vocabulary:
            self._vocabulary = ActivityVocabulary.merge([self._vocabulary, traces.vocabulary])
        self.n_events += traces.n_events

    def __iter__(self) -> Iterator[TraceBatch]:
        for block in self._blocks:
            yield self._recoded(self._hold.look(block))

    def taken(self) -> Iterable[TraceBatch]:
        """Yields the batches, none of which is held any more."""
        blocks, self._blocks = self._blocks[::-1], []
        while blocks:
            yield self._recoded(self._hold.take(blocks.pop()))

    def drop(self) -> None:
        """Holds none of the batches any more."""
        while self._blocks:
            self._hold.drop(self._blocks.pop())

    def _recoded(self, batch: TraceBatch) -> TraceBatch:
        if batch.vocabulary == self._vocabulary:
            return replace(batch)  # what is computed of it is not kept with it
        return batch.recode(self._vocabulary)
