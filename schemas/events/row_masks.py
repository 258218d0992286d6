"""Which values a filter of rows lets pass; see `row_filter`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.row_filter import RowFilter
from tracecloak.schemas.events.scalars import text_of
from tracecloak.schemas.events.stamps import (
    DECIMAL,
    WHOLE,
    WallClock,
    cast_or_null,
    from_period,
)

# What XES and the canonical columns call the transition of an event.
_LIFECYCLE = ("lifecycle", "lifecycle:transition")
# The name of each bound, and how a value is compared with it.
_TESTS: dict[str, Callable[..., pa.Array]] = {
    "at_least": pc.greater_equal,
    "above": pc.greater,
    "at_most": pc.less_equal,
    "below": pc.less,
}
_INT64 = np.iinfo(np.int64)
# A column of whole numbers is compared with a whole number: the bound is rounded by these.
_WHOLE_OF = {"at_least": math.ceil, "above": math.floor, "at_most": math.floor, "below": math.ceil}
# A number of more digits before the point than any double has is in no log, and is slow to work
# with.
_MAX_EXPONENT = 308


def of_numbers(row_filter: RowFilter) -> RowFilter:
    """Returns the same filter for a column of numbers, of which `2.0` and `2` are one."""
    if row_filter.equals is None:
        return row_filter
    numbers = [(text, _number(text)) for text in row_filter.equals]
    equals = tuple(text if n is None else str(text_of(n)) for text, n in numbers)
    return replace(row_filter, equals=equals)


def mask_of(row_filter: RowFilter, values: pa.Array, time_zone: str = "UTC") -> np.ndarray:
    """Returns bool[n]: which of the text values pass; a missing value does not.

    Args:
        row_filter: The filter.
        values: string[n].
        time_zone: IANA zone in which times without an offset are compared with bounds.
    """
    if row_filter.equals is not None:
        wanted = pa.array(row_filter.equals, pa.string())
        if row_filter.column in _LIFECYCLE:
            # XES writes `complete`, many logs `COMPLETE`; nobody means to tell them apart.
            values, wanted = pc.utf8_lower(values), pc.utf8_lower(wanted)
        passed = pc.is_in(values, value_set=wanted)
    elif row_filter.begins_with is not None:
        passed = pc.starts_with(values, pattern=row_filter.begins_with)
    else:
        encoded = values.dictionary_encode()
        each = np.ones(len(encoded.dictionary), bool)
        for name, bound in row_filter.bounds.items():
            each &= _mask_of_text(encoded.dictionary, name, bound, WallClock(time_zone))
        passed = pa.array(each, pa.bool_()).take(encoded.indices)
    return np.asarray(pc.fill_null(passed, False))


def mask_of_times(
    row_filter: RowFilter, times: pa.Array, read: Callable[[str], int | None]
) -> np.ndarray:
    """Returns bool[n]: which times lie within the bounds; a missing one does not.

    Args:
        row_filter: The filter.
        times: int64[n], microseconds since 1970 UTC.
        read: Returns the time that a bound stands for, or None.

    Raises:
        UsageError: A bound is no time.
    """
    passed = np.ones(len(times), bool)
    for name, at in times_of_bounds(row_filter, read).items():
        passed &= np.asarray(pc.fill_null(_TESTS[name](times, pa.scalar(at)), False))
    return passed


def times_of_bounds(row_filter: RowFilter, read: Callable[[str], int | None]) -> dict[str, int]:
    """Returns the bounds as times, microseconds since 1970 UTC; see `mask_of_times`.

    Raises:
        UsageError: One is no time.
    """
    times = {}
    for name, bound in row_filter.bounds.items():
        at = read(bound)
        if at is None:
            raise UsageError(
                f"the filter on column {row_filter.column!r}: {name} must be a time, as the column "
                f"holds times, got {bound!r}; write it like 2026-11-01 or 2026-11-01T13:00"
            )
        times[name] = at
    return times


def _mask_of_text(values: pa.Array, name: str, bound: str, clock: WallClock) -> np.ndarray:
    """bool[n]: which of some distinct texts are on the right side of a bound."""
    passed = _TESTS[name](values, pa.scalar(bound, values.type))
    at = from_period(pa.array([bound], pa.string()), clock)[0].as_py()
    if at is not None:
        by_time = _TESTS[name](from_period(values, clock), pa.scalar(at))
        passed = pc.coalesce(by_time, passed)
    number = _number(bound)
    if number is not None:
        passed = pc.coalesce(_by_number(values, name, number), passed)
    return np.asarray(pc.fill_null(passed, False))


def _number(text: str) -> Decimal | None:
    if re.match(DECIMAL, text, re.ASCII) is None or not text.isascii():
        return None
    number = Decimal(text.strip())
    return number if abs(number.adjusted()) <= _MAX_EXPONENT else None


def _by_number(values: pa.Array, name: str, bound: Decimal) -> pa.Array:
    """bool[n]: which numbers are on the right side of a bound; null for what is no number."""
    is_whole = pc.fill_null(pc.match_substring_regex(values, WHOLE), False)
    is_number = pc.fill_null(pc.match_substring_regex(values, DECIMAL), False)
    trimmed = pc.utf8_ltrim(pc.utf8_trim_whitespace(values), "+")
    without_point = pc.replace_substring_regex(pc.if_else(is_whole, trimmed, None), r"\..*$", "")
    whole = cast_or_null(without_point, pa.int64())
    limit = _WHOLE_OF[name](bound)
    if _INT64.min <= limit <= _INT64.max:
        exact = _TESTS[name](whole, pa.scalar(limit, pa.int64()))
    else:  # on one side of all of them
        is_above = limit > 0
        passes = is_above == (name in ("at_most", "below"))
        exact = pc.if_else(pc.is_valid(whole), passes, None)
    others = cast_or_null(pc.if_else(is_number, trimmed, None), pa.float64())
    return pc.coalesce(exact, _TESTS[name](others, pa.scalar(float(bound), pa.float64())))
