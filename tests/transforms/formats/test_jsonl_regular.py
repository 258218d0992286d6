"""Lines that are read together come out as those that are read one by one, whatever they hold."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.support.format_streams import share_read_together
from tracecloak.transforms.formats import jsonl
from tracecloak.transforms.formats.jsonl import JsonLinesReader

WANTED = ("c", "a", "n", "nowhere", "o.c", "o.i.n", "o.f")
TEXTS = ["1", "A", "", "é😀", "NaN", "a\tb", "Inf ", "-NaN", "\0", 'q"\\/', "2024-01-01"]
# What a column has in all of its lines, or but for some.
KINDS: list[list[Any]] = [
    TEXTS, [1, -5, 0, 2**62 + 1, None], [1.5, -0.0, 2.0, 1e-7, 12345678.25, None], [1, 2.5, None],
    [2**53 + 1, 1e300, 0.5], [True, False, None], [None], ["x", 1, [1], {"c": "y"}, None],
]  # fmt: skip
ODD = [
    "", " ", "x", "[]", "null", '{"c":"1"}{"c":"2"}', '{"c":"1","c":2}', '{"c":null,"c":"2"}', "{}",
    '{"c":NaN}', '{"c":-NaN}', '{"x":Inf}', '{"x":-Inf }', '{"x":Infinity,"c":"1"}', '{"c":1e999}',
    '{"x":1e999,"c":"a"}', '{"c":"\\ud800"}', '{"c":"a","x":"\\udc00"}', '{"c":"\\ud83d\\ude00"}',
    '{"c":01}', '{"x":-0,"n":-0}', '{"n":1e2}', '{"n":9223372036854775808}', '{"c":"1",}',
    ' {"c":"1"}', '{"x":' + "[" * 200 + "]" * 200 + "}", '{"x":' + "9" * 5000 + "}",
    '{"\\u0063":"k"}', '{"c":"1"} x', '{"c":"1"', "}", '{"c":{"c":"1"}}',
    '{"x":{"c":1,"c":2},"c":"1"}', "{'c':1}", '\ufeff{"c":"1"}', "[", '[{"c":"1"},', "]",
    '{"c":"1"},', '{"o.c":"1"}', '{"o.c":null,"o":{"c":"1"}}', '{"o":{"i.n":"1"}}',
    '{"o":{"i.n":"1","i":{"n":"2"}}}', '{"\\u006f.c":"1","o":{"c":"2"}}',
    '{"o\\u002ec":null,"o":{"c":"2"}}', '{"o":{"c":"1"},"o":{}}', '{"o":{"c":"1","c":null}}',
    '{"o":{"c":"1"},"o":null}', '{"o":null}', '{"o":{"i":null}}', '{"o":1}', '{"o":[{"c":"1"}]}',
    '{"o":{"i":{"n":{}}}}', '{"x":"o.c o.i.n i.n"}',
]  # fmt: skip
BYTES = [
    b'"', b",", b"\n", b"\r", b"{", b"}", b"[", b"]", b":", b"\\", b"\\u", b"-", b"e", b"\0",
    b"\xff", b"9", b".", b" ", b"\t", b"\x0b", b"\xed\xa0\x80", b"}{", b"}\n{", b"null", b"true",
    b"NaN", b"Inf",
]  # fmt: skip


def lines(draw: random.Random) -> bytes:
    """Lines of which most are like each other, and some bytes may be others."""
    oddity = draw.choice([0, 0, 0.02, 0.2])
    kinds = {name: draw.choice(KINDS[:6] * 2 + KINDS) for name in "cany"}
    end = draw.choice(["\n", "\r\n", "\n", " \n"])
    separators = draw.choice([(",", ":"), (", ", ": ")])
    nesting = draw.choice(["", "flat", "nested", "nested"])
    comma = draw.choice(["", "", "", ","])
    texts = []
    for _ in range(draw.randrange(1, 40)):
        row = {name: draw.choice(values) for name, values in kinds.items() if draw.random() < 0.9}
        if nesting == "flat":
            row["o.c"] = row.pop("c", None)
        elif nesting:
            inner = {"n": row.pop("n", None), "z": {"c": 1}}
            row["o"] = {"c": row.pop("c", None), "i": inner, "x": [1, {"c": 2}], "f": row.get("a")}
        text = json.dumps(row, ensure_ascii=draw.random() < 0.5, separators=separators)
        texts.append(draw.choice(ODD) if draw.random() < oddity else text + comma)
    data = bytearray((end.join(texts) + draw.choice(["", end])).encode())
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        place = draw.randrange(len(data) + 1)
        data[place : place + draw.randrange(3)] = draw.choice(BYTES)
    return bytes(data)


def test_lines_are_read_alike_both_ways() -> None:
    """Catches any difference of what is malformed, numbered, a number or missing."""
    bounds = {
        "_TRIED_LINES": [1, 2, 8], "_CHUNK_BYTES": [7, 100, 1 << 20],
        "LINE_BYTES": [300, 16 << 20, 16 << 20],
    }  # fmt: skip
    required: list[tuple[str, ...]] = [(), ("n",), ("nowhere",), ("c",)]
    share = share_read_together(
        jsonl, bounds, lambda draw: JsonLinesReader(draw.random() < 0.5), lines, WANTED, required,
        150, 3,
    )  # fmt: skip
    assert share > 0.15
