"""Large values between stages, in chunks: no element of a pipeline grows with the log.

A runner sorts, copies and sends elements one by one, each in memory as a whole and, on some, within
a buffer that many stages share: Flink refuses an element that does not fit with "Record too large".
So statistics and decisions of a whole log travel as chunks of their wire form, and the worker that
needs a value puts its chunks together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.transforms.arrow_coder import pack, unpack

# Name of the value, the chunk's number in it from 0, how many there are, and its bytes.
Chunk = tuple[bytes, int, int, bytes]
# The same type in Beam's own words. Where Beam has to translate a hint, it takes different coders
# at different places, and an element is then decoded as something else.
CHUNK = convert_to_beam_type(Chunk)

CHUNK_BYTES = 1 << 20


# Values that are in use in this process, by the names of their chunks. Each stage that needs a
# decision has it from here; else every one would hold a copy, and what it worked out of that.
_IN_USE: WeakValueDictionary[bytes, Any] = WeakValueDictionary()


def cut(value: Any) -> Iterator[Chunk]:
    """Yields a columnar value in chunks of at most CHUNK_BYTES; equal values stay apart."""
    message = pack(encode(value))
    give_back()
    name = uuid.uuid4().bytes
    firsts = range(0, len(message), CHUNK_BYTES)
    for number, first in enumerate(firsts):
        yield name, number, len(firsts), message[first : first + CHUNK_BYTES]


def give_back() -> None:
    """Returns to the system what Arrow keeps of memory that it took for a large value."""
    pa.default_memory_pool().release_unused()


def whole(chunks: Iterable[Chunk]) -> Iterator[Any]:
    """Yields each value whose chunks are given, in any order, as soon as it is complete.

    Raises:
        ValueError: A value lacks a chunk.
    """
    open_values: dict[bytes, dict[int, bytes]] = {}
    for name, number, n_chunks, part in chunks:
        parts = open_values.setdefault(name, {})
        parts[number] = part
        if len(parts) == n_chunks:
            del open_values[name]
            yield _value(name, [parts[i] for i in range(n_chunks)])
    if open_values:
        raise ValueError(f"{len(open_values)} values lack chunks: the runner lost some")


def _value(name: bytes, parts: Sequence[bytes]) -> Any:
    """Returns the value of the chunks of a name, the same one as long as somebody has it."""
    value = _IN_USE.get(name)
    if value is None:
        value = _IN_USE[name] = decode(unpack(b"".join(parts)))
    return value


def only(chunks: Iterable[Chunk]) -> Any:
    """Returns the one value whose chunks are given.

    Raises:
        ValueError: They are of no value, or of several.
    """
    (value,) = whole(chunks)
    return value
