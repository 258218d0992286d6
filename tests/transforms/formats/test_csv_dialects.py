"""Dialects of CSV: quotes, escapes, comments, titles and `sep=`, as programs export them."""

from __future__ import annotations

import io
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.errors import InputSchemaError, UsageError
from tracecloak.transforms.formats import csv as csv_format
from tracecloak.transforms.formats.csv import CsvReader

NAMES = ("case_id", "activity", "timestamp")
HEADER = ",".join(NAMES) + "\n"
BACKSLASH = {"escape_char": "\\"}
MYSQL = {"delimiter": "\t", "quote_char": "none", "header": NAMES, **BACKSLASH}

Records = dict[int, tuple[str, ...] | None]


def read(data: bytes, wanted: tuple[str, ...] | None = None, **options: Any) -> Records | str:
    """Each record by its number, None if it is malformed; or the error."""
    reader = CsvReader(**options)
    try:
        names = wanted or tuple(reader.column_names(io.BytesIO(data)) or ())
        records: Records = {}
        for batch in reader.read(io.BytesIO(data), names, (), 3):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            records.update(zip(batch.records.tolist(), rows, strict=True))
            records.update(dict.fromkeys(batch.malformed.tolist()))
    except InputSchemaError as error:
        return str(error)
    return records


def read_in_pieces(data: bytes, n_bytes: int, **options: Any) -> Records | str | None:
    """Likewise, of the pieces that a file is divided into; None: it is not."""
    reader = CsvReader(**options)
    divider = reader.divider()
    if divider is None:
        return None
    names = reader.column_names(io.BytesIO(data)) or ()
    looks = [divider.look(io.BytesIO(data), place) for place in divider.places(len(data), n_bytes)]
    records: Records = {}
    for piece in divider.pieces(looks):
        of_piece = divider.of_piece(piece, lambda _: None)
        for batch in of_piece.read(io.BytesIO(data), names, (), 3):
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            records.update(zip(batch.records.tolist(), rows, strict=True))
            records.update(dict.fromkeys(batch.malformed.tolist()))
    return records


def by_characters(
    text: str, delimiter: str, quote: str, escape: str, comment: str | None
) -> list[list[str]] | None:
    """The records of a text, read one character after the other; None: a quote is never closed."""
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
        elif escape and sign == escape and text[at + 1 : at + 2] in (
            *(delimiter, quote or escape, escape, "\r", "\n"),
        ):
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


SIGNS = st.sampled_from(["a", "\\", "\\", '"', "'", ",", ";", "\n", "\r", "#", "/", "N", "é", "\ufdd0"])


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
    expected = by_characters(
        text,
        delimiter,
        "" if quote == "none" else quote,
        "" if no_escape else str(escape),
        comment,
    )
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
