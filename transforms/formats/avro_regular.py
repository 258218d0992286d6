"""Records of many Avro blocks as columns, block beside block.

A record of Avro can be found only behind the one before it, but blocks are apart: so the first
records of all blocks are gone through at once, then all second ones, field by field, and only the
places of values are noted. Values are decoded together at the end. What is not as it must be, such
as a length that leads out of its block, is refused as a whole, so that each record can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

# Beside fewer blocks, or where one has so many records more than the others, nothing is gained.
_BLOCKS = 32
_SPREAD = 4
# Of a number of at most 63 bits, as all are but the largest.
_LONG_BYTES = 9
_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
_DTYPES = {"boolean": "?", "float": "<f4", "double": "<f8"}
# Of records within one another there are more or deeper steps: a type can have fields of itself.
_MOST_STEPS = 1_000
_DEPTH = 8
_LAST = 127  # at most, the last byte of a number
_NUMBERS = ("int", "long", "enum")
_TEXTS = ("string", "bytes")


_Begins = Mapping[str, np.ndarray]
"""By wanted field: where the value of a record of each block begins; -1 where it is null."""


class _Irregular(Exception):  # noqa: N818 - no error
    """The blocks are to be read record by record."""


@dataclass(frozen=True)
class Step:
    """A field of the records, in the order of the file.

    Attributes:
        name: What its values are asked for by.
        kinds: The types of its union's branches, or its one type: a plain type's name, the width of
            a fixed one, or the steps of a record.
        is_union: Whether it is a union.
        value: The kind of the values that are wanted; None: they are passed over.
    """

    name: str
    kinds: tuple[Any, ...]
    is_union: bool
    value: Any


def steps_of(
    fields: Sequence[Mapping[str, Any]],
    named: Mapping[str, Any],
    wanted: Mapping[tuple[str, ...], str],
) -> tuple[Step, ...] | None:
    """Returns how the fields of records are gone through, or None if that cannot be known.

    It cannot where a field is a list or a map, there are too many fields of records within one
    another, or a wanted field has values of several types, or enumerated or fixed ones.

    Args:
        fields: Of the schema that the file was written with.
        named: The named types in it.
        wanted: What fields are asked for by, by the names that lead to them.
    """
    n_steps = 0

    def of(fields: Sequence[Mapping[str, Any]], above: tuple[str, ...]) -> tuple[Step, ...] | None:
        nonlocal n_steps
        n_steps += len(fields)
        if above and (n_steps > _MOST_STEPS or len(above) > _DEPTH):
            return None
        steps = []
        for field in fields:
            names = (*above, field["name"])
            is_union = isinstance(field["type"], list)
            branches = field["type"] if is_union else [field["type"]]
            kinds = tuple(kind(definition(branch, named), names) for branch in branches)
            if None in kinds:
                return None
            value = None
            if names in wanted:
                present = [one for one in kinds if one != "null"]
                if len(present) != 1 or present[0] not in (*_WIDTHS, "int", "long", "string"):
                    return None
                value = present[0]
            steps.append(Step(wanted.get(names, ""), kinds, is_union, value))
        return tuple(steps)

    def kind(schema: Mapping[str, Any], names: tuple[str, ...]) -> Any:
        name = schema["type"]
        if name == "fixed":
            return int(schema["size"])
        if name == "record":
            return of(schema["fields"], names)
        return name if name in ("null", *_NUMBERS, *_TEXTS, *_WIDTHS) else None

    return of(fields, ())


def definition(branch: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a type that may be given by its name."""
    return named.get(branch, {"type": branch}) if isinstance(branch, str) else branch


