"""A drawing: shapes with what a template prints of them as SVG, escaped there like any text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from unicodedata import east_asian_width

from tracecloak.transforms.models.plain_names import ELLIPSIS

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
