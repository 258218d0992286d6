"""How long the steps took: exact counts of durations per group, such as a DAFSA transition."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.arrays.columnar import Columnar
from tracecloak.schemas.arrays.merging import (
    CountsByPair,
    distinct_counts,
    distinct_places,
    pair_keys,
)


class DurationTable(CountsByPair, wire_name="duration-table"):
    """Distinct (group, value) pairs in sorted order with their numbers of events.

    Attributes:
        groups: int32[n_pairs].
        values: int64[n_pairs], in the unit that the caller counts in.
        counts: int64[n_pairs], events with that pair, all positive.
    """

    _types = (np.int32, np.int64, np.int64)
    _keys = ("groups", "values")

    groups: np.ndarray
    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_events(cls, groups: np.ndarray, values: np.ndarray) -> DurationTable:
        """Counts the pairs of events given in any order."""
        keys, pairs_of = pair_keys(groups, values.astype(np.int64))
        distinct, counts = distinct_counts(keys)
        return cls(*map(np.asarray, (*pairs_of(distinct), counts), cls._types))

    def offsets(self, n_groups: int) -> np.ndarray:
        """Returns int64[n_groups+1], CSR offsets of the groups; a group may be empty."""
        return np.searchsorted(self.groups, np.arange(n_groups + 1))

    def index(self, n_groups: int) -> DurationIndex:
        """Returns the positions of the pairs."""
        return DurationIndex(self.offsets(n_groups), self.values)

    def extremes(self, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns two int64[n_groups], each group's smallest and largest value, 0 if empty."""
        offsets = self.offsets(n_groups)
        filled = np.flatnonzero(np.diff(offsets))
        smallest = np.zeros(n_groups, np.int64)
        largest = np.zeros(n_groups, np.int64)
        smallest[filled] = self.values[offsets[filled]]
        largest[filled] = self.values[offsets[filled + 1] - 1]
        return smallest, largest


class DurationIndex(Columnar, wire_name="duration-index"):
    """Where each (group, value) pair of a table stands in it; smaller than the table.

    Attributes:
        offsets: int64[n_groups+1], CSR offsets of the groups.
        values: int64[n_pairs], sorted within each group.
    """

    offsets: np.ndarray
    values: np.ndarray

    def find(self, groups: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Returns int64[n], the positions of pairs, all of which the table has."""
        return self.search(groups, values) - 1

    def search(self, segments: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """Finds, in each query's own group, how many values are at most the query.

        Args:
            segments: int[m], the group of each query.
            queries: int64[m].

        Returns:
            int64[m], `offsets[segment]` plus the number of values in the group that are <= query.
        """
        distinct, keys = self._keys
        n_below = np.searchsorted(distinct, queries, side="right")
        sought = segments.astype(np.int64) * (len(distinct) + 1) + n_below
        return np.searchsorted(keys, sought, side="right")

    @cached_property
    def _keys(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct values, ascending; and int64[n_pairs], ascending, the pairs as numbers."""
        distinct, places = distinct_places(self.values)
        group = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return distinct, group * (len(distinct) + 1) + places + 1


_SECOND_US = 1_000_000


_YEAR_US = 31_556_952 * _SECOND_US


_LONGEST_YEARS = 10


def duration_borders(n_bins: int) -> np.ndarray:
    """Returns int64[n_bins-1], ascending borders in microseconds, evenly spaced in their logarithm.

    The first bin is below one second, the last from ten years on.

    Args:
        n_bins: Number of bins, at least 3.
    """
    borders = elementary.geometric_steps(_SECOND_US, _LONGEST_YEARS * _YEAR_US, n_bins - 1)
    return np.rint(borders).astype(np.int64)
