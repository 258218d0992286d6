"""A column of a source as text and as times, whatever type it has; each value is read alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.scalars import fractions, texts, without_point_zero
from tracecloak.schemas.events.stamps import (
    UNITS_US,
    WallClock,
    cast_or_null,
    floor_to_us,
    from_format,
    from_iso,
    from_number_text,
    from_numbers,
)

# What a value of a column without a type can be. A `number` is an integer of any size or a decimal,
# written out; an `instant` and a `local` time are numbers of microseconds since 1970.
_KINDS: dict[str, pa.DataType] = {
    "text": pa.string(),
    "number": pa.string(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "instant": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
}


def column_of_kinds(kinds: Sequence[str], values: Sequence[Any]) -> pa.Array:
    """Returns the values of a `SourceColumn`, each of a kind of its own.

    Args:
        kinds: [n], each one of `text`, `number`, `float16`, `float32`, `float64`, `instant` and
            `local`.
        values: [n], each as its kind has it, or None.

    Returns:
        struct[n] with a field for each kind that occurs, of which one has the value; string[n]
        where all are texts.
    """
    columns: dict[str, pa.Array] = {}
    for kind in dict.fromkeys(kinds):
        of_kind = [v if k == kind else None for k, v in zip(kinds, values, strict=True)]
        columns[kind] = pa.array(of_kind, _KINDS[kind])
    if columns.keys() <= {"text"}:
        return columns.get("text", pa.array([], pa.string()))
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source, whose values are read one by one.

    Attributes:
        name: Of the column, for errors.
        values: [n], of the type that the file declares, or text where only records tell types; or
            of `column_of_kinds`.
        has_whole_numbers: Whether text such as `5.0` is a whole number.
        writes_numbers: Whether its texts are numbers, written out.
    """

    name: str
    values: pa.Array
    has_whole_numbers: bool = False
    writes_numbers: bool = False

    @property
    def _kind(self) -> pa.DataType:
        kind = self.values.type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    @property
    def _decoded(self) -> pa.Array:
        values = self.values
        if not pa.types.is_dictionary(values.type):
            return values
        each = values.dictionary
        # polars has views of text, of which Arrow takes none by their places.
        each = each.cast(pa.string()) if pa.types.is_string_view(each.type) else each
        return each.take(values.indices)

    @property
    def _is_text(self) -> bool:
        kind = self._kind
        views = pa.types.is_string_view(kind)
        return pa.types.is_string(kind) or pa.types.is_large_string(kind) or views

    @property
    def is_of_numbers(self) -> bool:
        """Whether all of its values are numbers."""
        kind = self._kind
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        return self.writes_numbers or is_number or pa.types.is_decimal(kind)

    @property
    def is_of_times(self) -> bool:
        """Whether its type is one of dates or of times on dates."""
        return pa.types.is_timestamp(self._kind) or pa.types.is_date(self._kind)

    @property
    def parts(self) -> list[SourceColumn]:
        """A column for each kind of `column_of_kinds`; none if all values have one type."""
        kind = self.values.type
        if not pa.types.is_struct(kind) or not _KINDS.keys() >= {field.name for field in kind}:
            return []
        return [
            SourceColumn(self.name, part, self.has_whole_numbers, field.name == "number")
            for field, part in zip(kind, self.values.flatten(), strict=True)
        ]

    def fractions(self) -> np.ndarray:
        """bool[n]: which values are numbers that can name nobody; see `scalars.fractions`."""
        if parts := self.parts:
            return np.logical_or.reduce([part.fractions() for part in parts])
        if self.writes_numbers:
            return np.asarray(pc.fill_null(pc.match_substring(self.values, "."), False))
        return fractions(self.values)

    def is_empty(self) -> np.ndarray:
        """bool[n]: where nothing is written; empty text is nothing, too."""
        if parts := self.parts:
            return np.logical_and.reduce([part.is_empty() for part in parts])
        if self._is_text:
            return np.asarray(pc.is_null(self.text()))
        return np.asarray(pc.is_null(self._decoded, nan_is_null=True))

    def text(self, of_attribute: bool = False) -> pa.Array:
        """string[n]: the values as text; null for null, empty text, and bytes that are no UTF-8.

        An attribute, or a column that a filter is on, may also have a type of truths, `true` and
        `false`, or of times, which are written as ISO 8601.

        Raises:
            InputSchemaError: The column's type is none of text or numbers.
        """
        if parts := self.parts:
            return pc.coalesce(*(part.text(of_attribute=True) for part in parts))
        if of_attribute and self.is_of_times:
            return self._iso_texts()
        kind = self._kind
        if not (
            self._is_text
            or self.is_of_numbers
            or pa.types.is_binary(kind)
            or pa.types.is_large_binary(kind)
            or pa.types.is_null(kind)
            or (of_attribute and pa.types.is_boolean(kind))
        ):
            raise InputSchemaError(
                f"column {self.name!r} has type {kind}, which cannot serve as text; "
                "convert it to text, or map another column"
            )
        text = texts(self.values)
        if self.has_whole_numbers:
            text = without_point_zero(text)
        empty = pc.equal(text, "")
        return pc.if_else(empty, None, text) if pc.any(empty).as_py() else text

    def order_text(self) -> pa.Array:
        """string[n]: the values as text by which events are ordered; null for what has none.

        Times are written so that their texts are in their order, whatever their unit.
        """
        if parts := self.parts:
            return pc.coalesce(*(part.order_text() for part in parts))
        values = self._decoded
        kind = values.type
        if pa.types.is_timestamp(kind):
            unit = "ns" if kind.unit == "ns" else "us"
            values = cast_or_null(values, pa.timestamp(unit))
        elif pa.types.is_time32(kind):
            values = values.cast(pa.time64("us"))
        elif pa.types.is_duration(kind):
            return values.cast(pa.int64()).cast(pa.string())
        elif not pa.types.is_date(kind) and not pa.types.is_time64(kind):
            try:
                return self.text(of_attribute=True)
            except InputSchemaError:
                return pa.nulls(len(values), pa.string())
        text = cast_or_null(values, pa.string())
        return text if pa.types.is_date(kind) else pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")

    def _iso_texts(self) -> pa.Array:
        """string[n]: dates and times as ISO 8601; null for what is no time of years 1 to 9999."""
        is_instant = pa.types.is_timestamp(self._kind) and self._kind.tz is not None
        stamps = self.times(WallClock(LocalClock.of("UTC")), None, None)
        text = texts(stamps.cast(pa.timestamp("us", "UTC" if is_instant else None)))
        return pc.replace_substring(pc.replace_substring(text, " ", "T"), ".000000", "")

    def times(
        self, clock: WallClock, layout: str | Sequence[str] | None, unit: str | None
    ) -> pa.Array:
        """int64[n]: microseconds since 1970 UTC; null for what is no time of years 1 to 9999.

        Args:
            clock: Reads times without an offset.
            layout: `strptime` format of text, or several; None: ISO 8601.
            unit: Of numbers since 1970, also of those written as text: `s`, `ms`, `us` or `ns`;
                None: there are none.

        Raises:
            InputSchemaError: The column's type can hold no time, or numbers and there is no unit.
        """
        stamps = self._stamps(clock, layout, unit)
        inside = pc.and_(pc.greater_equal(stamps, MIN_TIME_US), pc.less_equal(stamps, MAX_TIME_US))
        return stamps if pc.all(inside).as_py() else pc.if_else(inside, stamps, None)

    def _stamps(
        self, clock: WallClock, layout: str | Sequence[str] | None, unit: str | None
    ) -> pa.Array:
        if parts := self.parts:
            # A format is for texts, and a unit for numbers: without one these are no times.
            of_times = [p for p in parts if unit is not None or not p.is_of_numbers]
            none = pa.nulls(len(self.values), pa.int64())
            return pc.coalesce(none, *(part._stamps(clock, layout, unit) for part in of_times))
        values = self._decoded
        kind = values.type
        if pa.types.is_timestamp(kind):
            local = floor_to_us(values)
            return local if kind.tz is not None else clock.to_utc(local)
        if pa.types.is_date(kind):
            return clock.to_utc(floor_to_us(values.cast(pa.timestamp("ms"))))
        if self.is_of_numbers:
            if unit is None:
                raise InputSchemaError(
                    f"column {self.name!r} holds numbers; say their unit since 1970 with "
                    "timestamp_unit: s, ms, us or ns"
                )
            factor = UNITS_US[unit]
            return (
                from_numbers(values, factor)
                if pa.types.is_integer(kind) or pa.types.is_floating(kind)
                else from_number_text(texts(values), factor)
            )
        if pa.types.is_null(kind):
            return pa.nulls(len(values), pa.int64())
        text = self.text()
        if layout is not None:
            return from_format(text, layout, clock)
        if unit is not None:
            numbers = from_number_text(text, UNITS_US[unit])
            return pc.coalesce(numbers, from_iso(text, clock)) if numbers.null_count else numbers
        return from_iso(text, clock)


