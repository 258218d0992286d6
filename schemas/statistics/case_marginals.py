"""Partitions of the cases by a few short descriptions: lengths, ends, how often activities occur.

A case is in one cell of each partition, so one case more changes as many counts as there are
partitions, by 1 each, however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.statistics.variants import VariantHistogram

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
        """Cells that a case is in, at most."""
        return 4 + self._most_activities

    @property
    def _most_activities(self) -> int:
        """Activities whose cells a case is in, at most."""
        if self.has_absent:
            return self.n_names
        return min(self.n_names, self.max_length, _MOST_OF_CASE)

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
        of_variant = np.arange(variants.n_variants)
        second, before_last = (np.full(len(of_variant), n, np.int64) for _ in range(2))
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
        keys = np.repeat(of_variant * n, lengths)
        keys += codes
        if self.has_absent:
            counts = np.bincount(keys, minlength=n * len(of_variant)).reshape(-1, n)
            cells = np.empty((len(of_variant), len(columns) + n), np.int64)
            cells[:, : len(columns)] = np.stack(columns, axis=1)
            cells[:, len(columns) :] = _bins(counts)
            cells[:, len(columns) :] += base + np.arange(n) * n_bins
            return np.repeat(of_variant, cells.shape[1]), cells.ravel()
        pairs, first, counts = np.unique(keys, return_index=True, return_counts=True)
        is_counted = _ranks(pairs // n, first) < self._most_activities
        row, activity = np.divmod(pairs[is_counted], n)
        cells = np.stack(columns, axis=1)
        rows = np.concatenate([np.repeat(of_variant, cells.shape[1]), row])
        of_activities = base + activity * n_bins + _bins(counts[is_counted])
        return rows, np.concatenate([cells.ravel(), of_activities])


def _bins(counts: np.ndarray) -> np.ndarray:
    """int64, the bin of each number of occurrences; 0 of none."""
    most = int(_OCCURRENCES[-1])
    bins = np.searchsorted(_OCCURRENCES, np.arange(most + 1), side="right")
    return np.take(bins, counts, mode="clip")


def _ranks(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """int64[n], how many entries of the same row have a smaller place.

    Args:
        rows: int64[n], ascending.
        places: int64[n], distinct within a row.
    """
    order = np.lexsort((places, rows))
    ranks = np.empty(len(rows), np.int64)
    ranks[order] = np.arange(len(rows)) - np.searchsorted(rows, rows)
    return ranks
