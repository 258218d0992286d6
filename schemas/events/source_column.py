"""A column of a source as text and as times, whatever type it has; each value is read alone.

The one text of a scalar is what a case, an activity or an attribute is called. A number is written
as its shortest decimal without exponent, so 5, 5.0 and a decimal 5.00 are one `5`, and -0.0 is `0`.
Text stays as it is: `007`, `7` and `7.0` are three. Each value is decided alone, and never by the
type of its column, its batch or its file. It reads no text as a number.

A floating-point number beyond 2^53 (2^24 where it has 32 bits) stands for several whole numbers,
and one with a fraction is mostly the result of arithmetic, so neither can name anybody: see
`fractions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import InputSchemaError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.timestamps import (
    UNITS_US,
    ToUtc,
    cast_or_null,
    floor_to_us,
    from_format,
    from_iso,
    from_number_text,
    from_numbers,
)

# The types of Python's scalars, in which readers find values that have no column's type.
TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
}
_POINT_ZERO = r"^(-?(?:0|[1-9][0-9]*))\.0+$"


def text_of(value: Any) -> str | None:
    """Returns the text of one value of Python; None for None and for what is not a number.

    Raises:
        TypeError: It is no text, truth, number or decimal.
    """
    if value is None or type(value) is str:
        return value
    if type(value) is bool:
        return str(value).lower()
    if type(value) is int:
        return str(value)
    if type(value) is float:
        if math.isnan(value):
            return None
        return _positional(Decimal(repr(value))) if math.isfinite(value) else str(value)
    if type(value) is Decimal:
        return _positional(value)
    raise TypeError("a value is no scalar")


def texts(values: pa.Array) -> pa.Array:
    """string[n]: the texts of values of one type; null for null, NaN, and bytes that are no UTF-8.

    Args:
        values: [n], of text, bytes, truths, numbers or decimals, or a dictionary of these.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return texts(values.dictionary).take(values.indices)
    if pa.types.is_floating(kind):
        return _float_texts(values)
    if pa.types.is_decimal(kind):
        return _each(cast_or_null(values, pa.string()), r"[.eE]", _plain_decimal)
    if pa.types.is_timestamp(kind) and kind.tz is not None:  # Arrow would look at zone files
        naive = cast_or_null(values.cast(pa.timestamp(kind.unit)), pa.string())
        return pc.binary_join_element_wise(naive, "Z", "")
    return cast_or_null(values, pa.string())


