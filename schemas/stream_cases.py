"""The cases that close in a step, as a statistic: for what needs them whole and together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.traces import TraceBatch


@dataclass(frozen=True, eq=False)
class ClosedCases:
    """Cases of one step; they are all in memory at once.

    Attributes:
        traces: The cases.
    """

    traces: TraceBatch

    @classmethod
    def merge(cls, pieces: Sequence[ClosedCases]) -> ClosedCases:
        """Returns the cases of all pieces."""
        if len(pieces) == 1:
            return pieces[0]
        filled = [piece.traces for piece in pieces if piece.traces.n_cases]
        return cls(TraceBatch.concat(filled) if filled else TraceBatch.from_events([]))

    @property
    def weight(self) -> int:
        """Number of events."""
        return self.traces.n_events
