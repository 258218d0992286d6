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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

_ORDER_SWEEPS = 24
_STRAIGHT = (1.0, 2.0, 8.0)  # how much a piece wants to be vertical: with 0, 1, 2 ends on edges
_GAP = 11.0  # between neighbours of a layer
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


class Layout:
    """Where everything is; x grows to the right and y downwards, from 0.

    Boxes do not overlap, nor do labels; edges cross only in the free strips between layers.

    Args:
        boxes: Room of each node. The last but one stands alone at the top, and no edge enters it;
            the last one stands alone at the bottom, and no edge leaves it.
        sources: int[n_edges], nodes; no edge is a loop.
        targets: int[n_edges], nodes.
        weights: float64[n_edges], positive; heavy edges are rather forward, short and straight.
        label_widths: float64[n_edges].
        label_height: Of every label.

    Attributes:
        centres: (x, y) of each node.
        routes: One for each edge.
        width: Of the picture.
        height: Of the picture.
    """

    def __init__(
        self,
        boxes: Sequence[Box],
        sources: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        label_widths: np.ndarray,
        label_height: float,
    ) -> None:
        n = len(boxes)
        backward = _backward_edges(n, sources, targets, weights)
        upper, lower = np.where(backward, (targets, sources), (sources, targets))
        net = _LayeredNet(n, _layers(n, upper, lower, weights), upper, lower, weights)
        _order(net)
        left, right, half = np.full(net.n, _LANE), np.full(net.n, _LANE), np.zeros(net.n)
        left[:n] = [_ASIDE + box.half_width for box in boxes]
        right[:n] = [box.half_width + box.hanging + _ASIDE for box in boxes]
        half[:n] = [box.half_height for box in boxes]
        right[net.label] = _LABEL_GAP + label_widths
        half[net.label] = label_height / 2
        x = _places(net, left, right)
        top, bottom = _rows(net, x, half)
        middle = ((top + bottom) / 2)[net.layer]
        self.centres = list(zip(x[:n].tolist(), middle[:n].tolist(), strict=True))
        self.width, self.height = float((x + right).max()), float(bottom[-1])
        starts, ends = (
            _ports(boxes, x, [(chain[end], x[chain[beside]]) for chain in net.chains])
            for end, beside in ((0, 1), (-1, -2))
        )
        self.routes = []
        for edge, chain in enumerate(net.chains):
            start = middle[chain[0]] + boxes[chain[0]].half_height
            end = middle[chain[-1]] - boxes[chain[-1]].half_height
            points, rows = chain[1:-1], net.layer[chain[1:-1]]
            columns = (of.tolist() for of in (x[points], top[rows], bottom[rows]))
            between: Iterable[tuple[float, float, float]] = zip(*columns, strict=True)
            pieces = [(starts[edge], start, start), *between, (ends[edge], end, end)]
            label = float(x[net.label[edge]]) + _LABEL_GAP, float(middle[net.label[edge]])
            self.routes.append(Route(pieces, label, bool(backward[edge])))


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
        if node in last:
            continue
        last[node] = before
        for edge in leading.get(node, []):
            width_here = max(width, -float(weights[edge]))
            heapq.heappush(queue, (width_here, steps + 1, edge, int(far[edge])))
    del last[root]
    return last


