"""Dialects of CSV: quotes, escapes, comments, titles and `sep=`, as programs export them."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.format_streams import Records, records_of, records_of_pieces
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats import csv as csv_format
from tracecloak.transforms.formats.csv import CsvReader

NAMES = ("case_id", "activity", "timestamp")
HEADER = ",".join(NAMES) + "\n"
BACKSLASH = {"escape_char": "\\"}
MYSQL = {"delimiter": "\t", "quote_char": "none", "header": NAMES, **BACKSLASH}


def read(data: bytes, **options: Any) -> Records | str:
    reader = CsvReader(**options)
    try:
        names = reader.column_names(io.BytesIO(data)) or ()
    except InputSchemaError as error:
        return str(error)
    return records_of(reader, data, names)


def read_in_pieces(data: bytes, n_bytes: int, **options: Any) -> Records | str | None:
    reader = CsvReader(**options)
    return records_of_pieces(reader, data, reader.column_names(io.BytesIO(data)) or (), n_bytes)


def by_characters(
    text: str, delimiter: str, quote: str, escape: str, comment: str | None
) -> list[list[str]] | None:
    """The records of a text, read one character after the other; None: a quote is never closed."""
    ends = {delimiter, quote or escape, escape, "\r", "\n", '"', "'"}
    records: list[list[str]] = []
    fields: list[str] = []
    field, at, state = "", 0, "line"
    while at < len(text):
        sign = text[at]
        if state == "line" and comment is not None and text.startswith(comment, at):
            while at < len(text) and text[at] not in "\r\n":
                at += 1
        elif state == "line" and sign in "\r\n":
            at += 1
        elif escape and sign == escape and text[at + 1 : at + 3] == "\r\n":
            field, at = field + "\r\n", at + 3
            state = "quoted" if state == "quoted" else "plain"
        elif escape and sign == escape and text[at + 1 : at + 2] in ends:
            # What is written as an escape is no NULL.
            field, at = field + ("\0\0" if text[at + 1] == escape else text[at + 1]), at + 2
            state = "quoted" if state == "quoted" else "plain"
        elif state == "quoted":
            if sign != quote:
                field += sign
            elif text[at + 1 : at + 2] == quote:
                field, at = field + quote, at + 1
            else:
                state = "plain"
            at += 1
        elif quote and sign == quote and state in ("line", "field"):
            state, at = "quoted", at + 1
        elif sign in (delimiter, "\r", "\n"):
            fields.append(field)
            field, at, state = "", at + 1, "field"
            if sign != delimiter:
                records.append(fields)
                fields, state = [], "line"
        else:
            field, at, state = field + sign, at + 1, "plain"
    if state == "quoted":
        return None
    if state != "line":
        records.append([*fields, field])
    null = escape + "N" if escape else None
    return [
        ["" if value == null else value.replace("\0\0", escape) for value in record]
        for record in records
    ]


SIGNS = st.sampled_from([
    "a", "\\", "\\", '"', "'", ",", ";", "\n", "\r", "\r\n", "\n#", "#", "/", "\n//", "N", "é",
    "\ufdd0",
])  # fmt: skip


@given(
    st.lists(SIGNS, max_size=40).map("".join),
    st.sampled_from([",", ";"]),
    st.sampled_from(['"', "'", "none"]),
    st.sampled_from([None, "\\", '"']),
    st.sampled_from([None, None, "#", "//", "a"]),
    st.integers(1, 30),
    st.sampled_from([1, 3, 1 << 20]),
)
def test_every_dialect_is_what_its_characters_say(
    text: str,
    delimiter: str,
    quote: str,
    escape: str | None,
    comment: str | None,
    n_bytes: int,
    chunk: int,
) -> None:
    options: Any = {"delimiter": delimiter, "quote_char": quote, "escape_char": escape}
    options |= {"comment": comment, "header": ("x", "y")}
    no_escape = escape is None or escape == quote
    own_quote = "" if quote == "none" else quote
    expected = by_characters(text, delimiter, own_quote, "" if no_escape else str(escape), comment)
    data = text.encode()
    with mock.patch.multiple(csv_format, BLOCK_BYTES=max(8, n_bytes), _CHUNK_BYTES=chunk):
        found = read(data, **options)
        if expected is None:
            assert isinstance(found, str) and "within a quoted field" in found
            return
        rows = {n: tuple(one) if len(one) == 2 else None for n, one in enumerate(expected)}
        assert found == rows
        in_pieces = read_in_pieces(data, n_bytes, **options) if data else None
        assert in_pieces is None if (not no_escape or comment or not data) else in_pieces == rows


# --- As programs write ----------------------------------------------------------------------------

AT = "2024-01-01T10:00:00Z"
LONG = ("twenty characters are", "a long field to Arrow", "xxxxxxxxxxxxxxxx")
EXPORTS: dict[str, tuple[str, dict[str, Any], list[tuple[str, ...]]]] = {
    "text like null and like numbers": (
        HEADER + "NA,null,nan\n,NULL,#N/A\n007,1.0,1e3\n",
        {},
        [("NA", "null", "nan"), ("", "NULL", "#N/A"), ("007", "1.0", "1e3")],
    ),
    "delimiters close behind a NUL, which Arrow's lexer overlooks": (
        HEADER + (",".join(LONG) + "\n") * 4 + "a,\0,x\nb,c\0,d\n",
        {},
        [LONG] * 4 + [("a", "\0", "x"), ("b", "c\0", "d")],
    ),
    "a header in quotes, over two lines": ('"a","b\nc"\n1,A\n', {}, [("1", "A")]),
    "backslashes within quotes": (
        HEADER + "".join(
            f"c,{text},{AT}\n"
            for text in (
                r'"A \"x"', r'"B \"y, z"', '"C"', r'"D \"quoted\", more"', r'"say \""', "F", "G",
            )
        ),
        BACKSLASH,
        [("c", a, AT) for a in ('A "x', 'B "y, z', "C", 'D "quoted", more', 'say "', "F", "G")],
    ),
    "Spark: an escape before a letter is text, one at a field's end is doubled": (
        HEADER + 'C:\\new\\temp,"in C:\\dir, \\"D\\"",x\n"a\\\\",""," y"\n',
        BACKSLASH,
        [("C:\\new\\temp", 'in C:\\dir, "D"', "x"), ("a\\", "", " y")],
    ),
    "MySQL: tabs, line breaks, backslashes, NULL and the text of it": (
        "1\ta\\\tb\tx\n2\ttwo\\\nlines\\\r\nor three\ty\n3\tC:\\\\dir\\\\\t\\N\n\\\\N\tN\t\\N0\n",
        MYSQL,
        [
            ("1", "a\tb", "x"), ("2", "two\nlines\r\nor three", "y"),
            ("3", "C:\\dir\\", ""), ("\\N", "N", "\\N0"),
        ],
    ),
    "three lines of a title, with quotes": (
        f'Report "of\r\n\r\nMarch", by\r\n{HEADER}1,A,x\n', {"skip_lines": 3}, [("1", "A", "x")],
    ),
    "a title and no header line": (
        "of March\n1,A,x\n", {"skip_lines": 1, "header": NAMES}, [("1", "A", "x")],
    ),
    "comments": (
        f'# by "me, \\\n{HEADER}# one\n1,A,x\n2,"two\n# lines",y\n #3,C,z\n# the end',
        {"comment": "#"},
        [("1", "A", "x"), ("2", "two\n# lines", "y"), (" #3", "C", "z")],
    ),
    "comments and escapes": (
        f"#C:\\\n{HEADER}1,A\\\n#x,y\n#,,\n\\#,B,z\n",
        {"comment": "#", **BACKSLASH},
        [("1", "A\n#x", "y"), ("\\#", "B", "z")],
    ),
    "sep=": ("sep=;\ncase_id;activity\nc1;A\n", {}, [("c1", "A")]),
    "sep= of a tab": ("sep=\t\r\ncase_id\tactivity\r\nc1\tA,B\r\n", {}, [("c1", "A,B")]),
    "sep= in quotes, in capitals": ('"SEP=|"\ncase_id|activity\nc1|A\n', {}, [("c1", "A")]),
    "sep= behind a byte order mark": ("\ufeffsep=;\ncase_id;activity\nc1;A\n", {}, [("c1", "A")]),
    "sep= behind a title": ("T\nsep=;\ncase_id;activity\nc1;A\n", {"skip_lines": 1}, [("c1", "A")]),
    "sep= and a header": ("sep=;\nc1;A\n", {"header": ("a", "b")}, [("c1", "A")]),
    "sep= and nothing": ("sep=;", {"header": ("a", "b")}, []),
    "a declared delimiter holds": (
        "sep=;\ncase_id,activity\nc1;,A\n", {"delimiter": ","}, [("c1;", "A")],
    ),
    "a column that is called so": ("sep=a;b\n1\n", {}, [("1",)]),
    "sep= is no record elsewhere": ("a,b\nsep=;\n1,2\n", {}, [("1", "2")]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_an_export_is_read_as_it_was_meant(name: str, encoding: str) -> None:
    text, options, rows = EXPORTS[name]
    text = text if encoding == "utf-8" else text.removeprefix("\ufeff")
    data = text.encode(encoding)
    options = {"encoding": encoding, **options}
    for chunk in (1, 2, 5, 1 << 20):
        with mock.patch.multiple(csv_format, _CHUNK_BYTES=chunk, BLOCK_BYTES=4 * chunk):
            found = read(data, **options)
            assert not isinstance(found, str)
            assert [one for one in found.values() if one is not None] == rows
            assert read_in_pieces(data, chunk, **options) in (None, found)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b"a,b\n", {"skip_lines": 1}, "is empty"),
        (b"a,b\n", {"skip_lines": 5}, "is empty"),
        (b"a\n" + b"x" * 3_000_000, {"skip_lines": 5}, "lower skip_lines"),
        (b'a,b\n1,"x\n', {}, r'a quote \("\) is never.*quote_char, or escape_char'),
        (b"a,b\n1,'x\n", {"quote_char": "'"}, r"a quote \('\) is never"),
    ],
)
def test_what_cannot_be_read_names_the_flag(
    data: bytes, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputSchemaError, match=message):
        list(CsvReader(**options).read(io.BytesIO(data), ("a",), ("a",), 9))


@given(
    st.lists(st.binary(max_size=4) | SIGNS.map(str.encode), max_size=30).map(b"".join),
    st.sampled_from([None, "\\"]),
    st.sampled_from([None, "#", "//"]),
    st.sampled_from(['"', "none"]),
    st.integers(0, 2),
)
def test_nothing_in_a_record_ends_a_reading_that_goes_on(
    data: bytes, escape: str | None, comment: str | None, quote: str, skip_lines: int
) -> None:
    options: Any = {"escape_char": escape, "comment": comment, "quote_char": quote}
    options |= {"header": ("a", "b"), "goes_on": True, "skip_lines": skip_lines}
    with mock.patch.multiple(csv_format, _CHUNK_BYTES=7, BLOCK_BYTES=16, RECORD_BYTES=32):
        found = read(data, **options)
    assert not isinstance(found, str) and sorted(found) == list(range(len(found)))
