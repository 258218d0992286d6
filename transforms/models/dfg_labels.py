"""What pictures of graphs and trees share: their frame, and words in the room that there is.

Widths are estimates: the font is the reader's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.transforms.models.plain_names import ELLIPSIS, plain_name

LINE = 1.25
"""Height of a line, in sizes of its font."""
ARROW = 7.0
"""How long the head of an arrow is, in pixels."""
CAPTION_SIZE = 11.0
INK, FAINT, FORWARD, BACKWARD = "#1c2b3a", "#52616f", "#47688c", "#b0653a"
MIDDLE = ' text-anchor="middle"'
"""Of words whose place is that of their middle."""
_TITLE_SIZE = 17.0
_MARGIN, _LEAST_WIDTH = 24.0, 520.0
_FONT = "font-family:Helvetica,Arial,'Noto Sans',sans-serif"
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


def px(value: float) -> str:
    """Returns a length to a tenth of a pixel."""
    return f"{value + 0.0:.1f}".removesuffix(".0")


def words(text: str, x: float, y: float, size: float, ink: str, more: str = "") -> str:
    """Returns a text at a place; `more` are attributes, each after a space."""
    return (
        f'<text x="{px(x)}" y="{px(y)}" font-size="{px(size)}" fill="{ink}"{more}>'
        f"{escape(text)}</text>"
    )


def framed(
    title: str,
    paragraphs: Sequence[str],
    drawn_width: float,
    drawn_height: float,
    drawn: Iterable[str],
) -> str:
    """Returns a file of SVG: a drawing in the middle between words.

    Args:
        title: Stands above it.
        paragraphs: Stand below it.
        drawn_width: Of the drawing, in pixels.
        drawn_height: Likewise, with the room below it.
        drawn: Its elements, from its left upper corner on.
    """
    name = plain_name(title)
    texts = [" ".join(map(plain_name, paragraph.split())) for paragraph in paragraphs]
    width = max(drawn_width, _LEAST_WIDTH)
    heads = wrap(name, _TITLE_SIZE, width)
    lines = [line for text in texts for line in wrap(text, CAPTION_SIZE, width)]
    above = _MARGIN + LINE * _TITLE_SIZE * len(heads) + 12
    below = above + drawn_height
    across = px(width + 2 * _MARGIN)
    down = px(below + LINE * CAPTION_SIZE * len(lines) + _MARGIN)
    corner = f"{px(_MARGIN + (width - drawn_width) / 2)} {px(above)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across}" height="{down}"'
        f' viewBox="0 0 {across} {down}" role="img" style="{_FONT}">',
        f"<title>{escape(name)}</title>",
        f"<desc>{escape(' '.join(texts))}</desc>",
        f'<rect width="{across}" height="{down}" fill="#ffffff"/>',
        *_lines(heads, _MARGIN, _TITLE_SIZE, INK, ' font-weight="bold"'),
        f'<g transform="translate({corner})">',
        *drawn,
        "</g>",
        *_lines(lines, below, CAPTION_SIZE, FAINT),
        "</svg>",
        "",
    ]
    return "\n".join(parts)


def _lines(lines: list[str], top: float, size: float, ink: str, more: str = "") -> Iterator[str]:
    for i, line in enumerate(lines):
        yield words(line, _MARGIN, top + LINE * size * (i + 0.75), size, ink, more)


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
