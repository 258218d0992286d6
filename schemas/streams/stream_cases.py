"""The cases that close in a step, as a statistic: for what needs them whole and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow.compute as pc

from tracecloak.schemas.events.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class ClosedCases:
    """Cases of one step; they are all in memory at once.

    Attributes:
        traces: The cases, in the order of their ids.
    """

    wire_name: ClassVar[str] = "closed-cases"

    traces: TraceBatch

    @classmethod
    def of(cls, *batches: TraceBatch) -> ClosedCases:
        """Returns the cases of batches of one vocabulary, in which each id is once."""
        filled = [traces for traces in batches if traces.n_cases]
        if not filled:
            return cls(TraceBatch.from_events([]))
        traces = TraceBatch.concat(filled)
        return cls(traces.take(np.asarray(pc.sort_indices(traces.case_ids)).astype(np.int64)))

    @classmethod
    def merge(cls, pieces: Sequence[ClosedCases]) -> ClosedCases:
        """Returns the cases of all pieces."""
        return cls.of(*(piece.traces for piece in pieces))

    @property
    def weight(self) -> int:
        """Number of events."""
        return self.traces.n_events
