"""Directly-follows counts in which every case weighs at most so much: exact, in integers.

The statistic behind a private directly-follows graph: schemas.statistics.clipped_flows over arcs. A
case is the vector of the numbers of times that it takes each arc, START and END included. With
public bin edges an arc's occurrences fall into bins of the time since the predecessor, the vector
is over pairs of arc and bin, and the sum over an arc's bins is the arc's own.

Sums over cases of vectors of counts in which every case weighs at most so much: in integers.

A case is a vector of counts over cells, whatever these are: arcs, durations of arcs, values of
attributes. One long case could move the sums by as much as it is long, so its vector is scaled
down to a public L2 norm before it is added. Sums of floats would not keep that norm (Casacuberta,
Shoemate, Vadhan, Wagaman: Widespread Underestimation of Sensitivity in Differentially Private
Libraries, CCS 2022), so the vector is scaled on a lattice of `units` parts of an occurrence and
floored; see `clipped_counts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from tracecloak.schemas.arrays.merging import (
    CountsByKey,
    OfArrays,
    distinct_counts,
    distinct_places,
    sum_by_key,
    sum_groups,
)
from tracecloak.schemas.arrays.sequences import arcs_of
from tracecloak.schemas.errors import UsageError, check_least
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch

# Finer lattices gain nothing, and totals of 2^40 occurrences still fit int64.
MAX_UNITS = 1 << 20

_INT64_MAX = 2**63 - 1
# Entries that are clipped at once.
_PIECE = 1 << 15


@dataclass(frozen=True)
class CaseCells:
    """The vectors of some cases, one after the other.

    Attributes:
        rows: int64[n], case of each entry, ascending.
        keys: int64[n], its cell, ascending within the case.
        counts: int64[n], its occurrences, positive.
        squares: int64[n_cases], the sum of each case's squared counts; 0 of a case without any.
        n_keys: Number of cells that there can be.
    """

    rows: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    squares: np.ndarray
    n_keys: int

    @classmethod
    def of(cls, cases: np.ndarray, keys: np.ndarray, n_cases: int, n_keys: int) -> CaseCells:
        """Counts occurrences.

        Args:
            cases: int64[n_occurrences], whose each one is, from 0 to `n_cases` - 1, in any order.
            keys: int64[n_occurrences], its cell, from 0 to `n_keys` - 1.
            n_cases: Number of cases.
            n_keys: Number of cells that there can be.
        """
        names = None
        if n_cases * n_keys > _INT64_MAX:  # only the cells that occur are numbered
            names, keys = distinct_places(keys)
        width = n_keys if names is None else len(names)
        entries, counts = distinct_counts(cases * width + keys)
        case, key = np.divmod(entries, max(width, 1))
        # At most the square of the occurrences, which fits whatever fits memory.
        squares = sum_groups(case, counts**2, n_cases)
        return cls(case, key if names is None else names[key], counts, squares, n_keys)

    def clipped(self, clip: int, units: int) -> np.ndarray:
        """Returns int64[n], the entries of vectors scaled down to a norm; see `clipped_counts`.

        Args:
            clip: The largest norm, in lattice steps.
            units: Lattice steps of a unit of the counts.
        """
        return clipped_counts(self.counts, self.squares[self.rows], clip, units)


class ClippedCells(OfArrays, wire_name="clipped-cells"):
    """The cells that some case's clipped vector reaches, sorted, with the sums over the cases.

    Does not hold the clip, the lattice or what the cells mean: they are public and the same for all
    pieces.

    Attributes:
        keys: int64[n_cells].
        values: int64[n_cells], sums in lattice units, all positive.
    """

    _keys = ("keys",)

    keys: np.ndarray
    values: np.ndarray

    @classmethod
    def from_cases(cls, cells: CaseCells, l2_clip_units: int, units: int) -> Self:
        """Adds up the clipped vectors of cases.

        Args:
            cells: The vectors.
            l2_clip_units: Largest L2 norm of one case's contribution, in lattice units, at least 1.
            units: Lattice units of one occurrence, from 1 to MAX_UNITS.

        Raises:
            UsageError: A parameter is out of its range.
        """
        check_least(1, l2_clip_units=l2_clip_units)
        if not 1 <= units <= MAX_UNITS:
            raise UsageError(f"units must be from 1 to {MAX_UNITS}, got {units}")
        values = cells.clipped(int(l2_clip_units), int(units))
        return cls.of(cells.keys, values)

    @classmethod
    def of(cls, keys: np.ndarray, values: np.ndarray) -> Self:
        """Adds up the values of equal cells in any order."""
        distinct, totals = sum_by_key(keys, values)
        # A cell that every case was floored to 0 in is no different from one that no case reached.
        reached = totals > 0
        return cls(distinct[reached], totals[reached])

    def dense(self, domain: np.ndarray) -> np.ndarray:
        """Returns int64[n], the sums of the given cells.

        Args:
            domain: int64[n], ascending; every cell that a case can have is in it.
        """
        return sum_groups(np.searchsorted(domain, self.keys), self.values, len(domain))


def clipped_counts(counts: np.ndarray, squares: np.ndarray, clip: int, units: int) -> np.ndarray:
    """Scales the entries of vectors to a norm of at most `clip`, floored on the lattice.

    Args:
        counts: int64[n], entries x, each positive.
        squares: int64[n], the sum S of the squares of all entries of the entry's vector.
        clip: Largest norm C of a scaled vector in lattice units.
        units: Lattice units u of one occurrence.

    Returns:
        int64[n], w = floor(min(u, C / sqrt(S)) * x), exactly.

    The squares of a vector's w add up to at most C^2, without a rounding anywhere. Where u^2 S <=
    C^2, w = u x and the sum is u^2 S. Elsewhere w is the largest integer with w^2 S <= C^2 x^2, so
    the sum is at most C^2 (sum of x^2) / S = C^2.
    """
    values = np.empty(len(counts), np.int64)
    for begin in range(0, len(counts), _PIECE):
        piece = slice(begin, begin + _PIECE)
        values[piece] = _clipped(counts[piece], squares[piece], clip, units)
    return values


def _clipped(counts: np.ndarray, squares: np.ndarray, clip: int, units: int) -> np.ndarray:
    """The same of so many entries that all that is computed beside them fits the cache."""
    fits = squares <= min(clip**2 // units**2, _INT64_MAX)  # u^2 S <= C^2, as S is an integer
    values = counts * units
    beyond = np.flatnonzero(~fits)
    if len(beyond) == 0:
        return values
    x, s = counts[beyond], squares[beyond]
    # (w + 1)^2 S <= (C x + sqrt(S))^2 <= (C + 1)^2 S, as x^2 <= S: where this is below 2^62 no
    # product of the comparison overflows.
    small = s <= min((1 << 62) // (clip + 1) ** 2, _INT64_MAX)
    if small.any():
        values[beyond[small]] = _floored_roots(x[small], s[small], clip)
    if not small.all():  # long cases under a fine lattice
        values[beyond[~small]] = _floored_roots_of_any_size(x[~small], s[~small], clip)
    return values


def _floored_roots(counts: np.ndarray, squares: np.ndarray, clip: int) -> np.ndarray:
    """int64[n], the largest w with w^2 S <= C^2 x^2, where (C + 1)^2 S is at most 2^62."""
    # Below 2^31 and few roundings in the 53rd place: far less than 1 off, so the floor is at most
    # 1 off, and the integers tell which way.
    w = np.floor(clip * counts / np.sqrt(squares.astype(np.float64))).astype(np.int64)
    limit = clip**2 * counts**2
    w -= w**2 * squares > limit
    w += (w + 1) ** 2 * squares <= limit
    return w


def _floored_roots_of_any_size(counts: np.ndarray, squares: np.ndarray, clip: int) -> list[int]:
    """The same in integers of any size; one computation for equal entries."""
    pairs, inverse = np.unique(np.stack([counts, squares], axis=1), axis=0, return_inverse=True)
    roots = [math.isqrt(clip**2 * x**2 // s) for x, s in pairs.tolist()]
    return [roots[i] for i in inverse.tolist()]


class ClippedFlows(ClippedCells, wire_name="clipped-flows"):
    """Clipped sums over arcs.

    Attributes:
        keys: int64[n_cells], `(source * n_codes + target) * n_bins + bin`, where `n_codes` is
            `vocabulary.end + 1` and source and target are codes, START or END.
        values: int64[n_cells], sums in lattice units, all positive.
    """

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
        check_least(2, l2_clip_units=l2_clip_units)
        return cls.from_cases(cells_of_flows(traces, bin_edges_us), l2_clip_units, units)

    def arcs(
        self, vocabulary: ActivityVocabulary, n_bins: int = 1
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns what the keys stand for: int64[n_cells] sources, targets and bins."""
        pairs, bins = np.divmod(self.keys, n_bins)
        sources, targets = np.divmod(pairs, vocabulary.end + 1)
        return sources, targets, bins


