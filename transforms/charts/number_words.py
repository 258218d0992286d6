"""Numbers of indicators in words: 2.1 days, 94.3 %, 4,982 cases."""

from __future__ import annotations

import math

from tracecloak.schemas.published.indicators import SHARE, IndicatorRow

SECONDS = "s"
"""The unit of durations."""

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
# From how many seconds on a time is told in days alone, and in whole ones.
_IN_DAYS = 2 * _DAY
_WHOLE_DAYS = 100 * _DAY
_WHOLE = 1_000.0


def value_words(row: IndicatorRow) -> str:
    """Returns the number of a row with its unit."""
    return in_words(row.value, row.unit, with_unit=True)


def interval_words(row: IndicatorRow) -> str:
    """Returns the interval of a row, with a unit where a number alone would not be understood."""
    if row.unit == SECONDS:
        # Of two ends that are told in days, neither is in hours: 1.8 days to 2.3 days.
        are_days = row.low >= _DAY and row.high >= _IN_DAYS
        ends = (time_words(end, _DAY if are_days else _IN_DAYS) for end in (row.low, row.high))
        return " to ".join(ends)
    low, high = (in_words(end, row.unit) for end in (row.low, row.high))
    return f"{low.removesuffix(' %')}\u2013{high}"


def in_words(value: float, unit: str, *, with_unit: bool = False) -> str:
    """Returns a number in a unit of `IndicatorRow`.

    Args:
        value: The number.
        unit: Its unit.
        with_unit: Whether counts have theirs, too: cases, events, occurrences.
    """
    if not math.isfinite(value):
        return "unknown"
    if unit == SHARE:
        percent = 100 * value
        return f"{percent:.2g} %" if 0 < abs(percent) < 1 else f"{percent:.1f} %"
    if unit == SECONDS:
        return time_words(value)
    if unit == "":
        return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.4g}"
    counted = f"{value:,.0f}"
    if not with_unit:
        return counted
    return f"{counted} {unit.removesuffix('s') if counted == '1' else unit}"


def time_words(seconds: float, in_days_from: float = _IN_DAYS) -> str:
    """Returns a duration in the one or two units that people use: 2.1 days, 3 h 20 min, 45 s.

    Args:
        seconds: The duration.
        in_days_from: From how many seconds on it is in days.
    """
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return f"\u2212{time_words(-seconds, in_days_from)}"
    if seconds >= in_days_from:
        number = f"{seconds / _DAY:,.{0 if seconds >= _WHOLE_DAYS else 1}f}"
        number = number.removesuffix(".0")
        return f"{number} {'day' if number == '1' else 'days'}"
    if seconds >= _HOUR - _MINUTE / 2:
        return _two_units(round(seconds / _MINUTE), "h", "min")
    if seconds >= _MINUTE - 1 / 2:
        return _two_units(round(seconds), "min", "s")
    return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.3g} s"


def _two_units(n_small: int, large: str, small: str) -> str:
    """Sixty small ones are a large one."""
    n_large, rest = divmod(n_small, 60)
    return f"{n_large} {large} {rest} {small}" if rest else f"{n_large} {large}"
