"""What cases add to each activity, where a case counts for a bounded number of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.arrays.merging import OfArrays, sum_groups


@dataclass(frozen=True, eq=False)
class ActivityCounts(OfArrays):
    """Sums over cases by activity.

    Attributes:
        names: string[n], distinct, sorted by their bytes.
        counts: int64[n], what the cases of each add, all positive.
    """

    wire_name: ClassVar[str] = "activity-counts"

    names: pa.StringArray
    counts: np.ndarray

    @classmethod
    def of(cls, names: pa.StringArray, counts: np.ndarray) -> ActivityCounts:
        """Adds up the counts of equal names given in any order."""
        encoded = names.dictionary_encode()
        totals = sum_groups(np.asarray(encoded.indices), counts, len(encoded.dictionary))
        order = pc.sort_indices(encoded.dictionary)
        return cls(encoded.dictionary.take(order), totals[np.asarray(order)])

    @classmethod
    def merge(cls, pieces: Sequence[ActivityCounts]) -> ActivityCounts:
        """Returns the counts of the union of the pieces' cases."""
        names = pa.concat_arrays([pa.array([], pa.string()), *(p.names for p in pieces)])
        return cls.of(names, np.concatenate([np.zeros(0, np.int64), *(p.counts for p in pieces)]))
