"""Filters of records: the language of `where`, and the rows that it keeps."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.calendar.local_time import LocalClock
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.source_column import text_of
from tracecloak.schemas.events.timestamps import DECIMAL, ToUtc, from_iso, from_period

# ---
# Which records are read: those whose column equals some values, begins so, or lies within bounds.
# A bound is compared with a value as both are written: `9` is below `10`, as both are numbers;
# `2026-11-30` is below `2026-12`, as both are times; `B2` is below `C`, by their characters. A
# missing value lies within no bounds.


_QUOTED = re.compile(r"""^(['"])(.*)\1$""", re.DOTALL)
_BOUNDS = ("at_least", "above", "at_most", "below")


@dataclass(frozen=True)
class RowFilter:
    """Keeps the records whose column passes.

    One of `equals`, `begins_with` and the bounds is given; of the bounds several can be, and all
    hold. Of `equals` each literal alone decides how it is compared, and never the column's type:

    * A number as `events.source_column` writes it, such as `5`, `-3` or `1.5`, is compared by
      value: `5` passes `5`, `5.0` and ` 5`.
    * So is a time of ISO 8601 with a whole date, without an offset on the clocks of the mapping's
      zone, unless these show it twice or never.
    * Any other one, such as `05`, `5.0` or `1e3`, and one in quotes, such as `'5'`, by its text;
      lifecycle transitions without regard to case.

    Attributes:
        column: A canonical name that the mapping maps (`activity`, `lifecycle`, …) or a column of
            the source.
        equals: The literals of the values that pass, or None.
        begins_with: The prefix that passes, or None.
        at_least: The smallest value that passes, or None: there is none.
        above: The largest value that no longer passes, or None.
        at_most: The largest value that passes, or None.
        below: The smallest value that no longer passes, or None.
    """

    column: str
    equals: tuple[str, ...] | None = None
    begins_with: str | None = None
    at_least: str | None = None
    above: str | None = None
    at_most: str | None = None
    below: str | None = None

    def __post_init__(self) -> None:
        given = (self.equals is not None) + (self.begins_with is not None) + bool(self.bounds)
        if given != 1:
            raise UsageError(
                f"the filter on column {self.column!r} needs either equals or begins_with, or "
                f"bounds: {', '.join(_BOUNDS)}"
            )

        for name, bound in self.bounds.items():
            if not bound.strip():
                raise UsageError(f"the filter on column {self.column!r}: {name} is empty")

    @property
    def texts(self) -> list[str]:
        """The texts of the literals of `equals`, without quotes."""
        return [_QUOTED.sub(r"\2", literal) for literal in self.equals or ()]

    @property
    def bounds(self) -> dict[str, str]:
        """The bounds that are given, by what they ask of a value."""
        given = {name: getattr(self, name) for name in _BOUNDS}
        return {name: bound for name, bound in given.items() if bound is not None}


# --- Which values a filter of rows lets pass; see `row_filter`. -----------------------------------


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
    distinct = encoded.dictionary
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
            each |= np.asarray(pc.is_in(from_iso(distinct, clock.to_utc), value_set=known))
    elif row_filter.begins_with is not None:
        each = np.array(pc.starts_with(distinct, pattern=row_filter.begins_with), bool)
    else:
        each = np.ones(len(distinct), bool)
        for name, bound in row_filter.bounds.items():
            each &= _mask_of_text(distinct, name, bound, clock.to_utc)
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
        hours = np.zeros(1, np.int8)
        at = from_iso(pa.array([literal], pa.string()), partial(clock.to_utc, hours=hours))[
            0
        ].as_py()
        if at is not None and "/" not in literal and not np.any(hours):
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


def _mask_of_text(values: pa.Array, name: str, bound: str, to_utc: ToUtc) -> np.ndarray:
    """bool[n]: which of some distinct texts are on the right side of a bound."""
    passed = _TESTS[name](values, pa.scalar(bound, values.type))
    at = from_period(pa.array([bound], pa.string()), to_utc)[0].as_py()
    if at is not None:
        by_time = _TESTS[name](from_period(values, to_utc), pa.scalar(at))
        passed = pc.coalesce(by_time, passed)
    number = _number(bound)
    if number is not None:
        read = map(_number, values.to_pylist())
        signs = pa.array(
            [None if n is None else (n > number) - (n < number) for n in read], pa.int8()
        )
        passed = pc.coalesce(_TESTS[name](signs, pa.scalar(0, pa.int8())), passed)
    return np.asarray(pc.fill_null(passed, False))


def _number(text: str) -> Decimal | None:
    if re.match(DECIMAL, text, re.ASCII) is None or not text.isascii():
        return None
    try:
        return Decimal(text.strip())
    except InvalidOperation:  # an exponent of more than 18 digits
        return None
