"""Whole traces of XES as arrays, where they are written as nearly all programs write them.

A regular trace has no other tags than `<trace>`, `<event>` and attributes without children, each of
which is `<string key="..." value="..."/>` or of another type. Then every second pair of quotes is
around a value, and what stands between two values is one of few texts: the end of a tag, ends and
begins of elements, and a type with its key. Each different one of them is looked at once. What has
anything else is refused as a whole, so that an XML parser can read it. So is what no XML may have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.events import CASE_PREFIX, EVENT_PREFIX
from tracecloak.schemas.events.source_column import joined

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


@dataclass(frozen=True)
class RegularTraces:
    """The events of whole traces.

    Attributes:
        columns: By wanted column, string[n_events] and bool[n_events]: which are numbers that can
            name nobody, see `schemas.events.source_column.fractions`.
        owners: int64[n_events], ascending: the number of the trace of each event, from 0.
        n_traces: How many traces there are.
        keys: The keys of traces, and of events, in the order in which they come first.
        contents: string[n_traces], what each trace has, see `content_of`; None: nobody asked.
    """

    columns: Mapping[str, tuple[pa.Array, np.ndarray]]
    owners: np.ndarray
    n_traces: int
    keys: tuple[list[str], list[str]]
    contents: pa.Array | None = None


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


def read_regular(
    data: bytes, wanted: Sequence[str], max_text_bytes: int, with_contents: bool = False
) -> RegularTraces | None:
    """Returns the events of `data`, or None if it is not regular.

    Args:
        data: Bytes from the begin of a trace to the end of one, less than 2 GiB; of a log in UTF-8.
        wanted: Columns; those that begin with `case:` are keys of traces.
        max_text_bytes: How much text the columns may have: a value of a trace is repeated with each
            of its events.
        with_contents: Whether the contents of traces are asked for.
    """
    octets = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(octets == ord('"'))
    n = len(quotes) // 4
    if not n or len(quotes) % 4 or not _is_text_of_xml(data):
        return None
    # Cut before and behind each value, so that heads and values take turns.
    cuts = np.zeros(2 * n + 2, np.int32)
    cuts[1:-1:2] = quotes[2::4] + 1
    cuts[2:-1:2] = quotes[3::4]
    cuts[-1] = len(data)
    parts = pa.StringArray.from_buffers(2 * n + 1, pa.py_buffer(cuts), pa.py_buffer(data))
    coded = parts.take(pa.array(np.arange(0, 2 * n, 2))).dictionary_encode()
    codes = np.asarray(coded.indices)
    heads = _heads(coded.dictionary)
    tail = _TAIL.fullmatch(data, int(cuts[-2]))
    end = None if tail is None else _tags(tail[1])
    if heads is None or tail is None or end is None or end.begins_trace or end.begins_event:
        return None
    # All tags and all control characters are those of the heads, hence none is within a value.
    counts = np.bincount(codes, minlength=len(heads))
    n_tags = (counts * [head.n_tags for head in heads]).sum() + tail[0].count(b"<")
    n_controls = (counts * [head.n_controls for head in heads]).sum() + _n_controls(tail[0])
    if n_tags != n_octets(data, "<") or n_controls != np.count_nonzero(octets < _BLANK):
        return None
    places = _places(heads, codes, end)
    if places is None:
        return None
    if b"&" in data:
        parts = _without_references(parts)
    columns = None
    if parts is not None:
        columns = _columns(heads, codes, places, parts, wanted, max_text_bytes)
    if columns is None:
        return None
    contents = _contents(heads, codes, places, parts) if with_contents else None
    keys = _keys(heads, codes, places)
    return RegularTraces(columns, places.owners, places.n_traces, keys, contents)


@dataclass(frozen=True)
class _Tags:
    """Ends and begins of elements that follow each other.

    Attributes:
        before: Within which element they stand; None: there are none.
        after: Within which the next one stands.
        begins_trace: Whether a trace begins.
        begins_event: Whether an event does.
    """

    before: int | None
    after: int
    begins_trace: bool
    begins_event: bool


@dataclass(frozen=True)
class _Head:
    """What stands before a value, from the one before it on.

    Attributes:
        tags: The ends and begins of elements.
        n_tags: How many `<` there are.
        n_controls: How many control characters.
        kind: Of the value.
        key: Of the value.
    """

    tags: _Tags
    n_tags: int
    n_controls: int
    kind: int
    key: str


@dataclass(frozen=True)
class _Places:
    """Where values belong.

    Attributes:
        is_of_event: bool[n], whether a value is of an event, else of a trace.
        rows: int64[n], the number of the event that began last.
        traces: int64[n], the number of the trace that did.
        owners: int64[n_events], the number of the trace of each event.
        n_traces: How many traces there are.
    """

    is_of_event: np.ndarray
    rows: np.ndarray
    traces: np.ndarray
    owners: np.ndarray
    n_traces: int


def _is_text_of_xml(data: bytes) -> bool:
    """Whether bytes are UTF-8 of characters that XML has, but for control characters."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\xef\xbf\xbe" not in data and b"\xef\xbf\xbf" not in data


