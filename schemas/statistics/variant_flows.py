"""Where in a case each directly-follows pair occurs: variants as vectors, added up with a clip.

A case is the vector of the numbers of times that it takes each arc, START and END included: once
over the whole case, if that is wanted, and once for each of a few public bins of the arc's
position. As in `schemas.statistics.clipped_flows` a vector is scaled down to an L2 norm on a
lattice and floored, so the norm of what a case adds is bounded exactly, in integers. A cell more
counts the cases: each adds 1 to it, whatever its vector is scaled by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tracecloak.schemas.arrays.distinct import distinct_counts
from tracecloak.schemas.arrays.merging import ranges, sum_groups
from tracecloak.schemas.statistics.clipped_flows import clipped_counts
from tracecloak.schemas.statistics.variants import VariantHistogram

# Positions up to here have a bin each; beyond, a bin begins at this ratio to the one before.
_SINGLE_POSITIONS = 12
_BIN_RATIO = 1.2
# Events whose variants become vectors at once, about: what is held beside the vectors fits the
# cache.
_PIECE = 1 << 14


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
class VariantFlows:
    """The vectors of some variants, one after the other, with the variants' numbers of cases.

    Attributes:
        rows: int64[n], variant of each entry, ascending.
        keys: int64[n], its cell, ascending within the variant.
        counts: int64[n], occurrences in one case, positive.
        squares: int64[n_variants], the sum of each variant's squared counts.
        cases: int64[n_variants], cases of each variant.
    """

    rows: np.ndarray
    keys: np.ndarray
    counts: np.ndarray
    squares: np.ndarray
    cases: np.ndarray

    @classmethod
    def of(cls, variants: VariantHistogram, cells: FlowCells) -> VariantFlows:
        """Returns the vectors of variants of at least one event, in time and memory of their size.

        Args:
            variants: Codes below `cells.n_names`, lengths within those of `cells.blocks`.
            cells: The cells.
        """
        n, offsets = variants.n_variants, variants.offsets
        cuts = np.searchsorted(offsets, np.arange(0, len(variants.codes), _PIECE), side="right") - 1
        # An arc has one entry, or two; what is not filled takes no memory.
        most = (1 + cells.has_whole) * (len(variants.codes) + n)
        rows, keys, counts = (np.empty(most, np.int64) for _ in range(3))
        squares = np.zeros(n, np.int64)
        filled = 0
        for begin, end in pairwise(np.unique(np.append(cuts, n)).tolist()):
            row, key, count = _vectors(offsets[begin : end + 1], variants.codes, cells)
            piece = slice(filled, filled + len(row))
            rows[piece], keys[piece], counts[piece] = begin + row, key, count
            squares[begin:end] = sum_groups(row, count**2, end - begin)
            filled = piece.stop
        return cls(rows[:filled], keys[:filled], counts[:filled], squares, variants.counts)

    def sums(self, cells: FlowCells, clip_units: int, units: int) -> np.ndarray:
        """Returns int64[n_possible], sums over the cases of their clipped vectors, lattice steps.

        A case adds `units` to the cell that counts cases, and to the others a vector of L2 norm
        `clip_units` at most.

        Args:
            cells: The cells.
            clip_units: In lattice steps.
            units: Lattice steps of one occurrence.
        """
        values = clipped_counts(self.counts, self.squares[self.rows], clip_units, units)
        return self._added(values, cells, units)

    def whole_sums(self, cells: FlowCells) -> np.ndarray:
        """Returns int64[n_possible], sums over the cases of their vectors, in occurrences."""
        return self._added(self.counts, cells, 1)

    def _added(self, values: np.ndarray, cells: FlowCells, units: int) -> np.ndarray:
        sums = sum_groups(self.keys, values * self.cases[self.rows], cells.size)
        sums[cells.cases] = units * self.cases.sum()
        return sums[cells.possible]


def _vectors(
    offsets: np.ndarray, codes: np.ndarray, cells: FlowCells
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of neighbouring variants: see `VariantFlows`; the first one's number is 0."""
    n, side = len(offsets) - 1, cells.side
    lengths = np.diff(offsets)
    # A row more a variant than events: each event after its predecessor, and END.
    begins = offsets[:-1] - offsets[0] + np.arange(n)
    row = np.repeat(np.arange(n), lengths + 1)
    target = np.full(len(row), cells.n_names, np.int64)
    target[ranges(begins, lengths)] = codes[offsets[0] : offsets[-1]]
    source = np.empty(len(row), np.int64)
    source[1:] = target[:-1]
    source[begins] = cells.n_names
    pair = source * side + target
    position = ranges(np.zeros(n, np.int64), lengths + 1)
    key = row * cells.size + pair
    is_inner = (position > 0) & cells.has_whole
    of_blocks = key + cells.blocks[position] * side**2
    entries, counts = distinct_counts(np.concatenate([of_blocks, key[is_inner]]))
    return *np.divmod(entries, cells.size), counts
