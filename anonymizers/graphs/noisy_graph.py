"""From noisy sums of directly-follows pairs to a graph that people can read.

Threshold, flow conservation and rounding look at the noisy sums and at public numbers only, so they
cost no privacy.
"""

from __future__ import annotations

import numpy as np

from tracecloak.anonymizers.noise.sums import SumNoise, onto_simplex, whole
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.durations import ReleasedDurations
from tracecloak.schemas.published.graph import ReleasedGraph

# Occurrences of a pair beyond which floats, and so flow conservation, lose the unit.
MAX_COUNT = 1e12


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
    # It loads scipy, which takes as long as all else that a plan or a catalogue loads.
    from tracecloak.anonymizers.graphs.flow_conservation import conserve

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
