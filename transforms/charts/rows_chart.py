"""Rows with a bar or a dot, from left to right, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from tracecloak.schemas.published.indicators import IndicatorRow
from tracecloak.transforms.charts.axes import Axis
from tracecloak.transforms.charts.drawing import (
    LETTER,
    Drawing,
    Shape,
    arrow,
    box,
    dot,
    fitted,
    line,
    words,
    words_within,
)
from tracecloak.transforms.charts.number_words import interval_words, value_words

_WIDTH, _MARGIN = 420.0, 14.0
_ROW, _BELOW = 38.0, 22.0
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
    height = _ROW * len(rows) + _BELOW
    shapes: list[Shape] = []
    for tick, text in axis.ticks:
        x = _MARGIN + plot * axis.share(tick)
        shapes.append(line("grid", x, 0, x, height - _BELOW + 4))
        shapes.append(words_within("tick", x, height - 5, text, _WIDTH))
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        top = _ROW * place
        value = value_words(row)
        room = plot - LETTER * (len(value) + 2)
        quiet = f" {row.grade}"
        shapes.append(words(f"label{quiet}", _MARGIN, top + 13, fitted(label, room)))
        shapes.append(words(f"value{quiet}", _MARGIN + plot, top + 13, value, "end"))
        said = f"{label}: {value} ({interval_words(row)})"
        shapes += _marks(row, axis, plot, top + 19 + _BAR / 2, said, is_dotted=is_dotted)
    return Drawing(_WIDTH, height, title, description, tuple(shapes))


def _marks(
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
