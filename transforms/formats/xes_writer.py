"""Writes released rows as an XES event log (IEEE 1849-2016), with the log's privacy metadata.

The elements stand in the order of the standard: extensions, globals, classifier, attributes of the
log, traces. A trace has its `concept:name`, an event its `concept:name` and `time:timestamp`, or
`event_index` in a log without times, whose events are ordered by where they stand alone; and
both have their declared attributes, a trace without the `case:` in front of the name, as long as
there is a value. A key that is no name of XML is written as one, see `xes_columns`. There is one
tag to a line, which line-oriented readers need. Compression and closing the stream are the
caller's. That rows of a case are contiguous is not checked: a case that comes again later gets a
second trace.

XML 1.0 cannot hold most control characters, lone surrogates, U+FFFE and U+FFFF, not even as
references: each becomes U+FFFD with its number after it, as a bell becomes U+FFFD and 0007. So
activities that differ in such characters only stay apart, and no name of a log decides whether
there is a release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import (
    ACTIVITY,
    CASE_ID,
    CASE_PREFIX,
    RELEASED_SCHEMA,
    START_TYPE,
    TIMESTAMP,
    is_case_attribute,
)
from tracecloak.schemas.texts import templates_of
from tracecloak.transforms.formats.csv_writer import check_years

XesKind = Literal["string", "int", "float", "date"]

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Letters that names may have in every edition of XML 1.0, of common scripts; a class of characters.
_LETTERS = (
    "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e\u0391-\u03a1\u03a3-\u03ce"
    "\u0401\u0410-\u044f\u0451\u05d0-\u05ea\u0621-\u063a\u0641-\u064a\u3041-\u3094\u30a1-\u30fa\u4e00-\u9fa5"
    "\uac00-\ud7a3"
)
_NOT_IN_A_NAME = re.compile(f"[^{_LETTERS}0-9_:.-]")
_NAME = re.compile(f"[{_LETTERS}_][{_LETTERS}0-9_:.-]*")
# Tab, newline and return have to be references: a reader makes spaces of them as they are.
_REFERENCES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "\t": "&#9;",
        "\n": "&#10;",
        "\r": "&#13;",
    }
)

_END_TRACE = "\t</trace>\n"

_ROWS = 1 << 16  # rows made into text at once: a few MB, and far from Arrow's 2 GiB to an array


class XesWriter:
    """Writes RELEASED_SCHEMA rows; implements `transforms.formats.base.Writer`.

    Args:
        stream: Where the bytes go, UTF-8.
        schema: Of the rows: `released_schema` with starts of events, and with attributes of
            string, int64 or float64.
        about: A manifest as JSON values (`schemas.published.manifest`), of which the attributes of
            the log say what was done: the privacy extension's and our own. None: it has none.

    Raises:
        ValueError: An attribute has another type.
    """

    def __init__(
        self,
        stream: BinaryIO,
        schema: pa.Schema = RELEASED_SCHEMA,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._case_id: str | None = None  # of the open trace
        names = xes_columns([name for name in schema.names if name not in RELEASED_SCHEMA.names])
        names |= {CASE_ID: "case:concept:name", ACTIVITY: "concept:name"}
        names |= {TIMESTAMP: "time:timestamp"}
        self._elements = [_Element.of(field, names[field.name]) for field in schema]
        head = _TEMPLATES.get_template("head.xes.j2").render(
            prefixes={one.key.partition(":")[0] for one in self._elements if ":" in one.key},
            has_times=TIMESTAMP in schema.names,
            about=about,
        )
        stream.write(head.encode())

    def write(self, rows: pa.RecordBatch) -> None:
        """Appends rows; equal neighbours in `case_id` are one trace, across calls too.

        Args:
            rows: Of the schema; stamps are written in UTC, to the millisecond where that is
                exact and else to the microsecond. An attribute of the case is taken from its first
                row.

        Raises:
            ValueError: A value is missing, or a time lies outside the years 1 to 9999, which is
                what a date in XES can be read back from.
        """
        rows = rows.select(self._schema.names)
        if any(rows.column(name).null_count for name in self._schema.names[:3]):
            raise ValueError("a released row must have a case id, an activity and a timestamp")
        at_once = max(_ROWS // (len(self._elements) - 2), 1)
        for start in range(0, rows.num_rows, at_once):
            self._write(rows.slice(start, at_once))

    def close(self) -> None:
        """Ends the log; nothing can be written after it."""
        end = _END_TRACE if self._case_id is not None else ""
        self._stream.write(f"{end}</log>\n".encode())

    def _write(self, rows: pa.RecordBatch) -> None:
        n = rows.num_rows
        cases = rows.column(CASE_ID)
        begins = np.ones(n, bool)
        begins[0] = cases[0].as_py() != self._case_id
        begins[1:] = pc.not_equal(cases.slice(1), cases.slice(0, n - 1))
        joined = partial(pc.binary_join_element_wise, null_handling="replace")
        firsts = rows.filter(pa.array(begins))
        case_lines = [one.lines(firsts) for one in self._elements if one.is_of_case]
        event_lines = [one.lines(rows) for one in self._elements if not one.is_of_case]
        traces = joined(f"{_END_TRACE}\t<trace>\n", *case_lines, "")
        which = pa.array(np.cumsum(begins) - 1, mask=~begins)  # null, hence nothing, within a trace
        text = joined(traces.take(which), "\t\t<event>\n", *event_lines, "\t\t</event>\n", "")
        whole = pc.binary_join(pa.ListArray.from_arrays([0, n], text), "")
        # No trace ends in front of the first one.
        skipped = len(_END_TRACE) if self._case_id is None else 0
        self._stream.write(memoryview(whole[0].as_buffer())[skipped:])
        self._case_id = cases[n - 1].as_py()


@dataclass(frozen=True)
class _Element:
    """What an attribute of cases or events is written as."""

    column: str
    key: str
    kind: XesKind
    is_of_case: bool

    @classmethod
    def of(cls, field: pa.Field, name: str) -> _Element:
        kind = _KIND_OF.get(field.type)
        if kind is None:
            raise ValueError(f"attribute {field.name!r} has type {field.type}, which XES has not")
        is_case = is_case_attribute(name)
        return cls(field.name, name.removeprefix(CASE_PREFIX) if is_case else name, kind, is_case)

    def lines(self, rows: pa.RecordBatch) -> pa.Array:
        """string[n]: the element of each row; null where it has no value."""
        values = rows.column(self.column)
        indent = "\t\t" if self.is_of_case else "\t\t\t"
        begin, end = f'{indent}<{self.kind} key="{_escape(self.key)}" value="', '"/>\n'
        if self.kind == "date":
            stamps = _stamps(values.drop_null())
            if values.null_count:
                places = np.cumsum(values.is_valid()) - 1
                stamps = stamps.take(pa.array(places, mask=np.asarray(values.is_null())))
            return pc.binary_join_element_wise(begin, stamps, f"+00:00{end}", "")
        if self.kind != "string":
            return pc.binary_join_element_wise(begin, values.cast(pa.string()), end, "")
        coded = values.dictionary_encode()
        texts = [f"{begin}{_escape(text)}{end}" for text in coded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(coded.indices)


_KIND_OF: dict[pa.DataType, XesKind] = {
    pa.string(): "string",
    pa.int64(): "int",
    pa.float64(): "float",
    START_TYPE: "date",
}


def xes_columns(columns: Sequence[str]) -> dict[str, str]:
    """Returns what attributes are called in a written log, by their columns.

    That is the column's name if its key, without `case:`, is a name of XML. Else what no name has
    becomes `_`, which stands in front of what no name begins with, too; and a number follows where
    another attribute is called so.
    """
    keys = {column: column.removeprefix(CASE_PREFIX) for column in columns}
    names = {column: column for column, key in keys.items() if _NAME.fullmatch(key)}
    for column in [column for column in columns if column not in names]:
        plain = _NOT_IN_A_NAME.sub("_", keys[column])
        prefix = column.removesuffix(keys[column]) + ("" if _NAME.match(plain) else "_")
        numbers = ("", *(f"_{number}" for number in range(2, len(columns) + 2)))
        ways = (f"{prefix}{plain}{number}" for number in numbers)
        names[column] = next(way for way in ways if way not in names.values())
    return names


def sanitise(text: str) -> str:
    """Returns the text as a reader of the written XES gets it back.

    Texts that differ stay different, unless one of them is what another one becomes.
    """
    return _NOT_XML.sub(lambda found: f"\ufffd{ord(found[0]):04X}", text)


def _escape(text: str) -> str:
    return sanitise(text).translate(_REFERENCES)


_TEMPLATES = templates_of(
    "tracecloak.transforms.formats", finalize=lambda value: _escape(str(value))
)


def _stamps(times: pa.Array) -> pa.Array:
    """string[n]: ISO 8601 without offset, of timestamp[us, UTC]."""
    check_years(times)
    us = np.asarray(times.cast(pa.int64()))
    whole_ms = us % 1_000 == 0
    text = pa.array(us // 1_000, pa.timestamp("ms")).cast(pa.string())
    if not whole_ms.all():
        exact = pa.array(us, pa.timestamp("us")).cast(pa.string())
        text = pc.if_else(pa.array(whole_ms), text, exact)
    return pc.replace_substring(text, " ", "T")
