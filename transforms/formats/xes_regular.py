"""Whole traces of XES as arrays, where they are written as nearly all programs write them.

A regular trace has no other tags than `<trace>`, `<event>` and attributes without children, each of
which is `<string key="..." value="..."/>` or of another type. Then every second pair of quotes is
around a value, and what stands between two values is one of few texts: the end of a tag, ends and
begins of elements, and a type with its key. Each different one of them is looked at once. What has
anything else is refused as a whole, so that an XML parser can read it. So is what no XML may have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import CASE_PREFIX, EVENT_PREFIX
from tracecloak.schemas.events.source_column import joined
from tracecloak.transforms.formats.base import is_utf8

BEGIN = b"<trace>"
END = b"</trace>"
EVENT_MARK = "\x01"
"""Stands for the begin of an event in the content of a trace, see `content_of`."""
# More different heads of attributes than this are no few ones: a parser is as fast.
_HEADS = 4_096
_HEADS_BYTES = 64 << 10  # of what is remembered of each

# What XML Schema takes for a long, as far as Python reads its digits, and for a double.
_LONG = re.compile(r"[ \t\r\n]*[+-]?[0-9]{1,4000}[ \t\r\n]*")
_DOUBLE = re.compile(
    r"[ \t\r\n]*(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-?INF|NaN)[ \t\r\n]*"
)

_IN_LOG, _IN_TRACE, _IN_EVENT = range(3)
_BEGIN_EVENT = b"<event>"
_STEPS = {
    BEGIN: (_IN_LOG, _IN_TRACE),
    _BEGIN_EVENT: (_IN_TRACE, _IN_EVENT),
    b"</event>": (_IN_EVENT, _IN_TRACE),
    END: (_IN_TRACE, _IN_LOG),
}
_TAGS = rb"(?:[ \t\r\n]*+(?:</event>|</trace>|<trace>|<event>))*+[ \t\r\n]*+"
# What stands between two values, with the quotes: the first has nothing before its tags.
_HEAD = re.compile(
    rb'(?:"[ \t\r\n]*+/>)?(%b)<(string|date|int|float|boolean|id) key="([^"<&\0-\x1f]*)" value="'
    % _TAGS
)
_TAIL = re.compile(rb'"[ \t\r\n]*+/>(%b)' % _TAGS)
_TAG = re.compile(rb"</?[a-z]+>")
_BLANK = ord(" ")
_PLAIN, _INT, _FLOAT = range(3)
_KINDS = {b"int": _INT, b"float": _FLOAT}


def content_of(key: str, is_of_event: bool) -> str:
    """Returns what stands for a key in the content of a trace; its value follows.

    The content has all keys and values of a trace and its events in their order. What tells them
    apart are characters that XML does not have, so no other trace has this content.
    """
    return ("\x02" if is_of_event else "\x03") + key + "\x04"


def number(text: str, is_int: bool) -> str | float:
    """Returns a number by its type; a text that is no number stays a text."""
    if is_int:
        return str(int(text)) if _LONG.fullmatch(text) else text
    return float(text) if _DOUBLE.fullmatch(text) else text


def n_octets(data: bytes, character: str) -> int:
    """Returns how often an ASCII character is in bytes, which may be as often as in each tenth."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(character)))


def read_regular(data: bytes, wanted: Sequence[str], max_text_bytes: int) -> RegularTraces | None:
    """Returns the events of `data`, or None if it is not regular.

    Args:
        data: Bytes from the begin of a trace to the end of one, less than 2 GiB; of a log in UTF-8.
        wanted: Columns; those that begin with `case:` are keys of traces.
        max_text_bytes: How much text the columns may have: a value of a trace is repeated with each
            of its events.
    """
    octets = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(octets == ord('"'))
    n = len(quotes) // 4
    if not n or len(quotes) % 4 or not is_utf8(data):
        return None
    # U+FFFE and U+FFFF, which no XML has; few logs are not of ASCII alone.
    if not data.isascii() and (b"\xef\xbf\xbe" in data or b"\xef\xbf\xbf" in data):
        return None
    # Cut before and behind each value, so that heads and values take turns.
    cuts = np.zeros(2 * n + 2, np.int32)
    cuts[1:-1:2] = quotes[2::4] + 1
    cuts[2:-1:2] = quotes[3::4]
    cuts[-1] = len(data)
    parts = pa.StringArray.from_buffers(2 * n + 1, pa.py_buffer(cuts), pa.py_buffer(data))
    coded = parts.take(pa.array(np.arange(0, 2 * n, 2))).dictionary_encode()
    if len(coded.dictionary) > _HEADS or coded.dictionary.nbytes > _HEADS_BYTES:
        return None
    heads = list(filter(None, map(_head, coded.dictionary.cast(pa.binary()).to_pylist())))
    end = _head(data[cuts[-2] :], _TAIL)
    is_regular = len(heads) == len(coded.dictionary)
    if not is_regular or end is None or end.begins_trace or end.begins_event:
        return None
    traces = RegularTraces(heads, np.asarray(coded.indices), parts)
    # All tags and all control characters are those of the heads, hence none is within a value.
    n_tags, n_controls = (traces.of(attrgetter(name)).sum() for name in ("n_tags", "n_controls"))
    if n_tags + end.n_tags != n_octets(data, "<"):
        return None
    if n_controls + end.n_controls != np.count_nonzero(octets < _BLANK):
        return None
    if not traces.are_placed(end) or not (b"&" not in data or traces.are_without_references()):
        return None
    return traces if traces.read_columns(wanted, max_text_bytes) else None


