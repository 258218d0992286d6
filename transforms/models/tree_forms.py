"""Released trees as files and pictures: PTML, PNML, BPMN and SVG."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tracecloak.schemas.models import SILENT, ProcessTree, net_of_tree
from tracecloak.schemas.published.graph import ReleasedTree
from tracecloak.transforms.models.dfg_svg import (
    ARROW,
    BACKWARD,
    FORWARD,
    LINE,
    drawn,
    plain_name,
    px,
    text_width,
    wrap,
    written,
)

# ---
# Where the tasks, gateways and flows of a process tree stand when it is drawn as a BPMN diagram.
# Every operator is a block: a sequence from left to right, a choice and a parallel execution one
# below the other between two gateways, and a loop with its way back below the body, from right to
# left. So nothing overlaps, and no general drawing of graphs is needed. Silent steps are lines.


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
class _Block:
    """A measured tree.

    Attributes:
        tree: What it is.
        width: Along the flow.
        above: How far it reaches above its middle line.
        below: Likewise, below it.
        parts: Its children with how far their middle lines are below its own.
    """

    tree: ProcessTree
    width: float
    above: float
    below: float
    parts: tuple[tuple[_Block, float], ...] = ()


# A flow that has left its node and not arrived: the node's number and the points so far.
_Open = tuple[int, list[Point]]


def _measured(tree: ProcessTree) -> _Block:
    if tree.label is not None:
        lines = _lines(tree.label)
        width = max(44.0, *(text_width(line, NAME_SIZE) for line in lines)) + 2 * _PADDING
        half = (len(lines) * LINE * NAME_SIZE + 12) / 2
        return _Block(tree, width, half, half)
    if tree.operator is None:
        return _Block(tree, _SILENT, _SILENT, _SILENT)
    parts = [_measured(child) for child in tree.children]
    middles, least = [0.0] * len(parts), _GATEWAY / 2
    if tree.operator == "sequence":
        width, least = sum(part.width for part in parts) + _GAP * (len(parts) - 1), 0.0
    else:
        width = max(part.width for part in parts) + 2 * (_GATEWAY + _GAP)
        for i, (part, following) in enumerate(itertools.pairwise(parts)):
            reach = max(part.below, least) if tree.operator == "loop" else part.below
            middles[i + 1] = middles[i] + reach + _BETWEEN + following.above
    if tree.operator in ("exclusive", "parallel"):  # in the middle between the gateways
        centre = (middles[-1] + parts[-1].below - parts[0].above) / 2
        middles = [middle - centre for middle in middles]
    placed = tuple(zip(parts, middles, strict=True))
    above = max(least, *(part.above - middle for part, middle in placed))
    below = max(least, *(part.below + middle for part, middle in placed))
    return _Block(tree, width, above, below, placed)


class Diagram:
    """What is to be drawn of a tree, between a start and an end event, from (0, 0) on.

    Attributes:
        nodes: Known by their numbers.
        flows: Likewise.
        width: Up to where it goes.
        height: Likewise.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self.nodes: list[DiagramNode] = []
        self.flows: list[Flow] = []
        block = _measured(tree)
        middle = max(block.above, _EVENT / 2)
        flow = self._leave(self._node("start", None, 0, middle, _EVENT, 1), 1, middle)
        flow = self._draw(block, _EVENT + _GAP, middle, 1, flow)
        x = _EVENT + 2 * _GAP + block.width
        self._node("end", None, x, middle, _EVENT, 1, flow)
        self.width, self.height = x + _EVENT, middle + max(block.below, _EVENT / 2)

    def ways(self, number: int) -> tuple[list[int], list[int]]:
        """Returns the numbers of the flows into a node and of those out of it."""
        into = [i for i, flow in enumerate(self.flows) if flow.target == number]
        out_of = [i for i, flow in enumerate(self.flows) if flow.source == number]
        return into, out_of

    # A block is drawn from x on in a direction, 1 or -1, along the line at height `middle`.

    def _draw(self, block: _Block, x: float, middle: float, direction: int, flow: _Open) -> _Open:
        tree = block.tree
        if tree.label is not None:
            task = self._node("task", tree.label, x, middle, block.width, direction, flow)
            return self._leave(task, direction, middle)
        if tree.operator is None:
            flow[1].append((x + direction * block.width, middle))
            return flow
        if tree.operator == "sequence":
            for part, _ in block.parts:
                flow = self._draw(part, x, middle, direction, flow)
                x += direction * (part.width + _GAP)
            return flow
        kind: Kind = "parallel" if tree.operator == "parallel" else "exclusive"
        opens = self._node(kind, None, x, middle, _GATEWAY, direction, flow)
        far = x + direction * (block.width - _GATEWAY)
        closes = self._node(kind, None, far, middle, _GATEWAY, direction)
        for i, (part, below) in enumerate(block.parts):
            # A shorter child stands in the middle between the gateways.
            inset = _GAP + (block.width - 2 * (_GATEWAY + _GAP) - part.width) / 2
            is_back = tree.operator == "loop" and i == 1
            begin = far - direction * inset if is_back else x + direction * (_GATEWAY + inset)
            ends, way = ((closes, opens), -direction) if is_back else ((opens, closes), direction)
            height = middle + below
            inner = self._draw(part, begin, height, way, self._leave(ends[0], way, height))
            self._arrive(inner, ends[1], way, height)
        return self._leave(closes, direction, middle)

    def _node(
        self,
        kind: Kind,
        label: str | None,
        x: float,
        middle: float,
        width: float,
        direction: int,
        flow: _Open | None = None,
    ) -> int:
        """Adds a node, at which a flow arrives, and returns its number."""
        lines = () if label is None else _lines(label)
        height = width if label is None else len(lines) * LINE * NAME_SIZE + 12
        left = x if direction > 0 else x - width
        self.nodes.append(DiagramNode(kind, label, lines, left, middle - height / 2, width, height))
        if flow is not None:
            self._arrive(flow, len(self.nodes) - 1, direction, middle)
        return len(self.nodes) - 1

    def _leave(self, number: int, direction: int, height: float) -> _Open:
        """A flow out of a node, to go on at some height: from its side, or its top or bottom."""
        return number, _port(self.nodes[number], direction, height)

    def _arrive(self, flow: _Open, target: int, direction: int, height: float) -> None:
        source, points = flow
        points = [*points, *reversed(_port(self.nodes[target], -direction, height))]
        corners = (point for point, _ in itertools.groupby(points))
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