def _n_controls(text: bytes) -> int:
    return sum(octet < _BLANK for octet in text)


def _heads(texts: pa.Array) -> list[_Head] | None:
    """Returns what each different text between values says; None if one is not regular."""
    if len(texts) > _HEADS or texts.nbytes > _HEADS_BYTES:
        return None
    heads = []
    for text in texts.cast(pa.binary()).to_pylist():
        head = _head(text)
        if head is None:
            return None
        heads.append(head)
    return heads


@lru_cache(512)
def _head(text: bytes) -> _Head | None:
    match = _HEAD.fullmatch(text)
    tags = None if match is None else _tags(match[1])
    if match is None or tags is None:
        return None
    kind = _KINDS.get(match[2], _PLAIN)
    return _Head(tags, text.count(b"<"), _n_controls(text), kind, match[3].decode())


def _tags(text: bytes) -> _Tags | None:
    """Returns what tags do; None if they cannot follow each other, or one comes twice."""
    tags = _TAG.findall(text)
    before = within = _STEPS[tags[0]][0] if tags else None
    for tag in tags:
        if _STEPS[tag][0] != within:
            return None
        within = _STEPS[tag][1]
    begins = [tag for tag in tags if tag in (BEGIN, _BEGIN_EVENT)]
    if begins not in ([], [BEGIN], [_BEGIN_EVENT], [BEGIN, _BEGIN_EVENT]):
        return None  # an element without a value, whose place no value tells
    return _Tags(before, within or 0, BEGIN in begins, _BEGIN_EVENT in begins)


def _places(heads: Sequence[_Head], codes: np.ndarray, end: _Tags) -> _Places | None:
    """Returns where values belong; None if tags do not match, or a value is of the log itself."""
    has_tags = np.array([head.tags.before is not None for head in heads])[codes]
    before = np.array([head.tags.before or 0 for head in heads])[codes[has_tags]]
    after = np.array([head.tags.after for head in heads])[codes[has_tags]]
    # Traces begin and end within the log, with tags at the first value and behind the last one.
    if not has_tags[0] or end.before is None or end.after != _IN_LOG:
        return None
    ends_before, begins_after = (np.append(before, end.before), np.append(_IN_LOG, after))
    if not np.array_equal(ends_before, begins_after) or (after == _IN_LOG).any():
        return None
    begins_event = np.array([head.tags.begins_event for head in heads])[codes]
    traces = np.cumsum(np.array([head.tags.begins_trace for head in heads])[codes]) - 1
    return _Places(
        after[np.cumsum(has_tags) - 1] == _IN_EVENT,
        np.cumsum(begins_event) - 1,
        traces,
        traces[begins_event],
        int(traces[-1]) + 1,
    )


