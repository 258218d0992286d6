"""Rows of Python values to canonical events: dicts, named tuples and rows of somebody's pipeline.

Each value is read by itself, whatever type others in its place have: a scalar is its text
(`schemas.events.scalars`), and a time is a moment, a time on the clock of the mapping's zone, a
number of its unit or a text of its format. A row whose value is none of these is malformed, and
stops no other; a value that only orders events may be anything. Rows have no places;
`schemas.events.event_order` orders those of equal stamps.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.columns import XES_NAMES, ColumnMapping, ResolvedColumns
from tracecloak.schemas.events.events import (
    START_TIMESTAMP,
    TIMESTAMP,
    without_numbers,
)
from tracecloak.schemas.events.scalars import joined, text_of, texts_of_scalars
from tracecloak.schemas.events.tally import NO_SCALAR, TallyOfFile

_OF_TIMES = (TIMESTAMP, START_TIMESTAMP)
# How a value of a column of times came, and the type in which all that came so are read.
_KINDS = {"text": pa.string(), "moment": pa.timestamp("us", "UTC"), "wall": pa.timestamp("us")}
_EPOCH = datetime.datetime(1970, 1, 1)
# Floating-point numbers, which are read by their width.
_ARROW = {np.float16: pa.float16(), np.float32: pa.float32(), np.float64: pa.float64()}
# What has more can be made by a short exponent and would take all memory as text.
_MOST_DIGITS = 1_000
_MOST_BITS = 3_300

Row = Callable[[str], Any]
"""Returns a row's value by the name of its column; None: it has none."""


