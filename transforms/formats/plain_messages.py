"""Messages that are plain JSON objects, parsed together by Arrow.

Nearly all messages of a topic are alike: an object with texts and whole numbers at its top. To
parse thousands of them in one go takes a quarter of the time of one by one. What comes out here is
what `json.loads` gives of each message. Whatever Arrow refuses, or may read in another way, is left
out, for a caller that reads it by itself; so no message has a say in what becomes of another.

Lines are parsed one behind the other, and a malformed one must not run into the next. Each of them
begins with a brace and ends with one. If the parser were within an object or an array where a line
ends, a brace would follow a brace there, which is an error; and a text has no line break. So every
line ends outside of all objects, and as there are as many objects as lines, each has one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

# A longer message is left out, and lines that are parsed together have so many bytes.
_MOST_BYTES = 1 << 20
_LINES_BYTES = 1 << 24
# If lines are refused, so are the halves of them that are, until there are so few.
_FEWEST = 64
# In a longer message a number can have more digits than Python reads, or objects can be within one
# another more deeply.
_SHORT_BYTES = 640
_MOST_OPENED = 200
_LONG_NUMBER = re.compile(rb"[0-9]{640}")
_TYPES = {str: pa.string(), type(None): pa.string(), int: pa.int64(), float: pa.float64()}


def parsed(
    data: Sequence[bytes], names: Collection[str], fractional: Collection[str]
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Parses messages.

    Args:
        data: [n], the messages.
        names: Fields at the top of an object.
        fractional: Those in which numbers may have a fraction.

    Yields:
        (rows int64[m] of messages, ascending; their fields by name). A column is text, int64, or
        float64 where it is fractional, and null where the message has no such field. A number in a
        column of float64 may have been written as a whole one, of any size.
    """
    lengths = np.fromiter(map(len, data), np.int64, len(data))
    rows = np.flatnonzero((lengths >= 2) & (lengths <= _MOST_BYTES))
    group = np.cumsum(lengths[rows]) // _LINES_BYTES
    for run in np.split(rows, np.flatnonzero(np.diff(group)) + 1):
        is_alike = _alike([data[row] for row in run.tolist()])
        yield from _halved(data, run[is_alike], names, fractional)


def _halved(
    data: Sequence[bytes], rows: np.ndarray, names: Collection[str], fractional: Collection[str]
) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    if not len(rows):
        return
    columns = _columns([data[row] for row in rows.tolist()], names, fractional)
    if columns is not None:
        yield rows, columns
    elif len(rows) > _FEWEST:
        for half in np.array_split(rows, 2):
            yield from _halved(data, half, names, fractional)


def _columns(
    lines: Sequence[bytes], names: Collection[str], fractional: Collection[str]
) -> pa.RecordBatch | None:
    """The fields of lines whose types are those of the first; None: some line is another."""
    try:
        first = json.loads(lines[0])
        types = {name: _TYPES[type(first.get(name))] for name in names}
    except (ValueError, RecursionError, KeyError):
        return None
    if any(types[name] == pa.float64() for name in names if name not in fractional):
        return None
    joined = b"\n".join(lines)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(joined),
            arrow_json.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            arrow_json.ParseOptions(
                explicit_schema=pa.schema(types), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    return table.select(list(types)).combine_chunks().to_batches()[0]


def _alike(lines: Sequence[bytes]) -> np.ndarray:
    """bool[n]: which lines Arrow reads as `json.loads` does, or refuses."""
    if not lines:
        return np.zeros(0, bool)
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    joined = b"\n".join(lines)
    starts = np.cumsum(lengths + 1) - (lengths + 1)
    flat = np.frombuffer(joined, np.uint8)
    is_alike = (flat[starts] == ord("{")) & (flat[starts + lengths - 1] == ord("}"))
    others = [*_places(joined, b"\0"), *_bare(joined, b"Inf"), *_bare(joined, b"NaN")]
    is_alike[np.searchsorted(starts, np.array(others, np.int64), "right") - 1] = False
    for row in np.flatnonzero(lengths > _SHORT_BYTES).tolist():
        line = lines[row]
        n_opened = line.count(b"{") + line.count(b"[")
        is_alike[row] &= n_opened <= _MOST_OPENED and _LONG_NUMBER.search(line) is None
    if not _is_utf8(joined):
        is_alike &= np.fromiter(map(_is_utf8, lines), bool, len(lines))
    return is_alike


def _places(joined: bytes, text: bytes) -> Iterator[int]:
    """Where a text is in others."""
    at = joined.find(text)
    while at >= 0:
        yield at
        at = joined.find(text, at + 1)


def _bare(joined: bytes, word: bytes) -> Iterable[int]:
    """Where a word can be a number, of which Python and Arrow know other ones."""
    return (at for at in _places(joined, word) if joined[at - 1] in b":,[- \t\r\n")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
