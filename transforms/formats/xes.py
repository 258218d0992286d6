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

import codecs
import contextlib
import hashlib
import logging
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import CASE_PREFIX
from tracecloak.schemas.events.source_column import text_of, texts_of_scalars
from tracecloak.transforms.formats.base import RawBatch, missing_columns
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.formats.xes_regular import (
    BEGIN,
    END,
    EVENT_MARK,
    RegularTraces,
    column_of_event,
    content_of,
    key_of,
    n_octets,
    number,
    read_regular,
)

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

_OTHER, _ATTRIBUTE, _EVENT, _TRACE, _LOG, _INT, _FLOAT = range(7)
_VALUED = (_ATTRIBUTE, _INT, _FLOAT)
_KINDS = {
    **dict.fromkeys(("string", "date", "boolean", "id"), _ATTRIBUTE),
    "int": _INT,
    "float": _FLOAT,
    "event": _EVENT,
    "trace": _TRACE,
    "log": _LOG,
}
_LONG_TRACE = "a trace takes more than 512 MiB of XML"
_NOWHERE = -1  # no element has this depth

# A float stands for itself, as only together with others of its column it becomes text.
_Column = list[str | float | None]


@dataclass(frozen=True)
class XesReader:
    """Reads one XES file; implements `transforms.formats.base.Reader`.

    Attributes:
        goes_on: See `SourceFormat`. A trace with a fault is left out then and counts as one
            malformed record, and a column that no event has is told as a warning.
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
        log = _Log(())
        feed = _Feed(log)
        try:
            while not log.has_begun and (piece := stream.read(_HEAD_BYTES)):
                feed.parse(piece)
            if not log.has_begun:
                feed.parse(b"")
        except _Fault as fault:
            if not log.has_begun:  # what stands behind the root is `read`'s
                raise _refusal(fault) from None
        return None

    def names_in(self, stream: BinaryIO, max_records: int) -> list[str]:
        """Returns the keys of the first events and their traces; see `ListingReader`."""
        log = _Log(())
        feed = _Feed(log)
        with contextlib.suppress(_Fault, _OtherNames):  # reading tells of them
            while log.closed < max_records and (piece := stream.read(_HEAD_BYTES)):
                feed.parse(piece)
        return log.found()

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
            InputSchemaError: The stream is empty, or is no XES log or has a DOCTYPE; and, unless
                reading goes on, it is not well-formed XML, exceeds a bound of this module, or no
                event has a required column.
        """
        log = _Log(wanted, None if self.unnamed is None else _Names(*self.unnamed))
        encoding, is_searchable, source = _searchable(stream, self.goes_on)
        feed = _Feed(log, encoding, forgets=self.goes_on)
        pieces = _Pieces(source, is_searchable, batch_rows)
        left = 0  # how many bytes the parser had been given when events last left
        is_sound = True
        is_end = False
        piece = b""
        while not is_end:
            if not piece and feed.is_between_traces:
                yield from _full(pieces.regular_batches(log, feed), batch_rows)
                left = feed.fed
            piece = piece or pieces.read(feed.wanted_bytes)
            is_end = not piece
            try:
                feed.parse(piece)
                enough = 1 if is_end or feed.fed - left >= _BATCH_BYTES else batch_rows
                if log.closed >= enough:
                    yield from log.batches(batch_rows, enough)
                    left = feed.fed
                elif not log.holds_events:
                    left = feed.fed
                else:
                    feed.check_open_trace()
                piece = b""
            except _OtherNames as trace:
                piece, is_end = feed.rest(trace.place), False
                log.begin_anew()
                left -= trace.place
                feed = feed.anew(trace.line)
                left += feed.fed
            except _Fault as fault:
                if not self.goes_on or not log.has_begun:
                    raise _refusal(fault) from None
                if is_sound:
                    _OPERATOR.warning(
                        "an XES file has a fault at line %d: %s; its trace is left out, and so is "
                        "every other one with a fault",
                        fault.line,
                        fault.reason,
                    )
                is_sound = False
                yield from log.batches(batch_rows, 1)
                yield log.leave_out()
                piece = _from_trace(source, feed.behind(fault))
                is_end = not piece
                feed, left = feed.anew(), 0
        if log.emitted and not log.present.issuperset(required):
            error = missing_columns(log.found(), required)
            if not self.goes_on:
                raise error
            _OPERATOR.warning("%s", error)


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


