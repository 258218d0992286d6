"""A frame of any library as the source of a release: columns of Arrow, events, and a digest."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.pipelines.configuration.config import FRAME
from tracecloak.schemas.errors import InputSchemaError, LacksColumn, OtherFormat
from tracecloak.schemas.events.columns import ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import in_order, without_numbers
from tracecloak.schemas.events.tally import FileTally, ReadTally, Reject
from tracecloak.transforms.formats.base import require_columns
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.python_rows import column_of_objects, column_of_order
from tracecloak.transforms.inputs.source_files import SourceFile
from tracecloak.transforms.sources import EventSource, FirstRecords

# --- Frames of any library as columns of Arrow, and tables of Arrow as frames of that library. ----
# A frame is what narwhals takes: of pandas, polars, Arrow, DuckDB and others; or a log of pm4py.


@dataclass(frozen=True)
class AnyFrame:
    """A frame, whatever library it is of.

    Attributes:
        names: Its columns.
    """

    names: tuple[str, ...]
    _frame: nw.DataFrame[Any] | nw.LazyFrame[Any]
    _is_pm4py: bool = False

    @classmethod
    def of(cls, given: Any) -> AnyFrame:
        """Takes a frame; reads no values of one that is lazy.

        Raises:
            OtherFormat: It is no frame, or an object-centric log.
            InputSchemaError: Two of its columns share a name.
        """
        own = type(given)
        if own.__module__.startswith("pm4py.objects.ocel."):
            raise OtherFormat(
                "an object-centric log (OCEL) has no cases; flatten it by one of its object types, "
                "as in tracecloak.release(pm4py.ocel_flattening(ocel, TYPE), ...), where TYPE "
                "is one that pm4py.ocel_get_object_types(ocel) lists"
            )
        is_pm4py = own.__module__.startswith("pm4py.")
        if is_pm4py:
            given = _pm4py().convert_to_dataframe(given)
        try:
            frame = nw.from_native(given)
            names = frame.collect_schema().names()
        except TypeError:
            raise OtherFormat(
                "a log in memory must be a frame of pandas, polars, Arrow or DuckDB, or a log of "
                f"pm4py, got {own.__module__}.{own.__name__}; name files with `tracecloak release`"
            ) from None
        except nw.exceptions.DuplicateError:
            raise InputSchemaError(
                "two columns of the frame share a name; rename one of them, or drop it"
            ) from None
        if not all(isinstance(name, str) for name in names):
            raise InputSchemaError(
                "the columns of the frame must be named by texts; rename them, such as with "
                "frame.columns = frame.columns.map(str)"
            )
        return cls(tuple(names), frame, is_pm4py)

    @property
    def is_lazy(self) -> bool:
        """Whether its rows have no places, as its engine may return them in any order."""
        return isinstance(self._frame, nw.LazyFrame)

    def columns(
        self, names: Sequence[str], n_rows: int | None = None, order: str | None = None
    ) -> tuple[pa.RecordBatch, np.ndarray]:
        """Returns some of its columns, and which rows have a value that cannot be read.

        No value has a say in how another one is read: of a column of objects each keeps its kind,
        and so it does in columns whose type pandas changes for one value of another kind.

        Args:
            names: Of columns that it has.
            n_rows: How many of the first rows; None: all.
            order: The column that only orders events, whose values may be anything.

        Returns:
            A batch of the columns in that order, as `SourceColumn` reads them; and bool[n], the
            rows with an object that is no scalar and no time, such as a list, whose values mean
            nothing.
        """
        chosen = self._frame.select(*names)
        chosen = chosen if n_rows is None else chosen.head(n_rows)
        # What is lazy is computed by its own engine, of these columns alone.
        eager = chosen.collect("pyarrow") if isinstance(chosen, nw.LazyFrame) else chosen
        arrays = []
        unread = np.zeros(len(eager), bool)
        for name in names:
            series = eager.get_column(name)
            try:
                values = None if series.dtype == nw.Object else _whole(series)
                if isinstance(values, pa.ExtensionArray):
                    values = _plain(values, name)
            except (pa.ArrowException, ValueError, TypeError):  # such as text that is no Unicode
                values = None
            if values is None:
                objects, is_order = series.to_list(), name == order
                values = (
                    column_of_order(objects) if is_order else column_of_objects(objects, unread)
                )
            arrays.append(_by_kind(values))
        return pa.RecordBatch.from_arrays(arrays, list(names)), unread

    def like_it(self, table: pa.Table, is_log: bool = False) -> Any:
        """Returns a table as a frame of the same library, a lazy one of a lazy one.

        Args:
            table: What is returned.
            is_log: Whether it is a log, which is one of pm4py where this frame was.
        """
        backend = self._frame.implementation
        if isinstance(self._frame, nw.LazyFrame) and backend.is_duckdb():
            return nw.from_native(table).lazy("duckdb").to_native()
        eager = nw.from_arrow(table, backend=backend)
        native = (eager.lazy() if isinstance(self._frame, nw.LazyFrame) else eager).to_native()
        if self._is_pm4py and is_log:
            return _pm4py().convert_to_event_log(native)
        return native


def _pm4py() -> Any:
    """The module that a log of pm4py is of; it is loaded where there is such a log."""
    return sys.modules["pm4py"]


def _whole(series: nw.Series[Any]) -> pa.Array:
    native = series.to_native()
    # Of pandas this loses no time zone and warns of none, unlike Arrow's own way.
    is_given = hasattr(native, "__arrow_c_stream__")
    values = pa.chunked_array(native) if is_given else series.to_arrow()
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(whole, pa.ChunkedArray):  # of no chunk, or of more text than one may have
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    return whole


def _plain(values: pa.ExtensionArray, name: str) -> pa.Array:
    """Returns what an extension of Arrow's own is made of, and UUIDs as text.

    Raises:
        InputSchemaError: It is another library's, whose numbers mean something else.
    """
    if values.type.extension_name == "arrow.uuid":
        texts = [None if value is None else str(value) for value in values.to_pylist()]
        return pa.array(texts, pa.string())
    if not values.type.extension_name.startswith("arrow."):
        raise InputSchemaError(
            f"column {name!r} has type {values.type.extension_name}, which only its own library "
            "reads; convert it to texts or to times, or map another column"
        )
    return values.storage


def _by_kind(values: pa.Array) -> pa.Array:
    """Returns a typed column of truths, floats or times as `column_of_objects` would have them."""
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return pa.StructArray.from_arrays([values], [f"float{kind.bit_width}"])
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        is_instant = pa.types.is_timestamp(kind) and kind.tz is not None
        return pa.StructArray.from_arrays([values], ["instant" if is_instant else "local"])
    return values


# --- A frame as the source of a release: its events in the order of their cases, and a digest. ----


# Of so many a plan tells the kinds.
_SHOWN_ROWS = 1_000


@dataclass(frozen=True)
class FrameSource(EventSource):
    """Everything that tells how to read a frame, which takes the place of the one file.

    The rows of a frame order the events of a case with equal stamps, unless the frame is lazy: then
    its engine may return them in any order. That apart, the place of a row has no say.

    Attributes:
        frame: The frame.
    """

    may_be_empty: ClassVar[bool] = False
    frame: AnyFrame = field(kw_only=True)
    _events: dict[ColumnMapping, tuple[pa.RecordBatch, pa.RecordBatch, ReadTally]] = field(
        default_factory=dict, kw_only=True, repr=False, compare=False
    )

    @classmethod
    def over(
        cls, frame: AnyFrame, mapping: ColumnMapping, drops_duplicates: bool = False
    ) -> FrameSource:
        """Returns the source; reads no values.

        Raises:
            InputSchemaError: The frame has not the columns that are mapped.
        """
        source = cls(
            (SourceFile(0, FRAME, 0, digest=""),),
            SourceFormat(),
            mapping,
            drops_duplicates=drops_duplicates,
            is_unordered=frame.is_lazy,
            frame=frame,
        )
        require_columns(frame.names, source._resolved.required)
        return source

    @classmethod
    def of_files(cls, files: EventSource) -> FrameSource:
        """Returns the events of files, all of which are read, as if they were a frame of Arrow.

        Args:
            files: At least one, and how they are read.

        Raises:
            InputSchemaError: One cannot be read, or has not the columns that are mapped.
        """
        first = files.files[0]
        wanted = files._resolve(first, files.columns_of(first)).wanted
        frame = AnyFrame.of(pa.table({name: pa.array([], pa.string()) for name in wanted}))
        source = replace(
            cls.over(frame, files.mapping, files.drops_duplicates), is_unordered=files.is_unordered
        )
        none, rejects, tally = source._whole()
        events, malformed, tallies = [], [rejects], [tally]
        for file in files.files:
            read = FileTally(file.rank)
            for some, rejected in files.read(file, read):
                events.append(some)
                malformed.append(rejected)
            tallies.append(read.result())
        batches = pa.Table.from_batches(events).unify_dictionaries().combine_chunks().to_batches()
        source._events[files.mapping] = (
            in_order(batches[0]) if batches else none,
            pa.concat_batches(malformed),
            ReadTally.merge(tallies),
        )
        return source

    def with_digest(self) -> FrameSource:
        """Returns this source with the digest of its events, all of which are read.

        The digest is of the canonical events in their order within the cases: of no row's number,
        no index, type, chunk or category.
        """
        if self.files[0].digest:
            return self
        events, _, _ = self._whole()
        # Dictionaries of `in_order` are sorted and hold just the texts that there are, so their
        # codes are as canonical as these.
        digest = hashlib.sha256()
        for name in events.schema.names:
            values = events.column(name)
            digest.update(f"{name} {values.type} {len(values)}\n".encode())
            if pa.types.is_dictionary(values.type):
                texts = values.dictionary.to_pylist()
                digest.update(np.array(list(map(len, texts)), "<i8").tobytes())
                digest.update("".join(texts).encode())
                values = values.indices
            digest.update(np.packbits(np.asarray(pc.is_null(values))).tobytes())
            digest.update(np.asarray(pc.fill_null(values, 0), "<i8").tobytes())
        file = SourceFile(0, FRAME, events.num_rows, digest=digest.hexdigest())
        return replace(self, files=(file,))

    def columns_of(self, file: SourceFile, checked: Any = None) -> list[str] | None:
        """Returns the frame's columns."""
        return list(self.frame.names)

    def place_of(self, rank: int, record: int) -> str:
        """Returns which row of the frame a record is, as its first one has the number 1."""
        return f"row {record + 1:,} of the frame"

    def title_of(self, file: SourceFile) -> str:
        """Returns what the frame is, for people."""
        return "the frame"

    def names_of(self, file: SourceFile, declared: list[str] | None) -> dict[str, str]:
        """Returns the frame's column of each canonical one."""
        return self._resolved.names

    def readings(self, file: SourceFile) -> list[str]:
        """Returns how the first rows of the columns of times are read; see `EventSource`."""
        return self._resolved.readings(self.frame.columns(self._resolved.wanted, _SHOWN_ROWS)[0])

    def check(self, files: Iterable[SourceFile], others: Sequence[SourceFile] = ()) -> None:
        """Does nothing, as the columns are known to be there."""

    def first_records(self, n_records: int, n_files: int) -> FirstRecords:
        """Returns the first rows with what was found of them; see `EventSource`."""
        transitions: Counter[str | None] = Counter()
        events, _, tally = self._canonical(n_records, transitions)
        return FirstRecords(tally, (events,), transitions)

    def divider(self, file: SourceFile) -> None:
        """Returns None: a frame is in memory already."""

    def read(
        self,
        file: SourceFile,
        tally: FileTally | None = None,
        lacking: list[tuple[SourceFile, LacksColumn]] | None = None,
        batch_rows: int = 0,
    ) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
        """Yields all events and all rejects at once; see `EventSource`."""
        events, rejects, read = self._whole()
        if tally is not None:
            tally.take(read)
        yield events, rejects

    def _whole(self) -> tuple[pa.RecordBatch, pa.RecordBatch, ReadTally]:
        """Returns what `_canonical` does of all rows, which are read once for each mapping."""
        if self.mapping not in self._events:
            self._events[self.mapping] = self._canonical(None)
        return self._events[self.mapping]

    def _canonical(
        self, n_rows: int | None, transitions: Counter[str | None] | None = None
    ) -> tuple[pa.RecordBatch, pa.RecordBatch, ReadTally]:
        columns, unread = self.frame.columns(
            self._resolved.wanted, n_rows, self.mapping.order_alone
        )
        tally = FileTally(0, transitions)
        events, rejects = self._resolved.canonicalise(
            columns.filter(pa.array(~unread)) if unread.any() else columns,
            np.flatnonzero(~unread),
            np.flatnonzero(unread),
            0,
            tally,
            malformed_as=Reject.NO_SCALAR,
        )
        events = without_numbers(events) if self.is_unordered else events
        return in_order(events), rejects, tally.result()

    @property
    def _resolved(self) -> ResolvedColumns:
        # A frame that pm4py has formatted has its names beside the earlier ones.
        return self.mapping.resolve(self.frame.names, xes_names=True)
