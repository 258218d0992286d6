"""Counts inside their intervals that agree with each other: what enters an activity also leaves it.

In every directly-follows graph as many occurrences of an activity are entered as are left. This
holds of all pairs together, and not of those alone that stand out of the noise: the others may have
some of the flow, each of them up to the threshold. So the counts of the shown pairs and what is
hidden at each activity are estimated together. With x the counts, m what each is by itself (nearly
always the middle of its interval), v the variances of the noise, and r_i what flows out of activity
i beyond what flows in,

    minimise  sum (x - m)^2 / v  +  sum (r_i(x) - h_i)^2 / V_i    with  low <= x <= high.

The hidden pairs of i are expected to take h_i, with variance V_i: each is taken to be anything from
0 to its threshold t, of variance t^2 / 12, and its noisy sum says the rest. Start and end are one
node, as what leaves the start has entered the end.

The conditions are soft, so there is always a solution, and the intervals hold of all counts. Where
no counts in them agree with what may be hidden, the conditions are violated by least squares.

The function is quadratic and its domain is a box. A matrix D that is diagonal and not below its
Hessian (Gershgorin) makes a step of projected gradient descent a clip of each count by itself, and
as the Hessian is not below q D, Nesterov's constant momentum takes the error below any bound in so
many steps times 1 / sqrt(q) ("Introductory Lectures on Convex Optimization", 2004, section 2.2.4).
Only sums of numpy are used, whose order is the same on every machine.

It sees noisy sums only, so it is post-processing and costs no privacy.
"""

from __future__ import annotations

import math

import numpy as np

# Steps over the root of the condition: what is left of an error is e to the minus of it.
_ACCURACY = 30


def fitted_counts(
    ends: tuple[np.ndarray, np.ndarray],
    totals: np.ndarray,
    values: np.ndarray,
    variances: np.ndarray,
    least: np.ndarray,
    is_shown: np.ndarray,
    intervals: tuple[np.ndarray, np.ndarray],
    middles: np.ndarray,
) -> np.ndarray:
    """Returns int64[n_shown], the counts of the shown cells; see the module.

    They are rounded to whole numbers, each by itself.

    Args:
        ends: int[n] twice, the nodes that each cell leaves and enters.
        totals: float64[n_nodes], how much more leaves each node than enters it, by all cells.
        values: float64[n], noisy sums.
        variances: float64[n], of their noise, positive.
        least: float64[n], from what on each is shown, positive.
        is_shown: bool[n].
        intervals: int64[n_shown] twice, lower and upper limits.
        middles: float64[n_shown], the counts to be expected of each by itself, within these.
    """
    n_nodes = len(totals)
    trust = _trust(variances, least)
    expected = np.where(is_shown, 0.0, trust * values)
    unsure = np.where(is_shown | (ends[0] == ends[1]), 0.0, trust * variances)
    # Of a node without hidden cells the condition is as soft as with one.
    of_one = (trust * variances).min(initial=np.inf)
    of_node = np.maximum(sum(np.bincount(nodes, unsure, n_nodes) for nodes in ends), of_one)
    totals = totals - _net_flows(ends, expected, n_nodes)

    shown = (ends[0][is_shown], ends[1][is_shown])
    low, high = (limits.astype(np.float64) for limits in intervals)
    weights = 1 / variances[is_shown]
    degrees = sum(np.bincount(nodes, minlength=n_nodes) for nodes in shown)
    of_ends = degrees / of_node
    steep = weights + of_ends[shown[0]] + of_ends[shown[1]]
    root = math.sqrt(float((weights / steep).min(initial=1.0)))
    momentum = (1 - root) / (1 + root)
    counts = at = middles
    for _ in range(math.ceil(_ACCURACY / root)):
        pull = (_net_flows(shown, at, n_nodes) - totals) / of_node
        slope = weights * (at - middles) + pull[shown[0]] - pull[shown[1]]
        before, counts = counts, np.clip(at - slope / steep, low, high)
        at = counts + momentum * (counts - before)
    return np.rint(counts).astype(np.int64)


def expected_hidden(values: np.ndarray, variances: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Returns float64[n], what hidden cells are expected to be; see the module.

    Args:
        values: As of `fitted_counts`.
        variances: See there.
        least: See there.
    """
    return _trust(variances, least) * values


def _trust(variances: np.ndarray, least: np.ndarray) -> np.ndarray:
    squares: np.ndarray = least**2
    return squares / (squares + 12 * variances)


def _net_flows(ends: tuple[np.ndarray, np.ndarray], counts: np.ndarray, n_nodes: int) -> np.ndarray:
    """float64[n_nodes], outflow less inflow of each node."""
    out, into = (np.bincount(nodes, counts, n_nodes) for nodes in ends)
    flows: np.ndarray = out - into
    return flows
