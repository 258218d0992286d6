"""From noisy sums of directly-follows pairs to a graph that people can read.

Threshold, flow conservation and rounding look at the noisy sums and at public numbers only, so they
cost no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anonymizers.flow_conservation import conserve
from schemas.errors import UsageError
from schemas.released_durations import ReleasedDurations
from schemas.released_graph import ReleasedGraph
from schemas.vocabulary import ActivityVocabulary

# Noise is drawn for every possible pair, seen or not.
MAX_CELLS = 20_000_000
# Occurrences of a pair beyond which floats, and so flow conservation, lose the unit.
MAX_COUNT = 1e12
_Z95 = 1.96


@dataclass(frozen=True)
class SumNoise:
    """The noise that was added to each sum.

    Attributes:
        scale: (numerator, denominator) of its scale in lattice steps.
        units: Lattice steps of one occurrence.
        is_laplace: Whether it is discrete Laplace; else it is discrete Gaussian.
    """

    scale: tuple[int, int]
    units: int
    is_laplace: bool

    @property
    def width(self) -> float:
        """The scale as a number, in lattice steps."""
        return self.scale[0] / self.scale[1]

    @property
    def half_width(self) -> int:
        """Half the interval that holds it with probability 0.95, in occurrences, rounded up."""
        quantile = math.log(20) if self.is_laplace else _Z95
        return math.ceil(self.width / self.units * quantile)

    def threshold(self, n_cells: int) -> float:
        """Below this a sum is taken for noise, in lattice steps.

        Of `n` empty cells fewer than the root of `n` exceed it. What the largest of `n` noises is
        expected to reach, root 2 of it or twice it, leaves more true edges out and errs more.
        """
        log_cells = math.log(max(n_cells, 2))
        return self.width * (log_cells / 2 if self.is_laplace else math.sqrt(log_cells))


def excess_of_pairs(n_names: int, n_bins: int) -> str:
    """Returns what is wrong with so many names, OTHER included, and bins; empty if nothing is."""
    if (n_names + 2) ** 2 * n_bins <= MAX_CELLS:
        return ""
    return (
        f"a vocabulary of {n_names:,} activities with {n_bins} duration bins has more than "
        f"{MAX_CELLS:,} possible pairs; give a smaller vocabulary or fewer bins"
    )


def possible_pairs(vocabulary: ActivityVocabulary, n_bins: int) -> np.ndarray:
    """Returns int64[n], ascending: the cells (source, target, bin) that a case can have.

    A case has at least one event, so START is not followed by END; pairs with START or END take no
    time and have the first bin only.

    Raises:
        UsageError: There are too many.
    """
    if excess := excess_of_pairs(len(vocabulary), n_bins):
        raise UsageError(excess)
    n_codes = vocabulary.end + 1
    pair = np.arange(n_codes**2, dtype=np.int64)
    source, target = pair // n_codes, pair % n_codes
    is_possible = (source != vocabulary.end) & (target != vocabulary.start)
    is_possible &= ~((source == vocabulary.start) & (target == vocabulary.end))
    is_inner = (source < vocabulary.start) & (target < vocabulary.start)
    cells = pair[:, None] * n_bins + np.arange(n_bins)
    kept = is_possible[:, None] & (is_inner[:, None] | (np.arange(n_bins) == 0))
    return cells[kept]


def released_graph(
    noisy: np.ndarray,
    domain: np.ndarray,
    vocabulary: ActivityVocabulary,
    borders_us: np.ndarray | None,
    noise: SumNoise,
) -> tuple[ReleasedGraph, ReleasedDurations | None]:
    """Returns the graph, and its counts by duration if there are borders.

    Args:
        noisy: int64[n_cells], sums with noise in lattice steps.
        domain: int64[n_cells], the cells, see `possible_pairs`.
        vocabulary: What their codes mean.
        borders_us: int64[n_bins-1], borders of the duration bins in microseconds, or None.
        noise: What was added to each sum.
    """
    n_codes = vocabulary.end + 1
    n_bins = 1 if borders_us is None else len(borders_us) + 1
    pairs, first, n_summed = np.unique(domain // n_bins, return_index=True, return_counts=True)
    sums = np.add.reduceat(noisy, first) if len(noisy) else noisy
    least = noise.threshold(len(pairs)) * np.sqrt(n_summed)
    kept = np.flatnonzero(sums >= least)
    sources = (pairs[kept] // n_codes).astype(np.int32)
    targets = (pairs[kept] % n_codes).astype(np.int32)
    # A release must not fail on what its noise came to, however wide that was asked to be.
    values = np.minimum(sums[kept] / noise.units, MAX_COUNT)
    weights = 1.0 / n_summed[kept]
    counts = conserve(sources, targets, values, weights, vocabulary.start, vocabulary.end)
    flows = np.flatnonzero(counts)
    half = np.ceil(noise.half_width * np.sqrt(n_summed[kept])).astype(np.int64)
    graph = ReleasedGraph(
        vocabulary.names,
        sources[flows],
        targets[flows],
        counts[flows],
        np.maximum(counts - half, 0)[flows],
        (counts + half)[flows],
    )
    if borders_us is None:
        return graph, None
    return graph, _released_durations(noisy, first[kept][flows], graph, borders_us, noise)


def _released_durations(
    noisy: np.ndarray,
    first: np.ndarray,
    graph: ReleasedGraph,
    borders_us: np.ndarray,
    noise: SumNoise,
) -> ReleasedDurations:
    """Spreads each released pair of activities over the bins so that they sum to its count."""
    n_bins = len(borders_us) + 1
    start = len(graph.names)
    inner = np.flatnonzero((graph.sources < start) & (graph.targets < start))
    cells = noisy[first[inner][:, None] + np.arange(n_bins)] / noise.units
    shares = onto_simplex(cells, graph.counts[inner])
    counts = whole(shares, graph.counts[inner])
    half = noise.half_width
    row, bins = np.nonzero(counts)
    found = counts[row, bins]
    return ReleasedDurations(
        graph.names,
        borders_us,
        graph.sources[inner][row],
        graph.targets[inner][row],
        bins.astype(np.int32),
        found,
        np.maximum(found - half, 0),
        found + half,
    )


def onto_simplex(rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Returns float64[n, m], the nearest non-negative rows with the given sums (Duchi et al. 2008).

    Args:
        rows: float64[n, m].
        totals: int64[n], positive.
    """
    falling = -np.sort(-rows, axis=1)
    excess = np.cumsum(falling, axis=1) - totals[:, None]
    level = excess / np.arange(1, rows.shape[1] + 1)
    last = (falling > level).sum(axis=1) - 1
    return np.maximum(rows - level[np.arange(len(rows)), last][:, None], 0)


def whole(rows: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Returns int64[n, m], rows rounded by largest remainder so that they still sum to `totals`."""
    down = np.floor(rows).astype(np.int64)
    missing = totals - down.sum(axis=1)
    rank = np.argsort(np.argsort(down - rows, axis=1, kind="stable"), axis=1, kind="stable")
    return down + (rank < missing[:, None])
