"""Where the tasks, gateways and flows of a process tree stand when it is drawn as a BPMN diagram.

Every operator is a block: a sequence from left to right, a choice and a parallel execution one
below the other between two gateways, and a loop with its way back below the body, from right to
left. So nothing overlaps, and no general drawing of graphs is needed. Silent steps are lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tracecloak.schemas.models.process_tree import ProcessTree
from tracecloak.transforms.models.dfg_svg import LINE, text_width, wrap
from tracecloak.transforms.models.plain_names import plain_name

Kind = Literal["start", "end", "task", "exclusive", "parallel"]
Point = tuple[float, float]

NAME_SIZE = 12.0  # pixels
NAME_WIDTH, NAME_LINES = 120.0, 3
_PADDING = 9.0
_EVENT, _GATEWAY = 26.0, 30.0  # widths
_GAP, _BETWEEN = 26.0, 14.0  # along the flow, and between what is below one another
_SILENT = 12.0  # width and half-height of a silent step
_SAME = 0.01  # heights that differ by less are the same, but for rounding


@dataclass(frozen=True)
class DiagramNode:
    """A node and its box.

    Attributes:
        kind: What it is; gateways both open and close.
        label: The activity of a task, as it is; None for all others.
        lines: The label in lines that fit the box.
        x: Left border, in pixels.
        y: Upper border.
        width: Of the box.
        height: Of the box.
    """

    kind: Kind
    label: str | None
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Flow:
    """A line between two nodes.

    Attributes:
        source: Number of the node that it leaves.
        target: Number of the node that it enters.
        points: From the border of the one to the border of the other; only right angles.
    """

    source: int
    target: int
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Diagram:
    """What is to be drawn, from (0, 0) to (width, height)."""

    nodes: tuple[DiagramNode, ...]
    flows: tuple[Flow, ...]
    width: float
    height: float


@dataclass(frozen=True)
class _Extent:
    """How far a block reaches: along the flow, and above and below its middle line."""

    width: float
    above: float
    below: float


# A flow that has left its node and not arrived: the node's number and the points so far.
_Open = tuple[int, list[Point]]


def lay_out_tree(tree: ProcessTree) -> Diagram:
    """Returns the diagram of a tree between a start and an end event."""
    return _Layout().diagram(tree)


class _Layout:
    def __init__(self) -> None:
        self.nodes: list[DiagramNode] = []
        self.flows: list[Flow] = []
        self.extents: dict[int, _Extent] = {}  # by identity: a tree is walked through many times

    def diagram(self, tree: ProcessTree) -> Diagram:
        extent = self.extent(tree)
        middle = max(extent.above, _EVENT / 2)
        flow = self.leave(self.node("start", None, 0, middle, _EVENT, 1), 1, middle)
        flow = self.draw(tree, _EVENT + _GAP, middle, 1, flow)
        x = _EVENT + 2 * _GAP + extent.width
        self.arrive(flow, self.node("end", None, x, middle, _EVENT, 1), 1, middle)
        height = middle + max(extent.below, _EVENT / 2)
        return Diagram(tuple(self.nodes), tuple(self.flows), x + _EVENT, height)

    def extent(self, tree: ProcessTree) -> _Extent:
        if id(tree) not in self.extents:
            self.extents[id(tree)] = self._extent(tree)
        return self.extents[id(tree)]

    def _extent(self, tree: ProcessTree) -> _Extent:
        if tree.label is not None:
            lines = _lines(tree.label)
            width = max(44.0, *(text_width(line, NAME_SIZE) for line in lines)) + 2 * _PADDING
            half = (len(lines) * LINE * NAME_SIZE + 12) / 2
            return _Extent(width, half, half)
        if tree.operator is None:
            return _Extent(_SILENT, _SILENT, _SILENT)
        parts = [self.extent(child) for child in tree.children]
        if tree.operator == "sequence":
            width = sum(part.width for part in parts) + _GAP * (len(parts) - 1)
            above, below = (max(getattr(p, side) for p in parts) for side in ("above", "below"))
            return _Extent(width, above, below)
        width = max(part.width for part in parts) + 2 * (_GATEWAY + _GAP)
        if tree.operator == "loop":
            body, back = parts
            above = max(body.above, _GATEWAY / 2)
            below = max(body.below, _GATEWAY / 2) + _BETWEEN + back.above + back.below
            return _Extent(width, above, below)
        height = sum(part.above + part.below for part in parts) + _BETWEEN * (len(parts) - 1)
        half = max(height, _GATEWAY) / 2
        return _Extent(width, half, half)

    # A block is drawn from x on in a direction, 1 or -1, along the line at height `middle`.

    def draw(
        self, tree: ProcessTree, x: float, middle: float, direction: int, flow: _Open
    ) -> _Open:
        extent = self.extent(tree)
        if tree.label is not None:
            task = self.node("task", tree.label, x, middle, extent.width, direction)
            self.arrive(flow, task, direction, middle)
            return self.leave(task, direction, middle)
        if tree.operator is None:
            flow[1].append((x + direction * extent.width, middle))
            return flow
        if tree.operator == "sequence":
            for child in tree.children:
                flow = self.draw(child, x, middle, direction, flow)
                x += direction * (self.extent(child).width + _GAP)
            return flow
        far = x + direction * (extent.width - _GATEWAY)
        if tree.operator == "loop":
            return self.draw_loop(tree, x, far, middle, direction, flow)
        kind: Kind = "parallel" if tree.operator == "parallel" else "exclusive"
        opens = self.node(kind, None, x, middle, _GATEWAY, direction)
        self.arrive(flow, opens, direction, middle)
        closes = self.node(kind, None, far, middle, _GATEWAY, direction)
        y = middle - self.height_of(tree) / 2
        for child in tree.children:
            part = self.extent(child)
            height = y + part.above
            # A shorter child stands in the middle between the gateways.
            room = extent.width - 2 * (_GATEWAY + _GAP) - part.width
            begin = x + direction * (_GATEWAY + _GAP + room / 2)
            inner = self.draw(child, begin, height, direction, self.leave(opens, direction, height))
            self.arrive(inner, closes, direction, height)
            y += part.above + part.below + _BETWEEN
        return self.leave(closes, direction, middle)

    def draw_loop(
        self, tree: ProcessTree, x: float, far: float, middle: float, direction: int, flow: _Open
    ) -> _Open:
        body, back = tree.children
        opens = self.node("exclusive", None, x, middle, _GATEWAY, direction)
        self.arrive(flow, opens, direction, middle)
        closes = self.node("exclusive", None, far, middle, _GATEWAY, direction)
        room = self.extent(tree).width - 2 * (_GATEWAY + _GAP)
        begin = x + direction * (_GATEWAY + _GAP + (room - self.extent(body).width) / 2)
        inner = self.draw(body, begin, middle, direction, self.leave(opens, direction, middle))
        self.arrive(inner, closes, direction, middle)
        below = max(self.extent(body).below, _GATEWAY / 2) + _BETWEEN + self.extent(back).above
        begin = far - direction * (_GAP + (room - self.extent(back).width) / 2)
        height = middle + below
        inner = self.draw(back, begin, height, -direction, self.leave(closes, -direction, height))
        self.arrive(inner, opens, -direction, height)
        return self.leave(closes, direction, middle)

    def height_of(self, tree: ProcessTree) -> float:
        parts = [self.extent(child) for child in tree.children]
        return sum(p.above + p.below for p in parts) + _BETWEEN * (len(parts) - 1)

    def node(
        self, kind: Kind, label: str | None, x: float, middle: float, width: float, direction: int
    ) -> int:
        lines = () if label is None else _lines(label)
        height = width if label is None else len(lines) * LINE * NAME_SIZE + 12
        left = x if direction > 0 else x - width
        top = middle - height / 2
        self.nodes.append(DiagramNode(kind, label, lines, left, top, width, height))
        return len(self.nodes) - 1

    def leave(self, number: int, direction: int, height: float) -> _Open:
        """A flow out of a node, to go on at some height: from its side, or its top or bottom."""
        return number, _port(self.nodes[number], direction, height)

    def arrive(self, flow: _Open, target: int, direction: int, height: float) -> None:
        source, points = flow
        points = [*points, *reversed(_port(self.nodes[target], -direction, height))]
        corners = [p for i, p in enumerate(points) if i == 0 or p != points[i - 1]]
        self.flows.append(Flow(source, target, tuple(corners)))


def _port(node: DiagramNode, side: int, height: float) -> list[Point]:
    """Where a line at a height meets a node: its left (-1) or right side, its top or its bottom."""
    middle, half = node.y + node.height / 2, node.height / 2
    border = (node.x + (node.width if side > 0 else 0), middle)
    if abs(height - middle) < _SAME:
        return [border]
    if abs(height - middle) <= half:  # neither its middle nor beside it: a step in the gap
        turn = border[0] + side * _GAP / 2
        return [border, (turn, middle), (turn, height)]
    centre = node.x + node.width / 2
    return [(centre, middle + math.copysign(half, height - middle)), (centre, height)]


def _lines(label: str) -> tuple[str, ...]:
    return tuple(wrap(plain_name(label), NAME_SIZE, NAME_WIDTH, NAME_LINES))
