"""Noisy sums as they were measured, from which the intervals of a release's numbers follow.

A row is a sum over the cases of the original log with noise, such as the number of cases, or how
often one activity followed another. It has the standard deviation of its noise, which is public. A
row of deviation 0 is a public number that tells how the sums were made, such as a clip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tracecloak.schemas.arrays.merging import offsets_of
from tracecloak.schemas.published.product import ReleasedProduct

CASES = "cases"
"""Each by the part that counted them."""

ARC = "arc"
"""Of two activities, ▶ before the first and ■ after the last, over cases that were clipped."""

ARC_NOT_SHOWN = "arc not shown"
"""The largest sum of an arc that no case has which was drawn."""

ACTIVITY = "occurrences of activity"
"""Of an activity, by all arcs to it and from it, over cases that were clipped."""

EVENTS = "events"
"""By all arcs, over cases that were clipped."""

CLIP = "arcs of a clipped case"
"""The norm that a case was scaled down to."""

POSITION = "arcs by position"
"""Where each range of positions begins that this norm counts apart, in events before."""

OCCURRENCES = "cases with activity"
"""Of an activity, and its occurrences in a case, from and to; empty where there is no largest."""

VARIANT = "cases of variant"
"""Of its activities, where so many cases have it that it could be counted."""

LEAST_OF_VARIANT = "least cases of a variant"
"""From how many noisy cases on a variant could be counted."""

GROUP = "group of activity"
"""Of an activity and its group; the value is 0."""

STEP = "step of groups"
"""Of two groups, ▶ before the first and ■ after the last, over cases that were clipped."""

STEP_NOT_SHOWN = "step of groups not shown"
"""The largest sum of a step that no case has which was drawn."""

GROUP_CLIP = "groups of a clipped case"
"""The norm that a case was scaled down to where its groups were counted."""

GROUP_POSITION = "groups by position"
"""Where each range of positions begins that this norm counts apart, in events before."""

DURATION = "cases by duration"
"""Of the time from first to last event, the shortest and the longest of a bin in microseconds; of
cases of two events or more, within the released range of dates."""

TIME_OF_PAIR = "time of pair"
"""Of two activities, in microseconds: what cases spend between the two, which were clipped."""

TIME_KEPT = "share of time kept"
"""Of two activities, or of all of them: what clipping leaves of the time that cases spend between
the two, in cases that were drawn like the released ones."""

START = "cases by start"
"""Of the first and the last local date."""


@dataclass(frozen=True)
class Measure:
    """One sum.

    Attributes:
        what: What is summed up.
        of: What it is of, in texts.
        value: The sum with its noise, in occurrences unless its name says otherwise.
        deviation: Standard deviation of the noise; 0: the number is public.
    """

    what: str
    of: tuple[str, ...]
    value: float
    deviation: float


@dataclass(frozen=True, eq=False)
class ReleasedMeasures(ReleasedProduct):
    """The sums of a release.

    Attributes:
        what: string[n], what each sums up: the names above.
        offsets: int64[n+1], where the texts of each row begin.
        texts: string[m], what each row is of, one row after the other.
        values: float64[n].
        deviations: float64[n].
    """

    wire_name: ClassVar[str] = "released-measures"

    what: pa.StringArray
    offsets: np.ndarray
    texts: pa.StringArray
    values: np.ndarray
    deviations: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Measure]) -> ReleasedMeasures:
        """Returns the sums in the order that is given."""
        return cls(
            pa.array([row.what for row in rows], pa.string()),
            offsets_of(np.array([len(row.of) for row in rows], np.int64)),
            pa.array([text for row in rows for text in row.of], pa.string()),
            np.array([row.value for row in rows], np.float64),
            np.array([row.deviation for row in rows], np.float64),
        )

    @classmethod
    def joined(cls, pieces: Iterable[ReleasedMeasures]) -> ReleasedMeasures:
        """Returns the rows of one piece after the other."""
        return cls.of([row for piece in pieces for row in piece.rows()])

    def rows(self, what: str | None = None) -> list[Measure]:
        """Returns the rows of one kind, or all."""
        texts, ends = self.texts.to_pylist(), self.offsets.tolist()
        kinds = self.what.to_pylist()
        numbers = zip(self.values.tolist(), self.deviations.tolist(), strict=True)
        return [
            Measure(kind, tuple(texts[ends[i] : ends[i + 1]]), value, deviation)
            for i, (kind, (value, deviation)) in enumerate(zip(kinds, numbers, strict=True))
            if what in (None, kind)
        ]

    def to_table(self) -> pa.Table:
        """Returns what (string), of (list of strings), value and deviation (float64)."""
        return pa.table(
            {
                "what": self.what,
                "of": pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), self.texts),
                "value": self.values,
                "deviation": self.deviations,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the same as JSON values."""
        return {"measures": self.to_table().to_pylist()}

    @classmethod
    def from_json(cls, body: Any) -> ReleasedMeasures:
        """Returns the sums that `to_json` gave.

        Raises:
            KeyError, TypeError, ValueError: They are none.
        """
        return cls.of(
            [
                Measure(row["what"], tuple(row["of"]), row["value"], row["deviation"])
                for row in body["measures"]
            ]
        )
