"""Charts as shapes that a template prints as SVG: columns and rows, each with its interval.

Axes: from where to where a chart reaches, and which round numbers stand on it. Numbers of
indicators in words: 2.1 days, 94.3 %, 4,982 cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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


_FONT_SIZE = 12.0
LETTER = 6.6
"""About how wide a letter is, in the drawing's unit, of a font of that size."""

Point = tuple[float, float]


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
        shapes: From the lowest to the one on top.
    """

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def shape(
    tag: str, kind: str, title: str = "", text: str = "", anchor: str = "", **numbers: float
) -> Shape:
    """Returns a shape of a class, such as a line from x1 and y1 to x2 and y2.

    Args:
        tag: Its element of SVG.
        kind: Its class.
        title: What is told when somebody points at it.
        text: Of a text.
        anchor: Which part of a text is at its place: start, middle or end.
        numbers: Its other attributes.
    """
    attributes = {"class": kind, **({"text-anchor": anchor} if anchor else {})}
    attributes |= {name: f"{number:.2f}" for name, number in numbers.items()}
    return Shape(tag, attributes, text, title)


def line(kind: str, start: Point, end: Point, title: str = "") -> Shape:
    """Returns a line of a class."""
    return shape("line", kind, title, x1=start[0], y1=start[1], x2=end[0], y2=end[1])


def marks(
    row: IndicatorRow,
    axis: Axis,
    place_of: Callable[[float], float],
    across: float,
    bar: float,
    title: str = "",
    *,
    is_upright: bool = False,
) -> list[Shape]:
    """Returns a bar from nought, or a dot, with its interval.

    Args:
        row: What is drawn.
        axis: Beyond whose ends an interval goes on, which an arrow says.
        place_of: Where a number lies along the axis.
        across: Where the middle of the bar lies, across it.
        bar: How wide the bar is, of which a slim one has no caps on its interval; 0 gives a dot.
        title: What is told when somebody points at it.
        is_upright: Whether the axis goes from the bottom to the top; else from left to right.
    """
    zero, value, low, high = map(place_of, (0.0, row.value, row.low, row.high))
    is_slim, cap = 0 < bar < _SLIM, min(bar / 3 or _CAP, _CAP)
    grade, tip = row.grade, -_TIP if is_upright else _TIP

    def at(along: float, aside: float = 0.0) -> Point:
        here = across + aside
        return (here, along) if is_upright else (along, here)

    shapes = []
    if bar:
        x, y = at(min(zero, value), -bar / 2)
        width, height = (bar, abs(value - zero)) if is_upright else (abs(value - zero), bar)
        shapes.append(shape("rect", f"extent {grade}", title, x=x, y=y, width=width, height=height))
    shapes.append(line(f"whisker {grade}{' thin' * is_slim}", at(low), at(high), title))
    for end, number, way in ((low, row.low, -1), (high, row.high, 1)):
        if axis.is_beyond(number):
            corners = at(end + way * tip), at(end, -cap), at(end, cap)
            points = " ".join(f"{x:.2f},{y:.2f}" for x, y in corners)
            shapes.append(Shape("polygon", {"class": f"beyond {grade}", "points": points}))
        elif not is_slim:
            shapes.append(line(f"whisker {grade}", at(end, -cap), at(end, cap)))
    if not bar:
        x, y = at(value)
        shapes.append(shape("circle", f"dot {grade}", title, cx=x, cy=y, r=_DOT))
    return shapes


MANY = 36
"""So many columns are drawn on the width of half a page; more have all of it."""

_WIDTH, _WIDE = 420.0, 860.0
_HEIGHT, _BELOW, _ABOVE, _RIGHT = 210.0, 26.0, 12.0, 14.0
_FILLED = 0.7  # of the room that a column has
_SLIM = 5.6  # a narrower column has an interval without caps
_TIP, _DOT, _CAP = 7.0, 4.5, 4.0


def columns_chart(
    title: str,
    rows: Sequence[IndicatorRow],
    labels: Sequence[str],
    *,
    edges: Sequence[str] = (),
) -> Drawing:
    """Returns a column for each number, in their order.

    Args:
        title: Of the drawing.
        rows: At least one, all in one unit.
        labels: Of each.
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
        shapes.append(line("grid", (left, y_of(value)), (width - _RIGHT, y_of(value))))
        shapes.append(shape("text", "tick", "", text, "end", x=left - 6, y=y_of(value) + 4))
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        shapes += marks(
            *(row, axis, y_of, left + room * (place + 0.5), room * _FILLED),
            f"{label}: {value_words(row)} ({interval_words(row)})",
            is_upright=True,
        )
    shapes += _below(edges or labels, left if edges else left + room / 2, room, width)
    return Drawing(width, _HEIGHT, title, tuple(shapes))


def _below(texts: Sequence[str], first: float, room: float, width: float) -> list[Shape]:
    """As many of the texts as have room, evenly, the first one among them."""
    widest = LETTER * (max(len(text) for text in texts) + 1.5)
    every = max(math.ceil(widest / room), 1)
    shapes: list[Shape] = []
    free_from = 0.0
    for place in range(0, len(texts), every):
        text = texts[place]
        x, half = _within(text, first + room * place, width)
        if x - half >= free_from:  # the last one is moved inwards, where another one may be
            shapes.append(shape("text", "tick", "", text, "middle", x=x, y=_HEIGHT - 7))
            free_from = x + half + LETTER
    return shapes


def _within(text: str, x: float, width: float) -> tuple[float, float]:
    """Where the middle of a text is that goes beyond no border of a canvas, and half its width."""
    half = LETTER * len(text) / 2
    return min(max(x, half), max(width - half, half)), half


_MARGIN = 14.0
_ROW, _BELOW_ROWS = 38.0, 22.0
_BAR = 12.0  # how high a bar is


def rows_chart(
    title: str,
    rows: Sequence[IndicatorRow],
    labels: Sequence[str],
    *,
    is_dotted: bool = False,
) -> Drawing:
    """Returns a row for each number, in their order, with its label and value above its mark.

    Args:
        title: Of the drawing.
        rows: At least one, all in one unit.
        labels: Of each.
        is_dotted: Whether a number is a dot, as a point in time is; else it is a bar from nought.
    """
    axis = Axis.of(rows)
    plot = _WIDTH - 2 * _MARGIN
    height = _ROW * len(rows) + _BELOW_ROWS

    def x_of(value: float) -> float:
        return _MARGIN + plot * axis.share(value)

    shapes: list[Shape] = []
    for tick, text in axis.ticks:
        x = x_of(tick)
        shapes.append(line("grid", (x, 0), (x, height - _BELOW_ROWS + 4)))
        x, _ = _within(text, x, _WIDTH)
        shapes.append(shape("text", "tick", "", text, "middle", x=x, y=height - 5))
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        top, value = _ROW * place + 13, value_words(row)
        shown = elide(label, _FONT_SIZE, plot - LETTER * (len(value) + 2))
        shapes += [
            shape("text", f"label {row.grade}", "", shown, "start", x=_MARGIN, y=top),
            shape("text", f"value {row.grade}", "", value, "end", x=_MARGIN + plot, y=top),
            *marks(
                *(row, axis, x_of, top + 6 + _BAR / 2, 0.0 if is_dotted else _BAR),
                f"{label}: {value} ({interval_words(row)})",
            ),
        ]
    return Drawing(_WIDTH, height, title, tuple(shapes))
