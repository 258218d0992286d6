"""Blocks that are read beside each other come out as records that are read one by one."""

from __future__ import annotations

import io
import math
import random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import avro, avro_regular
from tracecloak.transforms.formats.avro import AvroReader
from tracecloak.transforms.formats.avro_regular import Step, read_regular

TEXTS = ["", "A", "x" * 70, "é😀", "@@", "case 1"]
LONGS = [0, -1, 63, 64, -64, -65, 2**31, 1_700_000_000_000_000, 2**62, -(2**63), 2**63 - 1]
# A type and some of its values.
TYPES: list[tuple[Any, list[Any]]] = [
    ("string", TEXTS),
    ("long", LONGS),
    ("int", [0, -1, 5, 2**31 - 1, -(2**31)]),
    ("double", [0.0, -1.5, math.inf, 1e300]),
    ("float", [0.5, -2.0]),
    ("boolean", [True, False]),
    ("bytes", [b"", b"\0\xff"]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [0, 5, 1_700_000_000_000]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, [0, 1_700_000_000_000_000]),
    ({"type": "int", "logicalType": "date"}, [0, 20_000]),
    ({"type": "fixed", "name": "Fixed", "size": 3}, [b"abc"]),
    ({"type": "enum", "name": "Enum", "symbols": ["a", "b"]}, ["a", "b"]),
    ({"type": "array", "items": "int"}, [[], [1, 2]]),
]
WANTED = ("c", "a", "n", "o.c", "o.i.n", "p.n")


def container(draw: random.Random) -> bytes:
    """A file of some blocks, of which some bytes may be others."""
    fields, values = [], []
    for name, (kind, each) in zip(
        draw.sample("canxyz", draw.randrange(1, 6)), draw.sample(TYPES, 5), strict=False
    ):
        wide = draw.random() < 0.2 and kind == "long"
        branches = draw.choice([[kind], ["null", kind], [kind, "null"]]) + ["string"] * wide
        fields.append({"name": name, "type": kind if branches == [kind] else branches})
        values.append(
            [*each, *([None] if "null" in branches else []), *(TEXTS if wide else [])]
            if draw.random() < 0.8 or "null" not in branches
            else [None]
        )
    n_rows = draw.randrange(1, 60)
    rows: list[Any] = [
        {field["name"]: draw.choice(each) for field, each in zip(fields, values, strict=True)}
        for _ in range(n_rows)
    ]
    if draw.random() < 0.6:
        nest(draw, fields, rows)
    stream = io.BytesIO()
    schema: Any = {"type": "record", "name": "log.Event", "fields": fields}
    codec = draw.choice(["null", "null", "null", "deflate"])
    fastavro.writer(
        stream, schema, rows, codec, sync_interval=draw.choice([1, 50, 300]),
        strict_allow_default=False,
    )  # fmt: skip
    data = bytearray(stream.getvalue())
    head = data.index(b"}") + 40
    for _ in range(draw.choice([0, 0, 1, 2])):
        if head < len(data):
            data[draw.randrange(head, len(data))] = draw.choice([0, 1, 2, 3, 64, 127, 128, 255])
    return bytes(data)