class _OtherNames(Exception):  # noqa: N818 - no error
    """A trace begins, and what was before it has names that XES does not have.

    Attributes:
        line: Where it begins.
        place: The byte at which it does.
    """

    def __init__(self, line: int, place: int) -> None:
        super().__init__()
        self.line = line
        self.place = place


class _Feed:
    """An expat parser, and how much it was given."""

    def __init__(
        self,
        log: _Log,
        encoding: str | None = None,
        root: str = "",
        forgets: bool = False,
        first_line: int = 1,
    ) -> None:
        """Makes a parser of a file, or of what follows a fault in it.

        Args:
            log: Gets what is parsed.
            encoding: In place of the one that the file declares; None: that one.
            root: The tag of the root, where what is parsed begins behind its start; else none.
            forgets: Whether a trace that begins behind names which XES does not have is told by
                `_OtherNames`, and what follows is given to another parser.
            first_line: The number of the line with which what is parsed begins.
        """
        self.fed = 0  # bytes
        self._log = log
        self._encoding = encoding
        self._forgets = forgets
        self._first_line = first_line
        self._held = b""  # what was given of a token whose end is yet to come
        self._piece = b""
        self._token = 0  # how many bytes were given of it
        self._names = 0
        self._names_of_xes = 0  # as many of them were seen to be of XES
        self._trace = 0  # where the last trace began
        self._is_in_cdata = False
        parser = self._parser = expat.ParserCreate(encoding)
        log.fault = self.fault
        log.begins_trace = self._trace_begins
        log.ends_trace = self._trace_ends
        parser.ordered_attributes = True  # a list costs less than a dict
        parser.StartElementHandler = log.start_element if log.names is None else log.start_noted
        parser.EndElementHandler = log.end_element
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.XmlDeclHandler = self._note_encoding
        parser.StartCdataSectionHandler = lambda: self._note_cdata(True)
        parser.EndCdataSectionHandler = lambda: self._note_cdata(False)
        if hasattr(parser, "SetReparseDeferralEnabled"):  # expat 2.6: would blur the token's bound
            parser.SetReparseDeferralEnabled(False)
        if root:
            self.parse(f"<{root}>".encode(encoding or "utf-8"))
        self._begin = self.fed

    @property
    def is_between_traces(self) -> bool:
        """Whether what follows begins within the root alone, and is UTF-8."""
        return (
            self._log.is_between_traces
            and not (self._token or self._is_in_cdata)
            and (self._encoding or "utf-8").lower() == "utf-8"
        )

    def pass_over(self, data: bytes) -> None:
        """Counts the lines of what the parser does not get."""
        self._first_line += n_octets(data, "\n")
        if b"\r" in data:
            self._first_line += data.count(b"\r") - data.count(b"\r\n")

    @property
    def wanted_bytes(self) -> int:
        """How long the next piece may be: as the unfinished token, which expat scans anew."""
        return min(max(_PIECE_BYTES, self._token), _TOKEN_BYTES - self._token + 1)

    def fault(self, reason: str) -> _Fault:
        """Returns a fault at the place where the parser is, ready to raise."""
        return _Fault(reason, self._line, self._parser.CurrentByteIndex)

    @property
    def _line(self) -> int:
        """The number of the line at which the parser is."""
        return self._first_line - 1 + self._parser.CurrentLineNumber

    def parse(self, piece: bytes) -> None:
        """Gives the parser a piece; an empty one is the end.

        Raises:
            _Fault: It is no XML, no XES, or exceeds a bound.
            InputSchemaError: It is the end, and nothing came before it.
        """
        self._held = (self._held + self._piece)[-self._token :] if self._token else b""
        self._piece = piece
        self.fed += len(piece)
        parser = self._parser
        if not self.fed:
            raise InputSchemaError("the input is empty; an XES file has at least a <log>")
        # `from None`, as the causes may quote the input.
        try:
            parser.Parse(piece, not piece)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise self.fault(f"it is not well-formed XML ({reason})") from None
        except (LookupError, ValueError):  # from Python's codecs, on behalf of expat
            raise self.fault("its encoding is unknown or broken") from None
        self._token = self.fed - parser.CurrentByteIndex
        if self._token > _TOKEN_BYTES:
            # A trace whose tag it is was met here, and does not begin there once more.
            raise _Fault("an XML token is longer than 16 MiB", self._line, self.fed - len(piece))
        self._check_names()

    def _check_names(self) -> None:
        names = self._parser.intern
        if len(names) > self._names:
            self._names = len(names)
            if sum(map(len, names)) > _NAME_CHARACTERS:
                raise self.fault("its different XML names take more than 64 KiB")

    def _trace_begins(self) -> None:
        self._trace = self._parser.CurrentByteIndex
        names = self._parser.intern
        if self._forgets and len(names) > self._names_of_xes:
            if self._log.names_of_xes.issuperset(names):
                self._names_of_xes = len(names)
            elif self._trace > self._begin:
                raise _OtherNames(self._line, self._trace)

    def _trace_ends(self) -> None:
        self._check_names()
        if self._parser.CurrentByteIndex - self._trace > _TRACE_BYTES:
            raise self.fault(_LONG_TRACE)

    def check_open_trace(self) -> None:
        """Makes sure that the trace which began last is not too long so far.

        Raises:
            _Fault: It is.
        """
        if self.fed - self._trace > _TRACE_BYTES:
            raise self.fault(_LONG_TRACE)

    def rest(self, place: int) -> bytes:
        """Returns what was given from a place on, which is in the last piece or its first token."""
        given = self._held + self._piece
        return given[place - self.fed :]

    def behind(self, fault: _Fault) -> bytes:
        """Returns what was given from where on a trace may begin that is not the one at fault."""
        # Of what follows a fault the first piece begins with the trace that is at fault now.
        first = self._begin + 1 if self._begin else 0
        given = self._held + self._piece
        return given[max(fault.place, first) - (self.fed - len(given)) :]

    def anew(self, first_line: int = 1) -> _Feed:
        """Returns what parses what follows a fault, or from the begin of a trace on."""
        return _Feed(self._log, self._encoding, self._log.root, self._forgets, first_line)

    def _note_encoding(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self._encoding = self._encoding or encoding

    def _note_cdata(self, begins: bool) -> None:
        self._is_in_cdata = begins

    def _refuse_doctype(self, *_declaration: object) -> None:
        raise self.fault(
            "it has a DOCTYPE, which XES does not need and through which entities come"
        )


class _Names:
    """Gives traces names by their contents; see the module.

    Remembers 8 bytes of each digest. Two in 2^64 are counted as one, and have different names.

    Attributes:
        column: That of the names.
    """

    def __init__(self, column: str, path: str) -> None:
        self.column = column
        self._of_file = hashlib.blake2b(path.encode(errors="surrogatepass"), digest_size=16)
        self._n_named: Counter[int] = Counter()

    def name(self, content: str) -> str:
        """Returns the name of the next trace with a content."""
        of_trace = self._of_file.copy()
        of_trace.update(content.encode())
        digest = of_trace.digest()
        self._n_named[key := int.from_bytes(digest[:8])] += 1
        return f"{digest.hex()}-{self._n_named[key]}"

    def named(self, names: pa.Array, owners: np.ndarray, contents: pa.Array) -> pa.Array:
        """Returns the names of the traces of events where some are missing or empty.

        Args:
            names: string[n], of the traces of events.
            owners: int64[n], ascending: the trace of each event.
            contents: string[n_traces], the content of each trace.
        """
        is_unnamed = np.asarray(pc.fill_null(pc.equal(names, ""), True))
        traces, rows = np.unique(owners[is_unnamed], return_inverse=True)
        given = list(map(self.name, contents.take(pa.array(traces)).to_pylist()))
        return (
            names
            if not given
            else pc.replace_with_mask(names, is_unnamed, pa.array(given).take(rows))
        )


class _Log:
    """The parser's handlers, and the events that wait for the end of their trace or batch.

    Attributes:
        closed: How many of the events held are of traces that have ended; they are the first ones.
        emitted: How many events have left in batches.
        present: The wanted columns that some event which has left had.
        root: The tag of the root; empty before it.
        wanted: The columns that are handed over.
        names: What names traces that have no name, in a wanted column; None: nothing does.
        names_of_xes: The names of elements and attributes that XES has, tags also with the root's
            prefix.
        fault: Makes what is raised where an element is wrong.
        begins_trace: Is called where a trace begins, before anything of it is noted.
        ends_trace: Is called where one ends.
    """

    fault: Callable[[str], _Fault]
    begins_trace: Callable[[], None]
    ends_trace: Callable[[], None]

    def __init__(self, wanted: Sequence[str], names: _Names | None = None) -> None:
        self.names = names if names is not None and names.column in wanted else None
        self._content: list[str] = []  # of the trace that is open
        self.closed = 0
        self.emitted = 0
        self.present: set[str] = set()
        self.root = ""
        self.names_of_xes = frozenset[str]()
        self.wanted = list(wanted)
        # By wanted column: a value for each event held, or for each trace from _first_trace on.
        self._of_events: dict[str, _Column] = {}
        self._of_traces: dict[str, _Column] = {}
        for name in wanted:
            (self._of_traces if name.startswith(CASE_PREFIX) else self._of_events)[name] = []
        self._owners = array("q")  # the number of the trace of each event held
        self._first_trace = 0
        self._traces = 0  # how many have begun
        self._depth = 0  # open elements
        self._container = _NOWHERE  # depth of the trace or event whose children count now
        self._event_keys = _Targets(self._of_events, column_of_event)
        self._trace_keys = _Targets(self._of_traces, CASE_PREFIX.__add__)
        self._targets = self._trace_keys  # of the container
        self._kinds = _Kinds(_KINDS)

    @property
    def has_begun(self) -> bool:
        """Whether the root's start was seen."""
        return bool(self.root)

    @property
    def is_between_traces(self) -> bool:
        """Whether the root is open, and nothing in it."""
        return self._depth == 1

    @property
    def holds_events(self) -> bool:
        """Whether any event waits here."""
        return bool(self._owners)

    def found(self) -> list[str]:
        """Returns the names of the columns that the events have, as far as they were noted."""
        present = [name for name in self.wanted if name in self.present]
        return present + self._event_keys.unwanted() + self._trace_keys.unwanted()

    def start_element(self, name: str, attributes: list[str]) -> None:
        """Handles a start tag; `attributes` alternates names and values."""
        depth = self._depth
        self._depth = depth + 1
        kind = self._kinds[name]
        if depth == self._container and kind in _VALUED:
            if (pair := _pair(attributes)) is not None:
                key, value = pair
                held = value if kind == _ATTRIBUTE else number(value, kind == _INT)
                self._targets[key][-1] = held
        elif kind == _EVENT:
            if depth == 1:
                self._begin_trace()  # an event outside traces has one of its own, which is bare
            elif depth != self._container or self._targets is not self._trace_keys:
                raise self.fault("an <event> stands where XES has none")
            self._begin_event(depth + 1)
        elif kind == _TRACE:
            if depth != 1:
                raise self.fault("a <trace> stands where XES has none")
            self._begin_trace()
        elif depth == 0:
            if kind != _LOG:
                raise self.fault("it is no XES log, as its root element is not <log>")
            self.root = name
            prefix = name.removesuffix("log")
            tags = (prefix + tag for tag in _XES_TAGS)
            self.names_of_xes = frozenset((*_XES_TAGS, *tags, *_XES_ATTRIBUTES))
        elif depth >= _DEPTH:
            raise self.fault(f"its elements are nested more than {_DEPTH} deep")

    def start_noted(self, name: str, attributes: list[str]) -> None:
        """Handles a start tag, and notes what it adds to the content of its trace."""
        depth, n_traces, n_events = self._depth, self._traces, len(self._owners)
        self.start_element(name, attributes)
        if self._traces > n_traces:
            self._content = []
        if len(self._owners) > n_events:
            self._content.append(EVENT_MARK)
        elif depth == self._container and self._kinds[name] in _VALUED:
            if (pair := _pair(attributes)) is not None:
                is_of_event = self._targets is self._event_keys
                self._content += content_of(pair[0], is_of_event), pair[1]

    def end_element(self, _name: str) -> None:
        """Handles an end tag."""
        depth = self._depth
        self._depth = depth - 1
        if depth == self._container:
            if depth == 2:
                self.ends_trace()
                if self.names is not None:
                    column = self._of_traces[self.names.column]
                    if not text_of(column[-1]):
                        column[-1] = self.names.name("".join(self._content))
                self._container = _NOWHERE
                self.closed = len(self._owners)
            else:
                self._container = 2
                self._targets = self._trace_keys

    def _begin_trace(self) -> None:
        self.begins_trace()
        if not self._owners:  # nobody asks for the values of earlier traces
            self._first_trace = self._traces
            for column in self._of_traces.values():
                column.clear()
        for column in self._of_traces.values():
            column.append(None)
        self._traces += 1
        self._container = 2
        self._targets = self._trace_keys

    def _begin_event(self, depth: int) -> None:
        for column in self._of_events.values():
            column.append(None)
        self._owners.append(self._traces - 1)
        self._container = depth
        self._targets = self._event_keys

    def batches(self, batch_rows: int, at_least: int) -> Iterator[RawBatch]:
        """Yields and forgets events of ended traces as long as there are `at_least` so many."""
        while self.closed >= at_least:
            yield self._take(min(self.closed, batch_rows))

    def take_regular(self, traces: RegularTraces) -> RawBatch:
        """Returns traces that were read as a whole, once all that was before them has left."""
        n = len(traces.owners)
        read = {name: values for name, (values, _) in traces.columns.items()}
        if self.names is not None:
            column = self.names.column
            read[column] = self.names.named(read[column], traces.owners, traces.contents)
        fractional = {name: marks for name, (_, marks) in traces.columns.items()}
        batch = RawBatch(
            pa.RecordBatch.from_arrays([read[name] for name in self.wanted], self.wanted),
            np.arange(self.emitted, self.emitted + n, dtype=np.int64),
            np.empty(0, np.int64),
            self._traces + traces.owners,
            fractional,
        )
        self.emitted += n
        self._traces += traces.n_traces
        self.present.update(c for c in self.wanted if read[c].null_count < n)
        for targets, keys in zip((self._trace_keys, self._event_keys), traces.keys, strict=True):
            for key in keys:
                targets[key]  # notes it
        return batch

    def begin_anew(self) -> None:
        """Gets ready for another parser of what follows; keeps what was read."""
        self._depth = 0
        self._container = _NOWHERE
        self._kinds = _Kinds(_KINDS)  # as the parser's names, which are forgotten, too

    def leave_out(self) -> RawBatch:
        """Forgets the trace that is open, whose events are all that is held, as one record."""
        record = self.emitted
        self.emitted += 1
        self.begin_anew()
        del self._owners[:]
        for column in self._of_events.values():
            column.clear()
        columns = pa.RecordBatch.from_arrays(
            [pa.array([], pa.string()) for _ in self.wanted], self.wanted
        )
        none = np.empty(0, np.int64)
        return RawBatch(columns, none, np.array([record], np.int64), none)

    def _take(self, n: int) -> RawBatch:
        """Removes the first n events, or fewer but one where their text is long."""
        numbers = np.array(self._owners[:n], np.int64)
        owners = numbers - self._first_trace
        n_traces = int(owners[-1]) + 1
        read = {k: texts_of_scalars(c[:n]) for k, c in self._of_events.items()}
        read_of_traces = {k: texts_of_scalars(c[:n_traces]) for k, c in self._of_traces.items()}
        events = {k: text for k, (text, _) in read.items()}
        traces = {k: text for k, (text, _) in read_of_traces.items()}
        # A trace's value is repeated with each of its events, so what was read does not bound what
        # leaves.
        text = np.zeros(n, np.int64)
        for values in events.values():
            text += _lengths(values)
        for values in traces.values():
            text += _lengths(values)[owners]
        n = max(1, int(np.searchsorted(np.cumsum(text), _BATCH_BYTES, side="right")))

        arrays = {k: v.slice(0, n) for k, v in events.items()}
        arrays |= {k: v.take(pa.array(owners[:n])) for k, v in traces.items()}
        fractional = {k: marks[:n] for k, (_, marks) in read.items()}
        fractional |= {k: marks[owners[:n]] for k, (_, marks) in read_of_traces.items()}
        self.present.update(k for k, v in arrays.items() if v.null_count < n)
        records = np.arange(self.emitted, self.emitted + n, dtype=np.int64)
        self._forget(n)
        columns = pa.RecordBatch.from_arrays([arrays[k] for k in self.wanted], self.wanted)
        return RawBatch(columns, records, np.empty(0, np.int64), numbers[:n], fractional)

    def _forget(self, n: int) -> None:
        self.emitted += n
        self.closed -= n
        del self._owners[:n]
        for column in self._of_events.values():
            del column[:n]
        # The last trace stays in any case: it may be open, and its events yet to come.
        first = self._owners[0] if self._owners else self._traces - 1
        for column in self._of_traces.values():
            del column[: first - self._first_trace]
        self._first_trace = first


def _pair(attributes: Sequence[str]) -> tuple[str, str] | None:
    """Returns the key and the value among names and values that alternate; None: one is missing."""
    if len(attributes) == 4 and attributes[0] == "key" and attributes[2] == "value":
        return attributes[1], attributes[3]
    pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
    return (pairs["key"], pairs["value"]) if "key" in pairs and "value" in pairs else None


class _Targets(dict[str, _Column]):
    """The column to whose end the value of a key goes; that of an unwanted key goes into a bin."""

    def __init__(self, columns: dict[str, _Column], column_of: Callable[[str], str]) -> None:
        super().__init__({key_of(name): column for name, column in columns.items()})
        self._column_of = column_of
        self._bin: _Column = [None]

    def __missing__(self, key: str) -> _Column:
        if len(self) < _KEYS and len(key) <= _KEY_CHARACTERS:
            self[key] = self._bin
        return self._bin

    def unwanted(self) -> list[str]:
        """Returns the columns that elements had and that were not wanted."""
        return [self._column_of(key) for key, column in self.items() if column is self._bin]


class _Kinds(dict[str, int]):
    """The kind of an element by its tag, whose namespace prefix is looked at once."""

    def __missing__(self, tag: str) -> int:
        kind = _KINDS.get(tag.rpartition(":")[2], _OTHER)
        self[tag] = kind  # at most as many as _NAME_CHARACTERS admits, and one piece's
        return kind


class _Pieces:
    """What a file is read in: traces that are regular as a whole, and pieces for a parser."""

    def __init__(self, source: _Joined, is_searchable: bool, batch_rows: int) -> None:
        self._source = source
        self._batch_rows = batch_rows
        # At most as much is looked at as a batch takes, and no token that is too long.
        most = min(max(_PIECE_BYTES, batch_rows * _EVENT_BYTES), _REGULAR_BYTES, _TOKEN_BYTES)
        self._most = self._size = most
        # So many bytes are the parser's before regular traces are looked for again.
        self._parsed = 0 if is_searchable else math.inf
        self._parsed_next = _PIECE_BYTES

    def regular_batches(self, log: _Log, feed: _Feed) -> Iterator[tuple[RawBatch, int]]:
        """Yields batches of the regular traces that come next, with the bytes that each takes.

        Those that wait in the log come before them; it and the feed, which are between traces, go
        on behind them.
        """
        while self._parsed <= 0 and (data := _read(self._source, self._size)):
            begin, end = data.find(BEGIN), data.rfind(END) + len(END)
            traces = None
            if 0 <= begin < end and not data[:begin].strip(b" \t\r\n"):
                traces = read_regular(
                    data[begin:end], log.wanted, _BATCH_BYTES, log.names is not None
                )
            if traces is not None:
                for batch in log.batches(self._batch_rows, 1):
                    yield batch, batch.columns.nbytes
                self._source.unread(data[end:])
                feed.pass_over(data[:end])
                yield log.take_regular(traces), end
                self._size = min(2 * self._size, self._most)
                self._parsed_next = _PIECE_BYTES
            else:
                self._source.unread(data)
                if self._size > _PIECE_BYTES:
                    self._size = max(self._size // 4, _PIECE_BYTES)
                else:
                    self._parsed = self._parsed_next
                    self._parsed_next = min(2 * self._parsed, _REGULAR_BYTES)

    def read(self, size: int) -> bytes:
        """Returns a piece for the parser, at most `size` bytes; none at the end."""
        piece = _read(self._source, size)
        end = piece.find(END) + len(END)
        if self._parsed <= 0 and len(END) <= end < len(piece):
            self._source.unread(piece[end:])
            return piece[:end]
        self._parsed -= len(piece)
        return piece


def _full(parts: Iterator[tuple[RawBatch, int]], batch_rows: int) -> Iterator[RawBatch]:
    """Yields batches of so many rows, made of ones that follow each other, or of as many bytes.

    Args:
        parts: Batches without malformed records, each with the number of bytes that it counts for.
        batch_rows: Upper bound of the rows in a batch.
    """
    held: list[RawBatch] = []
    n_bytes = 0
    for part, size in parts:
        if held and n_bytes + size > _BATCH_BYTES:
            yield from _joined(held).cut(batch_rows)
            held, n_bytes = [], 0
        if len(part.records):
            held.append(part)
            n_bytes += size
        if sum(len(batch.records) for batch in held) >= batch_rows:
            *whole, rest = _joined(held).cut(batch_rows)
            yield from whole
            held, n_bytes = [rest], rest.columns.nbytes
    if held:
        yield from _joined(held).cut(batch_rows)


def _joined(batches: Sequence[RawBatch]) -> RawBatch:
    if len(batches) == 1:
        return batches[0]
    columns = batches[0].columns  # where the path has all that is read, the file gives none
    if columns.num_columns:
        table = pa.Table.from_batches([batch.columns for batch in batches]).combine_chunks()
        (columns,) = table.to_batches()
    return RawBatch(
        columns,
        np.concatenate([batch.records for batch in batches]),
        np.empty(0, np.int64),
        np.concatenate([batch.traces for batch in batches]),
        {
            name: np.concatenate([batch.fractional[name] for batch in batches])
            for name in batches[0].fractional
        },
    )


def _read(stream: BinaryIO | _Joined, size: int) -> bytes:
    """Reads `size` bytes or to the end, also from a stream that gives less than it is asked for."""
    pieces = []
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _lengths(values: pa.Array) -> np.ndarray:
    """int64[n]: bytes of each text, 0 for null."""
    return np.asarray(pc.fill_null(pc.binary_length(values), 0), np.int64)


def _refusal(fault: _Fault) -> InputSchemaError:
    # The error may be shown to anybody, and the line is the operator's to know.
    _OPERATOR.warning("an XES file cannot be read at line %d: %s", fault.line, fault.reason)
    return InputSchemaError(
        f"the XES file cannot be read: {fault.reason}; the operator's log says at which "
        "line, and so does xmllint"
    )


def _from_trace(stream: _Joined, piece: bytes) -> bytes:
    """Returns what follows from where the next trace begins; nothing if none does.

    Args:
        stream: What comes after `piece`; is read up to that trace.
        piece: What was read last, from where a trace may begin.
    """
    while (tag := _TRACE_TAG.search(piece)) is None:
        more = _read(stream, _PIECE_BYTES)
        if not more:
            return b""
        piece = piece[-_TAG_BYTES:] + more
    return piece[tag.start() :]


# A character that XML forbids, in place of what the encoding does not have.
_NO_CHARACTER = "\uffff"
_MARKS = "tracecloak.no-character"
_BYTES_OF_CODE_UNITS = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}


def _marked(error: UnicodeError) -> tuple[str, int]:
    return _NO_CHARACTER, cast(UnicodeDecodeError, error).end  # nothing is encoded so


codecs.register_error(_MARKS, _marked)


def _searchable(stream: BinaryIO, recodes: bool) -> tuple[str | None, bool, _Joined]:
    """Returns the encoding of a stream if that is known, whether it can be searched, and itself.

    Args:
        stream: A file. It can be searched if its ASCII characters are single bytes, as they are in
            any encoding that expat reads but UTF-16.
        recodes: Whether UTF-16 becomes UTF-8.
    """
    first = _read(stream, 2)
    encoding = _BYTES_OF_CODE_UNITS.get(first)
    joined = _Joined(first, stream)
    if encoding is None or not recodes:
        return None, encoding is None, joined
    return "utf-8", True, _Joined(b"", joined, codecs.getincrementaldecoder(encoding)(_MARKS))


class _Joined:
    """A stream that begins with bytes which were read of it, and is decoded if need be."""

    def __init__(
        self,
        first: bytes,
        rest: BinaryIO | _Joined,
        decoder: codecs.IncrementalDecoder | None = None,
    ) -> None:
        self._first = first
        self._at = 0
        self._rest = rest
        self._decoder = decoder

    def read(self, size: int) -> bytes:
        """Returns some bytes, mostly as many as asked for; none at the end."""
        while self._at == len(self._first):
            piece = self._rest.read(size)
            if self._decoder is None:
                return piece
            self._first, self._at = self._decoder.decode(piece, not piece).encode("utf-8"), 0
            if not piece:
                break
        data = self._first[self._at : self._at + size]
        self._at += len(data)
        return data

    def unread(self, data: bytes) -> None:
        """Lets bytes come again."""
        self._first, self._at = data + self._first[self._at :], 0


def reader(how: SourceFormat, path: str) -> XesReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    unnamed = None if how.unnamed_traces is None else (how.unnamed_traces, path)
    return XesReader(how.goes_on, unnamed)
