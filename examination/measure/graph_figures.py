"""The measures of a released directly-follows graph and of its intervals, by their names.

Both graphs are of one vocabulary and have START and END. Every figure is exact about private data:
for the operator, not for publication.
"""

from __future__ import annotations

import numpy as np

from tracecloak.examination.measure import utility
from tracecloak.examination.measure.intervals import interval_coverage, interval_width
from tracecloak.examination.measure.measures import EdgeWeights, aligned_edges
from tracecloak.examination.measure.registry import Figures, checked


def edge_figures(a: EdgeWeights, b: EdgeWeights) -> Figures:
    """Returns the measures of directly-follows graphs, START and END included.

    Args:
        a: The original's.
        b: The release's.
    """
    weights = aligned_edges(a, b)
    precision, recall = utility.precision_and_recall(*weights)
    return checked(
        {
            "edge_total_variation": utility.total_variation(*weights),
            "edge_relative_error": utility.relative_error(*weights),
            "edge_precision": precision,
            "edge_recall": recall,
        }
    )


def interval_figures(
    truth: EdgeWeights,
    released: EdgeWeights,
    lows: np.ndarray,
    highs: np.ndarray,
    half_width: float | None,
) -> Figures:
    """Returns the measures of a graph's intervals.

    Args:
        truth: The exact graph.
        released: The released one.
        lows: int64[n], the lower end of each released edge, in its order.
        highs: int64[n], likewise.
        half_width: Half the interval of the noise alone, or None: it is not known.
    """
    counts = _counts_of(truth, released)
    width = None if half_width is None else interval_width(lows, highs, half_width)
    return checked(
        {"interval_coverage": interval_coverage(counts, lows, highs), "interval_width": width}
    )


def _counts_of(truth: EdgeWeights, asked: EdgeWeights) -> np.ndarray:
    """int64[n], the exact count of each edge that is asked for."""
    keys, wanted = (
        (edges.source.astype(np.int64) << 32) + edges.target for edges in (truth, asked)
    )
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(len(keys) - 1, 0))
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    rows = order[place]
    return np.where(keys[rows] == wanted, truth.weight[rows], 0).astype(np.int64)
