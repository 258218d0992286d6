"""Variants as vectors over public cells: pairs by position, groups of activities, marginals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.merging import joined, ranges, ranks_within, sum_groups
from tracecloak.schemas.arrays.sequences import arcs_of
from tracecloak.schemas.statistics.clipped_flows import CaseCells
from tracecloak.schemas.statistics.variants import VariantHistogram

# --- Where in a case each directly-follows pair occurs: variants as vectors, added up with a clip.
# A case is the vector of the numbers of times that it takes each arc, START and END included:
# once over the whole case, if that is wanted, and once for each of a few public bins of the arc's
# position. As in `schemas.statistics.clipped_flows` a vector is scaled down to an L2 norm on a
# lattice and floored, so the norm of what a case adds is bounded exactly, in integers. A cell
# more counts the cases: each adds 1 to it, whatever its vector is scaled by.


# Positions up to here have a bin each; beyond, a bin begins at this ratio to the one before.
_SINGLE_POSITIONS = 12
_BIN_RATIO = 1.2
# Vectors of variants are made of so many events at once.
_PIECE_EVENTS = 1 << 16


@dataclass(frozen=True)
class FlowCells:
    """The cells of such a vector: public, a function of the vocabulary and the largest length.

    A cell is `(block * side + source) * side + target` with `side = n_names + 1`. Source and target
    are codes; `n_names` is START as a source and END as a target. Block 0 is the whole case, block
    1 the arc from START, and the others are bins of the positions from 1. In block 0 the cell from
    START to END, an arc that no case has, counts the cases; arcs from START are in block 1 only.

    Attributes:
        n_names: Activities, at least 1.
        blocks: int64[max_length+1], block of the arc at each position; the arc at position i leads
            from the i-th event, or START, to the next, or END.
        has_whole: Whether arcs are counted in block 0, beside their bins.
    """

    n_names: int
    blocks: np.ndarray
    has_whole: bool = True

    @classmethod
    def without_positions(cls, n_names: int, max_length: int) -> FlowCells:
        """Returns cells of one bin for all positions, and no other count of the arcs in it."""
        blocks = np.full(max_length + 1, 2)
        blocks[0] = 1
        return cls(n_names, blocks, False)

    @classmethod
    def of(cls, n_names: int, max_length: int, max_cells: int) -> FlowCells:
        """Returns cells with as many bins as fit `max_cells`, but at least one."""
        most = max(1, (max_cells - 2 * n_names) // (n_names * (n_names + 1)) - 1)
        blocks = np.zeros(max_length + 1, np.int64)
        blocks[0] = 1
        begin, block = 1, 1
        while begin <= max_length:
            end = begin + 1
            if begin > _SINGLE_POSITIONS:
                end = int(begin * _BIN_RATIO)
            block += 1
            if block > most:
                end = max_length + 1
            blocks[begin:end] = block
            begin = end
        return cls(n_names, blocks)

    @staticmethod
    def most_names(max_cells: int, has_whole: bool = True) -> int:
        """Returns for how many activities there are at most so many possible cells, if few bins.

        Args:
            max_cells: Cells.
            has_whole: As of the cells.
        """
        blocks = 1 + has_whole  # 1 + n + blocks n (n + 1) cells, see `n_possible`
        half = blocks + 1
        return (math.isqrt(half**2 + 4 * blocks * (max_cells - 1)) - half) // (2 * blocks)

    @property
    def side(self) -> int:
        """Number of sources, and of targets."""
        return self.n_names + 1

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return int(self.blocks[-1]) + 1

    @property
    def size(self) -> int:
        """Number of cells, of which some are impossible."""
        return self.n_blocks * self.side**2

    @property
    def cases(self) -> int:
        """The cell that counts cases."""
        return self.side**2 - 1

    @property
    def n_possible(self) -> int:
        """Number of possible cells."""
        n_counted = self.n_blocks - 2 + self.has_whole
        return 1 + self.n_names + n_counted * self.n_names * self.side

    def by_block(self, sums: np.ndarray) -> np.ndarray:
        """Returns float64[n_blocks, side, side], sums of the possible cells, and else 0."""
        dense = np.zeros(self.size)
        dense[self.possible] = sums
        return dense.reshape(self.n_blocks, self.side, self.side)

    @cached_property
    def possible(self) -> np.ndarray:
        """int64[n_possible], ascending: the cells that some case can have."""
        cells = np.zeros((self.n_blocks, self.side, self.side), bool)
        cells[:, :-1] = True
        cells[0] = self.has_whole
        cells[0, -1] = False
        cells[1] = False
        cells[1, -1, :-1] = True
        cells[0, -1, -1] = True
        return np.flatnonzero(cells.ravel())


@dataclass(frozen=True, eq=False)
class VariantFlows(CaseCells):
    """The vectors of some variants, one after the other, with the variants' numbers of cases.

    Attributes:
        cases: int64[n_variants], cases of each variant.
    """

    cases: np.ndarray

    @classmethod
    def from_variants(cls, variants: VariantHistogram, cells: FlowCells) -> VariantFlows:
        """Returns the vectors of variants of at least one event, in time and memory of their size.

        Args:
            variants: Codes below `cells.n_names`, lengths within those of `cells.blocks`.
            cells: The cells.
        """
        begins, n_variants = variants.offsets[:-1], variants.n_variants
        firsts = np.flatnonzero(np.diff(begins // _PIECE_EVENTS, prepend=-1))
        pieces = [
            _flows_between(variants, first, end, cells)
            for first, end in pairwise([*firsts.tolist(), n_variants])
        ]
        rows = joined(piece.rows + first for piece, first in zip(pieces, firsts, strict=True))
        keys, counts, squares = (
            joined(getattr(piece, name) for piece in pieces)
            for name in ("keys", "counts", "squares")
        )
        return cls(rows, keys, counts, squares, cells.size, variants.counts)

    def sums(self, cells: FlowCells, clip_units: int, units: int) -> np.ndarray:
        """Returns int64[n_possible], sums over the cases of their clipped vectors, lattice steps.

        A case adds `units` to the cell that counts cases, and to the others a vector of L2 norm
        `clip_units` at most.

        Args:
            cells: The cells.
            clip_units: In lattice steps.
            units: Lattice steps of one occurrence.
        """
        return self._added(self.clipped(clip_units, units), cells, units)

    def unclipped_sums(self, cells: FlowCells) -> np.ndarray:
        """Returns int64[n_possible], sums over the cases of their vectors, in occurrences."""
        return self._added(self.counts, cells, 1)

    def _added(self, values: np.ndarray, cells: FlowCells, units: int) -> np.ndarray:
        weighted = self.cases[self.rows]
        weighted *= values
        sums = sum_groups(self.keys, weighted, cells.size)
        sums[cells.cases] = units * self.cases.sum()
        return sums[cells.possible]


def _flows_between(variants: VariantHistogram, first: int, end: int, cells: FlowCells) -> CaseCells:
    """The vectors of the variants from number `first` to before `end`, as if there were no others.

    What it takes beside them is so little that it comes from the cache.
    """
    offsets = variants.offsets[first : end + 1]
    codes = variants.codes[offsets[0] : offsets[-1]]
    row, position, sources, targets = _arcs(offsets - offsets[0], codes, cells.n_names)
    pair = sources * cells.side + targets
    is_inner = (position > 0) & cells.has_whole
    keys = np.concatenate([pair + cells.blocks[position] * cells.side**2, pair[is_inner]])
    rows = np.concatenate([row, row[is_inner]])
    return CaseCells.of(rows, keys, end - first, cells.size)


def _arcs(offsets: np.ndarray, codes: np.ndarray, end: int) -> tuple[np.ndarray, ...]:
    """int64[n] four times: variant, position, source and target of each arc; `end` has both ends.

    Args:
        offsets: int64[n_variants+1], CSR offsets into `codes`, from 0.
        codes: int32[n_positions].
        end: The source of first arcs and the target of last ones.
    """
    lengths = np.diff(offsets) + 1
    row = np.repeat(np.arange(len(lengths)), lengths)
    position = ranges(np.zeros(len(lengths), np.int64), lengths)
    return row, position, *arcs_of(offsets, codes, end, end)


# ---
# Which groups of activities follow each other, and where: cases as vectors, to add with a clip.
# A case is the vector of the numbers of times that it goes from one group to another, or to END,
# and of the numbers of times that it comes to a group, or to END, within each of a few public bins
# of positions. What occurs often would fill the vector, and noise grows with its length. So a step
# within a group weighs a quarter, and one into a bin of w positions weighs one by the root of w,
# rounded down to sixteenths. Weights are public, and whole numbers of sixteenths.


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
        widths = [max(math.isqrt(PARTS**2 // width), 1) for width in self.widths.tolist()]
        return np.concatenate([steps.ravel(), np.repeat(widths, self.side)]).astype(np.int64)


def group_vectors(variants: VariantHistogram, groups: np.ndarray, cells: GroupCells) -> CaseCells:
    """Returns the vectors of variants of at least one event, in sixteenths.

    Args:
        variants: Of activities, as long as the bins reach.
        groups: int32[n_activities], the group of each activity.
        cells: The cells.
    """
    row, position, sources, targets = _arcs(
        variants.offsets, groups[variants.codes], cells.n_groups
    )
    later = np.flatnonzero(position)
    bin_cells = cells.first_bin + cells.bins[position] * cells.side + targets
    step_cells = sources[later] * cells.side + targets[later]
    rows, keys = np.concatenate([row[later], row]), np.concatenate([step_cells, bin_cells])
    vectors = CaseCells.of(rows, keys, variants.n_variants, cells.size)
    counts = vectors.counts * cells.weights[vectors.keys]
    squares = sum_groups(vectors.rows, counts**2, variants.n_variants)
    return replace(vectors, counts=counts, squares=squares)


# ---
# Partitions of the cases by a few short descriptions: lengths, ends, how often activities occur.
# A case is in one cell of each partition, so one case more changes as many counts as there are
# partitions, by 1 each, however long it is.


# The first number of occurrences of each bin. A bin of its own, before these, is for none.
_OCCURRENCES = np.array([1, 2, 3, 4, 6, 9, 13, 20])
# If there are more activities than this, no activity has a cell for the cases that lack it, and a
# case counts for so many at most.
_MOST_OF_CASE = 64
# Coarse bins of lengths begin at powers of this.
_LENGTH_RATIO = 1.35


@dataclass(frozen=True)
class MarginalCells:
    """The cells of the partitions, one partition after the other; public.

    By length; by coarse bin of the length; by the first two activities, and by the last two, with
    none where there is one; and for each activity by bin of its number of occurrences. Where there
    are many activities, or more than a case has events, cells of activities that do not occur are
    left out: a case is in fewer cells then. It is in cells of at most 64 activities, those that it
    begins with.

    Attributes:
        n_names: Activities, at least 1.
        max_length: Largest number of events of a case.
    """

    n_names: int
    max_length: int

    @property
    def has_absent(self) -> bool:
        """Whether activities that do not occur in a case have a cell that it counts in."""
        return self.n_names <= min(self.max_length, _MOST_OF_CASE)

    @property
    def n_of_case(self) -> int:
        """Cells that a case is in, at most: of the first four partitions, and of activities."""
        return 4 + min(self.n_names, self.max_length, _MOST_OF_CASE)

    @property
    def size(self) -> int:
        """Number of cells, of which some are impossible."""
        return self._first_of_activities + self.n_names * (len(_OCCURRENCES) + 1)

    @property
    def _coarse(self) -> np.ndarray:
        steps = np.arange(
            1 + elementary.log(max(self.max_length, 2)) / elementary.log(_LENGTH_RATIO)
        )
        return np.unique(np.rint(elementary.power(_LENGTH_RATIO, steps)).astype(np.int64))

    @property
    def _first_of_activities(self) -> int:
        n_pairs = self.n_names * (self.n_names + 1)
        return (self.max_length + 1) + (len(self._coarse) + 1) + 2 * n_pairs

    @property
    def first_cells(self) -> np.ndarray:
        """int64[n_names, n_names+1], the cell of each first activity by the second; none last."""
        n, side = self.n_names, self.n_names + 1
        begin = (self.max_length + 1) + (len(self._coarse) + 1)
        return begin + np.arange(n * side).reshape(n, side)

    @property
    def last_cells(self) -> np.ndarray:
        """int64[n_names, n_names+1], that of each last activity by the one before; none last."""
        return self.first_cells + self.n_names * (self.n_names + 1)

    @property
    def cells_of_activities(self) -> np.ndarray:
        """int64[n], those of activities by their number of occurrences."""
        return np.arange(self._first_of_activities, self.size)

    def occurrences(self, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns int64[n] thrice: of each cell the activity, and the occurrences, from and to.

        The latter are 0 for cases that lack the activity, and for cells of other partitions. The
        last of the bins has no largest number, and 0 in place of it.
        """
        place = cells - self._first_of_activities
        activity, bins = np.divmod(np.maximum(place, 0), len(_OCCURRENCES) + 1)
        least, most = np.append(0, _OCCURRENCES), np.append(0, np.append(_OCCURRENCES[1:] - 1, 0))
        return activity, *(np.where(place >= 0, of[bins], 0) for of in (least, most))

    def entries(self, variants: VariantHistogram) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[n] twice: variants, and the cells that each of their cases is in.

        Args:
            variants: Codes below `n_names`, of 1 to `max_length` events.
        """
        n = self.n_names
        begins, ends = variants.offsets[:-1], variants.offsets[1:]
        lengths, codes = ends - begins, variants.codes.astype(np.int64)
        variant_numbers = np.arange(variants.n_variants)
        second, before_last = (np.full(len(variant_numbers), n, np.int64) for _ in range(2))
        is_long = lengths > 1
        second[is_long] = codes[begins[is_long] + 1]
        before_last[is_long] = codes[ends[is_long] - 2]
        columns = (
            lengths,
            self.max_length + 1 + np.searchsorted(self._coarse, lengths, side="right"),
            self.first_cells[codes[begins], second],
            self.last_cells[codes[ends - 1], before_last],
        )
        base, n_bins = self._first_of_activities, len(_OCCURRENCES) + 1
        keys = np.repeat(variant_numbers * n, lengths)
        keys += codes
        if self.has_absent:
            pairs = np.arange(n * len(variant_numbers))
            counts = np.bincount(keys, minlength=len(pairs))
        else:
            pairs, first, counts = np.unique(keys, return_index=True, return_counts=True)
            order = np.lexsort((first, pairs // n))
            is_counted = ranks_within(pairs // n, order) < self.n_of_case - len(columns)
            pairs, counts = pairs[is_counted], counts[is_counted]
        row, activity = np.divmod(pairs, n)
        rows = np.concatenate([np.tile(variant_numbers, len(columns)), row])
        return rows, np.concatenate([*columns, base + activity * n_bins + _bins(counts)])


def _bins(counts: np.ndarray) -> np.ndarray:
    """int64, the bin of each number of occurrences; 0 of none."""
    most = int(_OCCURRENCES[-1])
    bins = np.searchsorted(_OCCURRENCES, np.arange(most + 1), side="right")
    return np.take(bins, counts, mode="clip")
