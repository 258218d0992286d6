"""Reads XES event logs (IEEE 1849, and the older 1.0 and 2.0) as a stream of record batches.

An attribute that is a direct child of an `<event>` is a column under its key (`concept:name`), one
of a `<trace>` a column under `case:` and its key (`case:concept:name`), as pm4py names them. Where
the key of an event begins with `case:` itself, `event:` stands in front of its column's name. A
value is handed over exactly as its `value` attribute has it, times too; reading times is the
mapping's. An `<int>` or `<float>` is handed over as the text of its number, so 5 and 5.0 are one
value; what is no number there stays as it is. Where a key comes twice in one element, the last one
holds.

On request a trace without a name gets one: a digest of its content and of the file's path, and its
number among the traces of the file that have the same content. So neither another trace nor another
file changes the name of one, and equal traces are several cases. A digest groups events into cases
and leaves nothing else behind; like any case id it is in no release.

Not read: nested attributes, lists and containers (they have no value), classifiers, extensions, the
attributes of the log, and the defaults in `<global>`: an event that lacks a global attribute has
null there. Names match under any namespace prefix or none. A trace without events leaves nothing.

A hostile file fails early and cheaply: no DOCTYPE, hence no entity and nothing fetched; and bounds
on a token, on nesting, on XML names and on what is held. Decompression is the caller's.

A reader that goes on leaves out the trace in which it finds such a fault, or text that is no XML,
and reads on where the next `<trace>` begins; only what stands before the root is an error to it.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import CASE_PREFIX
from tracecloak.transforms.formats.base import RawBatch, missing_columns, read_fully
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.formats.xes_regular import (
    BEGIN,
    END,
    EVENT_HEAD,
    FLOAT,
    INT,
    PLAIN,
    TRACE_HEAD,
    Names,
    TraceValues,
    column_of_event,
    n_octets,
    read_regular,
)
from tracecloak.transforms.formats.xes_source import Source

_OPERATOR = logging.getLogger("tracecloak.operator")

_PIECE_BYTES = 256 << 10  # 256 KiB a read: many tags to a call, small against a batch
_REGULAR_BYTES = 4 << 20  # 4 MiB of traces that are looked at as a whole
_EVENT_BYTES = 64  # hardly an event has less
_TOKEN_BYTES = 16 << 20  # 16 MiB: far beyond any tag of a log; expat holds a token as a whole
_BATCH_BYTES = 64 << 20  # 64 MiB of XML, or of text, to a batch, however few rows that makes
_TRACE_BYTES = 512 << 20  # 512 MiB: a trace is held to its end, where its attributes may stand
_DEPTH = 256  # open elements
# Of all different XML names together, which expat never forgets. Where reading goes on, those of a
# trace are counted alone: a trace that has others than XES has leaves none of them behind.
_NAME_CHARACTERS = 64 << 10
_XES_TAGS = (
    "log", "trace", "event", "string", "date", "int", "float", "boolean", "id", "list", "values",
    "container", "global", "extension", "classifier",
)  # fmt: skip
_XES_ATTRIBUTES = ("key", "value", "name", "prefix", "uri", "keys", "scope")
_KEYS = 1_000  # keys remembered, of up to 200 characters, for the message about a missing column
_KEY_CHARACTERS = 200

_HEAD_BYTES = 64 << 10  # a read of what stands before the root, mostly a line or two
# Where a trace begins; in sound XML nothing else has a `<` before it.
_TRACE_TAG = re.compile(rb"<(?:[^\s<>/=:!?]{1,64}:)?trace(?=[\s/>])")
_TAG_BYTES = 80  # at most of it, with what must follow it

_OTHER, _EVENT, _TRACE, _LOG = range(-4, 0)
_KINDS = {
    **dict.fromkeys(("string", "date", "boolean", "id"), PLAIN),
    "int": INT,
    "float": FLOAT,
    "event": _EVENT,
    "trace": _TRACE,
    "log": _LOG,
}
_NOWHERE = -1  # no element has this depth


@dataclass(frozen=True)
class XesReader:
    """Reads one XES file; implements `transforms.formats.base.Reader`.

    Attributes:
        goes_on: See `SourceFormat`. A trace with a fault is left out then and counts as one
            malformed record.
        unnamed: The column of the names of traces, where traces without one get one, and the path
            of the file; None: they have none.
    """

    goes_on: bool = False
    unnamed: tuple[str, str] | None = None

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns None, as only the records of an XES file tell its columns; reads up to the root.

        Raises:
            InputSchemaError: The stream is empty, or what it begins with is no XES log.
        """
        traces = _Traces(())
        try:
            while not traces.root and (piece := stream.read(_HEAD_BYTES)):
                traces.parse(piece)
            if not traces.root:
                traces.parse(b"")
        except _Fault as fault:
            if not traces.root:  # what stands behind the root is `read`'s
                raise _refusal(fault) from None
        return None

    def names_in(self, stream: BinaryIO, max_records: int) -> list[str]:
        """Returns the keys of the first events and their traces, as far as it can be read."""
        traces = _Traces(())
        with contextlib.suppress(_Fault):  # reading tells of them
            while traces.emitted < max_records and (piece := stream.read(_HEAD_BYTES)):
                traces.parse(piece)
                list(traces.batches(max_records))
        return traces.found()

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the events of `stream` in document order.

        An event's number counts the `<event>` elements of the file. Every batch has all the wanted
        columns, as strings; one that no event of the batch has is all null. No event is malformed
        on its own: XML that is not well formed cannot be read past the fault, which is an error
        after the batches before it, or has its trace left out. Behind that, a trace which was left
        out counts as one event.

        Args:
            stream: The decompressed bytes, in the encoding that their XML declaration names.
            wanted: Columns to hand over; names that begin with `case:` are keys of traces.
            required: Those of `wanted` that at least one event must have, if there is an event.
            batch_rows: Upper bound of the rows in a batch, at least 1; a batch whose text is long
                has fewer.

        Raises:
            InputSchemaError: The stream is empty, or is no XES log or has a DOCTYPE; no event has a
                required column; and, unless reading goes on, it is not well-formed XML, or exceeds
                a bound of this module.
        """
        names = None if self.unnamed is None else Names(*self.unnamed)
        source = Source(stream)
        traces = _Traces(wanted, names, source.encoding, forgets=self.goes_on)
        regular = _regular_traces(source, batch_rows)
        is_sound = True
        is_end = False
        piece = b""
        while not is_end:
            if not piece and traces.is_between:
                while (found := next(regular)) is not None:
                    yield from traces.batches(batch_rows)
                    traces.pass_over(found[1])
                    yield from traces.batches_of(found[0], batch_rows)
            piece = piece or _piece(source, traces)
            is_end = not piece
            try:
                traces.parse(piece)
                yield from traces.batches(batch_rows, is_end)
                piece = b""
            except _OtherNames as trace:
                piece, is_end = traces.given_from(trace.place), False
                traces.begin_anew(trace.line)
            except _Fault as fault:
                if not self.goes_on or not traces.root:
                    raise _refusal(fault) from None
                if is_sound:
                    _OPERATOR.warning(
                        "traces of XES are left out, at line %d: %s", fault.line, fault.reason
                    )
                is_sound = False
                yield from traces.batches(batch_rows)
                yield traces.leave_out()
                piece = _from_trace(source, traces.behind(fault))
                is_end = not piece
                traces.begin_anew()
        if traces.emitted and not traces.present.issuperset(required):
            raise missing_columns(traces.found(), required)


class _Fault(Exception):  # noqa: N818 - becomes an InputSchemaError, or a malformed record
    """What is wrong with a file.

    Attributes:
        reason: A clause, without anything of the data.
        line: Where; of the first fault of a file, counted from its begin.
        place: The byte at which the parser was, counted from where it began.
    """

    def __init__(self, reason: str, line: int, place: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.place = place


class _OtherNames(_Fault):
    """No fault: a trace begins there, and what was before it has names that XES does not have."""


class _Traces:
    """An expat parser of a file, and the values that wait for the end of their trace or batch.

    Attributes:
        emitted: How many events have left in batches.
        present: The wanted columns that some event which has left had.
        root: The tag of the root; empty before it.
        token_bytes: How much of an unfinished token was given so far.
    """

    def __init__(
        self,
        wanted: Sequence[str],
        names: Names | None = None,
        encoding: str | None = None,
        forgets: bool = False,
    ) -> None:
        """Begins a file.

        Args:
            wanted: The columns that are handed over.
            names: What names traces that have no name.
            encoding: In place of the one that the file declares; None: that one.
            forgets: Whether a trace that begins behind names which XES does not have is told by
                `_OtherNames`, and what follows is to be given to another parser.
        """
        self._wanted = list(wanted)
        self._names = names if names is not None and names.column in wanted else None
        self.emitted = 0
        self.present: set[str] = set()
        self.root = ""
        self._encoding = encoding
        self._forgets = forgets
        self._names_of_xes = frozenset[str]()  # tags also with the root's prefix
        self._n_traces = 0  # that have left
        self._keys: dict[tuple[str, bool], None] = {}  # and whether they are of events
        # What waits: those of ended traces with so many bytes of XML, and those of the open one.
        self._parts: list[str] = []
        self._n_ended = self._n_bytes = 0
        self.begin_anew()

    def begin_anew(self, first_line: int = 1) -> None:
        """Makes a parser of the file, or of what follows a fault or the begin of a trace in it.

        What the trace that is open had is forgotten.

        Args:
            first_line: The number of the line with which what is parsed begins.
        """
        self._first_line = first_line
        self._fed = 0  # bytes
        self._given = b""  # what was given last, from the begin of an unfinished token on
        self.token_bytes = 0
        self._n_names = 0
        self._trace_begin = 0
        self._is_in_cdata = False
        self._depth = 0  # open elements
        self._container = _NOWHERE  # depth of the trace or event whose children count now
        self._is_in_event = False
        del self._parts[self._n_ended :]
        self._kinds = _Kinds(_KINDS)
        parser = self._parser = expat.ParserCreate(self._encoding)
        parser.ordered_attributes = True  # a list costs less than a dict
        parser.StartElementHandler = self._start_element
        parser.EndElementHandler = self._end_element
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.XmlDeclHandler = self._note_encoding
        parser.StartCdataSectionHandler = partial(setattr, self, "_is_in_cdata", True)
        parser.EndCdataSectionHandler = partial(setattr, self, "_is_in_cdata", False)
        if hasattr(parser, "SetReparseDeferralEnabled"):  # expat 2.6: would blur the token's bound
            parser.SetReparseDeferralEnabled(False)
        self._begin = 0
        if self.root:
            self.parse(f"<{self.root}>".encode(self._encoding or "utf-8"))
            self._begin = self._fed

    @property
    def is_between(self) -> bool:
        """Whether what follows begins within the root alone, and is UTF-8."""
        return (
            self._depth == 1
            and not (self.token_bytes or self._is_in_cdata)
            and (self._encoding or "utf-8").lower() == "utf-8"
        )

    def parse(self, piece: bytes) -> None:
        """Gives the parser a piece; an empty one is the end.

        Raises:
            _Fault: It is no XML, no XES, or exceeds a bound.
            InputSchemaError: It is the end, and nothing came before it.
        """
        self._given = self._given[len(self._given) - self.token_bytes :] + piece
        self._fed += len(piece)
        parser = self._parser
        if not self._fed:
            raise InputSchemaError("the input is empty; an XES file has at least a <log>")
        # `from None`, as the causes may quote the input.
        try:
            parser.Parse(piece, not piece)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self._fault(f"it is not well-formed XML ({reason})") from None
        except (LookupError, ValueError):  # from Python's codecs, on behalf of expat
            raise self._fault("its encoding is unknown or broken") from None
        self.token_bytes = self._fed - parser.CurrentByteIndex
        if self.token_bytes > _TOKEN_BYTES:
            # A trace whose tag it is was met here, and does not begin there once more.
            raise _Fault("an XML token is longer than 16 MiB", self._line, self._fed - len(piece))
        self._check_names()
        if self._container != _NOWHERE:
            self._check_length(self._fed)

    def given_from(self, place: int) -> bytes:
        """Returns what was given from a place on, which is in the last piece or its first token."""
        return self._given[place - (self._fed - len(self._given)) :]

    def behind(self, fault: _Fault) -> bytes:
        """Returns what was given from where on a trace may begin that is not the one at fault."""
        # Of what follows a fault the first piece begins with the trace that is at fault now.
        return self.given_from(max(fault.place, self._begin + 1 if self._begin else 0))

    @property
    def _line(self) -> int:
        """The number of the line at which the parser is."""
        return self._first_line - 1 + self._parser.CurrentLineNumber

    def _fault(self, reason: str, kind: type[_Fault] = _Fault) -> _Fault:
        """Returns a fault at the place where the parser is, ready to raise."""
        return kind(reason, self._line, self._parser.CurrentByteIndex)

    def _check_names(self) -> None:
        names = self._parser.intern
        if len(names) > self._n_names:
            self._n_names = len(names)
            if sum(map(len, names)) > _NAME_CHARACTERS:
                raise self._fault("its different XML names take more than 64 KiB")

    def _check_length(self, place: int) -> None:
        if place - self._trace_begin > _TRACE_BYTES:
            raise self._fault("a trace takes more than 512 MiB of XML")

    def _note_encoding(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self._encoding = self._encoding or encoding

    def _refuse_doctype(self, *_declaration: object) -> None:
        raise self._fault(
            "it has a DOCTYPE, which XES does not need and through which entities come"
        )

    def _start_element(self, name: str, attributes: list[str]) -> None:
        """Handles a start tag; `attributes` alternates names and values."""
        depth = self._depth
        self._depth = depth + 1
        kind = self._kinds[name]
        if depth == self._container and kind >= PLAIN:
            if (pair := _pair(attributes)) is not None:
                self._parts += f"{self._is_in_event:d}{kind}{pair[0]}", pair[1]
        elif kind == _EVENT:
            if depth == 1:
                self._begin_trace()  # an event outside traces has one of its own, which is bare
            elif depth != self._container or self._is_in_event:
                raise self._fault("an <event> stands where XES has none")
            self._container, self._is_in_event = depth + 1, True
            self._parts += EVENT_HEAD, ""
        elif kind == _TRACE:
            if depth != 1:
                raise self._fault("a <trace> stands where XES has none")
            self._begin_trace()
        elif depth == 0:
            if kind != _LOG:
                raise self._fault("it is no XES log, as its root element is not <log>")
            self.root = name
            prefix = name.removesuffix("log")
            tags = (prefix + tag for tag in _XES_TAGS)
            self._names_of_xes = frozenset((*_XES_TAGS, *tags, *_XES_ATTRIBUTES))
        elif depth >= _DEPTH:
            raise self._fault(f"its elements are nested more than {_DEPTH} deep")

    def _begin_trace(self) -> None:
        self._trace_begin = self._parser.CurrentByteIndex
        is_first = self._trace_begin == self._begin
        if self._forgets and not (is_first or self._names_of_xes.issuperset(self._parser.intern)):
            raise self._fault("", _OtherNames)
        self._container, self._is_in_event = 2, False
        self._parts += TRACE_HEAD, ""

    def _end_element(self, _name: str) -> None:
        """Handles an end tag."""
        depth = self._depth
        self._depth = depth - 1
        if depth == self._container:
            if depth == 2:
                self._end_trace()
            else:
                self._container, self._is_in_event = 2, False

    def _end_trace(self) -> None:
        self._check_names()
        end = self._parser.CurrentByteIndex
        self._check_length(end)
        self._container = _NOWHERE
        self._n_ended = len(self._parts)
        self._n_bytes += end - self._trace_begin

    def found(self) -> list[str]:
        """Returns the names of the columns that the events have, as far as they were noted."""
        self._note(TraceValues.parsed(pa.array([*self._parts, ""])).keys() if self._parts else ())
        present = [name for name in self._wanted if name in self.present]
        columns = [
            column_of_event(key) if is_of_event else CASE_PREFIX + key
            for key, is_of_event in sorted(self._keys, key=lambda one: not one[1])
        ]
        return present + [name for name in columns if name not in self._wanted]

    def batches(self, batch_rows: int, is_end: bool = True) -> Iterator[RawBatch]:
        """Yields and forgets events of ended traces: if there are enough, or at the end."""
        if self._n_ended and (is_end or self._n_bytes >= _REGULAR_BYTES):
            parts = pa.array([*self._parts[: self._n_ended], ""], pa.string())
            del self._parts[: self._n_ended]
            self._n_ended = self._n_bytes = 0
            yield from self.batches_of(TraceValues.parsed(parts), batch_rows)

    def batches_of(self, values: TraceValues, batch_rows: int) -> Iterator[RawBatch]:
        """Yields events, once all that was before them has left."""
        self._note(values.keys())
        for columns, owners in values.batches(self._wanted, self._names, batch_rows, _BATCH_BYTES):
            yield self._batch(columns, self._n_traces + owners)
        self._n_traces += values.n_traces

    def _note(self, keys: Iterable[tuple[str, bool]]) -> None:
        for key, is_of_event in keys:
            if len(self._keys) < _KEYS and len(key) <= _KEY_CHARACTERS:
                self._keys[key, is_of_event] = None

    def pass_over(self, data: bytes) -> None:
        """Counts the lines of what the parser does not get of the file."""
        self._first_line += n_octets(data, "\n")
        if b"\r" in data:
            self._first_line += data.count(b"\r") - data.count(b"\r\n")

    def leave_out(self) -> RawBatch:
        """Returns the trace that is open as one malformed record, which is all that is held."""
        self.emitted += 1
        none = np.empty(0, np.int64)
        fields = pa.schema([(name, pa.string()) for name in self._wanted])
        empty = pa.RecordBatch.from_pylist([], fields)
        return RawBatch(empty, none, np.array([self.emitted - 1], np.int64), none)

    def _batch(self, read: dict[str, tuple[pa.Array, np.ndarray]], traces: np.ndarray) -> RawBatch:
        """The events that leave now: their texts, which are fractions, and their traces."""
        n = len(traces)
        texts = [read[name][0] for name in self._wanted]
        self.present.update(
            name for name, text in zip(self._wanted, texts, strict=True) if text.null_count < n
        )
        self.emitted += n
        return RawBatch(
            pa.RecordBatch.from_arrays(texts, self._wanted),
            np.arange(self.emitted - n, self.emitted, dtype=np.int64),
            np.empty(0, np.int64),
            traces,
            {name: marks for name, (_, marks) in read.items()},
        )


def _pair(attributes: Sequence[str]) -> tuple[str, str] | None:
    """Returns the key and the value among names and values that alternate; None: one is missing."""
    if len(attributes) == 4 and attributes[0] == "key" and attributes[2] == "value":
        return attributes[1], attributes[3]
    pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
    return (pairs["key"], pairs["value"]) if "key" in pairs and "value" in pairs else None


class _Kinds(dict[str, int]):
    """The kind of an element by its tag, whose namespace prefix is looked at once."""

    def __missing__(self, tag: str) -> int:
        kind = _KINDS.get(tag.rpartition(":")[2], _OTHER)
        self[tag] = kind  # at most as many as _NAME_CHARACTERS admits, and one piece's
        return kind


def _regular_traces(source: Source, batch_rows: int) -> Iterator[tuple[TraceValues, bytes] | None]:
    """Yields traces that are regular as a whole, with their bytes; None: a parser is to go on."""
    # At most as much is looked at as a batch takes, and no token that is too long.
    most = min(max(_PIECE_BYTES, batch_rows * _EVENT_BYTES), _REGULAR_BYTES, _TOKEN_BYTES)
    size = most
    while True:
        data = read_fully(source.read, size)
        begin, end = data.find(BEGIN), data.rfind(END) + len(END)
        regular = None
        if 0 <= begin < end and not data[:begin].strip(b" \t\r\n"):
            regular = read_regular(data[begin:end])
        source.unread(data if regular is None else data[end:])
        if regular is not None:
            yield regular, data[:end]
            size = min(2 * size, most)
        elif size > _PIECE_BYTES:
            size = max(size // 4, _PIECE_BYTES)
        else:
            yield None


def _piece(source: Source, traces: _Traces) -> bytes:
    """Returns a piece for the parser, which ends with a trace if it can; none at the end.

    It is as long as the unfinished token, which expat scans anew.
    """
    held = traces.token_bytes
    piece = read_fully(source.read, min(max(_PIECE_BYTES, held), _TOKEN_BYTES - held + 1))
    # What comes next was not regular, or may be so behind the trace that is open.
    end = (piece.rfind(END) if traces.is_between else piece.find(END)) + len(END)
    if len(END) <= end < len(piece):
        source.unread(piece[end:])
        return piece[:end]
    return piece


def _refusal(fault: _Fault) -> InputSchemaError:
    # The error may be shown to anybody, and the line is the operator's to know.
    _OPERATOR.warning("an XES file cannot be read at line %d: %s", fault.line, fault.reason)
    return InputSchemaError(f"the XES file cannot be read: {fault.reason}; see the operator's log")


def _from_trace(stream: Source, piece: bytes) -> bytes:
    """Returns what follows from where the next trace begins; nothing if none does.

    Args:
        stream: What comes after `piece`; is read up to that trace.
        piece: What was read last, from where a trace may begin.
    """
    while (tag := _TRACE_TAG.search(piece)) is None:
        more = read_fully(stream.read, _PIECE_BYTES)
        if not more:
            return b""
        piece = piece[-_TAG_BYTES:] + more
    return piece[tag.start() :]


def reader(how: SourceFormat, path: str) -> XesReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    unnamed = None if how.unnamed_traces is None else (how.unnamed_traces, path)
    return XesReader(how.goes_on, unnamed)