class _Head(NamedTuple):
    """What stands before a value, from the one before it on.

    Attributes:
        key: Of the value.
        kind: Of the value.
        before: Within which element the tags stand that end or begin others; -1: there are none.
        after: Within which element the value stands, if there are tags.
        begins_trace: Whether a trace begins.
        begins_event: Whether an event does.
        n_tags: How many `<` there are.
        n_controls: How many control characters.
    """

    key: str
    kind: int
    before: int
    after: int
    begins_trace: bool
    begins_event: bool
    n_tags: int
    n_controls: int


@lru_cache(512)
def _head(text: bytes, pattern: re.Pattern[bytes] = _HEAD) -> _Head | None:
    """Returns what a text between values says; None if it is not regular.

    It is not either if tags cannot follow each other, or one comes twice.
    """
    match = pattern.fullmatch(text)
    if match is None:
        return None
    tags = _TAG.findall(match[1])
    before = within = _STEPS[tags[0]][0] if tags else -1
    for tag in tags:
        if _STEPS[tag][0] != within:
            return None
        within = _STEPS[tag][1]
    begins = [tag for tag in tags if tag in (BEGIN, _BEGIN_EVENT)]
    if begins not in ([], [BEGIN], [_BEGIN_EVENT], [BEGIN, _BEGIN_EVENT]):
        return None  # an element without a value, whose place no value tells
    kind, key = (match[2], match[3].decode()) if pattern is _HEAD else (b"", "")
    n_controls = sum(octet < _BLANK for octet in text)
    is_begun = BEGIN in begins, _BEGIN_EVENT in begins
    return _Head(
        key, _KINDS.get(kind, _PLAIN), before, within, *is_begun, text.count(b"<"), n_controls
    )


