"""Places the nodes of a directed graph in layers and routes its edges between them.

The framework is that of Sugiyama, Tagawa and Toda, "Methods for visual understanding of
hierarchical system structures", IEEE Trans. SMC 1981: break cycles, choose layers, order each layer
against crossings, choose coordinates. Layers and coordinates minimise total weighted lengths, as in
Gansner et al., "A technique for drawing directed graphs", IEEE Trans. Softw. Eng. 1993 (sections 2
and 4), here by linear programmes. Between two layers of nodes lies one of labels, so a label has a
place of its own too.

All steps are deterministic. Nothing here knows what the graph means.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from tracecloak.transforms.models.graph_net import LayeredNet, order, place

_LANE = 4.0  # half of the room of an edge that passes
_LABEL_GAP = 6.0  # between an edge and its label
_ASIDE = 6.0  # more room on both sides of a node
_PORT = 13.0  # between edges that meet a node side by side


@dataclass(frozen=True)
class Box:
    """The room of a node: how far its shape reaches from its centre, and what hangs to its right.

    Attributes:
        half_width: Of the shape.
        half_height: Of the shape.
        hanging: Room to the right of the shape, such as for a loop and its label.
        has_ports: Whether edges meet it side by side; otherwise all do in its middle.
    """

    half_width: float
    half_height: float
    hanging: float = 0.0
    has_ports: bool = True


@dataclass(frozen=True)
class Route:
    """The way of one edge, from top to bottom of the picture.

    It passes through vertical pieces, (x, y of the upper end, y of the lower end), and swings over
    from one to the next between them. The first and the last have no length: they lie on the nodes.

    Attributes:
        pieces: At least three.
        label: Left end and middle height of the room for its label.
        is_backward: Whether the edge runs upwards, from the last piece to the first.
    """

    pieces: list[tuple[float, float, float]]
    label: tuple[float, float]
    is_backward: bool


@dataclass(frozen=True)
class Layout:
    """Where everything is; x grows to the right and y downwards, from 0.

    Attributes:
        x: float64[n_nodes], centres.
        y: float64[n_nodes], centres.
        routes: One for each edge.
        width: Of the picture.
        height: Of the picture.
    """

    x: np.ndarray
    y: np.ndarray
    routes: list[Route]
    width: float
    height: float


def lay_out(
    boxes: Sequence[Box],
    sources: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    label_widths: np.ndarray,
    label_height: float,
    first: int,
    last: int,
) -> Layout:
    """Lays a graph out from top to bottom.

    Boxes do not overlap, nor do labels; edges cross only in the free strips between layers.

    Args:
        boxes: Room of each node.
        sources: int[n_edges], nodes; no edge is a loop.
        targets: int[n_edges], nodes.
        weights: float64[n_edges], positive; heavy edges are rather forward, short and straight.
        label_widths: float64[n_edges].
        label_height: Of every label.
        first: The node that stands alone at the top; no edge enters it.
        last: The node that stands alone at the bottom; no edge leaves it.
    """
    backward = _backward_edges(len(boxes), sources, targets, weights, first, last)
    upper, lower = np.where(backward, (targets, sources), (sources, targets))
    layers = 2 * _layers(len(boxes), upper, lower, weights, first, last)
    net = LayeredNet.of(len(boxes), layers, upper, lower, weights)
    order(net)
    left = np.full(net.n, _LANE)
    right = np.full(net.n, _LANE)
    half = np.zeros(net.n)
    for node, box in enumerate(boxes):
        left[node] = _ASIDE + box.half_width
        right[node] = box.half_width + box.hanging + _ASIDE
        half[node] = box.half_height
    right[net.label] = _LABEL_GAP + label_widths
    half[net.label] = label_height / 2
    x = place(net, left, right)
    top, bottom = _rows(net, x, half)
    routes = _routes(net, boxes, x, top, bottom, backward)
    middle = ((top + bottom) / 2)[net.layer[: len(boxes)]]
    return Layout(x[: len(boxes)], middle, routes, float((x + right).max()), float(bottom[-1]))


def widest_ways(
    root: int, near: np.ndarray, far: np.ndarray, weights: np.ndarray
) -> dict[int, int]:
    """Finds the ways from a node to all others whose least weight is greatest.

    Args:
        root: Where the ways begin.
        near: int[n_edges], the end of each edge that a way comes to first: its source, or its
            target for ways against the edges.
        far: int[n_edges], the other end.
        weights: [n_edges], positive.

    Returns:
        For each node but the root that a way leads to, the last edge of its way.
    """
    leading: dict[int, list[int]] = {}
    for edge, node in enumerate(near.tolist()):
        leading.setdefault(node, []).append(edge)
    last: dict[int, int] = {}
    # Of ways equally wide, one with fewest edges.
    queue: list[tuple[float, int, int, int]] = [(-math.inf, 0, -1, root)]
    while queue:
        width, steps, before, node = heapq.heappop(queue)
        if node in last or (node == root and before >= 0):
            continue
        if before >= 0:
            last[node] = before
        for edge in leading.get(node, []):
            width_here = max(width, -float(weights[edge]))
            heapq.heappush(queue, (width_here, steps + 1, edge, int(far[edge])))
    return last


def _backward_edges(
    n: int, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray, first: int, last: int
) -> np.ndarray:
    """bool[n_edges]: what to turn round so that no cycle is left.

    The widest ways from the first node are kept, so that a node stands below what leads to it; then
    heavy edges rather than light ones.
    """
    reaches = np.eye(n, dtype=bool)  # [from, to] over the edges that are kept
    backward = np.zeros(len(sources), bool)
    # Edges of first and last lie on no cycle, and those after them have to know them.
    rank = np.where((sources == first) | (targets == last), 0, 2)
    tree = np.array(list(widest_ways(first, sources, targets, weights).values()), np.int64)
    rank[tree] = np.minimum(rank[tree], 1)
    for edge in np.lexsort((targets, sources, -weights, rank)).tolist():
        source, target = sources[edge], targets[edge]
        if reaches[target, source]:
            backward[edge] = True
        elif not reaches[source, target]:
            reaches[reaches[:, source]] |= reaches[target]
    return backward


def _layers(
    n: int, upper: np.ndarray, lower: np.ndarray, weights: np.ndarray, first: int, last: int
) -> np.ndarray:
    """int64[n]: layers that make edges point downwards and least long in total."""
    inner = np.setdiff1d(np.arange(n), [first, last])
    # Whatever has no edge to them stands between first and last as well.
    above = np.concatenate([upper, np.full(len(inner), first), inner, [first]])
    below = np.concatenate([lower, inner, np.full(len(inner), last), [last]])
    rows = np.arange(len(above))
    pull = np.zeros(len(above))
    pull[: len(upper)] = np.sqrt(weights / weights.max(initial=1)) + 0.1
    difference = sparse.coo_array(
        (
            np.repeat([1.0, -1.0], len(rows)),
            (np.tile(rows, 2), np.concatenate([above, below])),
        ),
        (len(rows), n),
    ).tocsr()
    length = np.bincount(below, pull, n) - np.bincount(above, pull, n)
    length[last] += 1e-3  # of all optima, one that is not stretched
    solution = linprog(
        length, A_ub=difference, b_ub=-np.ones(len(rows)), bounds=(0, None), method="highs-ds"
    )
    # The matrix is that of a network, so a vertex is integral.
    return np.rint(solution.x).astype(np.int64)


def _rows(net: LayeredNet, x: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower ends of the layers; the farther edges swing, the more room they get."""
    n_rows = len(net.rows)
    high = np.zeros(n_rows)
    np.maximum.at(high, net.layer, 2 * half)
    swing = np.zeros(n_rows)
    np.maximum.at(swing, net.layer[net.low], np.abs(x[net.up] - x[net.low]))
    gap = np.clip(0.16 * swing, 16, 70)
    gap[0] = 0
    bottom = np.cumsum(gap + high)
    return bottom - high, bottom


