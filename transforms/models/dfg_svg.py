"""A directly-follows graph as SVG, without a script, and its other forms: DOT, PNML, BPMN."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from tracecloak.schemas.published.graph import ReleasedGraph, ReleasedGroups
from tracecloak.schemas.texts import templates_of
from tracecloak.transforms.formats.xes_writer import sanitise

if TYPE_CHECKING:
    from tracecloak.transforms.models.graph_layout import Box, Route


# --- A directly-follows graph as SVG, without a script. -------------------------------------------


# --- Names of activities in pictures and on pages: in one line, and without what does harm there. -
# Names are data. What XML cannot hold, other control characters and what changes the direction of
# the text after it become U+FFFD or a space, so that no name can hide or turn round the number
# beside it.


ELLIPSIS = "…"

_LONGEST_NAME = 200  # characters, of a name that is given in full

_SPACES = re.compile(r"[\s\x85]+")

# Controls, what XML cannot hold, and the marks that embed, override or isolate a direction.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


def plain_name(name: str) -> str:
    """Returns a name in one line without control characters, and not longer than 200."""
    text = _HARMFUL.sub("\ufffd", _SPACES.sub(" ", name)).strip()
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + ELLIPSIS


# --- Draws a released directly-follows graph as one SVG file that needs nothing else. -------------
# No script, no style sheet, no font, no address: the file shows the same in a closed network, and
# tells nobody that it was opened. Its bytes depend on the graph and the words only, which is why
# the layout is our own: a library that lays graphs out changes its coordinates with its version.
# The page of the release (`transforms.publish.report`) has a map that moves, by such a library.
#
# A graph of more edges than a picture can hold is drawn in part: the busiest activities, each
# with its widest way from start to end, then the heaviest edges between them. Below the picture
# stands how much of the graph is drawn.
#
# Pictures of trees have the same frame, and texts of the same width. Widths are estimates: the
# font is the reader's.


LINE = 1.25
"""Height of a line, in sizes of its font."""
ARROW = 7.0
"""How long the head of an arrow is, in pixels."""
CAPTION_SIZE = 11.0
INK, FAINT, FORWARD, BACKWARD = "#1c2b3a", "#52616f", "#47688c", "#b0653a"
_TITLE_SIZE = 17.0
_MARGIN, _LEAST_WIDTH = 24.0, 520.0
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


def drawn(
    template: str,
    title: str,
    paragraphs: Sequence[str],
    drawn_width: float,
    drawn_height: float,
    **context: Any,
) -> str:
    """Returns a file of SVG: a drawing in the middle between words.

    Args:
        template: Draws its elements, from its left upper corner on.
        title: Stands above it.
        paragraphs: Stand below it.
        drawn_width: Of the drawing, in pixels.
        drawn_height: Likewise, with the room below it.
        context: What the template prints.
    """
    name = plain_name(title)
    texts = [" ".join(map(plain_name, paragraph.split())) for paragraph in paragraphs]
    width = max(drawn_width, _LEAST_WIDTH)
    heads = wrap(name, _TITLE_SIZE, width)
    foot = [line for text in texts for line in wrap(text, CAPTION_SIZE, width)]
    above = _MARGIN + LINE * _TITLE_SIZE * len(heads) + 12
    below = above + drawn_height
    return written(
        template,
        title=name,
        description=" ".join(texts),
        across=px(width + 2 * _MARGIN),
        down=px(below + LINE * CAPTION_SIZE * len(foot) + _MARGIN),
        left=_MARGIN + (width - drawn_width) / 2,
        above=above,
        below=below,
        heads=heads,
        foot=foot,
        **context,
    )


def written(template: str, **context: Any) -> str:
    """Returns the text that a template of this package makes.

    Its filters `attribute` and `content` write texts for XML, with the quotes of an attribute, and
    `quoted` one or several lines for DOT; `escape` is for texts that XML can hold.
    """
    return _TEMPLATES.get_template(template).render(context)


def edge_label(graph: ReleasedGraph, edge: int) -> str:
    """Returns the count of an edge and how far its interval reaches to its farther side, if any."""
    count, low, high = (int(of[edge]) for of in (graph.counts, graph.lows, graph.highs))
    half = max(high - count, count - low)
    return f"{count} ± {half}" if half else str(count)


_NAME_SIZE, _COUNT_SIZE = 13.0, 11.0  # pixels
_NAME_WIDTH, _NAME_LINES = 165.0, 3
_PADDING = 9.0
_CIRCLE = 15.0  # radius
_LOOP = 26.0  # how far a loop reaches out
_THINNEST, _THICKEST = 1.0, 6.0
_PALE, _DEEP = (244, 248, 252), (190, 212, 233)  # of the least and the most passed activity


def write_svg(
    graph: ReleasedGraph,
    title: str,
    caption: str,
    max_edges: int = 60,
    is_doubtful: np.ndarray | None = None,
) -> str:
    """Returns the graph as SVG, from the start at the top to the end at the bottom.

    Edges that lead back are drawn in another colour, and doubtful ones dashed and pale. An edge has
    its count and the half-width of its 95 % interval beside it, and all its numbers in a tooltip.
    Activities without an edge are not drawn.

    Args:
        graph: What to draw.
        title: Stands above it.
        caption: Stands below it, such as the sentence that says what the release guarantees.
        max_edges: Edges at most, though at least one way from start to end is drawn. Beyond some
            hundreds a picture can be drawn, but hardly read.
        is_doubtful: bool[n_edges], edges that may be noise alone; None: none is.

    Raises:
        ValueError: `max_edges` is not positive.
    """
    if max_edges < 1:
        raise ValueError(f"max_edges must be at least 1, got {max_edges}")
    n = len(graph.counts)
    drawn = list(range(n)) if n <= max_edges else _busiest_edges(graph, max_edges)
    doubtful = [] if is_doubtful is None else np.flatnonzero(is_doubtful).tolist()
    return _Picture(graph, drawn, frozenset(doubtful)).text(title, caption)


def _busiest_edges(graph: ReleasedGraph, max_edges: int) -> list[int]:
    """Edges to draw, in their order; nodes that the start reaches have ways from it and to the end.

    Of cycles apart, which a graph is made of where no edge from the start was released, there are
    no ways to draw: their edges are drawn by their counts.
    """
    from tracecloak.transforms.models.graph_layout import widest_ways  # with scipy

    into = widest_ways(graph.start, graph.sources, graph.targets, graph.counts)
    out_of = widest_ways(graph.end, graph.targets, graph.sources, graph.counts)
    drawn: set[int] = set()
    shown = {graph.start, graph.end}
    passed = graph.throughputs()
    for node in np.argsort(-passed[: graph.start], kind="stable").tolist():
        if node not in into or node not in out_of:
            shown.add(node)
            continue
        way = {*_way(node, into, graph.sources), *_way(node, out_of, graph.targets)}
        if drawn and len(drawn | way) > max_edges:
            break
        drawn |= way
        shown |= {int(codes[edge]) for edge in way for codes in (graph.sources, graph.targets)}
    for edge in np.argsort(-graph.counts, kind="stable").tolist():
        if len(drawn) >= max_edges:
            break
        if graph.sources[edge] in shown and graph.targets[edge] in shown:
            drawn.add(edge)
    return sorted(drawn)


def _way(node: int, last: dict[int, int], near: np.ndarray) -> Iterator[int]:
    while node in last:
        yield last[node]
        node = int(near[last[node]])


# An edge, its path and that of its head, the place of its label, and its colour.
_Arrow = tuple[int, str, str, float, float, str]


class _Picture:
    """The drawn part of a graph, with the words and sizes of all that is in it."""

    def __init__(self, graph: ReleasedGraph, drawn: list[int], doubtful: frozenset[int]) -> None:
        from tracecloak.transforms.models.graph_layout import Layout

        self.graph, self.drawn, self.doubtful = graph, drawn, doubtful
        self.passed = graph.throughputs()
        self.names = [*(plain_name(name) for name in graph.names.to_pylist()), "▶", "■"]
        ends = {edge: (int(graph.sources[edge]), int(graph.targets[edge])) for edge in drawn}
        self.loops = {source: edge for edge, (source, target) in ends.items() if source == target}
        self.links = [edge for edge, (source, target) in ends.items() if source != target]
        self.nodes = sorted({graph.start, graph.end}.union(*ends.values()))
        self.lines = {
            node: wrap(self.names[node], _NAME_SIZE, _NAME_WIDTH, _NAME_LINES)
            for node in self.nodes
        }
        self.labels = {edge: edge_label(graph, edge) for edge in drawn}
        self.boxes = {node: self._box(node) for node in self.nodes}
        heaviest, most = int(graph.counts[drawn].max(initial=1)), max(1, int(self.passed.max()))
        # How wide the line of an edge is, and the colour of a node, the deeper the more pass it.
        self.strokes = {
            edge: _THINNEST
            + (_THICKEST - _THINNEST) * math.sqrt(int(graph.counts[edge]) / heaviest)
            for edge in drawn
        }
        shares = {node: math.sqrt(int(self.passed[node]) / most) for node in self.nodes}
        self.fills = {
            node: "#{:02x}{:02x}{:02x}".format(
                *(round(p + (d - p) * share) for p, d in zip(_PALE, _DEEP, strict=True))
            )
            for node, share in shares.items()
        }
        self.layout = Layout(
            list(self.boxes.values()),
            np.searchsorted(self.nodes, graph.sources[self.links]),
            np.searchsorted(self.nodes, graph.targets[self.links]),
            graph.counts[self.links].astype(np.float64),
            np.array([text_width(self.labels[e], CAPTION_SIZE) for e in self.links], np.float64),
            LINE * CAPTION_SIZE,
        )
        self.places = dict(zip(self.nodes, self.layout.centres, strict=True))

    def _box(self, node: int) -> Box:
        from tracecloak.transforms.models.graph_layout import Box

        if node >= self.graph.start:
            return Box(_CIRCLE, _CIRCLE, has_ports=False)
        widest = max(text_width(line, _NAME_SIZE) for line in self.lines[node])
        width = max(widest, text_width(str(self.passed[node]), _COUNT_SIZE), 40.0)
        height = LINE * (_NAME_SIZE * len(self.lines[node]) + _COUNT_SIZE)
        hanging = 0.0
        if node in self.loops:
            hanging = _LOOP + text_width(self.labels[self.loops[node]], CAPTION_SIZE)
        return Box(width / 2 + _PADDING, height / 2 + 5, hanging)

    def text(self, title: str, caption: str) -> str:
        """Returns the file."""
        # Light edges first, so that heavy ones lie above them.
        order = sorted(range(len(self.links)), key=lambda i: self.graph.counts[self.links[i]])
        edges = [self._link(self.links[i], self.layout.routes[i]) for i in order]
        edges += [self._loop(node, edge) for node, edge in self.loops.items()]
        size = self.layout.width, self.layout.height + 16
        # What is drawn, and what its signs mean.
        shown = sum(node < self.graph.start for node in self.nodes)
        said = (
            f"Drawn: {len(self.drawn)} of {len(self.graph.counts)} edges,"
            f" {shown} of {self.graph.start} activities."
        )
        if any(route.is_backward for route in self.layout.routes):
            said += " Edges that lead back are orange."
        if any("±" in label for label in self.labels.values()):
            said += " ± reaches to the farther end of a 95 % interval."
        if self.doubtful.intersection(self.drawn):
            said += " Dashed edges are doubtful: noise alone may have made them."
        return drawn("graph.svg.j2", title, (caption, said), *size, picture=self, edges=edges)

    def _link(self, edge: int, route: Route) -> _Arrow:
        pieces = route.pieces
        reach = ARROW + self.strokes[edge]
        (x, _, y), (x_end, y_end, _) = pieces[0], pieces[-1]
        if route.is_backward:
            tip_x, tip_y, back = x, y, y + reach
            y = back
        else:
            tip_x, tip_y, back = x_end, y_end, y_end - reach
            y_end = back
        path = [f"M{px(x)} {px(y)}"]
        ends = [*pieces[1:-1], (x_end, y_end, y_end)]
        for to, upper, lower in ends:
            bend = (y + upper) / 2
            path.append(f"C{px(x)} {px(bend)} {px(to)} {px(bend)} {px(to)} {px(upper)}")
            if lower > upper:
                path.append(f"V{px(lower)}")
            x, y = to, lower
        half = reach / 2
        head = f"M{px(tip_x)} {px(tip_y)}L{px(tip_x - half)} {px(back)}H{px(tip_x + half)}Z"
        label_x, label_y = route.label
        colour = BACKWARD if route.is_backward else FORWARD
        return edge, "".join(path), head, label_x, label_y + 0.35 * CAPTION_SIZE, colour

    def _loop(self, node: int, edge: int) -> _Arrow:
        x, y = self.places[node]
        x += self.boxes[node].half_width
        reach = ARROW + self.strokes[edge]
        out = x + _LOOP
        bend = f"{px(out)} {px(y - 20)} {px(out)} {px(y + 16)}"
        path = f"M{px(x)} {px(y - 8)}C{bend} {px(x + reach)} {px(y + 8)}"
        half = reach / 2
        head = f"M{px(x)} {px(y + 8)}l{px(reach)} {px(-half)}v{px(reach)}Z"
        return edge, path, head, out - 2, y + 0.35 * CAPTION_SIZE - 2, FORWARD


# --- The files of a released graph beside Parquet and JSON, by the endings of their names. --------
# Writes a released directly-follows graph as text in the DOT language of Graphviz.
#
# The whole graph is written; nodes have numbers for names, so no activity can break the grammar
# or meet another. https://graphviz.org/doc/info/lang.html says what the language is.


_DOT_THINNEST, _DOT_THICKEST = 0.8, 5.0  # points
# In strings a backslash begins an escape and an ampersand an entity of HTML.
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;"})


def write_dot(graph: ReleasedGraph, title: str) -> str:
    """Returns the graph as DOT: nodes with how often they are passed, edges with their counts.

    Control characters in names and marks of writing direction are replaced, and names are cut at
    200 characters. Activities without an edge are nodes too.

    Args:
        graph: What to write.
        title: Stands above the picture.
    """
    heaviest = max(graph.counts.tolist(), default=1)
    shares = [math.sqrt(count / heaviest) for count in graph.counts.tolist()]
    widths = [_DOT_THINNEST + (_DOT_THICKEST - _DOT_THINNEST) * share for share in shares]
    return written(
        "dot.j2",
        graph=graph,
        title=plain_name(title),
        names=[*(plain_name(name) for name in graph.names.to_pylist()), "▶", "■"],
        passed=graph.throughputs().tolist(),
        edges=[(edge_label(graph, edge), width) for edge, width in enumerate(widths)],
    )


def _quoted(*lines: object) -> str:
    return '"' + "\\n".join(str(line).translate(_ESCAPES) for line in lines) + '"'


# Files differ in what they escape, and say it by filters.
_TEMPLATES = templates_of("tracecloak.transforms.models")
_TEMPLATES.globals.update(
    line_height=LINE,
    caption_size=CAPTION_SIZE,
    title_size=_TITLE_SIZE,
    margin=_MARGIN,
    name_size=_NAME_SIZE,
    count_size=_COUNT_SIZE,
    radius=_CIRCLE,
    ink=INK,
    faint=FAINT,
    forward=FORWARD,
    middle=' text-anchor="middle"',  # of words whose place is that of their middle
)
_TEMPLATES.filters.update(
    attribute=lambda text: quoteattr(sanitise(text)),
    content=lambda text: escape(sanitise(text), {"\r": "&#13;"}),
    escape=escape,
    isolated=isolated,
    plain=plain_name,
    px=px,
    quoted=_quoted,
)


def forms_of_graph(graph: ReleasedGraph, title: str, promise: str) -> dict[str, bytes]:
    """Returns a graph as DOT and as an SVG picture with the promise below.

    An edge is doubtful if its interval reaches down to 0, as on the page of the release.
    """
    has_intervals = not np.array_equal(graph.lows, graph.highs)
    doubtful = graph.lows <= 0 if has_intervals else None
    return {
        "dot": write_dot(graph, title).encode(),
        "svg": write_svg(graph, title, promise, is_doubtful=doubtful).encode(),
    }


def forms_of_groups(groups: ReleasedGroups, title: str, promise: str) -> dict[str, bytes]:
    """Returns the graph of groups in the same forms."""
    return forms_of_graph(groups.graph, title, promise)
