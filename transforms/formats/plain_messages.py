"""Messages that are plain JSON objects, parsed together.

Nearly all messages of a topic are alike: an object with texts and whole numbers at its top. To
parse thousands of them in one go takes a quarter of the time of one by one. What comes out here is
what `json.loads` gives of each message (`transforms.formats.jsonl_regular`). Whatever may be read
in another way is left out, for a caller that reads it by itself; so no message has a say in what
becomes of another. A message that has several lines is left out as well: then there are more lines
than messages.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from tracecloak.transforms.formats.jsonl_regular import read_regular, types_of

# A longer message is left out, and lines that are parsed together have so many bytes.
_MOST_BYTES = 1 << 20
_LINES_BYTES = 1 << 24
# If lines are refused, so are the halves of them that are, until there are so few.
_FEWEST = 64

Columns = Mapping[str, tuple[pa.DataType, pa.Array, np.ndarray]]
"""By field: the type of its values, string[n] their texts, bool[n] which are fractions."""


def parsed(data: Sequence[bytes], names: Collection[str]) -> Iterator[tuple[np.ndarray, Columns]]:
    """Parses messages.

    Args:
        data: [n], the messages.
        names: Fields at the top of an object.

    Yields:
        (rows int64[m] of messages, ascending; their fields). A text is null where a message has no
        such field. A number in a column of float64 may have been written as a whole one.
    """
    lengths = np.fromiter(map(len, data), np.int64, len(data))
    # Where there are data of Avro between objects, these are parsed together all the same.
    is_object = [line[:1] == b"{" and line[-1:] == b"}" for line in data]
    rows = np.flatnonzero(np.array(is_object, bool) & (lengths <= _MOST_BYTES))
    group = np.cumsum(lengths[rows]) // _LINES_BYTES
    for run in np.split(rows, np.flatnonzero(np.diff(group)) + 1):
        yield from _halved(data, run, names)


def _halved(
    data: Sequence[bytes], rows: np.ndarray, names: Collection[str]
) -> Iterator[tuple[np.ndarray, Columns]]:
    if not len(rows):
        return
    columns = _columns([data[row] for row in rows.tolist()], list(names))
    if columns is not None:
        yield rows, columns
    elif len(rows) > _FEWEST:
        for half in np.array_split(rows, 2):
            yield from _halved(data, half, names)


def _columns(lines: Sequence[bytes], names: Sequence[str]) -> Columns | None:
    """The fields of lines whose types are those of the first; None: some line is another."""
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    types = types_of([first], names) if type(first) is dict else None
    read = None if types is None else read_regular(b"\n".join(lines), types)
    if types is None or read is None or len(read[names[0]][0]) != len(lines):
        return None
    return {name: (types[name], *read[name]) for name in names}
