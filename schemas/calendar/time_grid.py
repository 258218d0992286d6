"""Stamps on a grid of the clock on the wall, such as whole minutes or dates, in working time.

A tick is a step of the grid that has working time: a microsecond, a millisecond, a second or a
minute of it, an hour of the clock or a local day. So a day is one tick, however long it is and
whatever of it is worked, and times between events are whole numbers of ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US

if TYPE_CHECKING:
    from tracecloak.schemas.calendar.working_time import WorkingTime

Granularity = Literal["microsecond", "millisecond", "second", "minute", "hour", "day"]
GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
"""From fine to coarse; each grid has the points of the coarser ones."""

GRID_US: dict[Granularity, int] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": HOUR_US,
    "day": DAY_US,
}
"""Microseconds between the points of each, by the clock."""


@dataclass(frozen=True)
class TimeGrid:
    """The ticks of a range of working time.

    Attributes:
        time: The range and its working time; it begins on the grid, as whole local days do.
        granularity: What the stamps are whole multiples of, on the local clock.
    """

    time: WorkingTime
    granularity: Granularity

    @property
    def n_ticks(self) -> int:
        """Number of ticks in the range, at least 1."""
        if self._is_even:
            return -(-self.time.total_us // GRID_US[self.granularity])
        return len(_cells(self.time, self.granularity)[1])

    @property
    def second(self) -> int:
        """Ticks of a second; 1 where ticks are no shorter."""
        return max(GRID_US["second"] // GRID_US[self.granularity], 1)

    @property
    def _is_even(self) -> bool:
        """Whether ticks are equally long: offsets from UTC and working hours are whole minutes."""
        return self.granularity not in ("hour", "day")

    def ticks(self, times_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], from 0, the tick that has each stamp.

        A stamp out of working time counts as the next one in it, and the last tick has what comes
        after the range. Does not decrease with the stamp.
        """
        elapsed = np.minimum(self.time.elapsed_us(times_us), self.time.total_us - 1)
        if self._is_even:
            return elapsed // GRID_US[self.granularity]
        begins, _ = _cells(self.time, self.granularity)
        return np.searchsorted(begins, self.time.at_us(elapsed), side="right") - 1

    def at_us(self, ticks: np.ndarray) -> np.ndarray:
        """Returns int64[n], the stamps on the grid of ticks from 0 to `n_ticks` - 1.

        The stamp of a day is its midnight, also where work begins later, or its first moment where
        the clock leaps over midnight. All others lie in working time.
        """
        if self._is_even:
            return self.time.at_us(ticks * GRID_US[self.granularity])
        return _cells(self.time, self.granularity)[1][ticks]


@lru_cache(maxsize=16)
def _cells(time: WorkingTime, granularity: Granularity) -> tuple[np.ndarray, np.ndarray]:
    """Two int64[n], where the working time of each hour or day begins, and its stamp."""
    begins, _ = time.slots_us
    local = time.clock.local_us(begins)
    if granularity == "hour":
        # Where a clock is changed by less than an hour, the rest of that hour belongs to the hour
        # before.
        begins = begins[(local % HOUR_US == 0) | (np.arange(len(begins)) == 0)]
        return begins, begins
    days, first = np.unique(local // DAY_US, return_index=True)
    return begins[first], time.clock.first_us(days * DAY_US)
