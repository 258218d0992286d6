"""Released durations: how often each edge of a directly-follows graph took how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.published.product import Key
from tracecloak.schemas.published.yields import Yield


@dataclass(frozen=True, eq=False)
class ReleasedDurations:
    """A histogram of durations for each released edge, in public bins; safe to publish.

    Attributes:
        names: string[n_activities]; START and END have the codes after the last.
        edges_us: int64[n_bins-1], ascending inner borders of the bins in microseconds: bin `i`
            holds durations from `edges_us[i-1]` on and below `edges_us[i]`.
        sources: int32[n_rows], code of the earlier activity, or START.
        targets: int32[n_rows], code of the later activity, or END.
        bins: int32[n_rows], number of the bin.
        counts: int64[n_rows], all positive.
        lows: int64[n_rows], lower end of a 95 % interval for what was counted of the log after any
            cut of its cases at a length.
        highs: int64[n_rows], its upper end.
    """

    names: pa.StringArray
    edges_us: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    bins: np.ndarray
    counts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def to_table(self) -> pa.Table:
        """Returns source, target, from_us, to_us (null: no upper border), count, low, high."""
        labels = pa.concat_arrays([self.names, pa.array(["▶", "■"], pa.string())])
        lower = np.concatenate([[0], self.edges_us])[self.bins]
        upper = pa.array(np.concatenate([self.edges_us, [0]])[self.bins])
        is_last = pa.array(self.bins == len(self.edges_us))
        return pa.table(
            {
                "source": labels.take(pa.array(self.sources)),
                "target": labels.take(pa.array(self.targets)),
                "from_us": lower,
                "to_us": pc.if_else(is_last, pa.scalar(None, pa.int64()), upper),
                "count": self.counts,
                "low": self.lows,
                "high": self.highs,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"durations": self.to_table().to_pylist()}

    def came_out(self) -> Yield:
        """Returns nothing: the graph beside it has the numbers."""
        return Yield()

    def numbers(self, watched: Sequence[Key] | None = None) -> dict[Key, float]:
        """Returns none: an audit looks at the sums that it follows from, which tell more."""
        return {}
