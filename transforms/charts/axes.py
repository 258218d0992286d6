"""Axes: from where to where a chart reaches, and which round numbers stand on it.

Numbers of indicators in words: 2.1 days, 94.3 %, 4,982 cases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.schemas.published.indicators import SHARE, IndicatorRow

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(_MINUTE * n for n in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)),
    *(_DAY * n for n in (1, 2, 5, 10, 20, 50, 100)),
)
_NAMES_S = (_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")
_MAX_TICKS = 5
# By how much the interval of a number that is noise may stretch an axis before it is cut off.
_STRETCH = 1.6
_LARGEST = 1e15


@dataclass(frozen=True)
class Axis:
    """An axis with nought on it.

    Attributes:
        least: Where it begins, 0 or below.
        most: Where it ends, above `least`.
        ticks: The round numbers on it, with what stands there.
    """

    least: float
    most: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, rows: Sequence[IndicatorRow]) -> Axis:
        """Returns one for numbers of one unit.

        Every number lies on it, and so does the interval of each that is not noise. That of one
        that is may reach beyond its ends, since it would make all others small.

        Args:
            rows: At least one.
        """
        unit = rows[0].unit
        highs = [row.value for row in rows] + [row.high for row in rows if row.grade != "noise"]
        lows = [row.value for row in rows] + [row.low for row in rows if row.grade != "noise"]
        most, least = _bounded(max(highs)), _bounded(min(lows))
        highest, lowest = (
            _bounded(n) for n in (max(r.high for r in rows), min(r.low for r in rows))
        )
        reach = (most or highest) * _STRETCH
        most = max(most, min(highest, reach), 0.0)
        least = min(least, max(lowest, -reach), 0.0)
        step = _step(max(most - least, 1e-9), unit)
        first, last = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
        last = max(last, first + 1)
        if unit == SHARE and most <= 1:
            last = min(last, round(1 / step))
        ticks = tuple((n * step, _text(n * step, step, unit)) for n in range(first, last + 1))
        return cls(first * step, last * step, ticks)

    def share(self, value: float) -> float:
        """Returns where on the axis a number lies, from 0 to 1; beyond the ends, the nearer one."""
        place = (_bounded(value) - self.least) / (self.most - self.least)
        return min(max(place, 0.0), 1.0)

    def is_beyond(self, value: float) -> bool:
        """Returns whether a number lies beyond an end."""
        room = (self.most - self.least) * 1e-6
        return not self.least - room <= value <= self.most + room


def _bounded(value: float) -> float:
    """The number; no axis is made for what is infinite, or larger than whatever is counted."""
    return 0.0 if math.isnan(value) else min(max(value, -_LARGEST), _LARGEST)


def _step(width: float, unit: str) -> float:
    """The least round step of which at most five are in a width."""
    least = width / _MAX_TICKS
    if unit == SECONDS and _STEPS_S[0] <= least <= _STEPS_S[-1]:
        return float(next(step for step in _STEPS_S if step >= least))
    size = _DAY if unit == SECONDS and least > _DAY else 1
    power = 10.0 ** math.floor(math.log10(least / size))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= least / size * (1 - 1e-9)) * size
    return step if unit in (SHARE, SECONDS, "") else max(step, 1.0)


def _text(value: float, step: float, unit: str) -> str:
    if unit == SHARE:
        return f"{100 * value:.10g} %"
    if value == 0:
        return "0"
    if unit == SECONDS:
        size, name = next((pair for pair in _NAMES_S if step >= pair[0]), _NAMES_S[-1])
        return f"{float(f'{value / size:.10g}'):,g} {name}"
    return f"{value:,.0f}" if step >= 1 else f"{value:.10g}"


SECONDS = "s"
"""The unit of durations."""

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