def _backward_edges(
    n: int, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """bool[n_edges]: what to turn round so that no cycle is left.

    The widest ways from the first node are kept, so that a node stands below what leads to it; then
    heavy edges rather than light ones.
    """
    reaches = np.eye(n, dtype=bool)  # [from, to] over the edges that are kept
    backward = np.zeros(len(sources), bool)
    # Edges of first and last lie on no cycle, and those after them have to know them.
    first, last = n - 2, n - 1
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


def _layers(n: int, upper: np.ndarray, lower: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """int64[n], even: layers that make edges point downwards and least long in total."""
    first, last, inner = n - 2, n - 1, np.arange(n - 2)
    # Whatever has no edge to them stands between first and last as well.
    above = np.concatenate([upper, np.full(len(inner), first), inner, [first]])
    below = np.concatenate([lower, inner, np.full(len(inner), last), [last]])
    pull = np.zeros(len(above))
    pull[: len(upper)] = np.sqrt(weights / weights.max(initial=1)) + 0.1
    length = np.bincount(below, pull, n) - np.bincount(above, pull, n)
    length[last] += 1e-3  # of all optima, one that is not stretched
    apart, least = _differences([above, below], n), -np.ones(len(above))
    solution = linprog(length, A_ub=apart, b_ub=least, bounds=(0, None), method="highs-ds")
    # The matrix is that of a network, so a vertex is integral.
    layers: np.ndarray = 2 * np.rint(solution.x).astype(np.int64)
    return layers


class _LayeredNet:
    """The graph with a point on each edge in each layer that it passes.

    Args:
        n_nodes: Number of nodes.
        layers: int64[n_nodes], even.
        upper: int64[n_edges], the node of each edge in the layer nearer to the top.
        lower: int64[n_edges], the other one.
        weights: float64[n_edges], positive.

    Attributes:
        n: Number of nodes and points; the nodes come first.
        layer: int64[n].
        up: int64[n_pieces], upper node or point of each piece of an edge; pieces are in the order
            of their layers.
        low: int64[n_pieces], the lower one, one layer below.
        pull: float64[n_pieces], how much a piece wants to be vertical.
        chains: Nodes and points of each edge from top to bottom.
        label: int64[n_edges], the point at which each edge has its label.
        rows: Nodes and points of each layer, from left to right; at first in no particular order.
    """

    def __init__(
        self,
        n_nodes: int,
        layers: np.ndarray,
        upper: np.ndarray,
        lower: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self.n = n_nodes
        layer = [layers]
        self.chains = []
        self.label = np.zeros(len(upper), np.int64)
        for edge, (a, b) in enumerate(zip(upper.tolist(), lower.tolist(), strict=True)):
            layer.append(np.arange(layers[a] + 1, layers[b]))
            points = np.arange(self.n, self.n + len(layer[-1]))
            # Nodes are in even layers, so labels are in odd ones.
            self.label[edge] = points[(len(points) // 4) * 2]
            self.chains.append(np.concatenate([[a], points, [b]]))
            self.n += len(points)
        self.layer = np.concatenate(layer)
        empty = np.zeros(0, np.int64)
        up = np.concatenate([empty, *(chain[:-1] for chain in self.chains)])
        low = np.concatenate([empty, *(chain[1:] for chain in self.chains)])
        heavy = 1 + 11 * np.sqrt(weights / weights.max(initial=1))
        ends_on_edges = (up >= n_nodes).astype(int) + (low >= n_nodes)
        pull = np.repeat(heavy, [len(chain) - 1 for chain in self.chains])
        pull = pull * np.array(_STRAIGHT)[ends_on_edges]
        borders = np.arange(int(layers.max()) + 2)
        by_row = np.argsort(self.layer, kind="stable")
        self.rows = np.split(by_row, np.searchsorted(self.layer[by_row], borders[1:-1]))
        by_lower = np.argsort(self.layer[low], kind="stable")
        self.up, self.low, self.pull = up[by_lower], low[by_lower], pull[by_lower]
        self._bounds = np.searchsorted(self.layer[self.low], borders)

    def neighbours(self, row: int, *, upper: bool) -> tuple[np.ndarray, np.ndarray]:
        """The pieces above or below a layer: their own ends, and the others."""
        below = row if upper else (row + 1) % len(self.rows)  # layer 0 has no piece above it
        pieces = slice(self._bounds[below], self._bounds[below + 1])
        up, low = self.up[pieces], self.low[pieces]
        return (low, up) if upper else (up, low)


def _order(net: _LayeredNet) -> None:
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
        for number in range(len(rows))[:: 1 if downwards else -1]:
            row = rows[number]
            inside, other = net.neighbours(number, upper=downwards)
            degree = np.bincount(at[inside], minlength=len(row))
            total = np.bincount(at[inside], at[other], len(row))
            mean = np.where(degree > 0, total / np.maximum(degree, 1), np.arange(len(row)))
            rows[number] = row[np.argsort(mean, kind="stable")]
            at[rows[number]] = np.arange(len(row))
        crossings = _crossings(net, at)
        if crossings < fewest:
            best, fewest = list(rows), crossings
    net.rows = best


def _crossings(net: _LayeredNet, at: np.ndarray) -> int:
    crossings = 0
    for number in range(len(net.rows)):
        lower, upper = (at[ends] for ends in net.neighbours(number, upper=True))
        passed: list[int] = []
        for end in lower[np.lexsort((lower, upper))].tolist():
            crossings += len(passed) - bisect_right(passed, end)
            insort(passed, end)
    return crossings


def _places(net: _LayeredNet, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """float64[n]: places that keep order and distances, with pieces that slant little.

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
    solution = linprog(
        np.concatenate([np.zeros(n), net.pull, net.pull]),
        A_ub=_differences([here, after], n + 2 * m),
        b_ub=-(right[here] + _GAP + left[after]),
        A_eq=_differences([net.up, net.low, pieces + m, pieces], n + 2 * m),
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


def _rows(net: _LayeredNet, x: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper and lower ends of the layers; the farther edges swing, the more room they get."""
    high, swing = np.zeros((2, len(net.rows)))
    np.maximum.at(high, net.layer, 2 * half)
    np.maximum.at(swing, net.layer[net.low], np.abs(x[net.up] - x[net.low]))
    gap = np.clip(0.16 * swing, 16, 70)
    gap[0] = 0
    bottom = np.cumsum(gap + high)
    return bottom - high, bottom


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
