"""Draws a released directly-follows graph as one SVG file that needs nothing else.

No script, no style sheet, no font, no address: the file shows the same in a closed network, and
tells nobody that it was opened. Its bytes depend on the graph and the words only, which is why the
layout is our own: a library that lays graphs out changes its coordinates with its version. The page
of the release (`transforms.publish.report`) has a map that moves, by such a library.

A graph of more edges than a picture can hold is drawn in part: the busiest activities, each with
its widest way from start to end, then the heaviest edges between them. Below the picture stands how
much of the graph is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

import numpy as np

from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.transforms.models.dfg_labels import (
    ARROW,
    BACKWARD,
    CAPTION_SIZE,
    FAINT,
    FORWARD,
    INK,
    LINE,
    MIDDLE,
    edge_label,
    edge_sentence,
    framed,
    isolated,
    px,
    text_width,
    words,
    wrap,
)
from tracecloak.transforms.models.graph_layout import Box, Route, lay_out, widest_ways
from tracecloak.transforms.models.plain_names import plain_name

_NAME_SIZE, _COUNT_SIZE = 13.0, 11.0  # pixels
_NAME_WIDTH, _NAME_LINES = 165.0, 3
_PADDING = 9.0
_CIRCLE = 15.0  # radius
_LOOP = 26.0  # how far a loop reaches out
_THINNEST, _THICKEST = 1.0, 6.0
_DASH = "5 4"  # of doubtful edges, in pixels
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
    drawn = _drawn_edges(graph, max_edges)
    doubtful = [] if is_doubtful is None else np.flatnonzero(is_doubtful).tolist()
    return _Picture(graph, drawn, frozenset(doubtful)).text(title, caption)


def _drawn_edges(graph: ReleasedGraph, max_edges: int) -> list[int]:
    """Edges to draw, in their order; nodes that the start reaches have ways from it and to the end.

    Of cycles apart, which a graph is made of where no edge from the start was released, there are
    no ways to draw: their edges are drawn by their counts.
    """
    n = graph.weight
    if n <= max_edges:
        return list(range(n))
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


class _Picture:
    """The drawn part of a graph, with the words and sizes of all that is in it."""

    def __init__(self, graph: ReleasedGraph, drawn: list[int], doubtful: frozenset[int]) -> None:
        self.graph = graph
        self.drawn = drawn
        self.doubtful = doubtful
        self.passed = graph.throughputs()
        self.names = [*(plain_name(name) for name in graph.names.to_pylist()), "▶", "■"]
        sources, targets = graph.sources[drawn], graph.targets[drawn]
        is_loop = sources == targets
        self.loops = {int(graph.sources[e]): e for e in np.array(drawn, int)[is_loop].tolist()}
        self.links = np.array(drawn, int)[~is_loop].tolist()
        self.nodes = sorted({*sources.tolist(), *targets.tolist(), graph.start, graph.end})
        self.lines = {
            node: wrap(self.names[node], _NAME_SIZE, _NAME_WIDTH, _NAME_LINES)
            for node in self.nodes
        }
        boxes = [self._box(node) for node in self.nodes]
        number = {node: i for i, node in enumerate(self.nodes)}
        self.labels = {edge: edge_label(graph, edge) for edge in drawn}
        self.boxes = dict(zip(self.nodes, boxes, strict=True))
        self.heaviest = int(graph.counts[drawn].max(initial=1))
        self.layout = lay_out(
            boxes,
            np.array([number[int(graph.sources[e])] for e in self.links], np.int64),
            np.array([number[int(graph.targets[e])] for e in self.links], np.int64),
            graph.counts[self.links].astype(np.float64),
            np.array([text_width(self.labels[e], CAPTION_SIZE) for e in self.links], np.float64),
            LINE * CAPTION_SIZE,
            number[graph.start],
            number[graph.end],
        )

    def _box(self, node: int) -> Box:
        if node >= self.graph.start:
            return Box(_CIRCLE, _CIRCLE, has_ports=False)
        widest = max(text_width(line, _NAME_SIZE) for line in self.lines[node])
        width = max(widest, text_width(str(self.passed[node]), _COUNT_SIZE), 40.0)
        height = LINE * (_NAME_SIZE * len(self.lines[node]) + _COUNT_SIZE)
        hanging = 0.0
        if node in self.loops:
            label = edge_label(self.graph, self.loops[node])
            hanging = _LOOP + text_width(label, CAPTION_SIZE)
        return Box(width / 2 + _PADDING, height / 2 + 5, hanging)

    def text(self, title: str, caption: str) -> str:
        """Returns the file."""
        # Light edges first, so that heavy ones lie above them.
        order = sorted(range(len(self.links)), key=lambda i: self.graph.counts[self.links[i]])
        drawn = [self._link(self.links[i], self.layout.routes[i]) for i in order]
        drawn += [self._loop(node, edge) for node, edge in self.loops.items()]
        drawn += [self._node(node) for node in self.nodes]
        size = self.layout.width, self.layout.height + 16
        return framed(title, (caption, self._extent()), *size, drawn)

    def _extent(self) -> str:
        """Says what is drawn, and what its signs mean."""
        shown = sum(node < self.graph.start for node in self.nodes)
        said = (
            f"Drawn: {len(self.drawn)} of {self.graph.weight} edges,"
            f" {shown} of {self.graph.start} activities."
        )
        if any(route.is_backward for route in self.layout.routes):
            said += " Edges that lead back are orange."
        if any("±" in label for label in self.labels.values()):
            said += " ± reaches to the farther end of a 95 % interval."
        if self.doubtful.intersection(self.drawn):
            said += " Dashed edges are doubtful: noise alone may have made them."
        return said

    def _place(self, node: int) -> tuple[float, float]:
        i = self.nodes.index(node)
        return float(self.layout.x[i]), float(self.layout.y[i])

    def _stroke(self, edge: int) -> float:
        share = math.sqrt(int(self.graph.counts[edge]) / self.heaviest)
        return _THINNEST + (_THICKEST - _THINNEST) * share

    def _edge(self, edge: int, path: str, head: str, label: tuple[float, float], ink: str) -> str:
        sentence = escape(edge_sentence(self.graph, edge, self.names))
        width = px(self._stroke(edge))
        kind, look, mark = "edge", ' stroke-opacity="0.75"', ""
        if edge in self.doubtful:
            kind, mark = "edge doubtful", ' opacity="0.6"'
            look += f' stroke-dasharray="{_DASH}"'
            sentence += "; doubtful: noise alone may have made it"
        return (
            f'<g class="{kind}"{mark}><title>{sentence}</title>'
            f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="{width}"{look}/>'
            f'<path d="{head}" fill="{ink}"/>'
            f"{words(self.labels[edge], *label, CAPTION_SIZE, ink)}</g>"
        )

    def _link(self, edge: int, route: Route) -> str:
        pieces = route.pieces
        reach = ARROW + self._stroke(edge)
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
        at = (route.label[0], route.label[1] + 0.35 * CAPTION_SIZE)
        return self._edge(edge, "".join(path), head, at, BACKWARD if route.is_backward else FORWARD)

    def _loop(self, node: int, edge: int) -> str:
        x, y = self._place(node)
        x += self.boxes[node].half_width
        reach = ARROW + self._stroke(edge)
        out = x + _LOOP
        bend = f"{px(out)} {px(y - 20)} {px(out)} {px(y + 16)}"
        path = f"M{px(x)} {px(y - 8)}C{bend} {px(x + reach)} {px(y + 8)}"
        half = reach / 2
        head = f"M{px(x)} {px(y + 8)}l{px(reach)} {px(-half)}v{px(reach)}Z"
        at = (x + _LOOP - 2, y + 0.35 * CAPTION_SIZE - 2)
        return self._edge(edge, path, head, at, FORWARD)

    def _node(self, node: int) -> str:
        x, y = self._place(node)
        count = int(self.passed[node])
        if node >= self.graph.start:
            what = "start" if node == self.graph.start else "end"
            sign = (
                f"M{px(x - 4)} {px(y - 6)}V{px(y + 6)}L{px(x + 7)} {px(y)}Z"
                if node == self.graph.start
                else f"M{px(x - 5)} {px(y - 5)}h10v10h-10Z"
            )
            return (
                f'<g class="node"><title>{self.names[node]} {what}: {count}</title>'
                f'<circle cx="{px(x)}" cy="{px(y)}" r="{px(_CIRCLE)}" fill="{FORWARD}"/>'
                f'<path d="{sign}" fill="#ffffff"/></g>'
            )
        box = self.boxes[node]
        share = math.sqrt(count / max(1, int(self.passed.max())))
        fill = "".join(
            f"{round(p + (d - p) * share):02x}" for p, d in zip(_PALE, _DEEP, strict=True)
        )
        name = isolated(self.names[node])
        parts = [
            f'<g class="node"><title>{escape(name)}: {count}</title>'
            f'<rect x="{px(x - box.half_width)}" y="{px(y - box.half_height)}"'
            f' width="{px(2 * box.half_width)}" height="{px(2 * box.half_height)}" rx="7"'
            f' fill="#{fill}" stroke="{FORWARD}"/>'
        ]
        line = y - box.half_height + 5
        for text in self.lines[node]:
            line += LINE * _NAME_SIZE
            parts.append(words(text, x, line - 0.32 * _NAME_SIZE, _NAME_SIZE, INK, MIDDLE))
        line += LINE * _COUNT_SIZE
        parts.append(words(str(count), x, line - 0.32 * _COUNT_SIZE, _COUNT_SIZE, FAINT, MIDDLE))
        return "".join([*parts, "</g>"])
