"""Charts that `charts.svg.j2` draws: where numbers lie in them, and which texts have room.

Axes: from where to where a chart reaches, and which round numbers stand on it. Numbers of
indicators in words: 2.1 days, 94.3 %, 4,982 cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tracecloak.schemas.published.figures import SHARE, IndicatorRow
from tracecloak.transforms.models.dfg_svg import elide

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
        sure = [row for row in rows if row.grade != "noise"]
        most = _bounded(max([r.value for r in rows] + [r.high for r in sure]))
        least = _bounded(min([r.value for r in rows] + [r.low for r in sure]))
        highest, lowest = _bounded(max(r.high for r in rows)), _bounded(min(r.low for r in rows))
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
    for unit, large, small in ((_MINUTE, "h", "min"), (1, "min", "s")):
        n_large, rest = divmod(round(seconds / unit), 60)
        if n_large:
            return f"{n_large} {large} {rest} {small}" if rest else f"{n_large} {large}"
    return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.3g} s"


Form = Literal["share", "rows", "time", "histogram", "quantiles"]
"""How numbers are drawn: a bar of 100 % without a label, or as in `Panel`."""

_FONT_SIZE = 12.0
LETTER = 6.6
"""About how wide a letter is, in the drawing's unit, of a font of that size."""
MANY = 36
"""So many columns are drawn on the width of half a page; more have all of it."""

_WIDTH, _WIDE = 420.0, 860.0
_HEIGHT, _BELOW, _ABOVE, _RIGHT = 210.0, 26.0, 12.0, 14.0
_FILLED = 0.7  # of the room that a column has
_MARGIN = 14.0
_ROW, _BELOW_ROWS, _BAR = 38.0, 22.0, 12.0  # heights, the last one of a bar
_SHARE_WIDTH, _SHARE_HEIGHT, _SHARE_BAR = 150.0, 16.0, 10.0


class Chart:
    """Numbers along an axis, upwards or to the right, all in the drawing's unit.

    Attributes:
        title: What it is, in a few words.
        form: How its numbers are drawn.
        numbers: What is drawn, each with its label.
        n_more: How many numbers there are beside.
        axis: What the numbers lie on.
        is_upright: Whether the axis goes from the bottom to the top; else from left to right.
        is_wide: Whether it takes the whole width of a page.
        width: Of the drawing.
        height: Likewise.
        left: Where the numbers begin.
        room: Of each number across the axis.
        bar: How wide the bar of a number is across the axis; 0: it is a dot.
    """

    def __init__(
        self,
        title: str,
        form: Form,
        rows: Sequence[IndicatorRow],
        labels: Sequence[str],
        edges: Sequence[str] = (),
        n_more: int = 0,
    ) -> None:
        """Measures it.

        Args:
            title: See above.
            form: See above.
            rows: At least one, all in one unit.
            labels: Of each.
            edges: What stands at the borders of the columns, of a histogram, one more than columns;
                by default the labels stand below the columns.
            n_more: See above.
        """
        self.title, self.form, self.n_more = title, form, n_more
        self.numbers = tuple(zip(labels, rows, strict=True))
        self.is_upright = form in ("time", "histogram")
        self.is_wide = self.is_upright and len(rows) > MANY
        self.width, self.room = _WIDE if self.is_wide else _WIDTH, _ROW
        self._edges = edges
        if form == "share":
            self.axis, self.left, self.bar = Axis(0.0, 1.0, ()), 0.0, _SHARE_BAR
            self.width, self.height = _SHARE_WIDTH, _SHARE_HEIGHT
            return
        self.axis = Axis.of(rows)
        if self.is_upright:
            self.height = _HEIGHT
            self.left = 12 + LETTER * max(len(text) for _, text in self.axis.ticks)
            self.room = (self.width - self.left - _RIGHT) / len(rows)
            self.bar = self.room * _FILLED
        else:
            self.height, self.left = _ROW * len(rows) + _BELOW_ROWS, _MARGIN
            self.bar = 0.0 if form == "quantiles" else _BAR

    def place(self, value: float) -> float:
        """Returns where a number lies along the axis, from the left or from the top."""
        share = self.axis.share(value)
        if self.is_upright:
            return _ABOVE + (_HEIGHT - _BELOW - _ABOVE) * (1 - share)
        return self.left + (self.width - 2 * self.left) * share

    def below(self) -> Iterator[tuple[str, float]]:
        """Yields as many of the texts below columns as have room, evenly, with their middles."""
        texts = self._edges or [label for label, _ in self.numbers]
        first = self.left if self._edges else self.left + self.room / 2
        every = max(math.ceil(LETTER * (max(map(len, texts)) + 1.5) / self.room), 1)
        free_from = 0.0
        for place in range(0, len(texts), every):
            text = texts[place]
            x, half = self.within(text, first + self.room * place), LETTER * len(text) / 2
            if x - half >= free_from:  # the last one is moved inwards, where another one may be
                yield text, x
                free_from = x + half + LETTER

    def within(self, text: str, x: float) -> float:
        """Returns the middle of a text near a place that goes beyond no border."""
        half = LETTER * len(text) / 2
        return min(max(x, half), max(self.width - half, half))

    def beside(self, label: str, value: str) -> str:
        """Returns a label of a row, or as much of it as has room beside a value."""
        room = self.width - 2 * self.left - LETTER * (len(value) + 2)
        return elide(label, _FONT_SIZE, room)
