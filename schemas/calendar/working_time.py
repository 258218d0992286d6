"""Working hours: a public calendar, time counted within it, and stamps on a grid of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, get_args

import numpy as np

from tracecloak.schemas.arrays.merging import offsets_of, ranges
from tracecloak.schemas.calendar.local_time import (
    DAY_US,
    HOUR_US,
    LocalClock,
    date_of,
    day_number,
    weekday_of,
    zone_of,
)
from tracecloak.schemas.errors import UsageError

# --- Working hours: a public calendar, time counted within it, and back to stamps. ----------------
# A working hour is one that the clock on the wall says is one: where the clock is put back, an
# hour between `from_hour` and `to_hour` counts twice, and an hour that it leaps over does not
# count. Night shifts across midnight are not covered.
#
# Holds no data: a calendar and a range of time are public parameters or were paid for.


HOURS_OF_WEEK = 168
_DAYS_OF_WEEK = 7
_HOURS_OF_DAY = 24


@dataclass(frozen=True)
class WorkingCalendar:
    """When work is done; by default always.

    Attributes:
        time_zone: IANA name of the place whose clock counts.
        days: Working days of the week, from 0, Monday, to 6.
        from_hour: Whole hour from which on they are worked, 0 to 23.
        to_hour: Whole hour up to which, exclusive: above `from_hour`, at most 24.
        holidays: ISO dates on which no work is done.

    Raises:
        UsageError: One of them is not what it should be.
    """

    time_zone: str = "UTC"
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    from_hour: int = 0
    to_hour: int = 24
    holidays: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        zone_of(self.time_zone)
        if not self.days or not set(self.days) <= set(range(_DAYS_OF_WEEK)):
            raise UsageError(f"days: must be some of 0, Monday, to 6, Sunday, got {self.days}")
        if not 0 <= self.from_hour < self.to_hour <= _HOURS_OF_DAY:
            raise UsageError("from_hour and to_hour: must be 0 <= from_hour < to_hour <= 24")
        for holiday in self.holidays:
            date_of("holidays", holiday)

    @property
    def is_always(self) -> bool:
        """Whether there is no hour without work."""
        all_days = set(self.days) == set(range(_DAYS_OF_WEEK))
        all_hours = (self.from_hour, self.to_hour) == (0, _HOURS_OF_DAY)
        return all_days and all_hours and not self.holidays

    def over(self, first_us: int, last_us: int) -> WorkingTime:
        """Returns the working time of a range, from `first_us` up to `last_us`, exclusive.

        Raises:
            UsageError: The range is empty or has no working hour.
        """
        if not first_us < last_us:
            raise UsageError("the time range is empty: its end must be after its begin")
        return _working_time(self, first_us, last_us)

    def is_open_within(self, first_us: int, last_us: int) -> bool:
        """Whether a range has any working time."""
        return first_us < last_us and len(_open_times(self, first_us, last_us)[0]) > 0


@dataclass(frozen=True, eq=False)
class WorkingTime:
    """The intervals of a range of time in which work is done, and the time that passes in them.

    A columnar value. All stamps are microseconds since 1970-01-01 UTC.

    Attributes:
        opens_us: int64[n], ascending, when each interval begins; at least one.
        closes_us: int64[n], when it ends, exclusive; before the next one begins.
        time_zone: Whose clock decided, and gives the hour of the week.
        first_us: Where the range begins.
        last_us: Where it ends, exclusive.
    """

    wire_name: ClassVar[str] = "working-time"

    opens_us: np.ndarray
    closes_us: np.ndarray
    time_zone: str
    first_us: int
    last_us: int

    @cached_property
    def _before_us(self) -> np.ndarray:
        """int64[n+1], working time before each interval, and that of all."""
        return offsets_of(self.closes_us - self.opens_us)

    @property
    def total_us(self) -> int:
        """Working microseconds of the range, at least 1."""
        return int(self._before_us[-1])

    def elapsed_us(self, times_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], the working time from the begin of the range to each stamp.

        Does not decrease with the stamp; from 0, at or before the begin, to `total_us`.
        """
        interval = np.searchsorted(self.opens_us, times_us, side="right") - 1
        reached = np.minimum(times_us, self.closes_us[interval]) - self.opens_us[interval]
        return np.where(interval < 0, 0, self._before_us[interval] + reached)

    def at_us(self, elapsed_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], the stamps at which so much working time has passed.

        Each is within working hours and in the range; `at_us(elapsed_us(t))` is t where t is in
        working hours, and else the next stamp that is, or the last of all.

        Args:
            elapsed_us: int64[n]; below 0 counts as 0, from `total_us` on as one less than it.
        """
        elapsed_us = np.clip(elapsed_us, 0, self.total_us - 1)
        interval = np.searchsorted(self._before_us, elapsed_us, side="right") - 1
        return self.opens_us[interval] + (elapsed_us - self._before_us[interval])

    @property
    def clock(self) -> LocalClock:
        """What the clocks show over the range."""
        return LocalClock.of(self.time_zone).within(self.first_us, self.last_us)

    @cached_property
    def first_monday(self) -> int:
        """The Monday of the local week in which the range begins, in days since 1970-01-01."""
        day = self._day(np.array([self.first_us]))
        return int((day - weekday_of(day))[0])

    @cached_property
    def n_days(self) -> int:
        """Number of days from that Monday to the last local day of the range."""
        return int(self._day(np.array([self.last_us - 1]))[0]) - self.first_monday + 1

    def dates_of(self, days: np.ndarray, n_days: int) -> tuple[list[str], list[str]]:
        """Returns the first and the last local date of each stretch of so many days, in ISO form.

        Args:
            days: int64[n], days since `first_monday` on which each stretch begins.
            n_days: Its length; it ends with the range at the latest.
        """
        last = np.minimum(days + n_days - 1, self.n_days - 1)
        first, end = (
            (self.first_monday + of).astype("datetime64[D]").astype(str).tolist()
            for of in (days, last)
        )
        return first, end

    def _day(self, times_us: np.ndarray) -> np.ndarray:
        return self.clock.local_us(times_us) // DAY_US

    def days_and_hours(self, times_us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns two int64[n]: local days since `first_monday`, and local hours of the week.

        Args:
            times_us: int64[n], stamps in the range.
        """
        hours = self.clock.local_us(times_us) // HOUR_US - _HOURS_OF_DAY * self.first_monday
        return hours // _HOURS_OF_DAY, hours % HOURS_OF_WEEK

    @cached_property
    def slots_us(self) -> tuple[np.ndarray, np.ndarray]:
        """Two int64[n], begins and ends of the working time cut where a local hour ends.

        Slots are ascending and never empty; all stamps of one have the same day and hour. Where the
        clock is put back the same hour has two.
        """
        cuts = np.union1d(self.opens_us, self.clock.since_us)
        interval = np.searchsorted(self.opens_us, cuts, side="right") - 1
        is_open = (interval >= 0) & (cuts < self.closes_us[interval])
        begins, interval = cuts[is_open], interval[is_open]
        following = np.append(cuts, self.last_us)[np.searchsorted(cuts, begins) + 1]
        ends = np.minimum(self.closes_us[interval], following)
        shift = self.clock.local_us(begins) - begins
        first_hour = (begins + shift) // HOUR_US
        n_hours = (ends + shift - 1) // HOUR_US - first_hour + 1
        hour_us = ranges(first_hour, n_hours) * HOUR_US - np.repeat(shift, n_hours)
        return (
            np.maximum(hour_us, np.repeat(begins, n_hours)),
            np.minimum(hour_us + HOUR_US, np.repeat(ends, n_hours)),
        )


