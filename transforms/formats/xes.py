"""Reads XES event logs (IEEE 1849, and the older 1.0 and 2.0) as a stream of record batches.

An attribute that is a direct child of an `<event>` is a column under its key (`concept:name`), one
of a `<trace>` a column under `case:` and its key (`case:concept:name`), as pm4py names them. A
value is handed over exactly as its `value` attribute has it, times too; reading times is the
mapping's. Where a key comes twice in one element, the last one holds.

Not read: nested attributes, lists and containers (they have no value), classifiers, extensions, the
attributes of the log, and the defaults in `<global>`: an event that lacks a global attribute has
null there. Names match under any namespace prefix or none. A trace without events leaves nothing.

A hostile file fails early and cheaply: no DOCTYPE, hence no entity and nothing fetched; and bounds
on a token, on nesting, on XML names and on what is held. Decompression is the caller's.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import BinaryIO
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.transforms.formats.base import RawBatch, missing_columns
from tracecloak.transforms.formats.registry import SourceFormat

_LOGGER = logging.getLogger("tracecloak")
CASE_PREFIX = "case:"

_PIECE_BYTES = 256 << 10  # 256 KiB a read: many tags to a call, small against a batch
_TOKEN_BYTES = 16 << 20  # 16 MiB: far beyond any tag of a log; expat holds a token as a whole
_BATCH_BYTES = 64 << 20  # 64 MiB of XML, or of text, to a batch, however few rows that makes
_TRACE_BYTES = 512 << 20  # 512 MiB: a trace is held to its end, where its attributes may stand
_DEPTH = 256  # open elements
_NAME_CHARACTERS = 64 << 10  # of all different XML names together, which expat never forgets
_KEYS = 1_000  # keys remembered, of up to 200 characters, for the message about a missing column
_KEY_CHARACTERS = 200

_OTHER, _ATTRIBUTE, _EVENT, _TRACE, _LOG = range(5)
_KINDS = {
    **dict.fromkeys(("string", "date", "int", "float", "boolean", "id"), _ATTRIBUTE),
    "event": _EVENT,
    "trace": _TRACE,
    "log": _LOG,
}
_NOWHERE = -1  # no element has this depth

_Column = list[str | None]


class XesReader:
    """Reads one XES file; implements `transforms.formats.base.Reader`."""

    def column_names(self, stream: BinaryIO) -> list[str] | None:
        """Returns None without reading: only the records of an XES file tell its columns."""
        return None

    def read(
        self, stream: BinaryIO, wanted: Sequence[str], required: Collection[str], batch_rows: int
    ) -> Iterator[RawBatch]:
        """Yields the events of `stream` in document order.

        An event's number counts the `<event>` elements of the file. Every batch has all the wanted
        columns, as strings; one that no event of the batch has is all null. No event is malformed
        on its own: XML that is not well formed cannot be read past the fault, which is an error
        after the batches before it.

        Args:
            stream: The decompressed bytes, in the encoding that their XML declaration names.
            wanted: Columns to hand over; names that begin with `case:` are keys of traces.
            required: Those of `wanted` that at least one event must have, if there is an event.
            batch_rows: Upper bound of the rows in a batch, at least 1; a batch whose text is long
                has fewer.

        Raises:
            InputSchemaError: The stream is empty, is not well-formed XML or no XES log, has a
                DOCTYPE, exceeds a bound of this module, or no event has a required column.
        """
        log = _Log(wanted)
        parser = expat.ParserCreate()
        parser.ordered_attributes = True  # a list costs less than a dict
        parser.StartElementHandler = log.start_element
        parser.EndElementHandler = log.end_element
        parser.StartDoctypeDeclHandler = _refuse_doctype
        if hasattr(parser, "SetReparseDeferralEnabled"):  # expat 2.6: would blur the token's bound
            parser.SetReparseDeferralEnabled(False)
        fed = 0  # bytes given to the parser
        left = 0  # how many of them had been given when events last left
        token = 0  # how many of them are of a token whose end is yet to come
        names = 0
        # A piece as long as the unfinished token, as expat scans that anew from its start.
        while piece := _read(stream, min(max(_PIECE_BYTES, token), _TOKEN_BYTES - token + 1)):
            _parse(parser, piece, final=False)
            fed += len(piece)
            token = fed - parser.CurrentByteIndex
            if token > _TOKEN_BYTES:
                raise _refusal(parser, "an XML token is longer than 16 MiB")
            if len(parser.intern) > names:
                names = len(parser.intern)
                if sum(map(len, parser.intern)) > _NAME_CHARACTERS:
                    raise _refusal(parser, "its different XML names take more than 64 KiB")
            enough = 1 if fed - left >= _BATCH_BYTES else batch_rows
            if log.closed >= enough:
                yield from log.batches(batch_rows, enough)
                left = fed
            elif not log.holds_events:
                left = fed
            elif fed - left > _TRACE_BYTES:
                raise _refusal(parser, "a trace takes more than 512 MiB of XML")
        if fed == 0:
            raise InputSchemaError("the input is empty; an XES file has at least a <log>")
        _parse(parser, b"", final=True)
        yield from log.batches(batch_rows, 1)
        if log.emitted and not log.present.issuperset(required):
            raise missing_columns(log.found(), required)


class _Fault(Exception):  # noqa: N818 - becomes an InputSchemaError once the line is known
    """What a handler found wrong."""


class _Log:
    """The parser's handlers, and the events that wait for the end of their trace or batch.

    Attributes:
        closed: How many of the events held are of traces that have ended; they are the first ones.
        emitted: How many events have left in batches.
        present: The wanted columns that some event which has left had.
    """

    def __init__(self, wanted: Sequence[str]) -> None:
        self.closed = 0
        self.emitted = 0
        self.present: set[str] = set()
        self._wanted = list(wanted)
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
        self._event_keys = _Targets(self._of_events, "")
        self._trace_keys = _Targets(self._of_traces, CASE_PREFIX)
        self._targets = self._trace_keys  # of the container
        self._kinds = _Kinds(_KINDS)

    @property
    def holds_events(self) -> bool:
        """Whether any event waits here."""
        return bool(self._owners)

    def found(self) -> list[str]:
        """Returns the names of the columns that the events have, as far as they were noted."""
        present = [name for name in self._wanted if name in self.present]
        return present + self._event_keys.unwanted() + self._trace_keys.unwanted()

    def start_element(self, name: str, attributes: list[str]) -> None:
        """Handles a start tag; `attributes` alternates names and values."""
        depth = self._depth
        self._depth = depth + 1
        kind = self._kinds[name]
        if kind == _ATTRIBUTE and depth == self._container:
            if len(attributes) == 4 and attributes[0] == "key" and attributes[2] == "value":
                self._targets[attributes[1]][-1] = attributes[3]
            else:
                pairs = dict(zip(attributes[::2], attributes[1::2], strict=True))
                if "key" in pairs and "value" in pairs:
                    self._targets[pairs["key"]][-1] = pairs["value"]
        elif kind == _EVENT:
            if depth == 1:
                self._begin_trace()  # an event outside traces has one of its own, which is bare
            elif depth != self._container or self._targets is not self._trace_keys:
                raise _Fault("an <event> stands where XES has none")
            self._begin_event(depth + 1)
        elif kind == _TRACE:
            if depth != 1:
                raise _Fault("a <trace> stands where XES has none")
            self._begin_trace()
        elif depth == 0 and kind != _LOG:
            raise _Fault("it is no XES log, as its root element is not <log>")
        elif depth >= _DEPTH:
            raise _Fault(f"its elements are nested more than {_DEPTH} deep")

    def end_element(self, _name: str) -> None:
        """Handles an end tag."""
        depth = self._depth
        self._depth = depth - 1
        if depth == self._container:
            if depth == 2:
                self._container = _NOWHERE
                self.closed = len(self._owners)
            else:
                self._container = 2
                self._targets = self._trace_keys

    def _begin_trace(self) -> None:
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

    def _take(self, n: int) -> RawBatch:
        """Removes the first n events, or fewer but one where their text is long."""
        numbers = np.array(self._owners[:n], np.int64)
        owners = numbers - self._first_trace
        n_traces = int(owners[-1]) + 1
        events = {k: pa.array(c[:n], pa.string()) for k, c in self._of_events.items()}
        traces = {k: pa.array(c[:n_traces], pa.string()) for k, c in self._of_traces.items()}
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
        self.present.update(k for k, v in arrays.items() if v.null_count < n)
        records = np.arange(self.emitted, self.emitted + n, dtype=np.int64)
        self._forget(n)
        columns = pa.RecordBatch.from_arrays([arrays[k] for k in self._wanted], self._wanted)
        return RawBatch(columns, records, np.empty(0, np.int64), numbers[:n])

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


class _Targets(dict[str, _Column]):
    """The column to whose end the value of a key goes; that of an unwanted key goes into a bin."""

    def __init__(self, columns: dict[str, _Column], prefix: str) -> None:
        super().__init__({name.removeprefix(prefix): c for name, c in columns.items()})
        self._prefix = prefix
        self._bin: _Column = [None]

    def __missing__(self, key: str) -> _Column:
        if len(self) < _KEYS and len(key) <= _KEY_CHARACTERS:
            self[key] = self._bin
        return self._bin

    def unwanted(self) -> list[str]:
        """Returns the columns that elements had and nobody wanted."""
        return [self._prefix + key for key, column in self.items() if column is self._bin]


class _Kinds(dict[str, int]):
    """The kind of an element by its tag, whose namespace prefix is looked at once."""

    def __missing__(self, tag: str) -> int:
        kind = _KINDS.get(tag.rpartition(":")[2], _OTHER)
        self[tag] = kind  # at most as many as _NAME_CHARACTERS admits, and one piece's
        return kind


def _read(stream: BinaryIO, size: int) -> bytes:
    """Reads `size` bytes or to the end, also from a stream that gives less than it is asked for."""
    pieces = []
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _lengths(values: pa.Array) -> np.ndarray:
    """int64[n]: bytes of each text, 0 for null."""
    return np.asarray(pc.fill_null(pc.binary_length(values), 0), np.int64)


def _refuse_doctype(*_declaration: object) -> None:
    raise _Fault("it has a DOCTYPE, which XES does not need and through which entities come")


def _parse(parser: expat.XMLParserType, piece: bytes, final: bool) -> None:
    # `from None`, as the causes may quote the input.
    try:
        parser.Parse(piece, final)
    except _Fault as fault:
        raise _refusal(parser, str(fault)) from None
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise _refusal(parser, f"it is not well-formed XML ({reason})") from None
    except (LookupError, ValueError):  # from Python's codecs, on behalf of expat
        raise _refusal(parser, "its encoding is unknown or broken") from None


def _refusal(parser: expat.XMLParserType, reason: str) -> InputSchemaError:
    # The error may be shown to anybody, the log is the operator's.
    _LOGGER.warning("an XES file cannot be read at line %d: %s", parser.CurrentLineNumber, reason)
    return InputSchemaError(f"the XES file cannot be read: {reason}; the log says at which line")


def reader(how: SourceFormat, path: str) -> XesReader:
    """Returns what reads a file of this format; see `transforms.formats.registry`."""
    return XesReader()