# --- The files of a released tree beside Parquet and JSON, by the endings of their names. ---------
# Writes a process tree as PTML, as a Petri net in PNML and as BPMN with its drawing.
#
# Equal trees are equal bytes: identifiers are numbers, and there is no clock. What XML cannot
# hold of a name becomes U+FFFD. The formats are those that ProM, pm4py and editors of BPMN read:
# PTML is ProM's of process trees; PNML is ISO/IEC 15909-2 with ProM's mark of silent transitions
# and the final marking of pm4py; BPMN is OMG BPMN 2.0.2 with one private process.
#
# Draws a process tree as one SVG file that needs nothing else.
#
# No script, no style sheet, no font, no address: the file shows the same in a closed network, and
# tells nobody that it was opened. Its bytes depend on the tree and the words only. It is drawn as
# a BPMN diagram: rounded boxes are activities, a diamond with a cross is a choice, one with a
# plus means that all of its ways are gone in any order, and ways back are orange.


def write_tree_svg(tree: ProcessTree, title: str, caption: str) -> str:
    """Returns the tree as SVG, from the start at the left to the end at the right.

    Args:
        tree: What to draw.
        title: Stands above it.
        caption: Stands below it, such as the sentence that says what the release guarantees.
    """
    diagram = Diagram(tree)
    return drawn(
        "tree.svg.j2",
        title,
        (caption,),
        diagram.width,
        diagram.height + 20,
        diagram=diagram,
        arrows=list(map(_arrow, diagram.flows)),
        name_size=NAME_SIZE,
        path_of=_path,
    )


