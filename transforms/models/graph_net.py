"""Order and coordinates in the layers of a graph whose edges have a point in every layer they pass.

The third and the fourth step of a layered drawing, see `transforms.models.graph_layout`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import isotonic_regression, linprog

_ORDER_SWEEPS = 24
_FEW_PIECES = 8_000  # of edges between neighbouring layers; beyond it less care is taken
_PLACE_SWEEPS = 12
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
    visits = _first_visits(net)
    rows = [row[np.argsort(visits[row], kind="stable")] for row in net.rows]
    at = np.zeros(net.n, np.int64)
    for row in rows:
        at[row] = np.arange(len(row))
    best, fewest = list(rows), _crossings(net, at)
    for sweep in range(_ORDER_SWEEPS if len(net.up) <= _FEW_PIECES else 4):
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


def _first_visits(net: LayeredNet) -> np.ndarray:
    """int64[n]: when a walk in depth from the top first comes to each, along the heaviest first."""
    below: list[list[int]] = [[] for _ in range(net.n)]
    for piece in np.argsort(net.pull, kind="stable").tolist():
        below[net.up[piece]].append(int(net.low[piece]))
    visits = np.full(net.n, -1, np.int64)
    clock = 0
    for root in np.argsort(net.layer, kind="stable").tolist():
        stack = [root]
        while stack:
            at = stack.pop()
            if visits[at] < 0:
                visits[at] = clock
                clock += 1
                stack += below[at]
    return visits


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

    Args:
        net: With rows in order.
        left: float64[n], how far each node and point reaches to the left of its place.
        right: float64[n], and to the right.
    """
    solve = _least_slants if len(net.up) <= _FEW_PIECES else _least_squares
    x = solve(net, left, right)
    return x - (x - left).min()


def _least_slants(net: LayeredNet, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The least sum of absolute slants: many pieces are vertical, and few are not.

    A linear programme, whose time grows faster than the number of pieces.
    """
    here = np.concatenate([row[:-1] for row in net.rows])
    after = np.concatenate([row[1:] for row in net.rows])
    n, m, k = net.n, len(net.up), len(here)
    pieces, pairs = np.arange(m), np.arange(k)
    # Variables: the places, and the slants of each piece to the left and to the right.
    slants = sparse.coo_array(
        (
            np.repeat([1.0, -1.0, -1.0, 1.0], m),
            (np.tile(pieces, 4), np.concatenate([net.up, net.low, n + pieces, n + m + pieces])),
        ),
        (m, n + 2 * m),
    )
    apart = sparse.coo_array(
        (np.repeat([1.0, -1.0], k), (np.tile(pairs, 2), np.concatenate([here, after]))),
        (k, n + 2 * m),
    )
    solution = linprog(
        np.concatenate([np.zeros(n), net.pull, net.pull]),
        A_ub=apart.tocsr(),
        b_ub=-(right[here] + _GAP + left[after]),
        A_eq=slants.tocsr(),
        b_eq=np.zeros(m),
        bounds=(0, None),
        method="highs-ds",
    )
    return solution.x[:n]


def _least_squares(net: LayeredNet, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Towards the least sum of squared slants, layer by layer: all pieces slant a little.

    In each layer it is an isotonic regression: the nearest places to the means of the neighbours'
    that keep distances.
    """
    x = np.zeros(net.n)
    at = np.zeros(net.n, np.int64)
    distances = []
    for row in net.rows:
        apart = np.zeros(len(row))
        apart[1:] = np.cumsum(right[row[:-1]] + _GAP + left[row[1:]])
        distances.append(apart)
        x[row] = apart - apart[-1:] / 2
        at[row] = np.arange(len(row))
    for sweep in range(_PLACE_SWEEPS):
        downwards = sweep % 2 == 0
        # Each direction on its own moves parts of the graph far; both together settle them.
        both = sweep >= _PLACE_SWEEPS - 2
        for number in range(len(net.rows)) if downwards else range(len(net.rows) - 1, -1, -1):
            row = net.rows[number]
            weight = np.full(len(row), 1e-6)  # whatever has no neighbour stays
            total = 1e-6 * x[row]
            for upper in (True, False) if both else (downwards,):
                inside, other, pull = net.neighbours(number, upper=upper)
                weight += np.bincount(at[inside], pull, len(row))
                total += np.bincount(at[inside], pull * x[other], len(row))
            if len(row):
                wanted = total / weight - distances[number]
                x[row] = isotonic_regression(wanted, weights=weight).x + distances[number]
    return x
