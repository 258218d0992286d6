"""Whole traces of XES as arrays, where they are written as nearly all programs write them.

A regular trace has no other tags than `<trace>`, `<event>` and attributes without children, each of
which is `<string key="..." value="..."/>` or of another type. Then every second pair of quotes is
around a value, and what stands between two values is one of few texts: the end of a tag, ends and
begins of elements, and a type with its key. Each different one of them is looked at once. What has
anything else is refused as a whole, so that an XML parser can read it. So is what no XML may have.
What the parser finds becomes columns here, too, and traces without a name get theirs.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
PLAIN, INT, FLOAT = range(3)
"""Types of values: texts, and two of numbers."""
_KINDS = {b"int": INT, b"float": FLOAT}


def _number(text: str, is_int: bool) -> str | float:
    """Returns a number by its type; a text that is no number stays a text."""
    if is_int:
        return str(int(text)) if _LONG.fullmatch(text) else text
    return float(text) if _DOUBLE.fullmatch(text) else text


def n_octets(data: bytes, character: str) -> int:
    """Returns how often an ASCII character is in bytes, which may be as often as in each tenth."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(character)))


def read_regular(data: bytes) -> TraceValues | None:
    """Returns the values of `data`, or None if it is not regular.

    Args:
        data: Bytes from the begin of a trace to the end of one, less than 2 GiB; of a log in UTF-8.
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
    codes = np.asarray(coded.indices)
    # All tags and all control characters are those of the heads, hence none is within a value.
    n_tags, n_controls = (
        _of_each(heads, codes, attrgetter(name)).sum() for name in ("n_tags", "n_controls")
    )
    if n_tags + end.n_tags != n_octets(data, "<"):
        return None
    if n_controls + end.n_controls != np.count_nonzero(octets < _BLANK):
        return None
    plain = _without_references(parts) if b"&" in data else parts
    values = None if plain is None else TraceValues(heads, codes, plain)
    return values if values is not None and values.are_placed(end) else None


class Head(NamedTuple):
    """What stands before a value, from the one before it on.

    Attributes:
        key: Of the value; None: there is none, and an element begins there.
        kind: Of the value.
        begins_trace: Whether a trace begins.
        begins_event: Whether an event does.
        before: Within which element the tags stand that end or begin others; -1: there are none.
        after: Within which element the value stands, if there are tags.
        n_tags: How many `<` there are.
        n_controls: How many control characters.
    """

    key: str | None
    kind: int
    begins_trace: bool
    begins_event: bool
    before: int = -1
    after: int = -1
    n_tags: int = 0
    n_controls: int = 0


@lru_cache(512)
def _head(text: bytes, pattern: re.Pattern[bytes] = _HEAD) -> Head | None:
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
    return Head(
        key, _KINDS.get(kind, PLAIN), *is_begun, before, within, text.count(b"<"), n_controls
    )


TRACE_HEAD, EVENT_HEAD = "trace", "event"
"""What stands before nothing where an element begins, if a parser reads it."""
_PARSED = {
    TRACE_HEAD: Head(None, PLAIN, True, False, after=_IN_TRACE),
    EVENT_HEAD: Head(None, PLAIN, False, True, after=_IN_EVENT),
}


def _parsed(text: str) -> Head:
    return Head(text[2:], int(text[1]), False, False, after=_IN_TRACE + int(text[0]))


def _of_each(heads: Sequence[Head], codes: np.ndarray, what: Callable[[Head], Any]) -> np.ndarray:
    """[n], something of the head of each value."""
    values = np.array(list(map(what, heads)))
    return (values if values.dtype == bool else values.astype(np.int32))[codes]


def _without_references(parts: pa.Array) -> pa.Array | None:
    """Puts in what `&amp;` and its like stand for; None if one stands for nothing."""
    coded = pc.if_else(pc.match_substring(parts, "&"), parts, None).dictionary_encode()
    read = []
    for value in coded.dictionary.to_pylist():
        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler = lambda _, attributes: read.append(attributes["value"])
        try:
            parser.Parse(f'<string value="{value}"/>'.encode(), True)
        except expat.ExpatError:
            return None
    return pc.coalesce(pa.array(read, pa.string()).take(coded.indices), parts)


class TraceValues:
    """The values of complete traces in their order, and where they belong.

    Attributes:
        owners: int64[n_events], ascending: the number of the trace of each event, from 0.
        n_traces: How many traces there are.
    """

    def __init__(self, heads: Sequence[Head], codes: np.ndarray, parts: pa.Array) -> None:
        """Takes the values.

        Args:
            heads: The different ones.
            codes: int[n], which of them each value has.
            parts: string[2 * n + 1], each value behind something else.
        """
        self._heads = heads
        self._codes = codes
        self._parts = parts
        begins_event, begins_trace, after, self._kinds = (
            _of_each(heads, codes, attrgetter(name))
            for name in ("begins_event", "begins_trace", "after", "kind")
        )
        self._rows = np.cumsum(begins_event) - 1  # the number of the event that began last
        self._traces = np.cumsum(begins_trace) - 1
        self._has_tags = after >= 0
        self._within = after[self._has_tags]
        self._are_of_events = (self._within == _IN_EVENT)[np.cumsum(self._has_tags) - 1]
        self.owners = self._traces[begins_event]
        self.n_traces = int(self._traces[-1]) + 1

    @classmethod
    def parsed(cls, parts: pa.Array) -> TraceValues:
        """Takes values that a parser found, behind TRACE_HEAD and the like.

        Such a head is whether a value is of an event, its type and its key.
        """
        coded = parts.take(pa.array(np.arange(0, len(parts) - 1, 2))).dictionary_encode()
        heads = [_PARSED.get(text) or _parsed(text) for text in coded.dictionary.to_pylist()]
        return cls(heads, np.asarray(coded.indices), parts)

    def are_placed(self, end: Head) -> bool:
        """Whether tags match, up to those behind the last value; and no value is of the log."""
        # Traces begin and end within the log, with tags at the first value and behind the last one.
        if not self._has_tags[0] or end.before < 0 or end.after != _IN_LOG:
            return False
        before = _of_each(self._heads, self._codes, attrgetter("before"))[self._has_tags]
        are_equal = np.array_equal(np.append(before, end.before), np.append(_IN_LOG, self._within))
        return are_equal and not (self._within == _IN_LOG).any()

    def batches(
        self, wanted: Sequence[str], names: Names | None, batch_rows: int, max_bytes: int
    ) -> Iterator[tuple[dict[str, tuple[pa.Array, np.ndarray]], np.ndarray]]:
        """Yields some events at a time: their columns, and int64[n], their `owners`.

        A column is string[n] and bool[n]: which are numbers that can name nobody, see
        `schemas.events.source_column.fractions`.

        Args:
            wanted: Columns; those that begin with `case:` are keys of traces.
            names: What names traces that have no name, in a wanted column; None: nothing does.
            batch_rows: Upper bound of the events.
            max_bytes: And of their text, unless one has more: a value of a trace is repeated with
                each of its events.
        """
        columns = {name: self._column(name) for name in wanted}
        if names is not None:
            column, marks = columns[names.column]
            columns[names.column] = names.named(column, self.contents), marks
        n, n_bytes = len(self.owners), np.zeros(len(self.owners), np.int64)
        for name, (column, _) in columns.items():
            lengths = np.asarray(pc.fill_null(pc.binary_length(column), 0), np.int64)
            n_bytes += lengths[self.owners] if name.startswith(CASE_PREFIX) else lengths
        ends = np.cumsum(n_bytes)
        begin = 0
        while begin < n:
            most = int(ends[begin] - n_bytes[begin]) + max_bytes
            end = max(begin + 1, int(np.searchsorted(ends, most, side="right")))
            rows = slice(begin, min(begin + batch_rows, end))
            owners = self.owners[rows]
            yield (
                {
                    name: (column.take(pa.array(owners)), marks[owners])
                    if name.startswith(CASE_PREFIX)
                    else (column[rows], marks[rows])
                    for name, (column, marks) in columns.items()
                },
                owners,
            )
            begin = rows.stop

    def _column(self, name: str) -> tuple[pa.Array, np.ndarray]:
        """Returns a column of all events, or of all traces."""
        key, is_of_trace = key_of(name), name.startswith(CASE_PREFIX)
        has_key = _of_each(self._heads, self._codes, lambda head: head.key == key)
        which = np.flatnonzero(has_key & (self._are_of_events != is_of_trace))
        places = np.full(self.n_traces if is_of_trace else len(self.owners), -1)
        places[(self._traces if is_of_trace else self._rows)[which]] = which  # the last holds
        missing = places < 0
        # Each has its head before it.
        text = self._parts.take(pa.array(2 * places + 1, mask=missing))
        return _typed(text, np.where(missing, PLAIN, self._kinds[places]))

    @property
    def _coded(self) -> np.ndarray:
        """int64[n], each value's place among the heads of values of traces and of events."""
        return 2 * self._codes.astype(np.int64) + self._are_of_events

    def contents(self) -> pa.Array:
        """Returns string[n_traces], all keys and values of each trace and its events in order.

        What tells them apart are characters that XML does not have, so no other trace has this
        content: 1 stands for the begin of an event, 2 before a key of an event, 3 before one of a
        trace, and 4 before the value.
        """
        marks = [
            ("\x01" if head.begins_event else "")
            + ("" if head.key is None else f"{sign}{head.key}\x04")
            for head in self._heads
            for sign in "\x03\x02"
        ]
        marked = pa.array(marks, pa.string()).take(pa.array(self._coded))
        values = self._parts.take(pa.array(np.arange(1, len(self._parts), 2)))
        ends = np.searchsorted(self._traces, np.arange(self.n_traces + 1))
        texts = pc.binary_join_element_wise(marked, values, "")
        lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), texts)
        return pc.binary_join(lists, "")

    def keys(self) -> Iterator[tuple[str, bool]]:
        """Yields keys, and whether they are of events, in the order in which they come first."""
        n = len(self._codes)
        first = np.full(2 * len(self._heads), n)
        first[self._coded[::-1]] = np.arange(n)[::-1]
        for one in np.argsort(first)[: np.count_nonzero(first < n)].tolist():
            if (key := self._heads[one // 2].key) is not None:
                yield key, bool(one % 2)


class Names:
    """Gives traces names by their contents; see `transforms.formats.xes`.

    Remembers 8 bytes of each digest. Two in 2^64 are counted as one, and have different names.

    Attributes:
        column: That of the names.
    """

    def __init__(self, column: str, path: str) -> None:
        self.column = column
        self._of_file = hashlib.blake2b(path.encode(errors="surrogatepass"), digest_size=16)
        self._n_named: Counter[int] = Counter()

    def named(self, names: pa.Array, contents: Callable[[], pa.Array]) -> pa.Array:
        """Returns the names of traces, of which some are missing or empty.

        Args:
            names: string[n].
            contents: Returns string[n], the content of each trace.
        """
        is_unnamed = pc.fill_null(pc.equal(names, ""), True)
        if not pc.any(is_unnamed).as_py():
            return names
        given = list(map(self._name, contents().filter(is_unnamed).to_pylist()))
        return pc.replace_with_mask(names, is_unnamed, pa.array(given))

    def _name(self, content: str) -> str:
        hasher = self._of_file.copy()
        hasher.update(content.encode())
        digest = hasher.digest()
        self._n_named[key := int.from_bytes(digest[:8])] += 1
        return f"{digest.hex()}-{self._n_named[key]}"


def _typed(text: pa.Array, kinds: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Returns values of types as texts, and which are fractions."""
    parts = [pc.if_else(pa.array(kinds == PLAIN), text, None)]
    for kind in (INT, FLOAT):
        if (kinds == kind).any():
            coded = pc.if_else(pa.array(kinds == kind), text, None).dictionary_encode()
            read = [_number(value, kind == INT) for value in coded.dictionary.to_pylist()]
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
