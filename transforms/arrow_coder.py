"""Coders that move record batches and columnar values as Arrow IPC instead of pickles.

A pickle of five rows sliced from a large batch carries the large batch; the IPC message carries the
five rows. Importing this module registers the coders, so every module that wires a pipeline imports
it; the names of columnar classes come with it.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.schemas.arrays.columnar import decode, encode, narrowed, widened
from tracecloak.schemas.arrays.merging import Mergeable, Statistics, Totals
from tracecloak.schemas.events.traces import TraceBatch


class RecordBatchCoder(beam.coders.Coder):
    """One `pa.RecordBatch` as one IPC stream, its numbers in as few bytes as they need."""

    def encode(self, value: pa.RecordBatch) -> bytes:
        """Returns the batch with its schema; a slice carries its own rows only."""
        narrow, sink = narrowed(value), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, narrow.schema, options=_OPTIONS) as writer:
            writer.write_batch(narrow)
        return sink.getvalue().to_pybytes()

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """Returns the batch."""
        with pa.ipc.open_stream(pa.py_buffer(encoded), options=_READ_OPTIONS) as reader:
            return widened(reader.read_next_batch())

    def estimate_size(self, value: pa.RecordBatch) -> int:
        """Returns the size of the batch's buffers; Beam's own estimate would encode it."""
        return value.nbytes

    def to_type_hint(self) -> type:
        """Returns the element type."""
        return pa.RecordBatch


# The runner owns the threads. Compressed, because a runner copies what is shuffled half a dozen
# times, and holds what several stages see once for each. Kept at module level: inside a pickled
# function it would not pickle.
_OPTIONS = pa.ipc.IpcWriteOptions(use_threads=False, compression="lz4")
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_CODEC = pa.Codec("zstd", 1)
# What a packed message begins with, as no message of Arrow does, and from which size it is packed.
_PACKED = b"\1"
_PACKED_FROM_BYTES = 1 << 16


def pack(message: bytes) -> bytes:
    """Returns a message of `encode` as it travels: compressed if it is large."""
    if len(message) < _PACKED_FROM_BYTES:
        return message
    return _PACKED + len(message).to_bytes(8, "little") + _CODEC.compress(message, asbytes=True)


def unpack(packed: bytes) -> bytes:
    """Returns the message that was packed."""
    if packed[:1] != _PACKED:
        return packed
    n_bytes = int.from_bytes(packed[1:9], "little")
    message: bytes = _CODEC.decompress(memoryview(packed)[9:], n_bytes, asbytes=True)
    return message


class ColumnarCoder(beam.coders.Coder):
    """A columnar value (schemas.arrays.columnar)."""

    def encode(self, value: Any) -> bytes:
        """Returns the value as one IPC stream, packed."""
        return pack(encode(value))

    def decode(self, encoded: bytes) -> Any:
        """Returns the value, on the memory of `encoded` if that is small."""
        return decode(unpack(encoded))

    def estimate_size(self, value: Any) -> int:
        """Returns 0, not known: it feeds a counter only, and Beam's own estimate would encode."""
        return 0


class TotalsCoder(ColumnarCoder):
    """Accumulators of several statistics, each as its merged piece."""

    def __init__(self, kinds: dict[str, type[Mergeable]]) -> None:
        self._kinds = kinds

    def encode(self, value: Totals) -> bytes:
        """Returns the merged statistics."""
        return super().encode(Statistics(value.result()))

    def decode(self, encoded: bytes) -> Totals:
        """Returns accumulators that hold each statistic as their only piece."""
        totals = Totals(self._kinds)
        totals.add(super().decode(encoded).by_name)
        return totals


beam.coders.registry.register_coder(pa.RecordBatch, RecordBatchCoder)
for _kind in (Statistics, TraceBatch):
    beam.coders.registry.register_coder(_kind, ColumnarCoder)