@lru_cache(maxsize=16)
def _working_time(calendar: WorkingCalendar, first_us: int, last_us: int) -> WorkingTime:
    opens, closes = _open_times(calendar, first_us, last_us)
    if len(opens) == 0:
        raise UsageError("the working calendar leaves no working hour in the time range")
    return WorkingTime(opens, closes, calendar.time_zone, first_us, last_us)


def _open_times(
    calendar: WorkingCalendar, first_us: int, last_us: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two int64[n], begins and ends of the intervals, as far apart as they are long."""
    if calendar.is_always:
        return np.array([first_us]), np.array([last_us])
    clock = LocalClock.of(calendar.time_zone).within(first_us, last_us)
    is_working = np.isin(np.arange(_DAYS_OF_WEEK), calendar.days)
    free = np.array([day_number(date_of("holidays", day)) for day in calendar.holidays], np.int64)
    opens, closes = [], []
    until = np.append(clock.since_us[1:], last_us)
    for begin, end, offset in zip(clock.since_us, until, clock.offsets_us, strict=True):
        # While the offset holds, local days are as long as they seem.
        days = np.arange((begin + offset) // DAY_US, (end + offset - 1) // DAY_US + 1)
        days = days[is_working[weekday_of(days)] & ~np.isin(days, free)]
        midnight = days * DAY_US - offset
        opens.append(np.maximum(midnight + calendar.from_hour * HOUR_US, begin))
        closes.append(np.minimum(midnight + calendar.to_hour * HOUR_US, end))
    open_us, close_us = np.concatenate(opens), np.concatenate(closes)
    is_real = open_us < close_us
    open_us, close_us = open_us[is_real], close_us[is_real]
    if len(open_us) == 0:
        return open_us, close_us
    is_apart = open_us[1:] > close_us[:-1]  # what touches is one interval
    return open_us[np.append(True, is_apart)], close_us[np.append(is_apart, True)]


# --- Stamps on a grid of the clock on the wall, such as whole minutes or dates, in working time. --
# A tick is a step of the grid that has working time: a microsecond, a millisecond, a second or a
# minute of it, an hour of the clock or a local day. So a day is one tick, however long it is and
# whatever of it is worked, and times between events are whole numbers of ticks.


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
