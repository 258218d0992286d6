"""When the cases begin: the first and the last start of a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.traces import TraceBatch

_NONE = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)


@dataclass(frozen=True)
class StartRange:
    """Range of the case starts.

    Attributes:
        first_us: Earliest start, microseconds since 1970-01-01 UTC; int64's maximum if none.
        last_us: Latest start; int64's minimum if there is none.
    """

    wire_name: ClassVar[str] = "start-range"

    first_us: int
    last_us: int

    @classmethod
    def of(cls, starts_us: np.ndarray) -> StartRange:
        """Returns the range of int64[n_cases] starts."""
        if len(starts_us) == 0:
            return cls.merge(())
        return cls(int(starts_us.min()), int(starts_us.max()))

    @classmethod
    def merge(cls, pieces: Sequence[StartRange]) -> StartRange:
        """Returns the range of the union of the pieces' cases."""
        return cls(
            min((p.first_us for p in pieces), default=_NONE[0]),
            max((p.last_us for p in pieces), default=_NONE[1]),
        )

    @property
    def weight(self) -> int:
        """Stored elements."""
        return 1

    @property
    def is_empty(self) -> bool:
        """Whether there was no case."""
        return self.first_us > self.last_us

    @property
    def width_us(self) -> int:
        """Microseconds from the first to the last start, 0 if there is none."""
        return 0 if self.is_empty else self.last_us - self.first_us


def cumulated_stamps(starts: np.ndarray, durations: np.ndarray, traces: TraceBatch) -> np.ndarray:
    """Returns int64[n_events], starts and durations cumulated, within the years 1 to 9999."""
    if traces.n_cases == 0:
        return durations
    durations = np.where(traces.is_first, 0, durations)
    running = np.cumsum(durations)  # may wrap; differences within a case are right all the same
    row = np.repeat(np.arange(traces.n_cases), traces.lengths)
    since = running - running[traces.offsets[:-1]][row]
    stamps = np.clip(starts, MIN_TIME_US, MAX_TIME_US)[row] + since
    # A case that runs past int64 has passed the year 9999 on the way: from there on it stays at the
    # end of the calendar.
    past = np.zeros(traces.n_events, bool)
    total = np.add.reduceat(durations.astype(np.float64), traces.offsets[:-1])
    for case in np.flatnonzero(total > float(MAX_TIME_US)):
        events = slice(traces.offsets[case], traces.offsets[case + 1])
        past[events] = np.cumsum(durations[events].astype(np.float64)) > float(MAX_TIME_US)
    return np.where(past, MAX_TIME_US, np.minimum(stamps, MAX_TIME_US))
