"""How many cases have how many events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import CountsByKey, sum_groups
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class TraceLengths(CountsByKey):
    """Cases by number of events.

    Attributes:
        lengths: int64[n], distinct, ascending.
        counts: int64[n], all positive.
    """

    wire_name: ClassVar[str] = "trace-lengths"

    lengths: np.ndarray
    counts: np.ndarray

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> TraceLengths:
        """Counts the cases of a batch."""
        lengths, counts = np.unique(traces.lengths, return_counts=True)
        return cls(lengths.astype(np.int64), counts.astype(np.int64))

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return int(self.counts.sum())

    def histogram(self, grid: np.ndarray) -> np.ndarray:
        """Returns int64[n_grid+1], cases in the buckets of an ascending grid; the last are above.

        Cumulative sums of it are the numbers of cases up to each grid point.
        """
        bucket = np.searchsorted(grid, self.lengths)
        return sum_groups(bucket, self.counts, len(grid) + 1)
