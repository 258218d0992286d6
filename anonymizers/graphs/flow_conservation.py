"""From noisy directly-follows counts to consistent ones: what enters an activity also leaves it.

Noise breaks two properties that every directly-follows graph has: no count is negative, and as many
occurrences of an activity are entered as are left. `conserve` restores both with the least change.
It sees noisy counts only, so it is post-processing and costs no privacy; as in other consistent
releases (Hay et al., "Boosting the accuracy of differentially private histograms through
consistency", PVLDB 2010), the nearest consistent counts are nearer to the true ones, which are
consistent, than the noisy counts are; only the rounding afterwards adds a little.

Start and end are one node here: what leaves the start has entered the end, so a consistent graph is
a circulation, with neither source nor sink.

It takes two steps:

1. The nearest circulation is a convex quadratic programme on a network. Its dual has one potential
   p per node and no constraint; with it an edge has max(0, y + (p_target - p_source) / w). The dual
   is concave and piecewise quadratic, and Newton's method with a line search solves it in a few
   sparse linear systems (as do Li, Sun and Toh, "On the efficient computation of a projector over
   the Birkhoff polytope", SIAM J. Optim. 2020, for the balance of rows and columns of a matrix).
2. Every count goes to one of its two neighbouring integers. To which is a linear programme on the
   same network. Its vertices are integral because its matrix is totally unimodular (Hoffman and
   Kruskal, 1956), and its optimum is the nearest of all such roundings that are circulations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

_LARGEST = 1e12  # beyond it, float64 cannot tell the fractions that are rounded
_NEWTON_STEPS = 200  # real graphs take 5 to 20
_BISECTIONS = 60
_RESIDUAL = 1e-12  # imbalance at which the potentials are good enough, to the largest throughput
_CONJUGATE_STEPS = 3000
_RIDGE = 1e-10  # added to the diagonal, since parts that no edge joins make it singular


def conserve(
    sources: np.ndarray,
    targets: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray | None,
    start: int,
    end: int,
) -> np.ndarray:
    """Returns the counts on the same edges that are consistent and nearest to noisy ones.

    The result x is non-negative, and at every node but `start` and `end` the inflow is the outflow;
    hence what leaves the start enters the end. It is the minimum of sum w (x - value)^2 under these
    conditions, rounded: no count differs from the minimum by 1 or more (beyond a million, give or
    take the rounding errors of the minimum). Consistent integers come back as they are.

    Edges on no walk from start to end and on no cycle get 0. A cycle which the start does not reach
    may keep its counts.

    Args:
        sources: int[n_edges], nodes that edges leave; never `end`.
        targets: int[n_edges], nodes that edges enter; never `start`.
        values: float64[n_edges], noisy counts, of any sign and at most 1e12 in size.
        weights: float64[n_edges], positive, such as inverse variances of the noise; equal if None.
        start: Number of the artificial start.
        end: Number of the artificial end.

    Returns:
        int64[n_edges].

    Raises:
        ValueError: The arrays differ in length, an edge enters the start or leaves the end, a value
            is not finite or too large, or a weight is not positive.
    """
    values = np.asarray(values, np.float64)
    cost = np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)
    if not len(sources) == len(targets) == len(values) == len(cost):
        raise ValueError("sources, targets, values and weights must have one entry an edge")
    if np.any(targets == start) or np.any(sources == end):
        raise ValueError("no edge may enter the start or leave the end")
    if not np.all(np.abs(values) <= _LARGEST):
        raise ValueError(f"values must be finite and at most {_LARGEST:g} in size")
    if not (np.all(cost > 0) and np.all(np.isfinite(cost))):
        raise ValueError("weights must be positive and finite")
    counts = np.zeros(len(values), np.int64)
    if len(values) == 0:
        return counts

    nodes, ends = np.unique(np.concatenate([sources, targets, [start, end]]), return_inverse=True)
    ends[ends == ends[-1]] = ends[-2]
    source, target = ends[:-2].reshape(2, -1)
    loop = source == target  # its flow is conserved in any case; start to end is one, too
    counts[loop] = _nearest_integers(np.maximum(values[loop], 0))
    # A circulation is a sum of cycles, and a cycle stays in a strongly connected component.
    component = connected_components(
        sparse.coo_array((np.ones(len(values)), (source, target)), (len(nodes),) * 2),
        connection="strong",
    )[1]
    cyclic = np.flatnonzero(~loop & (component[source] == component[target]))
    used, ends = np.unique(np.concatenate([source[cyclic], target[cyclic]]), return_inverse=True)
    source, target = ends.reshape(2, -1)
    nearest = _nearest_circulation(source, target, values[cyclic], cost[cyclic], len(used))
    counts[cyclic] = _round(source, target, nearest, len(used))
    return counts


def _nearest_integers(values: np.ndarray) -> np.ndarray:
    return np.floor(values + 0.5).astype(np.int64)


def _imbalance(
    source: np.ndarray, target: np.ndarray, flow: np.ndarray, n_nodes: int
) -> np.ndarray:
    """Outflow less inflow of each node."""
    return np.bincount(source, flow, n_nodes) - np.bincount(target, flow, n_nodes)


def _nearest_circulation(
    source: np.ndarray, target: np.ndarray, values: np.ndarray, weights: np.ndarray, n_nodes: int
) -> np.ndarray:
    """float64[n_edges]: the minimum of sum w (x - value)^2 over circulations x >= 0."""
    if len(values) == 0:
        return values
    softness = weights.min() / weights  # only ratios of weights matter
    potential = np.zeros(n_nodes)

    def flow(at: np.ndarray) -> np.ndarray:
        return np.maximum(0, values + softness * (at[target] - at[source]))

    def slope(at: np.ndarray) -> np.ndarray:
        return _imbalance(source, target, flow(at), n_nodes)

    tolerance = _RESIDUAL * np.bincount(source, np.abs(values), n_nodes).max()
    gradient = slope(potential)
    for _ in range(_NEWTON_STEPS):
        size = np.abs(gradient).max()
        if size == 0:
            break
        step = _newton_step(source, target, np.where(flow(potential) > 0, softness, 0), gradient)
        if size <= tolerance:
            # One step more than needed costs little and brings the residual down to rounding.
            last = slope(potential + step)
            return flow(potential + step if np.abs(last).max() < size else potential)
        potential = potential + _step_length(slope, potential, step) * step
        gradient = slope(potential)
    return flow(potential)


def _newton_step(
    source: np.ndarray, target: np.ndarray, softness: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """Solves the equations of the graph Laplacian of the edges that have a positive flow.

    By conjugate gradients, scaled by the diagonal (Hestenes and Stiefel 1952). What comes back
    leads upwards in any case. It solves them to `_RESIDUAL` where rounding permits.

    A half goes up or down by the last digits, so sums are numpy's own and scipy's of a sparse
    matrix. Those of a linear algebra library, as in a factorisation, are others on another
    processor and with other threads.
    """
    n = len(gradient)
    diagonal = np.bincount(source, softness, n) + np.bincount(target, softness, n)
    diagonal = np.where(diagonal > 0, diagonal * (1 + _RIDGE), 1.0)
    every = np.arange(n)
    laplacian = sparse.coo_array(
        (
            np.concatenate([diagonal, -softness, -softness]),
            (np.concatenate([every, source, target]), np.concatenate([every, target, source])),
        ),
        (n, n),
    ).tocsr()
    solution = np.zeros(n)
    rest = gradient.copy()
    scaled = rest / diagonal
    direction = scaled
    energy = (rest * scaled).sum()
    for _ in range(_CONJUGATE_STEPS):
        image = laplacian @ direction
        length = energy / (direction * image).sum()
        solution += length * direction
        rest -= length * image
        if np.abs(rest).max() <= _RESIDUAL * np.abs(gradient).max():
            break
        scaled = rest / diagonal
        energy, before = (rest * scaled).sum(), energy
        direction = scaled + energy / before * direction
    return solution


def _step_length(
    slope: Callable[[np.ndarray], np.ndarray], potential: np.ndarray, step: np.ndarray
) -> float:
    """A length in (0, 1] up to which the dual grows, and grows half as fast at its end, or is 1."""

    def growth(length: float) -> float:
        return float((step * slope(potential + length * step)).sum())

    if growth(1.0) >= 0:
        return 1.0
    first = growth(0.0)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        rest = growth(middle)
        low, high = (middle, high) if rest >= 0 else (low, middle)
        if 0 <= rest <= first / 2:
            break
    return low


def _round(source: np.ndarray, target: np.ndarray, flow: np.ndarray, n_nodes: int) -> np.ndarray:
    """int64[n_edges]: the nearest integral circulation between the values' floors and ceilings.

    A flow that is no circulation, and so may have none between them, gets a circulation further
    away.
    """
    whole = _nearest_integers(flow)
    if not _imbalance(source, target, whole, n_nodes).any():
        return whole
    # Values that are integers but for rounding errors may have to move either way.
    noise = min(0.25, max(1e-6, _RESIDUAL * np.bincount(source, flow, n_nodes).max()))
    is_whole = np.abs(flow - whole) <= noise
    base = np.where(is_whole, whole, np.floor(flow)).astype(np.int64)
    fraction = np.where(is_whole, 0, flow - base)
    n_edges = len(flow)
    incidence = sparse.coo_array(
        (
            np.repeat([1.0, -1.0], n_edges),
            (np.concatenate([source, target]), np.tile(np.arange(n_edges), 2)),
        ),
        (n_nodes, n_edges),
    ).tocsc()
    # Going up rather than down changes the square of the difference by 1 - 2 fraction. A move that
    # only rounding errors ask for costs more than all other moves together, and less in the
    # direction in which the value errs.
    dear = 4.0 * n_edges + 2
    error = np.where(is_whole, flow - whole, 0)
    up = np.where(is_whole, dear * (1 - 2 * error), 1 - 2 * fraction)
    for is_free, most_up in ((is_whole, 1.0), (np.ones(n_edges, bool), np.inf)):
        down = np.flatnonzero(is_free & (base > 0))
        more = np.flatnonzero(is_free & ~is_whole) if most_up > 1 else down[:0]
        solution = linprog(
            np.concatenate([up, dear * (1 + 2 * error[down]), np.full(len(more), dear)]),
            A_eq=sparse.hstack([incidence, -incidence[:, down], incidence[:, more]], "csc"),
            b_eq=-_imbalance(source, target, base, n_nodes),
            bounds=np.column_stack(
                [
                    np.zeros(n_edges + len(down) + len(more)),
                    np.concatenate(
                        [
                            np.where(is_whole, most_up, 1.0),
                            np.minimum(base[down], most_up),
                            np.full(len(more), most_up),
                        ]
                    ),
                ]
            ),
            method="highs-ds",
        )
        if solution.x is not None:
            break
    moves = np.rint(solution.x).astype(np.int64)
    counts = base + moves[:n_edges]
    counts[down] -= moves[n_edges : n_edges + len(down)]
    counts[more] += moves[n_edges + len(down) :]
    return counts
