"""Frames of any library as columns of Arrow, and tables of Arrow as frames of that library.

A frame is what narwhals takes: of pandas, polars, Arrow, DuckDB and others; or a log of pm4py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError, OtherFormat
from tracecloak.transforms.inputs.python_rows import column_of_objects, column_of_order


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
        if type(given).__module__.startswith("pm4py.objects.ocel."):
            raise OtherFormat(
                "an object-centric log (OCEL) has no cases; flatten it by one of its object types, "
                "as in tracecloak.release(pm4py.ocel_flattening(ocel, TYPE), ...), where TYPE "
                "is one that pm4py.ocel_get_object_types(ocel) lists"
            )
        is_pm4py = type(given).__module__.startswith("pm4py.")
        if is_pm4py:
            given = _pm4py().convert_to_dataframe(given)
        try:
            frame = nw.from_native(given)
            names = frame.collect_schema().names()
        except TypeError:
            raise OtherFormat(
                f"a log in memory must be a frame of pandas, polars, Arrow or DuckDB, or a log of "
                f"pm4py, got {type(given).__module__}.{type(given).__qualname__}; name files with "
                "`tracecloak release --log`"
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