def _routes(
    net: LayeredNet,
    boxes: Sequence[Box],
    x: np.ndarray,
    top: np.ndarray,
    bottom: np.ndarray,
    backward: np.ndarray,
) -> list[Route]:
    middle = (top + bottom) / 2
    starts = _ports(boxes, x, [(chain[0], x[chain[1]]) for chain in net.chains])
    ends = _ports(boxes, x, [(chain[-1], x[chain[-2]]) for chain in net.chains])
    routes = []
    for edge, chain in enumerate(net.chains):
        a, b = chain[0], chain[-1]
        start = middle[net.layer[a]] + boxes[a].half_height
        end = middle[net.layer[b]] - boxes[b].half_height
        pieces = [(starts[edge], start, start)]
        for point in chain[1:-1].tolist():
            row = net.layer[point]
            pieces.append((float(x[point]), float(top[row]), float(bottom[row])))
        pieces.append((ends[edge], end, end))
        label = net.label[edge]
        at = (float(x[label]) + _LABEL_GAP, float(middle[net.layer[label]]))
        routes.append(Route(pieces, at, bool(backward[edge])))
    return routes


def _ports(boxes: Sequence[Box], x: np.ndarray, meetings: list[tuple[int, float]]) -> list[float]:
    """Where edges meet one side of their nodes, in the order of where they come from."""
    ports = [0.0] * len(meetings)
    at_node: dict[int, list[int]] = {}
    for edge in sorted(range(len(meetings)), key=lambda edge: (meetings[edge][1], edge)):
        at_node.setdefault(meetings[edge][0], []).append(edge)
    for node, edges in at_node.items():
        box = boxes[node]
        step = min(_PORT, 1.6 * box.half_width / len(edges)) if box.has_ports else 0.0
        for i, edge in enumerate(edges):
            ports[edge] = float(x[node]) + step * (i - (len(edges) - 1) / 2)
    return ports
