"""Lines that are read together come out as those that are read one by one, whatever they hold."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pytest

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import jsonl
from tracecloak.transforms.formats.jsonl import JsonLinesReader
from tracecloak.transforms.formats.jsonl_regular import read_regular

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


def outcome(data: bytes, goes_on: bool, batch_rows: int, required: tuple[str, ...]) -> list[Any]:
    """Everything that a reader says of a file but for where its batches end."""
    rows: dict[int, list[Any]] = {}
    malformed: list[int] = []
    error = None
    try:
        for batch in JsonLinesReader(goes_on).read(io.BytesIO(data), WANTED, required, batch_rows):
            batch.columns.validate(full=True)
            assert len(batch.records) <= batch_rows
            assert batch.columns.num_rows in (len(batch.records), 0)  # without a column
            malformed += batch.malformed.tolist()
            for place, record in enumerate(batch.records.tolist()):
                assert record not in rows
                rows[record] = [
                    (batch.columns[name][place].as_py(), bool(batch.fractional[name][place]))
                    if name in batch.columns.schema.names
                    else (None, False)
                    for name in WANTED
                ]
            for name in batch.columns.schema.names:
                assert name in required or batch.columns[name].null_count < len(batch.records)
    except InputSchemaError as raised:
        error = str(raised)
    return [rows, sorted(malformed), error]


def compare(monkeypatch: pytest.MonkeyPatch, n: int, seed: int) -> float:
    """Compares lines read both ways; returns the share of those with any that were regular."""
    draw = random.Random(seed)
    n_regular = 0
    for _ in range(n):
        data, goes_on = lines(draw), draw.random() < 0.5
        batch_rows = draw.choice([1, 2, 5, 1000])
        required = draw.choice([(), ("n",), ("nowhere",), ("c",)])
        with monkeypatch.context() as patched:
            patched.setattr(jsonl, "_TRIED_LINES", draw.choice([1, 2, 8]))
            patched.setattr(jsonl, "_MAX_APART", draw.choice([1, 8]))
            patched.setattr(jsonl, "_CHUNK_BYTES", draw.choice([7, 100, 1 << 20]))
            patched.setattr(jsonl, "LINE_BYTES", draw.choice([300, 16 << 20, 16 << 20]))
            regular: list[bool] = []

            def noting(*how: Any, regular: list[bool] = regular) -> Any:
                columns = read_regular(*how)
                regular.append(columns is not None)
                return columns

            patched.setattr(jsonl, "read_regular", noting)
            together = outcome(data, goes_on, batch_rows, required)
            patched.setattr(jsonl, "read_regular", lambda *_: None)
            expected = outcome(data, goes_on, batch_rows, required)
            n_regular += any(regular)
        assert together == expected, data
    return n_regular / n


def test_lines_are_read_alike_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches any difference of what is malformed, numbered, a number or missing."""
    assert compare(monkeypatch, 150, 3) > 0.15