def fractions(values: pa.Array) -> np.ndarray:
    """bool[n]: which values are numbers that cannot identify anybody.

    They are the decimals that are not whole, and the floating-point numbers that are not, or are
    beyond 2^53 (2^24 of 32 bits, 2^11 of 16), where they stand for several whole numbers. What is
    missing is none.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        fraction_column = pa.array(fractions(values.dictionary)).take(values.indices)
        return np.asarray(pc.fill_null(fraction_column, False))
    if pa.types.is_floating(kind):
        width = np.finfo(f"f{kind.byte_width}")
        numbers = np.asarray(pc.fill_null(values, math.nan)).astype(np.float64)
        with np.errstate(invalid="ignore"):
            is_whole = np.abs(numbers) <= 2.0 ** (width.nmant + 1)
            is_whole &= np.rint(numbers) == numbers
        return ~is_whole & ~np.isnan(numbers)
    if pa.types.is_decimal(kind):
        return np.asarray(pc.fill_null(pc.match_substring(texts(values), "."), False))
    return np.zeros(len(values), bool)


def texts_of_scalars(values: Sequence[Any]) -> tuple[pa.Array, np.ndarray]:
    """Returns the texts of values of Python, each of a type of its own, and which are fractions.

    Args:
        values: [n], each a text, a truth, an integer of any size, a float or None.

    Returns:
        string[n], null for None and NaN, and bool[n]; see `fractions`.

    Raises:
        TypeError: A value is no such scalar.
        ValueError: A text is no Unicode.
    """
    kinds = set(map(type, values)) - {type(None)}
    if not kinds <= TYPES.keys():
        raise TypeError("a value is no scalar")
    if kinds <= {str}:
        return pa.array(values, pa.string()), np.zeros(len(values), bool)
    parts = []
    for kind in kinds:
        part = values if len(kinds) < 2 else [v if type(v) is kind else None for v in values]
        try:
            parts.append(pa.array(part, TYPES[kind]))
        except OverflowError:  # integers of any size
            parts.append(pa.array(list(map(text_of, part)), pa.string()))
    return joined(parts)


def joined(parts: Sequence[pa.Array]) -> tuple[pa.Array, np.ndarray]:
    """Returns the texts of a column whose values have several types, and which are fractions.

    Args:
        parts: [n] each, one for each type: its values, null where the value has another one.

    Returns:
        string[n] and bool[n]; see `fractions`.
    """
    text = pc.coalesce(*map(texts, parts))
    return text, np.logical_or.reduce([fractions(part) for part in parts])


def without_point_zero(text: pa.Array) -> pa.Array:
    """string[n]: texts such as `5.0` or `-0.00` as the whole number that they are; others stay."""
    return _each(
        text,
        _POINT_ZERO,
        lambda value: value.partition(".")[0] if Decimal(value) else "0",
    )


def _float_texts(values: pa.Array) -> pa.Array:
    """string[n]: floating-point numbers of any width; fractions by the shortest decimal of it."""
    values = pc.if_else(pc.is_nan(values), None, values)
    text = values.cast(pa.string())
    if values.type != pa.float64():
        # A whole number is written with all of its digits: as a 64-bit float it can show more of
        # them than its own type does.
        wide = values.cast(pa.float64())
        text = pc.if_else(pc.equal(pc.floor(wide), wide), wide.cast(pa.string()), text)
    # Arrow writes an exponent for small and large ones, and a sign for a zero.
    return _each(text, r"^-0$|^-?[0-9.]+[eE]", _plain_decimal)


def _plain_decimal(value: str) -> str:
    return _positional(Decimal(value))


def _positional(number: Decimal) -> str:
    """Returns a finite number without exponent and without zeros behind its last digit."""
    if not number:
        return "0"
    written = format(number, "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def _each(text: pa.Array, pattern: str, rewritten: Callable[[str], str]) -> pa.Array:
    """string[n]: the texts, each different one among those of a pattern written anew."""
    chosen = pc.fill_null(pc.match_substring_regex(text, pattern), False)
    if not pc.any(chosen).as_py():
        return text
    encoded = pc.if_else(chosen, text, None).dictionary_encode()
    anew = pa.array([rewritten(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pc.coalesce(anew.take(encoded.indices), text)


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
        values_of_kind = [v if k == kind else None for k, v in zip(kinds, values, strict=True)]
        columns[kind] = pa.array(values_of_kind, _KINDS[kind])
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
        """bool[n]: which values are numbers that can name nobody; see `fractions`."""
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
                f"column {self.name!r} has type {kind}, which cannot serve as text; map another"
            )
        text = texts(self.values)
        if self.has_whole_numbers:
            text = without_point_zero(text)
        empty = pc.equal(text, "")
        return pc.if_else(empty, None, text) if pc.any(empty).as_py() else text

    def order_text(self) -> pa.Array:
        """string[n]: the values as text by which events are ordered; null for what has none.

        Times are written so that their texts are in their order.
        """
        if parts := self.parts:
            return pc.coalesce(*(part.order_text() for part in parts))
        kind = self._kind
        if pa.types.is_duration(kind):
            return self._decoded.cast(pa.int64()).cast(pa.string())
        if self.is_of_times or pa.types.is_time(kind):
            return texts(self._decoded)
        try:
            return self.text(of_attribute=True)
        except InputSchemaError:
            return pa.nulls(len(self.values), pa.string())

    def _iso_texts(self) -> pa.Array:
        """string[n]: dates and times as ISO 8601; null for what is no time of years 1 to 9999."""
        is_instant = pa.types.is_timestamp(self._kind) and self._kind.tz is not None
        stamps = self.times(LocalClock.of("UTC").to_utc, None, None)
        text = texts(stamps.cast(pa.timestamp("us", "UTC" if is_instant else None)))
        return pc.replace_substring(pc.replace_substring(text, " ", "T"), ".000000", "")

    def times(
        self, to_utc: ToUtc, layout: str | Sequence[str] | None, unit: str | None
    ) -> pa.Array:
        """int64[n]: microseconds since 1970 UTC; null for what is no time of years 1 to 9999.

        Args:
            to_utc: Reads times without an offset.
            layout: `strptime` format of text, or several; None: ISO 8601.
            unit: Of numbers since 1970, also of those written as text: `s`, `ms`, `us` or `ns`;
                None: there are none.

        Raises:
            InputSchemaError: The column's type can hold no time, or numbers and there is no unit.
        """
        stamps = self._stamps(to_utc, layout, unit)
        inside = pc.and_(pc.greater_equal(stamps, MIN_TIME_US), pc.less_equal(stamps, MAX_TIME_US))
        return stamps if pc.all(inside).as_py() else pc.if_else(inside, stamps, None)

    def _stamps(
        self, to_utc: ToUtc, layout: str | Sequence[str] | None, unit: str | None
    ) -> pa.Array:
        if parts := self.parts:
            # A format is for texts, and a unit for numbers: without one these are no times.
            timed_parts = [p for p in parts if unit is not None or not p.is_of_numbers]
            none = pa.nulls(len(self.values), pa.int64())
            return pc.coalesce(none, *(part._stamps(to_utc, layout, unit) for part in timed_parts))
        values = self._decoded
        kind = values.type
        if pa.types.is_timestamp(kind):
            local = floor_to_us(values)
            return local if kind.tz is not None else to_utc(local)
        if pa.types.is_date(kind):
            return to_utc(floor_to_us(values.cast(pa.timestamp("ms"))))
        if self.is_of_numbers:
            if unit is None:
                raise InputSchemaError(
                    f"column {self.name!r} holds numbers; say their unit since 1970: timestamp_unit"
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
            return from_format(text, layout, to_utc)
        if unit is not None:
            numbers = from_number_text(text, UNITS_US[unit])
            return pc.coalesce(numbers, from_iso(text, to_utc)) if numbers.null_count else numbers
        return from_iso(text, to_utc)


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
