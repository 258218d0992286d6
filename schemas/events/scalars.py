"""The one text of a scalar: what a case, an activity or an attribute is called, whatever its type.

A number is written as its shortest decimal without exponent, so 5, 5.0 and a decimal 5.00 are one
`5`, and -0.0 is `0`. Text stays as it is: `007`, `7` and `7.0` are three. Each value is decided
alone, and never by the type of its column, its batch or its file. It reads no text as a number.

A floating-point number beyond 2^53 (2^24 where it has 32 bits) stands for several whole numbers,
and one with a fraction is mostly the result of arithmetic, so neither can name anybody: see
`fractions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.stamps import cast_or_null

# The types of Python's scalars, in which readers find values that have no column's type.
_TYPES: dict[type, pa.DataType] = {
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
        return _of_floats(values)
    if pa.types.is_decimal(kind):
        return _each(cast_or_null(values, pa.string()), _has_point, _of_decimal_text)
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
        of_each = pa.array(fractions(values.dictionary)).take(values.indices)
        return np.asarray(pc.fill_null(of_each, False))
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
    if not kinds <= _TYPES.keys():
        raise TypeError("a value is no scalar")
    none = np.zeros(len(values), bool)
    if kinds <= {str}:
        return pa.array(values, pa.string()), none
    if kinds == {int}:
        try:
            return texts(pa.array(values, pa.int64())), none
        except OverflowError:
            return pa.array(list(map(text_of, values)), pa.string()), none
    parts = [[v if type(v) is kind else None for v in values] for kind in kinds]
    return joined(
        [
            pa.array(list(map(text_of, part)), pa.string())
            if kind is int  # of any size
            else pa.array(part, _TYPES[kind])
            for kind, part in zip(kinds, parts, strict=True)
        ]
    )


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
        lambda t: pc.match_substring_regex(t, _POINT_ZERO),
        lambda value: value.partition(".")[0] if Decimal(value) else "0",
    )


def _of_floats(values: pa.Array) -> pa.Array:
    """string[n]: floating-point numbers of any width; fractions by the shortest decimal of it."""
    values = pc.if_else(pc.is_nan(values), None, values)
    text = values.cast(pa.string())
    if values.type != pa.float64():
        # A whole number is written with all of its digits: as a 64-bit float it can show more of
        # them than its own type does.
        wide = values.cast(pa.float64())
        text = pc.if_else(pc.equal(pc.floor(wide), wide), wide.cast(pa.string()), text)
    # Arrow writes an exponent for small and large ones, and a sign for a zero.
    return _each(text, _has_exponent_or_sign_of_zero, _of_decimal_text)


def _has_exponent_or_sign_of_zero(text: pa.Array) -> pa.Array:
    return pc.match_substring_regex(text, r"^-0$|^-?[0-9.]+[eE]")


def _has_point(text: pa.Array) -> pa.Array:
    return pc.match_substring_regex(text, r"[.eE]")


def _of_decimal_text(value: str) -> str:
    return _positional(Decimal(value))


def _positional(number: Decimal) -> str:
    """Returns a finite number without exponent and without zeros behind its last digit."""
    if not number:
        return "0"
    written = format(number, "f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def _each(
    text: pa.Array, which: Callable[[pa.Array], pa.Array], rewritten: Callable[[str], str]
) -> pa.Array:
    """string[n]: the texts, each different one among those that are asked for written anew."""
    chosen = pc.fill_null(which(text), False)
    if not pc.any(chosen).as_py():
        return text
    encoded = pc.if_else(chosen, text, None).dictionary_encode()
    anew = pa.array([rewritten(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return pc.coalesce(anew.take(encoded.indices), text)