def _arrow(flow: Flow) -> tuple[str, str, str]:
    """The path of a flow, that of its head, and its colour."""
    (x, y), (before_x, before_y) = flow.points[-1], flow.points[-2]
    is_back = any(b[0] < a[0] for a, b in itertools.pairwise(flow.points))
    # Along the last piece: one of the two is 0.
    across = (x > before_x) - (x < before_x)
    down = (y > before_y) - (y < before_y)
    foot_x, foot_y = foot = (x - ARROW * across, y - ARROW * down)
    aside_x, aside_y = ARROW / 2 * down, ARROW / 2 * across
    head = (x, y), (foot_x - aside_x, foot_y - aside_y), (foot_x + aside_x, foot_y + aside_y)
    return _path(*flow.points[:-1], foot), _path(*head), BACKWARD if is_back else FORWARD


def _path(*points: Point) -> str:
    return "M" + "L".join(f"{px(x)} {px(y)}" for x, y in points)


# --- PTML, PNML and BPMN --------------------------------------------------------------------------


def write_ptml(tree: ProcessTree, title: str) -> str:
    """Returns the tree as PTML; a loop has a third child, silent, which comes after it.

    Args:
        tree: What to write.
        title: Name of the process.
    """
    nodes: list[tuple[ProcessTree, int]] = []

    def add(node: ProcessTree, parent: int) -> None:
        nodes.append((node, parent))
        number = len(nodes) - 1
        for child in (*node.children, *[SILENT] * (node.operator == "loop")):
            add(child, number)

    add(tree, 0)
    return written("ptml.j2", title=title, nodes=nodes)


def write_pnml(tree: ProcessTree, title: str) -> str:
    """Returns the tree's Petri net as PNML, with its initial and final marking.

    Args:
        tree: What to write.
        title: Name of the net.
    """
    net = net_of_tree(tree)
    takes, gives = ([getattr(t, way) for t in net.transitions] for way in ("takes", "gives"))
    named = itertools.chain(net.initial, *takes, *gives, net.final)
    places = {place: f"p{i}" for i, place in enumerate(dict.fromkeys(named))}
    return written("pnml.j2", title=title, net=net, places=places)


def write_bpmn(tree: ProcessTree, title: str) -> str:
    """Returns the tree as BPMN: tasks and gateways, and where each of them stands.

    Args:
        tree: What to write.
        title: Name of the process.
    """
    return written("bpmn.j2", title=title, diagram=Diagram(tree))


def forms_of_tree(product: ReleasedTree, title: str, promise: str) -> dict[str, bytes]:
    """Returns a tree as text, PTML, PNML, BPMN and as an SVG picture with the promise below."""
    tree = product.tree
    texts = {
        "tree": f"{_named_for_pm4py(tree, product.names.to_pylist())}\n",
        "ptml": write_ptml(tree, title),
        "pnml": write_pnml(tree, title),
        "bpmn": write_bpmn(tree, title),
        "svg": write_tree_svg(tree, title, promise),
    }
    return {ending: text.encode() for ending, text in texts.items()}


# pm4py's parser has no escapes, and takes the end of a line for a blank.
_NOT_IN_PM4PY = str.maketrans({"'": "\u2019", "\\": "\u29f5", "\n": " ", "\r": " "})


def _named_for_pm4py(tree: ProcessTree, others: Iterable[str]) -> ProcessTree:
    """Returns a tree whose text form pm4py reads, with a number where two names would be one.

    Args:
        tree: As it is.
        others: Names that the tree need not have, and that none of it gets.
    """
    names = {name: name.translate(_NOT_IN_PM4PY) for name in (*tree.labels, *others)}
    taken = {name for name, plain in names.items() if name == plain}
    for name, plain in names.items():
        if name != plain:
            ways = (plain, *(f"{plain} {number}" for number in range(2, len(names) + 2)))
            names[name] = next(way for way in ways if way not in taken)
            taken.add(names[name])

    def renamed(tree: ProcessTree) -> ProcessTree:
        label = None if tree.label is None else names[tree.label]
        return ProcessTree(tree.operator, label, tuple(map(renamed, tree.children)))

    return renamed(tree)
