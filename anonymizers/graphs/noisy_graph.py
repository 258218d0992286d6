"""From noisy sums of directly-follows pairs to a graph that people can read.

Threshold, flow conservation, rounding and intervals look at the noisy sums and at public numbers
only, so they cost no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracecloak.anonymizers.graphs.count_intervals import intervals_of_shown
from tracecloak.anonymizers.noise.sums import SumNoise, onto_simplex, whole
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.graph import ReleasedGraph

if TYPE_CHECKING:
    from tracecloak.schemas.published.durations import ReleasedDurations

# Occurrences of a pair beyond which floats, and so flow conservation, lose the unit.
MAX_COUNT = 1e12


@dataclass(frozen=True)
class NoisyCells:
    """Noisy sums of a public domain.

    Attributes:
        cells: int64[n], the domain, ascending; see `possible_pairs`.
        values: float64[n], the sums in occurrences.
        scales: float64[n], of the noise of each, in occurrences: the deviation, or Laplace's scale.
        noise: What was added to each number that was measured.
        beyond: What clipping takes from all of them, a likely upper limit, in occurrences.
        clip: Norm of a case's sums from which on it is scaled down, in occurrences.
    """

    cells: np.ndarray
    values: np.ndarray
    scales: np.ndarray
    noise: SumNoise
    beyond: float = 0.0
    clip: float = 1.0

    @classmethod
    def measured(
        cls,
        cells: np.ndarray,
        noisy: np.ndarray,
        noise: SumNoise,
        beyond: float = 0.0,
        clip: float = 1.0,
    ) -> NoisyCells:
        """Returns sums that were measured one by one, given in lattice steps."""
        # A release must not fail because its noise was large, so the values are cut off.
        values = np.minimum(noisy / noise.units, MAX_COUNT)
        scales = np.full(len(cells), noise.width / noise.units)
        return cls(cells, values, scales, noise, beyond, clip)

    def over_bins(self, n_bins: int) -> NoisyCells:
        """Returns the sums over the duration bins of each pair.

        A sum of Laplace noises has no Laplace law. A Laplace law of the same variance has longer
        tails, so limits that are made with it hold.
        """
        if n_bins == 1:
            return self
        pairs, first, n_summed = np.unique(
            self.cells // n_bins, return_index=True, return_counts=True
        )
        values = np.add.reduceat(self.values, first) if len(first) else self.values
        scales = self.scales[first] * np.sqrt(n_summed)
        return NoisyCells(pairs, np.minimum(values, MAX_COUNT), scales, self.noise, self.beyond)

    def least(self, n_cells: int) -> np.ndarray:
        """Returns float64[n], from what on each is taken for more than noise among so many."""
        return self.scales * (self.noise.threshold(n_cells) / self.noise.width)

    def intervals(
        self, at: np.ndarray, counts: np.ndarray, least: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n] twice: limits of what was counted, and of what is made of it.

        Args:
            at: int64[n], the places of the shown cells.
            counts: int64[n], what is shown of them, which the limits include.
            least: float64[n], see `least`.
        """
        low, high = intervals_of_shown(
            *(self.values[at], self.scales[at], least[at], self.beyond),
            is_laplace=self.noise.is_laplace,
        )
        return np.minimum(low, counts), np.maximum(high, counts)


def released_graph(arcs: NoisyCells, vocabulary: ActivityVocabulary) -> ReleasedGraph:
    """Returns the graph.

    Args:
        arcs: Of all possible pairs.
        vocabulary: What their codes mean.
    """
    # It loads scipy, which takes as long as all else that a plan or a catalogue loads.
    from tracecloak.anonymizers.graphs.flow_conservation import conserve

    n_codes = vocabulary.end + 1
    least = arcs.least(len(arcs.cells))
    large = np.flatnonzero(arcs.values >= least)
    sources, targets = (codes.astype(np.int32) for codes in np.divmod(arcs.cells[large], n_codes))
    weights = (arcs.scales.min(initial=np.inf) / arcs.scales[large]) ** 2
    values = arcs.values[large]
    counts = conserve(sources, targets, values, weights, vocabulary.start, vocabulary.end)
    flows = np.flatnonzero(counts)
    low, high = arcs.intervals(large, counts, least)
    return ReleasedGraph(
        *(vocabulary.names, sources[flows], targets[flows]),
        *(counts[flows], low[flows], high[flows]),
    )


def released_durations(
    bins: NoisyCells, graph: ReleasedGraph, borders_us: np.ndarray
) -> ReleasedDurations:
    """Spreads each released pair of activities over the bins so that they sum to its count.

    Over those bins that stand out of the noise, or over all where none does.

    Args:
        bins: Of all possible pairs and bins.
        graph: What is released of the pairs.
        borders_us: int64[n_bins-1], borders of the duration bins in microseconds.
    """
    from tracecloak.schemas.published.durations import ReleasedDurations

    n_bins, start = len(borders_us) + 1, len(graph.names)
    inner = np.flatnonzero((graph.sources < start) & (graph.targets < start))
    totals = graph.counts[inner]
    pairs = graph.sources[inner].astype(np.int64) * (graph.end + 1) + graph.targets[inner]
    at = np.searchsorted(bins.cells, pairs * n_bins)[:, None] + np.arange(n_bins)
    least = bins.least(n_bins)
    rows = bins.values[at]
    is_clear = rows >= least[at]
    is_clear |= ~is_clear.any(axis=1, keepdims=True)
    shares = onto_simplex(np.where(is_clear, rows, -MAX_COUNT), totals)
    counts = whole(shares, totals)
    row, bin_number = np.nonzero(counts)
    counted = counts[row, bin_number]
    low, high = bins.intervals(at[row, bin_number], counted, least)
    return ReleasedDurations(
        *(graph.names, borders_us),
        *(graph.sources[inner][row], graph.targets[inner][row], bin_number.astype(np.int32)),
        *(counted, low, high),
    )
