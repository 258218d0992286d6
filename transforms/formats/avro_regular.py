"""Records of many Avro blocks as columns, block beside block.

A record of Avro can be found only behind the one before it, but blocks are apart: so the first
records of all blocks are gone through at once, then all second ones, field by field, and only the
places of values are noted. Values are decoded together at the end. What is not as it must be, such
as a length that leads out of its block, is refused as a whole, so that each record can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_LAST = 127  # at most, the last byte of a number
_NUMBERS = ("int", "long", "enum")
_TEXTS = ("string", "bytes")


class _Irregular(Exception):  # noqa: N818 - no error
    """The blocks are to be read record by record."""


@dataclass(frozen=True)
class Step:
    """A field of the records, in the order of the file.

    Attributes:
        name: Of the field.
        kinds: The types of its union's branches, or its one type, as `_kind` has them.
        is_union: Whether it is a union.
        value: The kind of the values that are wanted; None: they are passed over.
    """

    name: str
    kinds: tuple[Any, ...]
    is_union: bool
    value: Any


def steps_of(
    fields: Sequence[Mapping[str, Any]], named: Mapping[str, Any], wanted: Sequence[str]
) -> list[Step] | None:
    """Returns how the fields of records are gone through, or None if that cannot be known.

    It cannot where a field is nested, or a wanted one has values of several types, or enumerated or
    fixed ones.

    Args:
        fields: Of the schema that the file was written with.
        named: The named types in it.
        wanted: Names of the fields whose values are handed over.
    """
    steps = []
    for field in fields:
        is_union = isinstance(field["type"], list)
        branches = field["type"] if is_union else [field["type"]]
        kinds = tuple(_kind(branch, named) for branch in branches)
        if None in kinds:
            return None
        value = None
        if field["name"] in wanted:
            present = [kind for kind in kinds if kind != "null"]
            if len(present) != 1 or present[0] in ("bytes", "enum") or isinstance(present[0], int):
                return None
            value = present[0]
        steps.append(Step(field["name"], kinds, is_union, value))
    return steps


def _kind(branch: Any, named: Mapping[str, Any]) -> Any:
    """Returns a plain type's name, the width of a fixed one, or None for others."""
    schema = named.get(branch, {"type": branch}) if isinstance(branch, str) else branch
    kind = schema["type"]
    if kind == "fixed":
        return int(schema["size"])
    return kind if kind in ("null", *_NUMBERS, *_TEXTS, *_WIDTHS) else None


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
    begins = {step.name: np.full((counts.max(), len(counts)), -1) for step in steps if step.value}
    for record, n in enumerate(n_left):
        at = places[:n]
        for step in steps:
            noted = begins[step.name][record] if step.value else None
            at = _behind_field(octets, at, step, noted)
        if (at > ends[:n]).any():
            raise _Irregular
        places[:n] = at
    if (places != ends).any():
        raise _Irregular
    is_record = np.arange(counts.max()) < counts[:, None]
    back = np.argsort(order)
    return {
        step.name: _decoded(data, octets, begins[step.name].T[back][is_record], step.value)
        for step in steps
        if step.value
    }


def _behind_field(
    octets: np.ndarray, at: np.ndarray, step: Step, begins: np.ndarray | None
) -> np.ndarray:
    """Returns the places behind fields, and notes where their values begin unless they are null."""
    if not step.is_union:
        if begins is not None:
            begins[: len(at)] = at
        return _behind(octets, at, step.kinds[0])
    branch, at = _longs(octets, at)
    if branch.min() < 0 or branch.max() >= len(step.kinds):
        raise _Irregular
    if (branch == branch[0]).all():
        kind = step.kinds[branch[0]]
        if begins is not None and kind != "null":
            begins[: len(at)] = at
        return _behind(octets, at, kind)
    behind = at.copy()
    for number in np.unique(branch):
        kind = step.kinds[number]
        which = np.flatnonzero(branch == number)
        if begins is not None and kind != "null":
            begins[which] = at[which]
        behind[which] = _behind(octets, at[which], kind)
    return behind


def _behind(octets: np.ndarray, at: np.ndarray, kind: Any) -> np.ndarray:
    """Returns the places behind values of one kind."""
    if kind == "null":
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