class CaseNorms(CountsByKey, wire_name="case-norms"):
    """How many cases have a vector of what squared L2 norm, in buckets of a public grid.

    Nothing is clipped here: a clip can be chosen by these counts. The grid itself is not kept.

    Attributes:
        buckets: int64[n], sorted; bucket j has the squared norms above grid point j-1 and up to
            grid point j, the last bucket those above all points.
        counts: int64[n], cases in each, all positive.
    """

    buckets: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_squares(cls, squares: np.ndarray, grid_squared: np.ndarray) -> CaseNorms:
        """Counts cases by the squared norms of their vectors, whatever these count.

        Args:
            squares: int64[n_cases].
            grid_squared: int64[n_grid], ascending squared norms in occurrences.

        Raises:
            UsageError: The grid does not ascend.
        """
        _require_ascending("grid_squared", grid_squared)
        return cls(*distinct_counts(np.searchsorted(grid_squared, squares)))

    def histogram(self, n_grid: int) -> np.ndarray:
        """Returns int64[n_grid + 1], the cases of every bucket of the grid.

        Cumulative sums of it are the numbers of cases up to each grid point.
        """
        return sum_groups(self.buckets, self.counts, n_grid + 1)


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
    keys, targets = arcs_of(traces.offsets, traces.activities, words.start, words.end)
    keys *= n_codes
    keys += targets
    if bin_edges_us is not None:
        keys *= n_bins
        taken = np.searchsorted(bin_edges_us, traces.durations, side="right")
        taken[traces.offsets[:-1]] = 0  # whatever the edges: nothing precedes a first event
        keys[targets != words.end] += taken
    case = np.repeat(np.arange(traces.n_cases), traces.lengths + 1)
    return CaseCells.of(case, keys, traces.n_cases, n_codes**2 * n_bins)


def _require_ascending(name: str, points: np.ndarray) -> None:
    if not (np.diff(points) > 0).all():
        raise UsageError(f"{name} must ascend without repetition")
