"""The words in pictures of directly-follows graphs: numbers, and names in the room that there is.

Widths are estimates: the font is the reader's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.transforms.models.plain_names import ELLIPSIS

_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"
_NARROW, _WIDE, _CAPITAL, _OTHER = 0.38, 1.2, 0.78, 0.63  # advance in em, with something to spare


def isolated(text: str) -> str:
    """Returns a plain name with marks that keep its direction of writing from what is around it."""
    return f"{_ISOLATE}{text}{_POP_ISOLATE}"


def text_width(text: str, size: float) -> float:
    """Returns about how wide a text is in a sans-serif font of a size, in the unit of the size."""
    return size * sum(map(_advance, text))


def _advance(character: str) -> float:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0xFFFF:
        return _WIDE
    if character in "ijlt.,:;'|!()[] fr":
        return _NARROW
    return _CAPITAL if character.isupper() or character in "mw%@…±→" else _OTHER


def elide(text: str, size: float, width: float) -> str:
    """Returns the text, or its beginning with an ellipsis that is about as wide as allowed."""
    if text_width(text, size) <= width:
        return text
    room = width - text_width(ELLIPSIS, size)
    for n, character in enumerate(text):
        room -= size * _advance(character)
        if room < 0:
            return text[:n].rstrip() + ELLIPSIS
    return text


def wrap(text: str, size: float, width: float, max_lines: int | None = None) -> list[str]:
    """Breaks a text into lines of about a width, at spaces where possible; the rest is elided.

    Args:
        text: Words with single spaces.
        size: Of the font.
        width: Of the lines, in the unit of the size.
        max_lines: Lines at most; the last is elided if there is more. Any number if None.

    Returns:
        At least one line.
    """
    lines = [""]
    for word in _pieces(text, size, width):
        longer = f"{lines[-1]}{word}"
        # The last line takes all the rest, to be elided as one.
        fits = text_width(longer.strip(), size) <= width
        if fits or not lines[-1].strip() or len(lines) == max_lines:
            lines[-1] = longer
        else:
            lines.append(word)
    return [elide(line.strip(), size, width) for line in lines]


def _pieces(text: str, size: float, width: float) -> Iterator[str]:
    """Words with the space before them; a word wider than a line comes in pieces."""
    for word in re.findall(" ?[^ ]+", text):
        piece = ""
        for character in word:
            if text_width(piece + character, size) > width:
                yield piece
                piece = ""
            piece += character
        yield piece


def half_width(graph: ReleasedGraph, edge: int) -> int:
    """Returns how far the interval of an edge reaches to its farther side."""
    count = graph.counts[edge]
    return int(max(graph.highs[edge] - count, count - graph.lows[edge]))


def edge_label(graph: ReleasedGraph, edge: int) -> str:
    """Returns the count of an edge and the half-width of its interval, if it has any."""
    half = half_width(graph, edge)
    return f"{graph.counts[edge]} ± {half}" if half else str(graph.counts[edge])


def edge_sentence(graph: ReleasedGraph, edge: int, names: list[str]) -> str:
    """Returns the full numbers of an edge, between names by code."""
    ends = " → ".join(isolated(names[codes[edge]]) for codes in (graph.sources, graph.targets))
    low, high = graph.lows[edge], graph.highs[edge]
    return f"{ends}: {graph.counts[edge]} (95 % interval {low} to {high})"