class UnreadError(ValueError):
    """A value is no scalar and no time."""


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
    def of_unknown_names(cls, mapping: ColumnMapping) -> RowReader:
        """Returns a reader of rows each of which has names of its own, such as dicts.

        Where the mapping leaves the default, a row may have our name or that of XES.
        """
        resolved = mapping.resolve(None, xes_names=False)
        default = {name: xes for name, xes in XES_NAMES.items() if getattr(mapping, name) is None}
        return cls(resolved, default)

    def read(self, rows: Sequence[Row], tally: TallyOfFile) -> tuple[pa.RecordBatch, list[str]]:
        """Returns the canonical events of rows, and the reason of each row that is malformed.

        Args:
            rows: Each returns its value by the name of a column.
            tally: Is told what was found. Rows have no place, so the places in it mean nothing.

        Returns:
            The events, all with an EVENT_INDEX of 0, and reasons (`tally.REJECT_REASONS`), one a
            malformed row. A row that a filter drops is in neither.

        Raises:
            InputSchemaError: A filter cannot be applied to its column.
        """
        names = self.resolved.wanted
        groups: dict[tuple[str, ...], list[tuple[Any, ...]]] = {(): []}
        n_unread = 0
        for row in rows:
            try:
                kinds, values = self._values(row, names)
            except UnreadError:
                n_unread += 1
            else:
                groups.setdefault(kinds, []).append(values)
        parts, reasons = [], []
        none = np.zeros(0, np.int64)
        for number, (kinds, group) in enumerate(sorted(groups.items())):
            columns, fractional = self._columns(names, kinds, group)
            unread = np.zeros(n_unread, np.int64) if number == 0 else none
            places = np.zeros(len(group), np.int64)
            events, rejects = self.resolved.canonicalise(
                columns, places, unread, 0, tally, fractional=fractional, malformed_as=NO_SCALAR
            )
            parts.append(events)
            reasons += rejects.column("reason").to_pylist()
        whole = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
        (events,) = whole.to_batches() or [parts[0]]
        return without_numbers(events), reasons

    @cached_property
    def _times(self) -> tuple[str, ...]:
        """Source columns of times, and of nothing else, that a row may have as times."""
        names = self.resolved.names
        others = {source for name, source in names.items() if name not in _OF_TIMES}
        return tuple(names[c] for c in _OF_TIMES if c in names and names[c] not in others)

    @cached_property
    def _filtered(self) -> frozenset[str]:
        """Source columns that only filters look at."""
        return frozenset(self.resolved.filtered.values()) - {*self.resolved.names.values()}

    @cached_property
    def _order(self) -> str | None:
        """Source column that only orders events."""
        return self.resolved.mapping.order_alone

    def _values(self, row: Row, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Returns (how the times of a row came, its values).

        Raises:
            UnreadError: One of them is nothing that can be read.
        """
        kinds, values = [], []
        for name in names:
            value = row(name)
            if value is None and name in self.others:
                value = row(self.others[name])
            kind, value = order_value(value) if name == self._order else scalar_or_time(value)
            if name in self._times:
                kinds.append(kind)
            elif kind != "text":
                if name not in self._filtered:
                    raise UnreadError
                value = iso_of(value, kind)
            values.append(value)
        return tuple(kinds), tuple(values)

    def _columns(
        self, names: Sequence[str], kinds: tuple[str, ...], rows: Sequence[tuple[Any, ...]]
    ) -> tuple[pa.RecordBatch, dict[str, np.ndarray]]:
        """Returns the columns of rows whose times came alike, and which numbers name nobody."""
        of_times = dict(zip((n for n in names if n in self._times), kinds, strict=False))
        columns, fractional = {}, {}
        for i, name in enumerate(names):
            values = [row[i] for row in rows]
            kind = of_times.get(name, "text")
            if kind == "text":
                columns[name], fractional[name] = texts_of_values(values)
            else:
                columns[name] = pa.array(values, pa.int64()).cast(_KINDS[kind])
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), fractional


def order_value(value: Any) -> tuple[str, Any]:
    """Returns ("text", a scalar) of a value that orders events: None for what has none.

    The texts of times are in the order of the times.
    """
    try:
        kind, scalar = scalar_or_time(value)
    except UnreadError:
        return "text", None
    return "text", scalar if kind == "text" else iso_of(scalar, "wall")


def scalar_or_time(value: Any) -> tuple[str, Any]:
    """Returns (one of _KINDS, a scalar or microseconds) of a value of a row.

    Raises:
        UnreadError: It is nothing of these.
    """
    if isinstance(value, np.generic) and type(value) not in _ARROW:
        is_time = isinstance(value, np.datetime64 | np.timedelta64)
        value = (value.astype("M8[us]") if isinstance(value, np.datetime64) else value).item()
        if is_time and isinstance(value, int):  # nanoseconds that last, or a year beyond Python's
            raise UnreadError
    if value is None or type(value) in (bool, float, *_ARROW):
        return "text", value
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise UnreadError
        return "text", str.__str__(value)  # of a member of an enumeration, too
    if isinstance(value, uuid.UUID):
        return "text", str(value)
    if isinstance(value, bytes):
        try:
            return "text", value.decode()
        except UnicodeDecodeError:
            return "text", None
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise UnreadError
        return "text", int(value)
    if isinstance(value, Decimal):
        if value.is_finite() and abs(value.adjusted()) > _MOST_DIGITS:
            raise UnreadError
        return "text", value if value.is_finite() else None
    try:
        return _time(value)
    except OverflowError:  # the first or the last day that there is, in some zone
        raise UnreadError from None


def _time(value: Any) -> tuple[str, Any]:
    """Returns (how it came, microseconds since 1970) of a time; those of a clock are local.

    Raises:
        UnreadError: It is none.
        OverflowError: It is out of range.
    """
    if hasattr(value, "to_utc_datetime"):  # Beam's, which this file does not load
        return "moment", int(value.micros)
    if type(value).__name__ == "NAType":  # pandas' NA, which this file does not load, is missing
        return "text", None
    if not isinstance(value, datetime.date):
        raise UnreadError
    if value != value:  # and so is its NaT
        return "text", None
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    is_moment = value.utcoffset() is not None
    if is_moment:
        value = value.astimezone(datetime.UTC)
    since = value.replace(tzinfo=None) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return ("moment" if is_moment else "wall"), micros


def iso_of(micros: int, kind: str) -> str | None:
    """Returns the ISO 8601 of a time of `scalar_or_time`; None: it is out of range."""
    try:
        text = (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat()
    except OverflowError:
        return None
    return f"{text}Z" if kind == "moment" else text


def texts_of_values(values: Sequence[Any]) -> tuple[pa.Array, np.ndarray]:
    """Returns string[n], the texts of scalars, and bool[n], those that are numbers of nobody."""
    plain = [v if type(v) in (str, bool, int, float) else None for v in values]
    text, fractional = texts_of_scalars(plain)
    others = [None if p is not None else v for v, p in zip(values, plain, strict=True)]
    if all(value is None for value in others):
        return text, fractional
    decimals = pa.array([text_of(v) if isinstance(v, Decimal) else None for v in others], "string")
    floats, of_floats = joined(
        [
            pa.array([v if type(v) is w else None for v in others], kind)
            for w, kind in _ARROW.items()
        ]
    )
    has_point = np.asarray(pc.fill_null(pc.match_substring(decimals, "."), False))
    return pc.coalesce(text, decimals, floats), fractional | has_point | of_floats
