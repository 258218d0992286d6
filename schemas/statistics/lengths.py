"""How many cases have how many events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.arrays.merging import joined, sum_by_key, sum_groups
from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class TraceLengths:
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

    @classmethod
    def merge(cls, pieces: Sequence[TraceLengths]) -> TraceLengths:
        """Returns the counts of the union of the pieces' cases."""
        lengths, counts = (joined(getattr(p, n) for p in pieces) for n in ("lengths", "counts"))
        return cls(*sum_by_key(lengths, counts))

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return int(self.counts.sum())

    @property
    def weight(self) -> int:
        """Number of distinct lengths."""
        return len(self.counts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TraceLengths)
            and np.array_equal(self.lengths, other.lengths)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def histogram(self, grid: np.ndarray) -> np.ndarray:
        """Returns int64[n_grid+1], cases in the buckets of an ascending grid; the last are above.

        Cumulative sums of it are the numbers of cases up to each grid point.
        """
        bucket = np.searchsorted(grid, self.lengths)
        return sum_groups(bucket, self.counts, len(grid) + 1)
