"""Released variants: sequences of activities with counts that carry noise and may be published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from schemas.merging import ranges


@dataclass(frozen=True, eq=False)
class ReleasedVariants:
    """The variants of a release, the most frequent first.

    Attributes:
        names: string[n_activities], those that occur in the variants, sorted; a code is a position.
        offsets: int64[n_variants+1], CSR offsets into `codes`.
        codes: int32[n_positions], activities of the variants one after the other.
        counts: int64[n_variants], cases, all positive.
        lows: int64[n_variants], lower end of the interval that holds the input's number of cases
            with probability 0.95, as the noise is known to be; not negative.
        highs: int64[n_variants], its upper end.
    """

    names: pa.StringArray
    offsets: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @property
    def n_variants(self) -> int:
        """Number of variants."""
        return len(self.counts)

    @property
    def n_cases(self) -> int:
        """Sum of the counts."""
        return int(self.counts.sum())

    def take(self, rows: np.ndarray) -> ReleasedVariants:
        """Returns some of the variants, in the order asked for; the names stay."""
        lengths = np.diff(self.offsets)[rows]
        return ReleasedVariants(
            self.names,
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            self.codes[ranges(self.offsets[rows], lengths)],
            self.counts[rows],
            self.lows[rows],
            self.highs[rows],
        )

    def to_table(self) -> pa.Table:
        """Returns the columns variant (list of names), count, low, high."""
        words = self.names.take(pa.array(self.codes))
        variants = pa.ListArray.from_arrays(pa.array(self.offsets.astype(np.int32)), words)
        return pa.table(
            {"variant": variants, "count": self.counts, "low": self.lows, "high": self.highs}
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"activities": self.names.to_pylist(), "variants": self.to_table().to_pylist()}
