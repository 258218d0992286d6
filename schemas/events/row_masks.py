"""Which values a filter of rows lets pass; see `row_filter`."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.row_filter import RowFilter
from tracecloak.schemas.events.source_column import text_of
from tracecloak.schemas.events.stamps import DECIMAL, WallClock, from_iso, from_period

# What XES and the canonical columns call the transition of an event.
_LIFECYCLE = ("lifecycle", "lifecycle:transition")
# The name of each bound, and how a value is compared with it.
_TESTS: dict[str, Callable[..., pa.Array]] = {
    "at_least": pc.greater_equal,
    "above": pc.greater,
    "at_most": pc.less_equal,
    "below": pc.less,
}


def mask_of(row_filter: RowFilter, values: pa.Array, clock: LocalClock) -> np.ndarray:
    """Returns bool[n]: which of the text values pass; a missing value does not.

    Args:
        row_filter: The filter.
        values: string[n].
        clock: Of the zone of times without an offset.
    """
    encoded = values.dictionary_encode()
    distinct, wall = encoded.dictionary, WallClock(clock)
    if row_filter.equals is not None:
        texts, wanted = distinct, pa.array(row_filter.texts, pa.string())
        if row_filter.column in _LIFECYCLE:
            # XES writes `complete`, many logs `COMPLETE`; nobody means to tell them apart.
            texts, wanted = pc.utf8_lower(texts), pc.utf8_lower(wanted)
        each = np.array(pc.is_in(texts, value_set=wanted), bool)
        numbers, times = _values(row_filter, clock)
        if numbers:
            equal = set(numbers.values())
            each |= np.array([_number(value) in equal for value in distinct.to_pylist()], bool)
        if times:
            known = pa.array(list(times.values()), pa.int64())
            each |= np.asarray(pc.is_in(from_iso(distinct, wall), value_set=known))
    elif row_filter.begins_with is not None:
        each = np.array(pc.starts_with(distinct, pattern=row_filter.begins_with), bool)
    else:
        each = np.ones(len(distinct), bool)
        for name, bound in row_filter.bounds.items():
            each &= _mask_of_text(distinct, name, bound, wall)
    passed = pa.array(each, pa.bool_()).take(encoded.indices)
    return np.asarray(pc.fill_null(passed, False))


def _values(row_filter: RowFilter, clock: LocalClock) -> tuple[dict[str, Decimal], dict[str, int]]:
    """Returns the literals of `equals` that are compared by value: numbers and times, as these.

    Numbers are those that are written as `text_of` does. Times are those of ISO 8601 with a whole
    date; of those without an offset not one that the clocks of the zone show twice or never.
    """
    numbers, times = {}, {}
    for literal in row_filter.equals or ():
        number = _number(literal)
        if number is not None and "e" not in literal.lower() and text_of(number) == literal:
            numbers[literal] = number
        wall = WallClock(clock, np.zeros(1, np.int8))
        at = from_iso(pa.array([literal], pa.string()), wall)[0].as_py()
        if at is not None and "/" not in literal and not np.any(wall.hours):
            times[literal] = at
    return numbers, times


def mask_of_times(
    row_filter: RowFilter, times: pa.Array, read: Callable[[str], int | None], clock: LocalClock
) -> np.ndarray:
    """Returns bool[n]: which times lie within the bounds or equal a literal; no missing one does.

    Args:
        row_filter: The filter.
        times: int64[n], microseconds since 1970 UTC.
        read: Returns the time that a bound or a value stands for, or None.
        clock: Of the zone in which it does.

    Raises:
        UsageError: A bound is no time.
    """
    if row_filter.equals is not None:
        numbers, known_times = _values(row_filter, clock)
        wanted = [read(literal) for literal in (*numbers, *known_times)]
        known = pa.array([at for at in wanted if at is not None], pa.int64())
        return np.asarray(pc.is_in(times, value_set=known))
    passed = np.full(len(times), bool(row_filter.bounds))
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
        signs = pa.array([_sign(value, number) for value in values.to_pylist()], pa.int8())
        passed = pc.coalesce(_TESTS[name](signs, pa.scalar(0, pa.int8())), passed)
    return np.asarray(pc.fill_null(passed, False))


def _number(text: str) -> Decimal | None:
    if re.match(DECIMAL, text, re.ASCII) is None or not text.isascii():
        return None
    try:
        return Decimal(text.strip())
    except InvalidOperation:  # an exponent of more than 18 digits
        return None


def _sign(text: str, bound: Decimal) -> int | None:
    """Returns how a number compares with another one, -1, 0 or 1; None: it is not a number."""
    number = _number(text)
    return None if number is None else (number > bound) - (number < bound)
