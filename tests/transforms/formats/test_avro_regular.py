"""Blocks that are read beside each other come out as records that are read one by one."""

from __future__ import annotations

import io
import math
import random
from typing import Any

import fastavro
import numpy as np
import pytest

from tests.support.format_streams import share_read_together
from tracecloak.transforms.formats import avro, avro_regular
from tracecloak.transforms.formats.avro import AvroReader
from tracecloak.transforms.formats.avro_regular import Step

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


def test_blocks_are_read_alike_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches any difference of what is damaged, malformed, null or typed."""
    monkeypatch.setattr(avro_regular, "_BLOCKS", 1)
    bounds = {"BLOCK_BYTES": [100, 5_000, 256 << 20], "_GROUP_BYTES": [1, 200, 16 << 20]}
    share = share_read_together(
        avro, bounds, lambda draw: AvroReader(draw.random() < 0.5), container, WANTED, [()], 150, 5
    )
    assert share > 0.1


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