def _columns(
    heads: Sequence[_Head],
    codes: np.ndarray,
    places: _Places,
    parts: pa.Array,
    wanted: Sequence[str],
    max_text_bytes: int,
) -> dict[str, tuple[pa.Array, np.ndarray]] | None:
    """See `RegularTraces.columns`; None where they would have more text than is allowed."""
    kinds = np.array([head.kind for head in heads])
    columns = {}
    n_bytes = 0
    for name in wanted:
        is_of_trace = name.startswith(CASE_PREFIX)
        key = key_of(name)
        has_key = np.array([head.key == key for head in heads])[codes]
        which = np.flatnonzero(has_key & (places.is_of_event != is_of_trace))
        n_rows = places.n_traces if is_of_trace else len(places.owners)
        of_row = np.full(n_rows, -1)
        of_row[(places.traces if is_of_trace else places.rows)[which]] = which  # the last one holds
        missing = of_row < 0
        text = parts.take(pa.array(2 * of_row + 1, mask=missing))  # each has its head before it
        column, marks = _typed(text, np.where(missing, _PLAIN, kinds[codes[of_row]]))
        lengths = np.asarray(pc.fill_null(pc.binary_length(column), 0), np.int64)
        n_bytes += int(lengths[places.owners].sum() if is_of_trace else lengths.sum())
        if n_bytes > max_text_bytes:
            return None
        if is_of_trace:
            column, marks = column.take(pa.array(places.owners)), marks[places.owners]
        columns[name] = column, marks
    return columns


def _contents(
    heads: Sequence[_Head], codes: np.ndarray, places: _Places, parts: pa.Array
) -> pa.Array:
    """See `RegularTraces.contents`."""
    marks = [
        (EVENT_MARK if head.tags.begins_event else "") + content_of(head.key, is_of_event)
        for head in heads
        for is_of_event in (False, True)
    ]
    marked = pa.array(marks, pa.string()).take(pa.array(2 * codes + places.is_of_event))
    values = parts.take(pa.array(np.arange(1, len(parts), 2)))
    ends = np.searchsorted(places.traces, np.arange(places.n_traces + 1))
    texts = pc.binary_join_element_wise(marked, values, "")
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), texts)
    return pc.binary_join(lists, "")


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


def _without_references(values: pa.Array) -> pa.Array | None:
    """Returns texts with what `&amp;` and its like stand for; None if one stands for nothing."""
    coded = pc.if_else(pc.match_substring(values, "&"), values, None).dictionary_encode()
    read = []
    for value in coded.dictionary.to_pylist():
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = lambda _, attributes: read.append(attributes["value"])
        try:
            parser.Parse(f'<string value="{value}"/>'.encode(), True)
        except expat.ExpatError:
            return None
    return pc.coalesce(pa.array(read, pa.string()).take(coded.indices), values)


def _keys(
    heads: Sequence[_Head], codes: np.ndarray, places: _Places
) -> tuple[list[str], list[str]]:
    """See `RegularTraces.keys`."""
    ordered: tuple[dict[str, None], dict[str, None]] = {}, {}
    both = 2 * codes.astype(np.int64) + places.is_of_event
    first = np.full(2 * len(heads), -1)
    first[both[::-1]] = np.arange(len(both))[::-1]
    for which in np.argsort(first):
        if first[which] >= 0:
            ordered[which % 2].setdefault(heads[which // 2].key)
    return list(ordered[0]), list(ordered[1])


def key_of(column: str) -> str:
    """Returns the key that the values of a column have in XES."""
    if column.startswith(EVENT_PREFIX + CASE_PREFIX):
        return column.removeprefix(EVENT_PREFIX)
    return column.removeprefix(CASE_PREFIX)


def column_of_event(key: str) -> str:
    """Returns the column of a key of events; `key_of` reverses it."""
    return EVENT_PREFIX + key if key.startswith(CASE_PREFIX) else key
