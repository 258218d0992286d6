"""Median times between the ends of released paths, with intervals, from noisy counts by bins.

The median lies at or above a border of the bins if at most as many steps lie below it as do not.
The difference of these two is a sum of noisy counts, so which borders it may lie between is known
with probability 0.95 (a test of the sign, inverted). All bins are summed, those that do not stand
out of the noise included, as what they hold is in the median, too. The noisy count of the path
itself, which was measured apart, corrects them: what the bins sum up to is known twice. An interval
has whole bins, as where in a bin the steps lie was not counted.

All of it looks at the noisy sums only and costs no privacy.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.graphs.graph_figures import quantile_of
from tracecloak.anonymizers.graphs.noisy_graph import NoisyCells
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.published.durations import ReleasedDurations
from tracecloak.schemas.published.figures import DERIVED, Figure
from tracecloak.schemas.published.graph import ReleasedGraph

# Times of the last bin, which has no upper border, are said to be below so many times its lower
# one: a hundred years.
_NO_LIMIT = 10


def median_times(
    arcs: NoisyCells | None, bins: NoisyCells, graph: ReleasedGraph, durations: ReleasedDurations
) -> list[Figure]:
    """Returns the median time of each released path between activities, in microseconds.

    Args:
        arcs: Of all possible pairs, where they were measured apart from the bins.
        bins: Of all possible pairs and bins.
        graph: What is released of the pairs.
        durations: What is released of the pairs and bins.
    """
    n_codes = graph.end + 1
    pairs, first = np.unique(
        durations.sources.astype(np.int64) * n_codes + durations.targets, return_index=True
    )
    if not len(pairs):
        return []
    values = _released_medians(durations, first)
    lows, highs = _limits(arcs, bins, pairs, durations.edges_us)
    labels = graph.labels
    columns = (pairs.tolist(), values.tolist(), lows.tolist(), highs.tolist())
    return [
        Figure(
            "median_time_us",
            (labels[pair // n_codes], labels[pair % n_codes]),
            *(value, min(low, value), max(high, value)),
            DERIVED,
        )
        for pair, value, low, high in zip(*columns, strict=True)
    ]


def _released_medians(durations: ReleasedDurations, first: np.ndarray) -> np.ndarray:
    """int64[n_pairs]: the medians of the released counts, inside a bin by its logarithm.

    The last bin has no upper border: a median in it is its lower one.
    """
    below = np.cumsum(durations.counts)
    before = below[first] - durations.counts[first]
    ends = np.append(first[1:], len(below))
    half = (before + below[ends - 1]) / 2
    rows = np.searchsorted(below, half, side="left")
    share = (half - (below[rows] - durations.counts[rows])) / durations.counts[rows]
    return _inside(durations.edges_us, durations.bins[rows], share)


def _limits(
    arcs: NoisyCells | None, bins: NoisyCells, pairs: np.ndarray, edges_us: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """int64[n_pairs] twice: between which borders the medians lie."""
    n_bins = len(edges_us) + 1
    at = np.searchsorted(bins.cells, pairs * n_bins)[:, None] + np.arange(n_bins)
    rows, variance = bins.values[at], bins.variances[at[:, 0]]
    n_below = np.arange(1, n_bins)
    if arcs is None:
        deviations = np.sqrt(n_bins * variance)[:, None] * np.ones(n_bins - 1)
    else:
        path = np.searchsorted(arcs.cells, pairs)
        weight = variance / (n_bins * variance + arcs.variances[path])
        rows = rows + ((arcs.values[path] - rows.sum(axis=1)) * weight)[:, None]
        known = (2 * n_below - n_bins) ** 2 * weight[:, None]
        deviations = np.sqrt(variance[:, None] * (n_bins - known))
    below = np.cumsum(rows, axis=1)
    differences = 2 * below[:, :-1] - below[:, -1:]
    slack = quantile_of(bins) * deviations
    always = np.ones((len(pairs), 1), bool)
    lowest = np.argmax(np.hstack([differences >= -slack, always]), axis=1)
    from_last = np.hstack([always, differences <= slack])[:, ::-1]
    highest = n_bins - 1 - np.argmax(from_last, axis=1)
    lower = np.concatenate([[0], edges_us])
    upper = np.append(edges_us, edges_us[-1] * _NO_LIMIT)
    return lower[lowest], upper[highest]


def _inside(edges_us: np.ndarray, bins: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """int64[n]: times at so large a share of the way through bins, evenly in the logarithm."""
    is_last = bins == len(edges_us)
    lower = np.concatenate([[0], edges_us])[bins].astype(np.float64)
    upper = np.append(edges_us, edges_us[-1])[bins].astype(np.float64)
    # The first bin begins at 0, which has no logarithm: it is gone through evenly.
    is_first = bins == 0
    ratio = np.where(is_first | is_last, 1.0, upper / np.where(is_first, 1.0, lower))
    grown = lower * elementary.power(ratio, shares)
    return np.rint(np.where(is_first, upper * shares, grown)).astype(np.int64)
