"""A column of a source as text and as times, whatever type it has; each value is read alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.scalars import texts, without_point_zero
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


@dataclass(frozen=True)
class SourceColumn:
    """A column of a source, whose values are read one by one.

    Attributes:
        name: Of the column, for errors.
        values: [n], of the type that the file declares, or text where only records tell types.
        has_whole_numbers: Whether text such as `5.0` is a whole number.
    """

    name: str
    values: pa.Array
    has_whole_numbers: bool = False

    @property
    def is_of_times(self) -> bool:
        """Whether its type is one of dates or of times on dates."""
        kind = self.values.type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.types.is_timestamp(kind) or pa.types.is_date(kind)

    @property
    def is_of_numbers(self) -> bool:
        """Whether its type is one of numbers."""
        kind = self.values.type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)

    def is_empty(self) -> np.ndarray:
        """bool[n]: where nothing is written; empty text is nothing, too."""
        values = self.values
        if pa.types.is_dictionary(values.type):
            values = values.dictionary.take(values.indices)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = pc.if_else(pc.equal(values, ""), None, values)
        return np.asarray(pc.is_null(values, nan_is_null=True))

    def text(self, of_attribute: bool = False) -> pa.Array:
        """string[n]: the values as text; null for null, empty text, and bytes that are no UTF-8.

        An attribute may also be `true` or `false`.

        Raises:
            InputSchemaError: The column's type is none of text or numbers.
        """
        kind = self.values.type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (
            pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_string_view(kind)
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
        values = self.values
        if pa.types.is_dictionary(values.type):
            values = values.dictionary.take(values.indices)
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

    def times(self, clock: WallClock, layout: str | None, unit: str | None) -> pa.Array:
        """int64[n]: microseconds since 1970 UTC; null for what is no time of years 1 to 9999.

        Args:
            clock: Reads times without an offset.
            layout: `strptime` format of text; None: ISO 8601.
            unit: Of numbers since 1970, also of those written as text: `s`, `ms` or `us`; None:
                there are none.

        Raises:
            InputSchemaError: The column's type can hold no time, or numbers and there is no unit.
        """
        stamps = self._stamps(clock, layout, unit)
        inside = pc.and_(pc.greater_equal(stamps, MIN_TIME_US), pc.less_equal(stamps, MAX_TIME_US))
        return stamps if pc.all(inside).as_py() else pc.if_else(inside, stamps, None)

    def _stamps(self, clock: WallClock, layout: str | None, unit: str | None) -> pa.Array:
        values = self.values
        if pa.types.is_dictionary(values.type):
            values = values.dictionary.take(values.indices)
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
                    "timestamp_unit: s, ms or us"
                )
            factor = UNITS_US[unit]
            return (
                from_number_text(texts(values), factor)
                if pa.types.is_decimal(kind)
                else from_numbers(values, factor)
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