_MIDNIGHT, _FIRST_DAY = r"[T ]00:00(?::00(?:\.0+)?)?$", r"^(?:1899-12-3[01]|1900-01-0[01])[T ]"


def joined_times(name: str, parts: Sequence[SourceColumn]) -> SourceColumn:
    """Returns a column of times of which the given ones hold parts, such as a date and an hour.

    The texts of a record are joined by blanks; it has no time if one of them is missing. A typed
    date counts as text such as 2024-01-31, and a typed time of day as 09:30:05. As spreadsheets
    have dates at midnight, and times of day on the first of their days, a stamp without a zone is
    its date in the first column and its time of day in the others; of text only such a midnight and
    such a day are left out. Columns of the type of a time of day come last. If all parts are typed,
    so is the result, and no format applies to it.

    Raises:
        InputSchemaError: A column's type is none of these.
    """
    is_typed = True
    texts_of_parts = []
    types = pa.types
    for place, part in enumerate(sorted(parts, key=lambda part: types.is_time(part.values.type))):
        values = part.values
        is_stamp = types.is_timestamp(values.type) and values.type.tz is None
        if types.is_time(values.type) or (place and is_stamp):
            values = values.cast(pa.time64("us"), safe=False)
        elif is_stamp:
            values = values.cast(pa.date32(), safe=False)
        if types.is_date(values.type) or types.is_time(values.type):
            texts_of_parts.append(values.cast(pa.string()))
        else:
            extra = _FIRST_DAY if place else _MIDNIGHT
            texts_of_parts.append(pc.replace_substring_regex(part.text(), extra, ""))
            is_typed &= types.is_null(values.type)
    joined = pc.binary_join_element_wise(*texts_of_parts, " ")
    return SourceColumn(name, cast_or_null(joined, pa.timestamp("us")) if is_typed else joined)