class RegularTraces:
    """The values of whole traces, and where they belong.

    Attributes:
        columns: By wanted column, string[n_events] and bool[n_events]: which are numbers that can
            name nobody, see `schemas.events.source_column.fractions`.
        owners: int64[n_events], ascending: the number of the trace of each event, from 0.
        n_traces: How many traces there are.
    """

    columns: dict[str, tuple[pa.Array, np.ndarray]]

    def __init__(self, heads: Sequence[_Head], codes: np.ndarray, parts: pa.Array) -> None:
        """Takes different heads, int32[n], which of them each value has, and both taking turns."""
        self._heads = heads
        self._codes = codes
        self._parts = parts
        self._begins_event = self.of(attrgetter("begins_event"))
        self._rows = np.cumsum(self._begins_event) - 1  # the number of the event that began last
        self._traces = np.cumsum(self.of(attrgetter("begins_trace"))) - 1
        self.owners = self._traces[self._begins_event]
        self.n_traces = int(self._traces[-1]) + 1

    def of(self, what: Callable[[_Head], Any]) -> np.ndarray:
        """[n], something of the head of each value."""
        return np.array(list(map(what, self._heads)))[self._codes]

    def are_placed(self, end: _Head) -> bool:
        """Whether tags match, and no value is of the log itself."""
        before, after = self.of(attrgetter("before")), self.of(attrgetter("after"))
        has_tags = before >= 0
        within = after[has_tags]
        # Traces begin and end within the log, with tags at the first value and behind the last one.
        if not has_tags[0] or end.before < 0 or end.after != _IN_LOG or (within == _IN_LOG).any():
            return False
        self._is_of_event = within[np.cumsum(has_tags) - 1] == _IN_EVENT
        ends = np.append(before[has_tags], end.before)
        return np.array_equal(ends, np.append(_IN_LOG, within))

    def are_without_references(self) -> bool:
        """Puts in what `&amp;` and its like stand for; False if one stands for nothing."""
        values = self._parts
        coded = pc.if_else(pc.match_substring(values, "&"), values, None).dictionary_encode()
        read = []
        for value in coded.dictionary.to_pylist():
            parser = expat.ParserCreate("utf-8")
            parser.StartElementHandler = lambda _, attributes: read.append(attributes["value"])
            try:
                parser.Parse(f'<string value="{value}"/>'.encode(), True)
            except expat.ExpatError:
                return False
        self._parts = pc.coalesce(pa.array(read, pa.string()).take(coded.indices), values)
        return True

    def read_columns(self, wanted: Sequence[str], max_text_bytes: int) -> bool:
        """Makes `columns`; False where they would have more text than is allowed."""
        kinds = self.of(attrgetter("kind"))
        self.columns = {}
        n_bytes = 0
        for name in wanted:
            key, is_of_trace = key_of(name), name.startswith(CASE_PREFIX)
            has_key = np.array([head.key == key for head in self._heads])[self._codes]
            which = np.flatnonzero(has_key & (self._is_of_event != is_of_trace))
            places = np.full(self.n_traces if is_of_trace else len(self.owners), -1)
            places[(self._traces if is_of_trace else self._rows)[which]] = which  # the last holds
            missing = places < 0
            # Each has its head before it.
            text = self._parts.take(pa.array(2 * places + 1, mask=missing))
            column, marks = _typed(text, np.where(missing, _PLAIN, kinds[places]))
            lengths = np.asarray(pc.fill_null(pc.binary_length(column), 0), np.int64)
            n_bytes += int(lengths[self.owners].sum() if is_of_trace else lengths.sum())
            if n_bytes > max_text_bytes:
                return False
            if is_of_trace:
                column, marks = column.take(pa.array(self.owners)), marks[self.owners]
            self.columns[name] = column, marks
        return True

    def contents(self) -> pa.Array:
        """Returns string[n_traces], what each trace has, see `content_of`."""
        marks = [
            (EVENT_MARK if head.begins_event else "") + content_of(head.key, is_of_event)
            for head in self._heads
            for is_of_event in (False, True)
        ]
        which = pa.array(2 * self._codes + self._is_of_event)
        values = self._parts.take(pa.array(np.arange(1, len(self._parts), 2)))
        ends = np.searchsorted(self._traces, np.arange(self.n_traces + 1))
        texts = pc.binary_join_element_wise(pa.array(marks, pa.string()).take(which), values, "")
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), texts)
        return pc.binary_join(lists, "")

    def keys(self) -> tuple[list[str], list[str]]:
        """Returns the keys of traces, and of events, in the order in which they come first."""
        ordered: tuple[dict[str, None], dict[str, None]] = {}, {}
        both = 2 * self._codes.astype(np.int64) + self._is_of_event
        first = np.full(2 * len(self._heads), len(both))
        first[both[::-1]] = np.arange(len(both))[::-1]
        for one in np.argsort(first)[: np.count_nonzero(first < len(both))].tolist():
            ordered[one % 2].setdefault(self._heads[one // 2].key)
        return list(ordered[0]), list(ordered[1])


def _typed(text: pa.Array, kinds: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Returns values of types as texts, and which are fractions."""
    parts = [pc.if_else(pa.array(kinds == _PLAIN), text, None)]
    for kind in (_INT, _FLOAT):
        if (kinds == kind).any():
            coded = pc.if_else(pa.array(kinds == kind), text, None).dictionary_encode()
            read = [number(value, kind == _INT) for value in coded.dictionary.to_pylist()]
            for python_type, arrow_type in ((str, pa.string()), (float, pa.float64())):
                part = [value if type(value) is python_type else None for value in read]
                parts.append(pa.array(part, arrow_type).take(coded.indices))
    return (text, np.zeros(len(text), bool)) if len(parts) == 1 else joined(parts)


def key_of(column: str) -> str:
    """Returns the key that the values of a column have in XES."""
    if column.startswith(EVENT_PREFIX + CASE_PREFIX):
        return column.removeprefix(EVENT_PREFIX)
    return column.removeprefix(CASE_PREFIX)


def column_of_event(key: str) -> str:
    """Returns the column of a key of events; `key_of` reverses it."""
    return EVENT_PREFIX + key if key.startswith(CASE_PREFIX) else key
