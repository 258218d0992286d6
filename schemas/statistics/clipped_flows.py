"""Directly-follows counts in which every case weighs at most so much: exact, in integers.

The statistic behind a private directly-follows graph: schemas.statistics.clipped_cells over arcs. A
case is the vector of the numbers of times that it takes each arc, START and END included. With
public bin edges an arc's occurrences fall into bins of the time since the predecessor, the vector
is over pairs of arc and bin, and the sum over an arc's bins is the arc's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import CountsByKey
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.statistics.clipped_cells import CaseCells, ClippedCells


@dataclass(frozen=True, eq=False)
class ClippedFlows(ClippedCells):
    """Clipped sums over arcs.

    Attributes:
        keys: int64[n_cells], `(source * n_codes + target) * n_bins + bin`, where `n_codes` is
            `vocabulary.end + 1` and source and target are codes, START or END.
        values: int64[n_cells], sums in lattice units, all positive.
    """

    wire_name: ClassVar[str] = "clipped-flows"

    @classmethod
    def from_traces(
        cls,
        traces: TraceBatch,
        l2_clip_units: int,
        units: int,
        bin_edges_us: np.ndarray | None = None,
    ) -> ClippedFlows:
        """Adds up the clipped vectors of a batch's cases.

        Args:
            traces: Complete cases.
            l2_clip_units: Largest L2 norm of one case's contribution, in lattice units; at least 2,
                because every case has two arcs and a norm of 1 would leave nothing of any.
            units: Lattice units of one occurrence, from 1 to MAX_UNITS.
            bin_edges_us: int64[n_bins - 1], ascending microseconds; an occurrence that took at
                least edge i and less than edge i+1 is in bin i+1. START and END arcs are in bin 0.
                None: one bin.

        Raises:
            UsageError: A parameter is out of its range.
        """
        if l2_clip_units < 2:
            raise UsageError(f"l2_clip_units must be at least 2, got {l2_clip_units}")
        return cls.of_cases(cells_of_flows(traces, bin_edges_us), l2_clip_units, units)

    def arcs(
        self, vocabulary: ActivityVocabulary, n_bins: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns what the keys stand for: int64[n_cells] sources, targets and bins."""
        pairs, bins = np.divmod(self.keys, n_bins)
        sources, targets = np.divmod(pairs, vocabulary.end + 1)
        return sources, targets, bins


@dataclass(frozen=True, eq=False)
class CaseNorms(CountsByKey):
    """How many cases have a vector of what squared L2 norm, in buckets of a public grid.

    Nothing is clipped here: a clip can be chosen by these counts. The grid itself is not kept.

    Attributes:
        buckets: int64[n], sorted; bucket j has the squared norms above grid point j-1 and up to
            grid point j, the last bucket those above all points.
        counts: int64[n], cases in each, all positive.
    """

    wire_name: ClassVar[str] = "case-norms"

    buckets: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_traces(
        cls,
        traces: TraceBatch,
        grid_squared: np.ndarray,
        bin_edges_us: np.ndarray | None = None,
    ) -> CaseNorms:
        """Counts the cases of a batch, each once.

        Args:
            traces: Complete cases.
            grid_squared: int64[n_grid], ascending squared norms in occurrences.
            bin_edges_us: As for ClippedFlows: with bins a case's norm is smaller.

        Raises:
            UsageError: Grid or edges do not ascend.
        """
        return cls.of_squares(cells_of_flows(traces, bin_edges_us).squares, grid_squared)

    @classmethod
    def of_squares(cls, squares: np.ndarray, grid_squared: np.ndarray) -> CaseNorms:
        """Counts cases by the squared norms of their vectors, whatever these count.

        Args:
            squares: int64[n_cases].
            grid_squared: int64[n_grid], ascending squared norms in occurrences.

        Raises:
            UsageError: The grid does not ascend.
        """
        _require_ascending("grid_squared", grid_squared)
        buckets, counts = np.unique(np.searchsorted(grid_squared, squares), return_counts=True)
        return cls(buckets.astype(np.int64), counts.astype(np.int64))

    def histogram(self, n_grid: int) -> np.ndarray:
        """Returns int64[n_grid + 1], the cases of every bucket of the grid.

        Cumulative sums of it are the numbers of cases up to each grid point.
        """
        counts = np.zeros(n_grid + 1, np.int64)
        counts[self.buckets] = self.counts
        return counts


def cells_of_flows(traces: TraceBatch, bin_edges_us: np.ndarray | None) -> CaseCells:
    """Returns each case's vector over the cells of `ClippedFlows`.

    Args:
        traces: Complete cases.
        bin_edges_us: As for ClippedFlows.

    Raises:
        UsageError: The edges do not ascend.
    """
    if bin_edges_us is not None:
        _require_ascending("bin_edges_us", bin_edges_us)
    n_bins = 1 if bin_edges_us is None else len(bin_edges_us) + 1
    words = traces.vocabulary
    n_codes = words.end + 1
    n_keys = n_codes**2 * n_bins
    # A row more a case than events: each event after its predecessor or START, then END.
    places = traces.offsets + np.arange(traces.n_cases + 1)
    is_last = np.zeros(places[-1], bool)
    is_last[places[1:] - 1] = True
    row = np.zeros(places[-1], np.int64)
    event_places = np.flatnonzero(~is_last)
    row[event_places] = traces.activities
    row[is_last] = words.end
    source = np.empty_like(row)
    source[1:] = row[:-1]
    source[places[:-1]] = words.start
    row += source * n_codes
    if bin_edges_us is not None:
        row *= n_bins
        taken = np.searchsorted(bin_edges_us, traces.durations, side="right")
        taken[traces.offsets[:-1]] = 0  # whatever the edges: nothing precedes a first event
        row[event_places] += taken
    case = np.repeat(np.arange(traces.n_cases), traces.lengths + 1)
    return CaseCells.of(case, row, traces.n_cases, n_keys)


def _require_ascending(name: str, points: np.ndarray) -> None:
    if not (np.diff(points) > 0).all():
        raise UsageError(f"{name} must ascend without repetition")