def nest(draw: random.Random, fields: list[Any], rows: list[Any]) -> None:
    """Adds fields within records, of which one type is met twice, and any may be missing."""
    more = [
        {"name": "again", "type": ["null", "log.Inner"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a"]}},
    ]
    inner: Any = {"type": "record", "name": "Inner", "fields": [
        {"name": "z", "type": "string"},
        {"name": "n", "type": draw.choice(["long", ["null", "int"]])},
        *draw.choice([[], more[1:], more]),
    ]}  # fmt: skip
    union = draw.choice([["null"], ["null"], []])
    outer = [{"name": "i", "type": [*union, inner] if union else inner}]
    outer.insert(
        draw.randrange(2), {"name": "c", "type": draw.choice(["string", ["string", "null"]])}
    )
    o = {"type": "record", "name": "Outer", "fields": outer}
    fields.append({"name": "o", "type": draw.choice([o, [o, "null"]])})
    fields.insert(
        len(fields), {"name": "p", "type": draw.choice(["log.Inner", ["null", "log.Inner"]])}
    )
    inside = [
        {"z": "é", "n": 5, "again": None, "kind": "a"},
        {"z": "", "n": 2**31 - 1, "kind": "a"},
    ]
    inside.append({**inside[0], "again": inside[1]})
    for row in rows:
        i = None if union and draw.random() < 0.3 else draw.choice(inside)
        row["o"] = {"c": draw.choice(TEXTS), "i": i}
        row["p"] = draw.choice(inside)
        if isinstance(fields[-2]["type"], list) and draw.random() < 0.3:
            row["o"] = None
        if isinstance(fields[-1]["type"], list) and draw.random() < 0.3:
            row["p"] = None


def outcome(data: bytes, goes_on: bool, batch_rows: int) -> tuple[list[Any], list[int], Any]:
    """Everything that a reader says of a file but for where its batches end."""
    rows: list[Any] = []
    malformed: list[int] = []
    error = None
    try:
        for batch in AvroReader(goes_on).read(io.BytesIO(data), WANTED, (), batch_rows):
            batch.columns.validate(full=True)
            assert len(batch.records) <= batch_rows
            malformed += batch.malformed.tolist()
            columns = [
                (name, str(column.type), [repr(value) for value in column.cast(_shown(column))])
                for name, column in zip(batch.columns.schema.names, batch.columns, strict=True)
            ]
            for place, record in enumerate(batch.records.tolist()):
                rows.append((record, [(n, t, values[place]) for n, t, values in columns]))
    except InputSchemaError as raised:
        error = str(raised)
    return rows, malformed, error


def _shown(column: pa.Array) -> pa.DataType:
    """A type in which every value of the column can be written."""
    if pa.types.is_date32(column.type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(column.type) else column.type


def compare(monkeypatch: pytest.MonkeyPatch, n: int, seed: int) -> float:
    """Compares files read both ways; returns the share of those with any regular blocks."""
    draw = random.Random(seed)
    n_regular = 0
    for _ in range(n):
        data, goes_on = container(draw), draw.random() < 0.5
        batch_rows = draw.choice([1, 5, 1000])
        with monkeypatch.context() as patched:
            patched.setattr(avro_regular, "_BLOCKS", 1)
            patched.setattr(avro, "BLOCK_BYTES", draw.choice([100, 5_000, 256 << 20]))
            patched.setattr(avro, "_GROUP_BYTES", draw.choice([1, 200, 16 << 20]))
            regular: list[bool] = []

            def noting(*how: Any, regular: list[bool] = regular) -> Any:
                columns = read_regular(*how)
                regular.append(columns is not None)
                return columns

            patched.setattr(avro, "read_regular", noting)
            beside = outcome(data, goes_on, batch_rows)
            patched.setattr(avro, "read_regular", lambda *_: None)
            expected = outcome(data, goes_on, batch_rows)
            n_regular += any(regular)
        n_rows = len(expected[0])
        if expected[2] is not None:  # a batch may have left before the damage was met
            n_rows = min(n_rows, len(beside[0]))
        assert (beside[0][:n_rows], *beside[1:]) == (expected[0][:n_rows], *expected[1:]), data
    return n_regular / n


def test_blocks_are_read_alike_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches any difference of what is damaged, malformed, null or typed."""
    assert compare(monkeypatch, 150, 5) > 0.1


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("double", b"\0" * 4),  # the record ends behind its block
        ("double", b"\0" * 12),  # and before the end of it
        ("string", b"\x80" * 12),  # a length without an end
        ("string", b"\x02\xff"),  # no UTF-8
        ("boolean", b"\x02"),
    ],
)
def test_a_block_that_is_not_as_it_must_be_is_left_to_who_reads_record_by_record(
    kind: str, data: bytes
) -> None:
    steps = [Step("a", (kind,), False, kind)]
    with pytest.raises(avro_regular._Irregular):
        avro_regular._columns(steps, data, np.array([len(data)]), np.array([1]))