def record_of(schema: Any, named: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the record that a type is, or that it is unless it is null; None: it is another."""
    branches = schema if isinstance(schema, list) else [schema]
    present = [d for d in (definition(b, named) for b in branches) if d["type"] != "null"]
    return present[0] if len(present) == 1 and present[0]["type"] == "record" else None


def read_regular(
    steps: Sequence[Step], blocks: Sequence[bytes], n_records: Sequence[int]
) -> dict[str, pa.Array] | None:
    """Returns the wanted values of all records, or None if the blocks are not regular.

    Args:
        steps: Of the fields.
        blocks: What each block holds, unpacked; together less than 2 GiB.
        n_records: How many records it holds.

    Returns:
        By field, in the order of the records: string, int64, float32, float64 or bool, null where a
        union has null.
    """
    counts = np.array(n_records)
    lengths = np.array([len(block) for block in blocks])
    if len(blocks) < _BLOCKS or counts.min() < 0 or (counts > lengths).any():
        return None
    if not 0 < counts.max() * len(blocks) <= _SPREAD * counts.sum():
        return None
    data = b"".join(blocks)
    try:
        return _columns(steps, data, lengths, counts)
    except (_Irregular, IndexError):  # a place beyond the last block
        return None


def _columns(
    steps: Sequence[Step], data: bytes, lengths: np.ndarray, counts: np.ndarray
) -> dict[str, pa.Array]:
    octets = np.frombuffer(data, np.uint8)
    # Blocks with most records come first, so that those which have any left are the first ones.
    order = np.argsort(-counts, kind="stable")
    ends = np.cumsum(lengths)[order]
    places = ends - lengths[order]
    n_left = np.searchsorted(-counts[order], -np.arange(counts.max()), side="left")
    # By wanted field: where the value of each record of each block begins; -1 where it is null.
    kinds = {step.name: step.value for step in _wanted(steps)}
    begins = {name: np.full((counts.max(), len(counts)), -1) for name in kinds}
    for record, n in enumerate(n_left):
        noted = {name: record_begins[record] for name, record_begins in begins.items()}
        at = _behind(octets, places[:n], tuple(steps), np.arange(n), noted)
        if (at > ends[:n]).any():
            raise _Irregular
        places[:n] = at
    if (places != ends).any():
        raise _Irregular
    is_record = np.arange(counts.max()) < counts[:, None]
    back = np.argsort(order)
    return {
        name: _decoded(data, octets, begins[name].T[back][is_record], kind)
        for name, kind in kinds.items()
    }


def _wanted(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        if step.value:
            yield step
        for kind in step.kinds:
            if isinstance(kind, tuple):
                yield from _wanted(kind)


def _behind_field(
    octets: np.ndarray, at: np.ndarray, step: Step, rows: np.ndarray, begins: _Begins
) -> np.ndarray:
    """Returns the places behind fields, and notes where their values begin unless they are null."""
    branch = np.zeros(1, np.int64)
    if step.is_union:
        branch, at = _longs(octets, at)
        if branch.min() < 0 or branch.max() >= len(step.kinds):
            raise _Irregular
    if (branch == branch[0]).all():
        kind = step.kinds[branch[0]]
        if step.value and kind != "null":
            begins[step.name][rows] = at
        return _behind(octets, at, kind, rows, begins)
    behind = at.copy()
    for number in np.unique(branch):
        kind = step.kinds[number]
        which = np.flatnonzero(branch == number)
        if step.value and kind != "null":
            begins[step.name][rows[which]] = at[which]
        behind[which] = _behind(octets, at[which], kind, rows[which], begins)
    return behind


def _behind(
    octets: np.ndarray, at: np.ndarray, kind: Any, rows: np.ndarray, begins: _Begins
) -> np.ndarray:
    """Returns the places behind values of one kind, of records whose blocks are `rows`."""
    if kind == "null":
        return at
    if isinstance(kind, tuple):
        for step in kind:
            at = _behind_field(octets, at, step, rows, begins)
        return at
    if kind in _TEXTS:
        length, at = _longs(octets, at)
        if length.min() < 0 or length.max() > len(octets):
            raise _Irregular
        return at + length
    if kind not in _NUMBERS:
        return at + _WIDTHS.get(kind, kind)
    for _ in range(_LONG_BYTES):
        goes_on = octets[at] > _LAST
        if not goes_on.any():
            return at + 1
        at = at + goes_on
    raise _Irregular


def _longs(octets: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n], the numbers that begin at places, and the places behind them."""
    octet = octets[at]
    number = octet.astype(np.int64)
    goes_on = octet > _LAST
    shift = 0
    while goes_on.any():
        shift += 7
        if shift == 7 * _LONG_BYTES:
            raise _Irregular
        if shift == 7:
            number &= _LAST
        at = at + goes_on
        octet = octets[at]
        number |= np.where(goes_on, (octet & _LAST).astype(np.int64) << shift, 0)
        goes_on &= octet > _LAST
    return (number >> 1) ^ -(number & 1), at + 1


def _decoded(data: bytes, octets: np.ndarray, begins: np.ndarray, kind: str) -> pa.Array:
    """Returns values of one kind by where they begin; null where that is negative."""
    is_null = begins < 0
    at = begins[~is_null]
    if kind == "string":
        length, at = _longs(octets, at)
        # Cut before and behind each text, so that texts and what is between them take turns.
        cuts = np.zeros(2 * len(at) + 2, np.int32)
        cuts[1:-1:2], cuts[2:-1:2], cuts[-1] = at, at + length, len(data)
        parts = pa.StringArray.from_buffers(len(cuts) - 1, pa.py_buffer(cuts), pa.py_buffer(data))
        values = parts.take(pa.array(np.arange(1, len(cuts) - 1, 2)))
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            raise _Irregular from None
    elif kind in _NUMBERS:
        values = pa.array(_longs(octets, at)[0])
    else:
        raw = octets[at[:, None] + np.arange(_WIDTHS[kind])]
        if kind == "boolean" and (raw > 1).any():
            raise _Irregular
        values = pa.array(raw.view(_DTYPES[kind]).ravel())
    if not is_null.any():
        return values
    return values.take(pa.array(np.cumsum(~is_null) - 1, mask=is_null))
