"""Lines of JSON as columns, by Arrow's parser, where that reads them as Python's does.

Each line is one object, from its first byte to its last, and the values of a wanted column are of
one type. What a path leads to is a key of that name in all lines, or within objects in all. Lines
that are anything else are refused together, so that each can be read by itself: so are those of
which Arrow's parser could accept what Python's does not, or reads as something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from tracecloak.schemas.events.source_column import TYPES, fractions, texts
from tracecloak.transforms.formats.base import Field, field_at, is_utf8

# Within a shorter line no number has more digits than Python reads, and none of its nesting is too
# deep for Python if it has no more brackets than the second number.
_LINE_BYTES = 4_000
_BRACKETS = 100
# What Arrow takes for numbers, and Python does not.
_INF = re.compile(rb"Inf[ \t\r\n,\]}]")
# From it on a float may stand for an integer that it is not.
_EXACT = 2.0**53
# Names in which JSON escapes nothing, unless a writer escapes what it need not.
_PLAIN = re.compile(r"[A-Za-z0-9_.: @-]+")
_ESCAPE = re.compile(rb"\\u00[2-7]")


def types_of(
    objects: Sequence[Mapping[str, Any]], wanted: Mapping[str, Field]
) -> dict[str, pa.DataType] | None:
    """Returns the one type that each column's values have, text if they have none; None: several.

    Integers beside floats are floats.
    """
    types = {}
    for name, field in wanted.items():
        kinds = set(map(type, map(field, objects))) - {type(None)}
        if kinds == {int, float}:
            kinds = {float}
        kind = kinds.pop() if kinds else str
        if kinds or kind not in TYPES:
            return None
        types[name] = TYPES[kind]
    return types


def read_regular(
    lines: bytes, types: Mapping[str, pa.DataType]
) -> dict[str, tuple[pa.Array, np.ndarray]] | None:
    """Returns the columns of lines, or None if these are not regular, or have other types.

    Args:
        lines: Whole lines, less than 2 GiB.
        types: Of the wanted columns, as `types_of` returns them.

    Returns:
        By column: string[n], null where a line has no value, and bool[n], see
        `schemas.events.source_column.fractions`.
    """
    n = _n_objects(lines)
    if not n or not types or not is_utf8(lines):
        return None
    if b"-NaN" in lines or (b"Inf" in lines and _INF.search(lines)):
        return None
    places = {name: _names(lines, name) for name in types}
    schemas = [_schema(places[name], kind) for name, kind in types.items()]
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
        table = arrow_json.read_json(
            pa.BufferReader(lines),
            arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # also of a value that is an object, too
        return None
    # As each line begins and ends as an object does, none has two of them if there are no more.
    if table.num_rows != n:
        return None
    columns = {}
    for name, (top, *inner) in places.items():
        values = pa.concat_arrays(table.column(top).chunks)
        values = pc.struct_field(values, inner) if inner else values
        # A line without the key may have what its path leads to.
        if "." in top and values.null_count and _may_have(lines, top.partition(".")[0], '"'):
            return None
        if pa.types.is_floating(values.type):
            # Also false of what is not finite.
            exact = pc.less(pc.abs(values), _EXACT)
            if not pc.all(exact, min_count=0).as_py() or pc.any(pc.is_nan(values)).as_py():
                return None
        columns[name] = texts(values), fractions(values)
    return columns


def _names(lines: bytes, path: str) -> list[str]:
    """Returns the names that lead to what a path stands for in all lines, unless it is null."""
    names = path.split(".")
    return [path] if _may_have(lines, ".".join(names[-2:])) else names


def _may_have(lines: bytes, name: str, quote: str = "") -> bool:
    """Whether a text can be part of a key; with quotes around it a whole one."""
    if b"\\" in lines and (not _PLAIN.fullmatch(name) or _ESCAPE.search(lines)):
        return True
    return f"{quote}{name}{quote}".encode() in lines


def _schema(names: Sequence[str], kind: pa.DataType) -> pa.Schema:
    """Returns the schema of an object with a value to which names lead."""
    for name in names[:0:-1]:
        kind = pa.struct([(name, kind)])
    return pa.schema([(names[0], kind)])


def _n_objects(lines: bytes) -> int:
    """Returns how many lines there are, if each begins and ends as an object; else 0."""
    octets = np.frombuffer(lines, np.uint8)
    ends = np.flatnonzero(octets == ord("\n"))
    if lines[-1:] != b"\n":
        ends = np.append(ends, len(lines))
    begins = np.append(0, ends[:-1] + 1)
    lengths = ends - begins
    if not len(ends) or lengths.min() < 2 or lengths.max() > _LINE_BYTES:
        return 0
    last = octets[ends - 1]
    last = np.where(last == ord("\r"), octets[ends - 2], last)
    if (octets[begins] != ord("{")).any() or (last != ord("}")).any():
        return 0
    is_bracket = (octets == ord("{")) | (octets == ord("["))
    if np.count_nonzero(is_bracket) > len(ends) + _BRACKETS:
        brackets = np.add.reduceat(is_bracket, begins, dtype=np.int64)
        if brackets.max() > _BRACKETS:
            return 0
    return len(ends)


# --- Messages, each a line ---------------------------------------------------------------------

# A longer message is left out, and lines that are parsed together have so many bytes.
_MOST_BYTES = 1 << 20
_LINES_BYTES = 1 << 24
# If lines are refused, so are the halves of them that are, until there are so few.
_FEWEST = 64

Columns = Mapping[str, tuple[pa.DataType, pa.Array, np.ndarray]]
"""By field: the type of its values, string[n] their texts, bool[n] which are fractions."""


def parsed(data: Sequence[bytes], names: Collection[str]) -> Iterator[tuple[np.ndarray, Columns]]:
    """Parses messages, each an object by itself, together where they are alike.

    What comes out is what `json.loads` gives of each. Whatever may be read in another way is left
    out, for a caller that reads it by itself, as is a message of several lines: then there are
    more lines than messages.

    Args:
        data: [n], the messages.
        names: Fields, or paths to them.

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
    columns = _columns([data[row] for row in rows.tolist()], names)
    if columns is not None:
        yield rows, columns
    elif len(rows) > _FEWEST:
        for half in np.array_split(rows, 2):
            yield from _halved(data, half, names)


def _columns(lines: Sequence[bytes], names: Collection[str]) -> Columns | None:
    """The fields of lines whose types are those of the first; None: some line is another."""
    try:
        first = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    wanted = {name: field_at(name) for name in names}
    types = types_of([first], wanted) if type(first) is dict else None
    read = None if types is None else read_regular(b"\n".join(lines), types)
    if types is None or read is None or len(next(iter(read.values()))[0]) != len(lines):
        return None
    return {name: (types[name], *read[name]) for name in names}
