"""What formats are read from and written to in tests: streams of bytes, and rows of a release."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tracecloak.schemas.events.events import RELEASED_SCHEMA


class Trickle(io.RawIOBase):
    """A stream that cannot be seeked, gives few bytes a read, and may never end or fail."""

    def __init__(self, head: bytes, more: Callable[[], bytes], step: int = 1 << 16) -> None:
        self._data = head
        self._more = more
        self._step = step
        self.taken = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._data:
            self._data = self._more()
        taken = min(size, self._step)
        data, self._data = self._data[:taken], self._data[taken:]
        self.taken += len(data)
        return data


def rows_of(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows of a released log: a case, an activity and a time each."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    arrays = [pa.array(c, field.type) for c, field in zip(columns, RELEASED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RELEASED_SCHEMA)


def written_by(opened: Callable[[io.BytesIO], Any], *batches: pa.RecordBatch) -> bytes:
    """What a writer makes of batches; it must not close what it writes to."""
    stream = io.BytesIO()
    writer = opened(stream)
    for batch in batches:
        writer.write(batch)
    writer.close()
    assert not stream.closed
    return stream.getvalue()
