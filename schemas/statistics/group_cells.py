"""Which groups of activities follow each other, and where: cases as vectors, to add with a clip.

A case is the vector of the numbers of times that it goes from one group to another, or to END, and
of the numbers of times that it comes to a group, or to END, within each of a few public bins of
positions. What occurs often would fill the vector, and noise grows with its length. So a step
within a group weighs a quarter, and one into a bin of w positions weighs one by the root of w,
rounded down to sixteenths. Weights are public, and whole numbers of sixteenths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracecloak.schemas.arrays.merging import ranges, sum_groups
from tracecloak.schemas.statistics.clipped_flows import clipped_counts
from tracecloak.schemas.statistics.variants import VariantHistogram

PARTS = 16
"""Parts of an occurrence in which weights are counted."""

_WITHIN = PARTS // 4


@dataclass(frozen=True)
class GroupCells:
    """The cells of such a vector: public, a function of the groups and of the bins of positions.

    The cell of a step from a group to a group, or END, is `source * side + target`. After these
    come the cells of bins: `first_bin + bin * side + target`. `n_groups` is END as a target.

    Attributes:
        n_groups: Groups, at least 1.
        bins: int64[max_length+1], from 0 on, bin of the step to each position; the step to position
            i leads to event i, or from event i - 1 to END.
    """

    n_groups: int
    bins: np.ndarray

    @property
    def side(self) -> int:
        """Number of targets."""
        return self.n_groups + 1

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return int(self.bins[-1]) + 1

    @property
    def first_bin(self) -> int:
        """The first cell of the bins."""
        return self.n_groups * self.side

    @property
    def size(self) -> int:
        """Number of cells; that a case ends before it begins is one that no case has."""
        return self.first_bin + self.n_bins * self.side

    @cached_property
    def widths(self) -> np.ndarray:
        """int64[n_bins], positions of each bin."""
        return np.bincount(self.bins)

    @cached_property
    def weights(self) -> np.ndarray:
        """int64[size], the weight of one occurrence in each cell, in sixteenths, at least 1."""
        steps = np.full((self.n_groups, self.side), PARTS)
        np.fill_diagonal(steps, _WITHIN)
        of_bins = [max(math.isqrt(PARTS**2 // width), 1) for width in self.widths.tolist()]
        return np.concatenate([steps.ravel(), np.repeat(of_bins, self.side)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class GroupVectors:
    """The vectors of some variants, one after the other.

    Attributes:
        rows: int64[n], variant of each entry, ascending.
        keys: int64[n], its cell, ascending within the variant.
        counts: int64[n], its weighted occurrences in one case, in sixteenths, positive.
        squares: int64[n_variants], the sum of each variant's squared counts.
    """

    rows: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, variants: VariantHistogram, groups: np.ndarray, cells: GroupCells) -> GroupVectors:
        """Returns the vectors of variants of at least one event.

        Args:
            variants: Of activities, as long as the bins reach.
            groups: int32[n_activities], the group of each activity.
            cells: The cells.
        """
        n, lengths = variants.n_variants, np.diff(variants.offsets)
        begins = variants.offsets[:-1] + np.arange(n)
        row = np.repeat(np.arange(n), lengths + 1)
        target = np.full(len(row), cells.n_groups, np.int64)
        target[ranges(begins, lengths)] = groups[variants.codes]
        position = ranges(np.zeros(n, np.int64), lengths + 1)
        of_bin = cells.first_bin + cells.bins[position] * cells.side + target
        later = np.flatnonzero(position)
        of_step = target[later - 1] * cells.side + target[later]
        entries, times = np.unique(
            np.concatenate([row[later] * cells.size + of_step, row * cells.size + of_bin]),
            return_counts=True,
        )
        rows, keys = np.divmod(entries, cells.size)
        counts = times.astype(np.int64) * cells.weights[keys]
        return cls(rows, keys, counts, sum_groups(rows, counts**2, n))

    def clipped(self, clip: int, units: int) -> np.ndarray:
        """Returns int64[n], the entries of vectors scaled down to a norm, in lattice steps.

        Args:
            clip: The largest norm, in lattice steps.
            units: Lattice steps of a sixteenth.
        """
        return clipped_counts(self.counts, self.squares[self.rows], clip, units)
