"""Released durations: how often each edge of a directly-follows graph took how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.published.figures import codes_of_ends, kind_columns, without_kinds
from tracecloak.schemas.published.product import ReleasedProduct


@dataclass(frozen=True, eq=False)
class ReleasedDurations(ReleasedProduct):
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
        has_kinds: As of `ReleasedGraph`.
    """

    wire_name: ClassVar[str] = "released-durations"
    has_kinds: ClassVar[bool] = True

    names: pa.StringArray
    edges_us: np.ndarray
    sources: np.ndarray
    targets: np.ndarray
    bins: np.ndarray
    counts: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def to_table(self) -> pa.Table:
        """Returns source, target, from_us, to_us, count, low, high, kind, usable, grade.

        That there is no upper border is null. The last three are as of `ReleasedGraph`.
        """
        labels = pa.concat_arrays([self.names, pa.array(["▶", "■"], pa.string())])
        lower = np.concatenate([[0], self.edges_us])[self.bins]
        upper = pa.array(np.concatenate([self.edges_us, [0]])[self.bins])
        is_last = pa.array(self.bins == len(self.edges_us))
        kinds = kind_columns(self.counts, self.lows, self.highs)
        return pa.table(
            {
                "source": labels.take(pa.array(self.sources)),
                "target": labels.take(pa.array(self.targets)),
                "from_us": lower,
                "to_us": pc.if_else(is_last, pa.scalar(None, pa.int64()), upper),
                "count": self.counts,
                "low": self.lows,
                "high": self.highs,
                **(kinds if self.has_kinds else {}),
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"durations": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedDurations:
        """Returns the durations that `to_json` gave.

        Names and borders are those that the rows have: codes and numbers of bins are others where
        the original has activities or bins without a row.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        rows = body["durations"]
        labels = ("▶", "■")
        ends = {row[end] for row in rows for end in ("source", "target")}
        vocabulary = ActivityVocabulary.of(sorted(ends.difference(labels)))
        borders = {row[end] for row in rows for end in ("from_us", "to_us")} - {0, None}
        edges_us = np.array(sorted(borders), np.int64)

        lower, counts, lows, highs = (
            np.array([row[name] for row in rows], np.int64)
            for name in ("from_us", "count", "low", "high")
        )
        bins = np.searchsorted(edges_us, lower, side="right").astype(np.int32)
        sources, targets = codes_of_ends(rows, vocabulary.labels)
        durations = cls(vocabulary.names, edges_us, sources, targets, bins, counts, lows, highs)
        return durations if not rows or "kind" in rows[0] else without_kinds(durations)
