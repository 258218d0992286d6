"""Values of Python to columns: rows of somebody's pipeline, and columns of objects of a frame.

Each value is read by itself and keeps its kind, whatever others in its place are: a text, a number,
an instant or a time on the clocks of the mapping's zone (`column_of_kinds`). A row with a value of
another kind is malformed, and stops no other. Rows have no numbers; `schemas.events.events`
orders those of equal stamps.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tracecloak.schemas.events.columns import XES_NAMES, ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import without_numbers
from tracecloak.schemas.events.source_column import column_of_kinds, text_of
from tracecloak.schemas.events.tally import FileTally, Reject
from tracecloak.schemas.texts import text_or_null
from tracecloak.transforms.formats.base import UnreadError

EPOCH = datetime.datetime(1970, 1, 1)
# Floating-point numbers, which are read by their width.
_FLOATS = {float: "float64", np.float16: "float16", np.float32: "float32", np.float64: "float64"}
# Microseconds since 1970 of no year that is read.
_FAR = 2**63 - 1
# What has more can be made by a short exponent and would take all memory as text.
_MOST_DIGITS = 1_000
_MOST_BITS = 3_300

Row = Callable[[str], Any]
"""Returns a row's value by the name of its column; None: it has none."""


@dataclass(frozen=True)
class RowReader:
    """Reads rows by a mapping; it pickles.

    Attributes:
        resolved: The mapping, with its source columns fixed.
        others: Source column to the name under which a row may have its value instead.
    """

    resolved: ResolvedColumns
    others: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def for_unnamed_columns(cls, mapping: ColumnMapping) -> RowReader:
        """Returns a reader of rows each of which has names of its own, such as dicts.

        Where the mapping leaves the default, a row may have our name or that of XES.
        """
        resolved = mapping.resolve(None, xes_names=False)
        default = {name: xes for name, xes in XES_NAMES.items() if getattr(mapping, name) is None}
        return cls(resolved, default)

    def read(self, rows: Sequence[Row], tally: FileTally) -> tuple[pa.RecordBatch, list[str]]:
        """Returns the canonical events of rows, and the reason of each row that is malformed.

        Args:
            rows: Each returns its value by the name of a column.
            tally: Is told what was found. Rows have no place, so the places in it mean nothing.

        Returns:
            The events, all with an EVENT_INDEX of 0, and reasons (`tally.Reject`), one a
            malformed row. A row that a filter drops is in neither.

        Raises:
            InputSchemaError: A filter cannot be applied to its column.
        """
        unread = np.zeros(len(rows), bool)
        order, columns = self.resolved.mapping.order_alone, {}
        for name in self.resolved.wanted:
            values = [row(name) for row in rows]
            if name in self.others:
                other = self.others[name]
                values = [
                    row(other) if v is None else v for v, row in zip(values, rows, strict=True)
                ]
            is_order = name == order
            columns[name] = (
                column_of_order(values) if is_order else column_of_objects(values, unread)
            )
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        events, rejects = self.resolved.canonicalise(
            batch.filter(pa.array(~unread)),
            np.flatnonzero(~unread),
            np.flatnonzero(unread),
            0,
            tally,
            malformed_as=Reject.NO_SCALAR,
        )
        return without_numbers(events), rejects.column("reason").to_pylist()


def column_of_objects(objects: Sequence[Any], unread: np.ndarray) -> pa.Array:
    """Returns the objects of a column as `column_of_kinds` does, each read by itself.

    Args:
        objects: [n].
        unread: bool[n], is set where one of them is nothing that can be read, such as a list.
    """
    kinds, values = [], []
    for row, value in enumerate(objects):
        try:
            kind, read = kind_and_value(value)
        except UnreadError:
            unread[row], kind, read = True, "text", None
        kinds.append(kind)
        values.append(read)
    return column_of_kinds(kinds, values)


def column_of_order(objects: Sequence[Any]) -> pa.Array:
    """Returns objects that only order events likewise; what else they may be is missing.

    A duration counts as its microseconds.
    """
    unit = datetime.timedelta(microseconds=1)
    numbers = [v // unit if isinstance(v, datetime.timedelta) else v for v in objects]
    return column_of_objects(numbers, np.zeros(len(objects), bool))


def kind_and_value(value: Any) -> tuple[str, Any]:
    """Returns a value of Python as `column_of_kinds` takes it; bytes and truths are texts.

    Raises:
        UnreadError: It is no text, no number and no time.
    """
    if isinstance(value, np.datetime64) and not np.isnat(value):
        years = int(value.astype("M8[Y]").astype(np.int64))  # since 1970
        if not -1970 < years < 8030:
            return "local", _FAR
        value = value.astype("M8[us]").item()
    elif isinstance(value, np.generic) and type(value) not in _FLOATS:
        is_long = isinstance(value, np.timedelta64)
        value = value.item()
        if is_long and value is not None:
            raise UnreadError(Reject.NO_SCALAR)
    if type(value) in _FLOATS:
        return _FLOATS[type(value)], value
    if value is None or isinstance(value, bool):
        return "text", text_of(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UnreadError from None
        return "text", str.__str__(value)  # of a member of an enumeration, too
    if isinstance(value, datetime.time) and value.tzinfo is None:
        return "text", value.isoformat()
    if isinstance(value, uuid.UUID):
        return "text", str(value)
    if isinstance(value, bytes):
        return "text", text_or_null(value)
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise UnreadError(Reject.NO_SCALAR)
        return "number", str(int(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            return "text", None
        if abs(value.adjusted()) > _MOST_DIGITS:
            raise UnreadError(Reject.NO_SCALAR)
        return "number", text_of(Decimal(value))
    return _time(value)


def _time(value: Any) -> tuple[str, Any]:
    """Returns a time as `column_of_kinds` takes it; those of a clock are local.

    Raises:
        UnreadError: It is none.
    """
    if hasattr(value, "to_utc_datetime"):  # Beam's, which this file does not load
        return "instant", int(value.micros)
    if type(value).__name__ == "NAType":  # pandas' NA, which this file does not load, is missing
        return "text", None
    if not isinstance(value, datetime.date):
        raise UnreadError(Reject.NO_SCALAR)
    if value != value:  # and so is its NaT
        return "text", None
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    offset = value.utcoffset()
    kind = "local" if offset is None else "instant"
    try:
        since = value.replace(tzinfo=None) - EPOCH - (offset or datetime.timedelta())
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    except (OverflowError, ValueError):  # pandas has years of more than four digits
        return kind, _FAR
    return kind, micros if abs(micros) < _FAR else _FAR
