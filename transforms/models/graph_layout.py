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
from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

_ORDER_SWEEPS = 24
_STRAIGHT = (1.0, 2.0, 8.0)  # how much a piece wants to be vertical: with 0, 1, 2 ends on edges
_GAP = 11.0  # between neighbours of a layer


@dataclass
class LayeredNet:
    """The graph with a point on each edge in each layer that it passes.

    Attributes:
        n: Number of nodes and points; the nodes come first.
        layer: int64[n].
        up: int64[n_pieces], upper node or point of each piece of an edge; pieces are in the order
            of their layers.
        low: int64[n_pieces], the lower one, one layer below.
        pull: float64[n_pieces], how much a piece wants to be vertical.
        bounds: int64[n_rows+1], where the pieces that end in each layer begin.
        chains: Nodes and points of each edge from top to bottom.
        label: int64[n_edges], the point at which each edge has its label.
        rows: Nodes and points of each layer, from left to right.
    """

    n: int
    layer: np.ndarray
    up: np.ndarray
    low: np.ndarray
    pull: np.ndarray
    bounds: np.ndarray
    chains: list[np.ndarray]
    label: np.ndarray
    rows: list[np.ndarray]

    @classmethod
    def of(
        cls,
        n_nodes: int,
        layers: np.ndarray,
        upper: np.ndarray,
        lower: np.ndarray,
        weights: np.ndarray,
    ) -> LayeredNet:
        """Puts points on edges; rows come in no particular order.

        Args:
            n_nodes: Number of nodes.
            layers: int64[n_nodes], even.
            upper: int64[n_edges], the node of each edge in the layer nearer to the top.
            lower: int64[n_edges], the other one.
            weights: float64[n_edges], positive.
        """
        n = n_nodes
        layer = [layers]
        chains = []
        label = np.zeros(len(upper), np.int64)
        for edge, (a, b) in enumerate(zip(upper.tolist(), lower.tolist(), strict=True)):
            points = np.arange(n, n + layers[b] - layers[a] - 1)
            layer.append(np.arange(layers[a] + 1, layers[b]))
            # Nodes are in even layers, so labels are in odd ones.
            label[edge] = points[(len(points) // 4) * 2]
            chains.append(np.concatenate([[a], points, [b]]))
            n += len(points)
        empty = np.zeros(0, np.int64)
        up = np.concatenate([empty, *(chain[:-1] for chain in chains)])
        low = np.concatenate([empty, *(chain[1:] for chain in chains)])
        heavy = 1 + 11 * np.sqrt(weights / weights.max(initial=1))
        ends_on_edges = (up >= n_nodes).astype(int) + (low >= n_nodes)
        pull = np.repeat(heavy, [len(chain) - 1 for chain in chains])
        pull = pull * np.array(_STRAIGHT)[ends_on_edges]
        every = np.concatenate(layer)
        n_rows = int(layers.max()) + 1
        by_row = np.argsort(every, kind="stable")
        rows = np.split(by_row, np.searchsorted(every[by_row], np.arange(1, n_rows)))
        by_lower = np.argsort(every[low], kind="stable")
        bounds = np.searchsorted(every[low[by_lower]], np.arange(n_rows + 1))
        up, low, pull = up[by_lower], low[by_lower], pull[by_lower]
        return cls(n, every, up, low, pull, bounds, chains, label, rows)

    def neighbours(self, row: int, *, upper: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the pieces above or below a layer: its own ends, the others, and the pulls."""
        row_below = row if upper else row + 1
        if row_below == len(self.rows):
            row_below = 0  # which has no piece above it
        pieces = slice(self.bounds[row_below], self.bounds[row_below + 1])
        up, low = self.up[pieces], self.low[pieces]
        return (low, up, self.pull[pieces]) if upper else (up, low, self.pull[pieces])


def order(net: LayeredNet) -> None:
    """Sorts each row by the mean places of the neighbours; keeps the order of least crossings."""
    # When a walk in depth from the top first comes to each, along the heaviest pieces first.
    below: list[list[int]] = [[] for _ in range(net.n)]
    for piece in np.argsort(net.pull, kind="stable").tolist():
        below[net.up[piece]].append(int(net.low[piece]))
    visits: dict[int, int] = {}
    walk = np.argsort(net.layer, kind="stable")[::-1].tolist()
    while walk:
        node = walk.pop()
        if node not in visits:
            visits[node] = len(visits)
            walk += below[node]
    rows = [np.array(sorted(row.tolist(), key=visits.__getitem__), np.int64) for row in net.rows]
    at = np.zeros(net.n, np.int64)
    for row in rows:
        at[row] = np.arange(len(row))
    best, fewest = list(rows), _crossings(net, at)
    for sweep in range(_ORDER_SWEEPS):
        downwards = sweep % 2 == 0
        for number in range(len(rows)) if downwards else range(len(rows) - 1, -1, -1):
            row = rows[number]
            inside, other, _ = net.neighbours(number, upper=downwards)
            degree = np.bincount(at[inside], minlength=len(row))
            total = np.bincount(at[inside], at[other], len(row))
            mean = np.where(degree > 0, total / np.maximum(degree, 1), np.arange(len(row)))
            rows[number] = row[np.argsort(mean, kind="stable")]
            at[rows[number]] = np.arange(len(row))
        crossings = _crossings(net, at)
        if crossings < fewest:
            best, fewest = list(rows), crossings
    net.rows = best


def _crossings(net: LayeredNet, at: np.ndarray) -> int:
    crossings = 0
    for number in range(len(net.rows)):
        inside, other, _ = net.neighbours(number, upper=True)
        upper, lower = at[other], at[inside]
        passed: list[int] = []
        for end in lower[np.lexsort((lower, upper))].tolist():
            crossings += len(passed) - bisect_right(passed, end)
            insort(passed, end)
    return crossings


def place(net: LayeredNet, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns float64[n]: places that keep order and distances, with pieces that slant little.

    The least sum of absolute slants: many pieces are vertical, and few are not. A linear programme,
    whose time grows faster than the number of pieces.

    Args:
        net: With rows in order.
        left: float64[n], how far each node and point reaches to the left of its place.
        right: float64[n], and to the right.
    """
    here = np.concatenate([row[:-1] for row in net.rows])
    after = np.concatenate([row[1:] for row in net.rows])
    n, m = net.n, len(net.up)
    pieces = n + np.arange(m)
    # Variables: the places, and the slants of each piece to the left and to the right.
    slants = _differences([net.up, net.low, pieces + m, pieces], n + 2 * m)
    apart = _differences([here, after], n + 2 * m)
    solution = linprog(
        np.concatenate([np.zeros(n), net.pull, net.pull]),
        A_ub=apart,
        b_ub=-(right[here] + _GAP + left[after]),
        A_eq=slants,
        b_eq=np.zeros(m),
        bounds=(0, None),
        method="highs-ds",
    )
    x: np.ndarray = solution.x[:n]
    return x - (x - left).min()


def _differences(columns: Sequence[np.ndarray], width: int) -> sparse.csr_array:
    """[n, width]: in each row 1 in the first of its columns, -1 in the next one, and so on."""
    n = len(columns[0])
    signs = np.repeat(np.resize([1.0, -1.0], len(columns)), n)
    places = np.tile(np.arange(n), len(columns)), np.concatenate(columns)
    return sparse.coo_array((signs, places), (n, width)).tocsr()


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
    # The layers make edges point downwards and least long in total.
    n = len(boxes)
    inner = np.setdiff1d(np.arange(n), [first, last])
    # Whatever has no edge to them stands between first and last as well.
    above = np.concatenate([upper, np.full(len(inner), first), inner, [first]])
    below = np.concatenate([lower, inner, np.full(len(inner), last), [last]])
    pull = np.zeros(len(above))
    pull[: len(upper)] = np.sqrt(weights / weights.max(initial=1)) + 0.1
    difference = _differences([above, below], n)
    length = np.bincount(below, pull, n) - np.bincount(above, pull, n)
    length[last] += 1e-3  # of all optima, one that is not stretched
    solution = linprog(
        length, A_ub=difference, b_ub=-np.ones(len(above)), bounds=(0, None), method="highs-ds"
    )
    # The matrix is that of a network, so a vertex is integral.
    layers = 2 * np.rint(solution.x).astype(np.int64)
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
