"""Charts as shapes that a template prints as SVG: columns and rows, each with its interval.

Axes: from where to where a chart reaches, and which round numbers stand on it. Numbers of
indicators in words: 2.1 days, 94.3 %, 4,982 cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

from tracecloak.schemas.published.figures import SHARE, IndicatorRow
from tracecloak.transforms.models.dfg_svg import ELLIPSIS

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


LETTER = 6.6
"""About how wide a letter is, in the drawing's unit, of a font of size 12."""


@dataclass(frozen=True)
class Shape:
    """One shape.

    Attributes:
        tag: Its element of SVG.
        attributes: Of the element.
        text: Of a text.
        title: What is told when somebody points at it; empty: nothing.
    """

    tag: str
    attributes: Mapping[str, str]
    text: str = ""
    title: str = ""


@dataclass(frozen=True)
class Drawing:
    """Shapes on a canvas.

    Attributes:
        width: In the drawing's unit.
        height: Likewise.
        title: What it is, in a few words.
        description: What is on it, in a sentence, for those who do not see it.
        shapes: From the lowest to the one on top.
    """

    width: float
    height: float
    title: str
    description: str
    shapes: tuple[Shape, ...]


def line(kind: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> Shape:
    """Returns a line of a class."""
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return Shape("line", {"class": kind, **_numbers(ends.items())}, title=title)


def box(kind: str, x: float, y: float, width: float, height: float, title: str = "") -> Shape:
    """Returns a rectangle of a class."""
    sides = {"x": x, "y": y, "width": max(width, 0.0), "height": max(height, 0.0)}
    return Shape("rect", {"class": kind, **_numbers(sides.items())}, title=title)


def dot(kind: str, x: float, y: float, radius: float, title: str = "") -> Shape:
    """Returns a circle of a class."""
    circle = {"cx": x, "cy": y, "r": radius}
    return Shape("circle", {"class": kind, **_numbers(circle.items())}, title=title)


def arrow(kind: str, points: Iterable[tuple[float, float]]) -> Shape:
    """Returns a filled polygon of a class."""
    corners = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return Shape("polygon", {"class": kind, "points": corners})


def words(kind: str, x: float, y: float, text: str, anchor: str = "start") -> Shape:
    """Returns a text of a class that begins, ends or has its middle at a place."""
    place = _numbers({"x": x, "y": y}.items())
    return Shape("text", {"class": kind, "text-anchor": anchor, **place}, text)


def words_within(kind: str, x: float, y: float, text: str, width: float) -> Shape:
    """Returns a text about a place, but not beyond the left or right border of a canvas."""
    half = LETTER * len(text) / 2
    return words(kind, min(max(x, half), max(width - half, half)), y, text, "middle")


def fitted(text: str, width: float) -> str:
    """Returns a text, cut so that it is about as wide as there is room."""
    room = width / LETTER
    for place, letter in enumerate(text):
        room -= 1.7 if east_asian_width(letter) in "WF" else 1.0
        if room < 0:
            return text[: max(place - 1, 0)] + ELLIPSIS
    return text


def _numbers(named: Iterable[tuple[str, float]]) -> dict[str, str]:
    return {name: f"{number:.2f}" for name, number in named}


MANY = 36
"""So many columns are drawn on the width of half a page; more have all of it."""

_WIDTH, _WIDE = 420.0, 860.0
_HEIGHT, _BELOW, _ABOVE, _RIGHT = 210.0, 26.0, 12.0, 14.0
_FILLED = 0.7  # of the room that a column has
_SLIM = 8.0  # a narrower column has an interval without caps


def columns_chart(
    title: str,
    rows: Sequence[IndicatorRow],
    labels: Sequence[str],
    description: str,
    *,
    edges: Sequence[str] = (),
) -> Drawing:
    """Returns a column for each number, in their order.

    Args:
        title: Of the drawing.
        rows: At least one, all in one unit.
        labels: Of each.
        description: Of the drawing.
        edges: What stands at the borders of the columns, of a histogram, one more than columns;
            by default the labels stand below the columns.
    """
    axis = Axis.of(rows)
    width = _WIDE if len(rows) > MANY else _WIDTH
    left = 12 + LETTER * max(len(text) for _, text in axis.ticks)
    room = (width - left - _RIGHT) / len(rows)
    bottom = _HEIGHT - _BELOW

    def y_of(value: float) -> float:
        return _ABOVE + (bottom - _ABOVE) * (1 - axis.share(value))

    shapes = []
    for value, text in axis.ticks:
        shapes.append(line("grid", left, y_of(value), width - _RIGHT, y_of(value)))
        shapes.append(words("tick", left - 6, y_of(value) + 4, text, "end"))
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        said = f"{label}: {value_words(row)} ({interval_words(row)})"
        ends = tuple(y_of(number) for number in (0.0, row.value, row.low, row.high))
        shapes += _marks(row, axis, left + room * place, room, ends, said)
    below = edges or labels
    first = left if edges else left + room / 2
    shapes += _below(below, first, room, width)
    return Drawing(width, _HEIGHT, title, description, tuple(shapes))


def _marks(
    row: IndicatorRow, axis: Axis, left: float, room: float, ends: tuple[float, ...], title: str
) -> list[Shape]:
    zero, value, low, high = ends
    quiet = f" {row.grade}"
    thin = " thin" if room < _SLIM else ""
    middle, cap = left + room / 2, min(room / 5, 4.0)
    top, tall = min(zero, value), abs(value - zero)
    is_full = room >= _SLIM
    shapes = [
        box(f"extent{quiet}", left + room * (1 - _FILLED) / 2, top, room * _FILLED, tall, title),
        line(f"whisker{quiet}{thin}", middle, low, middle, high, title),
    ]
    for y, end, way in ((low, row.low, 1), (high, row.high, -1)):
        if axis.is_beyond(end):
            points = ((middle, y + 7 * way), (middle - cap, y), (middle + cap, y))
            shapes.append(arrow(f"beyond{quiet}", points))
        elif is_full:
            shapes.append(line(f"whisker{quiet}", middle - cap, y, middle + cap, y))
    return shapes


def _below(texts: Sequence[str], first: float, room: float, width: float) -> list[Shape]:
    """As many of the texts as have room, evenly, the first one among them."""
    widest = LETTER * (max(len(text) for text in texts) + 1.5)
    every = max(math.ceil(widest / room), 1)
    shapes: list[Shape] = []
    free_from = 0.0
    for place in range(0, len(texts), every):
        text, half = texts[place], LETTER * len(texts[place]) / 2
        x = min(max(first + room * place, half), width - half)
        if x - half >= free_from:  # the last one is moved inwards, where another one may be
            shapes.append(words("tick", x, _HEIGHT - 7, text, "middle"))
            free_from = x + half + LETTER
    return shapes


_MARGIN = 14.0
_ROW, _BELOW_ROWS = 38.0, 22.0
_BAR = 12.0  # how high a bar is
_CAP = 4.0
_DOT = 4.5


def rows_chart(
    title: str,
    rows: Sequence[IndicatorRow],
    labels: Sequence[str],
    description: str,
    *,
    is_dotted: bool = False,
) -> Drawing:
    """Returns a row for each number, in their order, with its label and value above its mark.

    Args:
        title: Of the drawing.
        rows: At least one, all in one unit.
        labels: Of each.
        description: Of the drawing.
        is_dotted: Whether a number is a dot, as a point in time is; else it is a bar from nought.
    """
    axis = Axis.of(rows)
    plot = _WIDTH - 2 * _MARGIN
    height = _ROW * len(rows) + _BELOW_ROWS
    shapes: list[Shape] = []
    for tick, text in axis.ticks:
        x = _MARGIN + plot * axis.share(tick)
        shapes.append(line("grid", x, 0, x, height - _BELOW_ROWS + 4))
        shapes.append(words_within("tick", x, height - 5, text, _WIDTH))
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        top = _ROW * place
        value = value_words(row)
        room = plot - LETTER * (len(value) + 2)
        quiet = f" {row.grade}"
        shapes.append(words(f"label{quiet}", _MARGIN, top + 13, fitted(label, room)))
        shapes.append(words(f"value{quiet}", _MARGIN + plot, top + 13, value, "end"))
        said = f"{label}: {value} ({interval_words(row)})"
        shapes += _row_marks(row, axis, plot, top + 19 + _BAR / 2, said, is_dotted=is_dotted)
    return Drawing(_WIDTH, height, title, description, tuple(shapes))


def _row_marks(
    row: IndicatorRow, axis: Axis, plot: float, y: float, title: str, *, is_dotted: bool
) -> list[Shape]:
    quiet = f" {row.grade}"
    zero, value, low, high = (
        _MARGIN + plot * axis.share(number) for number in (0.0, row.value, row.low, row.high)
    )
    shapes = []
    if not is_dotted:
        left = min(zero, value)
        shapes.append(box(f"extent{quiet}", left, y - _BAR / 2, abs(value - zero), _BAR, title))
    shapes.append(line(f"whisker{quiet}", low, y, high, y, title))
    for x, end, way in ((low, row.low, -1), (high, row.high, 1)):
        if axis.is_beyond(end):
            points = ((x + 7 * way, y), (x, y - _CAP), (x, y + _CAP))
            shapes.append(arrow(f"beyond{quiet}", points))
        else:
            shapes.append(line(f"whisker{quiet}", x, y - _CAP, x, y + _CAP))
    if is_dotted:
        shapes.append(dot(f"dot{quiet}", value, y, _DOT, title))
    return shapes
