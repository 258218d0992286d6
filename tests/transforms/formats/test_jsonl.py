"""JSON lines: worked examples, malformed lines, types, bounded memory, and the way back."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.format_streams import Trickle, read_all, rows_of, share_read_together, written_by
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import jsonl
from tracecloak.transforms.formats.jsonl import JsonLinesReader, JsonLinesWriter


def read(
    source: Any,
    wanted: Sequence[str] = ("c", "a", "t"),
    required: Sequence[str] = ("c",),
    batch_rows: int = 1000,
) -> tuple[list[dict[str, Any]], list[int], list[int]]:
    """Returns the rows, their record numbers and the malformed ones."""
    batches, records, malformed = read_all(JsonLinesReader(), source, wanted, required, batch_rows)
    return [row for batch in batches for row in batch.to_pylist()], records, malformed


GOOD = b'{"c":"x"}\n'

EXAMPLES: dict[str, tuple[bytes, list[Any], list[int]]] = {
    "strings": (b'{"c":"1","a":"A"}\n{"a":"B","c":""}\n', [("1", "A"), ("", "B")], []),
    "no line break at the end": (b'{"c":"1"}', ["1"], []),
    "CRLF, blanks around and blank lines": (
        b' {"c":"1"} \r\n\r\n \t\n{"c":"2"}\t\r\n', ["1", "2"], [],
    ),
    "byte order mark": (b'\xef\xbb\xbf{"c":"1"}\n', ["1"], []),
    "escapes": (b'{"c":"\\u00e9\\ud83d\\ude00\\n\\u0000"}\n', ["é😀\n\0"], []),
    "separators that are no line breaks": ('{"c":"\u2028\x85"}\n'.encode(), ["\u2028\x85"], []),
    "text like null": (b'{"c":"NA"}\n{"c":"null"}\n{"c":null}\n', ["NA", "null", None], []),
    "a key twice: the last counts": (b'{"c":"1","c":"2"}\n', ["2"], []),
    "nested values elsewhere": (b'{"x":{"c":[1]},"c":"1","y":[NaN, 1e999]}\n', ["1"], []),
    "no JSON": (b"x\n" + GOOD + b"{\n{]\n{'c':1}\n", ["x"], [0, 2, 3, 4]),
    "no object": (b"1\nnull\n[]\n" + GOOD + b'"c"\n[[{"c":1}]]\n', ["x"], [0, 1, 2, 4, 5]),
    "an array of one object a line": (
        b'[\n{"c":"1"},\n {"c":"2"} ,\r\n{"c":"3"}\n ] \n', [*"123"], [],
    ),
    "its brackets beside objects": (b'[{"c":"1"},\n\n{"c":"2"}]\n[ {"c":"3"} ]\n', [*"123"], []),
    "its commas before them": (b'[\n{"c":"1"}\n,{"c":"2"}\n, {"c":"3"}\n]\n', [*"123"], []),
    "more of them than one": (
        b'],\n[[\n,\n[]\n{"c":"1"},,\n{"c":"2"},{"c":"3"},\n' + GOOD, ["x"], [*range(6)],
    ),
    "two objects on a line": (b'{"c":"1"}{"c":"2"}\n' + GOOD + b'{"c":"1"} x\n', ["x"], [0, 2]),
    "invalid UTF-8": (b'{"c":"\xff"}\n' + GOOD + b'{"c":"x","z":"\xc3"}\n', ["x"], [0, 2]),
    "half a surrogate pair": (b'{"c":"\\ud800"}\n' + GOOD, ["x"], [0]),
    "half a pair elsewhere": (b'{"c":"x","z":"\\ud800"}\n', ["x"], []),
    "nested wanted value": (b'{"c":{}}\n' + GOOD + b'{"c":"y","a":[1]}\n', ["x"], [0, 2]),
    "not finite": (
        b'{"c":NaN}\n{"c":-Infinity}\n{"c":1e999}\n{"c":"x","a":NaN}\n' + GOOD, ["x"], [*range(4)],
    ),
    "huge integers": (
        b'{"c":9223372036854775808}\n{"c":' + b"9" * 5000 + b"}\n" + GOOD,
        ["9223372036854775808", "x"],
        [1],  # has more digits than Python reads
    ),
    "deep nesting": (b'{"c":' + b"[" * 100_000 + b"\n" + GOOD + b'{"x":' * 100_000, ["x"], [0, 2]),
    "NUL": (b"\0\n" + GOOD + b'{"c":"\0"}\n', ["x"], [0, 2]),
    "no lines": (b"", [], []),
    "blank lines only": (b"\n\r\n \n", [], []),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_example(name: str) -> None:
    for batch_rows in [1, 2, 1000]:
        data, expected, malformed = EXAMPLES[name]
        rows, records, bad = read(data, batch_rows=batch_rows)
        got = [(r["c"], r["a"]) if "a" in r else r["c"] for r in rows]
        assert (got, bad) == (expected, malformed), batch_rows
        assert sorted([*records, *bad]) == list(range(len(expected) + len(malformed))), batch_rows


def test_no_value_of_an_order_makes_a_record_malformed() -> None:
    rows = [{"e": {"n": 1}}, {"e": {"n": [1]}}, {"e": 5}, {"e.n": {}}, {"e": {"n": "x"}}]
    data = "".join(json.dumps({"c": "1", **row}) + "\n" for row in rows).encode()
    (batch,) = JsonLinesReader(order="e.n").read(io.BytesIO(data), ["c", "e.n"], ["c"], 9)
    assert batch.columns["e.n"].to_pylist() == ["1", None, None, None, "x"]
    assert not len(batch.malformed)


def test_names_are_those_of_scalars_with_their_paths() -> None:
    rows = [
        {"ts": 1, "case": {"id": 1, "who": {"age": 2}, "tags": [{"x": 1}]}, "list": []},
        {"a.b": {"c": 1}, "": {"": 3}, "none": None, "case": {"id.x": 5}},
        {"many": {f"k{i}": i for i in range(5000)}},
    ]
    data = "\n".join(["[", *map(json.dumps, rows), "]"]).encode()
    assert "none" not in JsonLinesReader().names_in(io.BytesIO(data), 1)
    names = JsonLinesReader().names_in(io.BytesIO(data), 10)
    assert names[:6] == ["ts", "case.id", "case.who.age", "none", ".", "case.id.x"]
    assert names[6:] == [f"many.k{i}" for i in range(994)]
    found: Any = data
    for _ in range(3000):
        found = b'{"x":' + found + b"}" if found is not data else b'{"x":1}'
    names = JsonLinesReader().names_in(io.BytesIO(found), 10)
    assert names == []  # deeper than Python reads, or than any list goes
    with pytest.raises(InputSchemaError, match=r"no column 'case\.name'; its columns are"):
        read(data, ["case.name"], ["case.name"])
    with pytest.raises(InputSchemaError, match=r"no column 'ts\.x'"):
        read(b'{"ts": 1}', ["ts.x"], ["ts.x"])


# --- A document -----------------------------------------------------------------------------------


def read_document(
    data: bytes, goes_on: bool = False, step: int = 1 << 20
) -> tuple[list[Any], list[int]]:
    """Returns the values of the column v, in the order of their records, and the malformed ones."""
    values: dict[int, Any] = {}
    malformed: list[int] = []
    stream = Trickle(b"", iter([data, b""]).__next__, step)
    for batch in JsonLinesReader(goes_on, is_document=True).read(stream, ["v"], ["v"], 7):
        values.update(zip(batch.records.tolist(), batch.columns["v"].to_pylist(), strict=True))
        malformed += batch.malformed.tolist()
    assert sorted([*values, *malformed]) == list(range(len(values) + len(malformed)))
    return [values[n] for n in sorted(values)], sorted(malformed)


# Signs that mean something to JSON, in texts as well.
_TEXTS = st.text(st.sampled_from('"\\{}[],: \n\r\tné\u2028\x00')) | st.text()
_VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.fixed_dictionaries({"v": _TEXTS}, optional={"x": _VALUES, "y": _VALUES})
_SCALARS = st.none() | st.integers() | _TEXTS


@settings(deadline=None)
@given(
    st.lists(_OBJECTS | _SCALARS, min_size=1, max_size=9),
    st.sampled_from([None, 0, 1, "\t"]),
    st.sampled_from(["array", "", "\n", " ", ",\n", "\r\n"]),
    st.booleans(),
    st.sampled_from([1, 3, 50, 1 << 20]),
)
def test_a_document_is_what_python_reads(
    values: list[Any], indent: Any, between: str, escapes: bool, step: int
) -> None:
    values = [*values, {"v": "last"}]
    if between == "array":
        text = json.dumps(values, indent=indent, ensure_ascii=escapes)
    else:  # the end of a number can only be told by what is behind it
        values = [one for one in values if between or type(one) is dict]
        text = between.join(json.dumps(v, indent=indent, ensure_ascii=escapes) for v in values)
    expected = [one["v"] for one in values if type(one) is dict]
    malformed = [n for n, one in enumerate(values) if type(one) is not dict]
    for mark in (b"", b"\xef\xbb\xbf"):
        assert read_document(mark + text.encode(), step=step) == (expected, malformed)


@pytest.mark.parametrize(
    ("text", "expected", "malformed"),
    [
        ('[{"v":"1"},{"v":},{"v":"2"}]', ["1", "2"], [1]),
        ('[{"v":"1"},{"v" "x"},{"v":"2"}}, {"v":"3"}]', ["1", "3"], [1, 2]),
        # An open quote ends with its line.
        (
            '[{"v":"1"},\n{"v":"x},\n{"v":"2"},\n{"w":{"v":"x},\n"y":1},{"v":"3"}]',
            ["1", "2", "3"], [1, 3, 4],
        ),
        ('[{"v":"1", "x": [1}, {"v":"2"}]', ["2"], [0]),
        ('[[{"v":"1"}], [[{"v":"2"}]]][{"v":"3"}]', ["1", "2", "3"], []),
        ('[1, "a { b", {"v":"1"}, nonsense, {"v":"2"} x]', ["1", "2"], [0, 1, 3, 5]),
        ('{"v":"1"}{"v":"2"}\n\n{"v":\n"3"}', ["1", "2", "3"], []),
        ("[]{}", [], []),
        ('{"events":[{"v":"1"}],"v":"x"}', ["x"], []),
    ],
)  # fmt: skip
def test_a_damaged_object_is_a_malformed_record(
    text: str, expected: list[str], malformed: list[int]
) -> None:
    for step in (1, 1 << 20):
        values, bad = read_document(text.replace("{}", '{"v":null}').encode(), step=step)
        assert (values, bad) == (expected or [None], malformed)


def test_a_document_that_is_cut_off_is_an_error_unless_reading_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = b'[{"v":"1"}, {"v":"2", "x":[1]}, {"v":"3"}]'
    for end in range(11, len(whole)):
        with pytest.raises(InputSchemaError, match="damaged or cut off"):
            read_document(whole[:end])
        values, malformed = read_document(whole[:end], goes_on=True)
        assert values == ["1", "2", "3"][: len(values)] and len(malformed) <= 1
        assert "an object or array is open" in caplog.messages[-1]
    deep = (
        b'[{"v":' + b'[{"a":' * 200_000 + b"1",
        b'[{"v":"1","x":' + b"[" * 200_000 + b'}, {"v":"2"}]',
    )
    assert read_document(deep[0] + b"}]" * 200_000 + b'}, {"v":"2"}]') == (["2"], [0])
    assert read_document(deep[1]) == (["2"], [0])


def test_long_lines_are_malformed_and_not_held() -> None:
    def line(length: int) -> bytes:
        return b'{"c":"' + b"x" * (length - 8) + b'"}'

    with mock.patch.object(jsonl, "LINE_BYTES", 1000), mock.patch.object(jsonl, "_CHUNK_BYTES", 64):
        data = b"\n".join([line(1000), line(1001), GOOD, line(5000), line(9), line(70_000)])
        rows, records, malformed = read(data)
        assert [len(row["c"]) for row in rows] == [992, 1, 1]
        assert (records, malformed) == ([0, 2, 4], [1, 3, 5])

    pieces = iter([GOOD, b'{"c":"', *[b"x" * (1 << 20)] * 40, b'"}\n' + GOOD])
    with mock.patch.object(jsonl, "_parse", wraps=jsonl._parse) as parse:
        rows, records, malformed = read(Trickle(b"", lambda: next(pieces, b""), 1 << 20))
    assert (len(rows), records, malformed) == (2, [0, 2], [1])
    assert max(len(call.args[0]) for call in parse.call_args_list) < 100


# --- regular lines --------------------------------------------------------------------------------


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
        "_TRIED_LINES": [1, 2, 8], "_MAX_APART": [1, 8], "_CHUNK_BYTES": [7, 100, 1 << 20],
        "LINE_BYTES": [300, 16 << 20, 16 << 20],
    }  # fmt: skip
    required: list[tuple[str, ...]] = [(), ("n",), ("nowhere",), ("c",)]
    share = share_read_together(
        jsonl, bounds, lambda draw: JsonLinesReader(draw.random() < 0.5), lines, WANTED, required,
        100, 3,
    )  # fmt: skip
    assert share > 0.15


def test_written_bytes() -> None:
    data = written_by(JsonLinesWriter, rows_of(("1", 'é "A"\n', 0), ("", "\u2028", -1)))
    assert data.decode().split("\n") == [
        r'{"case_id":"1","activity":"é \"A\"\n","timestamp":"1970-01-01T00:00:00.000000+00:00"}',
        '{"case_id":"","activity":"\u2028","timestamp":"1969-12-31T23:59:59.999999+00:00"}',
        "",
    ]
