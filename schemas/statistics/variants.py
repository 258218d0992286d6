"""Variants and how many cases follow each: exact counts of distinct activity sequences.

Does not look at times or at who the cases are. Other statistics of the control flow (trie, DAFSA,
contingency table) are functions of this one.

Two further counts of cases are here: by their number of events, and what cases add to each activity
where a case counts for a bounded number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import CountsByKey, OfArrays, sum_by_value, sum_groups
from tracecloak.schemas.arrays.sequences import decode_sequences, encode_sequences
from tracecloak.schemas.events.traces import TraceBatch

if TYPE_CHECKING:
    from tracecloak.schemas.arrays.prefixes import PrefixLevels


@dataclass(frozen=True, eq=False)
class ActivityCounts(OfArrays):
    """Sums over cases by activity.

    Attributes:
        names: string[n], distinct, sorted by their bytes.
        counts: int64[n], what the cases of each add, all positive.
    """

    wire_name: ClassVar[str] = "activity-counts"
    _types = (pa.string(), np.int64)

    names: pa.StringArray
    counts: np.ndarray

    @classmethod
    def of(cls, names: pa.StringArray, counts: np.ndarray) -> ActivityCounts:
        """Adds up the counts of equal names given in any order."""
        return cls(*sum_by_value(names, counts))

    _collapsed = of


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


@dataclass(frozen=True, eq=False)
class VariantHistogram(OfArrays):
    """Distinct variants in lexicographic order of their codes, with their numbers of cases.

    Attributes:
        sequences: large_binary[n_variants], see `encode_sequences`; sorted and distinct.
        counts: int64[n_variants], cases of each variant, all positive.
    """

    wire_name: ClassVar[str] = "variant-histogram"
    _types = (pa.large_binary(), np.int64)

    sequences: pa.LargeBinaryArray
    counts: np.ndarray

    @classmethod
    def from_sequences(cls, sequences: pa.LargeBinaryArray, counts: np.ndarray) -> VariantHistogram:
        """Adds up the counts of equal sequences given in any order."""
        return cls(*sum_by_value(sequences, counts))

    _collapsed = from_sequences

    @classmethod
    def from_traces(cls, traces: TraceBatch) -> VariantHistogram:
        """Counts the variants of a batch."""
        sequences = encode_sequences(traces.offsets, traces.activities)
        return cls.from_sequences(sequences, np.ones(traces.n_cases, np.int64))

    @property
    def n_variants(self) -> int:
        """Number of distinct variants."""
        return len(self.counts)

    @property
    def n_cases(self) -> int:
        """Number of cases of all variants."""
        return int(self.counts.sum())

    @cached_property
    def _decoded(self) -> tuple[np.ndarray, np.ndarray]:
        return decode_sequences(self.sequences)

    @property
    def offsets(self) -> np.ndarray:
        """int64[n_variants+1], CSR offsets of the variants into `codes`."""
        return self._decoded[0]

    @property
    def codes(self) -> np.ndarray:
        """int32[n_positions], the variants' activity codes one after the other."""
        return self._decoded[1]

    @cached_property
    def levels(self) -> PrefixLevels:
        """The prefixes of the variants, level by level."""
        from tracecloak.schemas.arrays.prefixes import PrefixLevels  # which few releases need

        return PrefixLevels.of(self.offsets, self.codes)

    def find(self, traces: TraceBatch) -> np.ndarray:
        """Returns int64[n_cases], the variant number of each case, or -1 where it is not here."""
        variants = encode_sequences(traces.offsets, traces.activities).dictionary_encode()
        # The batch's few variants are made the look-up table, not the log's many.
        places = pc.index_in(self.sequences, value_set=variants.dictionary)
        known = np.flatnonzero(places.is_valid())
        number = np.full(len(variants.dictionary), -1, np.int64)
        number[np.asarray(places.take(pa.array(known)))] = known
        return number[np.asarray(variants.indices)]
