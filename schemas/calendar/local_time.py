"""Time on the clock of a place: when its offset from UTC changes, and what it shows.

Computed once over a public range of time and then for whole columns, from the rules of the IANA
time zone database. Holds no data.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from tracecloak.schemas.errors import UsageError

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_SECOND_US = 1_000_000
_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_S = 86_400
# 1970-01-01 was a Thursday, and a week begins on Monday.
_WEEKDAY_OF_1970 = 3


@dataclass(frozen=True, eq=False)
class LocalClock:
    """The offsets of a time zone over a range of time.

    Attributes:
        since_us: int64[n], ascending microseconds since 1970-01-01 UTC: from when on each offset
            holds; the first is where the range begins.
        offsets_us: int64[n], local time minus UTC.
    """

    since_us: np.ndarray
    offsets_us: np.ndarray

    @classmethod
    def of(cls, time_zone: str, first_us: int, last_us: int) -> LocalClock:
        """Finds the changes of the offset from `first_us` to `last_us`.

        Looks at every day, and closer where the offset is another than the day before. So an offset
        that held for less than a day and was given up for the one before may be missed; there is
        none in the database.

        Raises:
            UsageError: There is no such time zone.
        """
        return _clock(time_zone, first_us, last_us)

    def local_us(self, times_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], what the clock shows, as microseconds since its own 1970-01-01.

        Args:
            times_us: int64[n], UTC; beyond the range the nearest offset is taken.
        """
        place = np.searchsorted(self.since_us, times_us, side="right") - 1
        return times_us + self.offsets_us[np.maximum(place, 0)]

    def first_us(self, local_us: np.ndarray) -> np.ndarray:
        """Returns int64[n], when the clock first shows a time of day, or leaps over it.

        Args:
            local_us: int64[n], what it shows, as `local_us` gives it; what it shows before the
                range counts as the begin of the range.
        """
        shown_until = np.maximum.accumulate(self.since_us[1:] + self.offsets_us[:-1])
        place = np.searchsorted(shown_until, local_us, side="right")
        return np.maximum(local_us - self.offsets_us[place], self.since_us[place])


@lru_cache(maxsize=16)
def _clock(time_zone: str, first_us: int, last_us: int) -> LocalClock:
    zone = zone_of(time_zone)

    def offset(second: int) -> datetime.timedelta | None:
        return datetime.datetime.fromtimestamp(second, zone).utcoffset()

    second, last = first_us // _SECOND_US, last_us // _SECOND_US
    since, offsets = [first_us], [offset(second)]
    while second < last:
        following = min(second + _DAY_S, last)
        while offset(following) != offsets[-1]:  # the change is in (second, high]
            low, high = second, following
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == offsets[-1] else (low, middle)
            since.append(high * _SECOND_US)
            offsets.append(offset(high))
            second = high
        second = following
    offsets_us = [(of or datetime.timedelta()) // _MICROSECOND for of in offsets]
    return LocalClock(np.array(since, np.int64), np.array(offsets_us, np.int64))


def zone_of(time_zone: str) -> ZoneInfo:
    """Returns an IANA time zone.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise UsageError(
            f"time_zone: {time_zone!r} is no time zone; give a name of the IANA database such as "
            "UTC or Europe/Amsterdam"
        ) from None


def date_of(name: str, text: str) -> datetime.date:
    """Returns the date that a text stands for.

    Args:
        name: The parameter, for the error.
        text: As in 2024-12-31.

    Raises:
        UsageError: It is no date.
    """
    try:
        return datetime.date.fromisoformat(text)
    except (TypeError, ValueError):
        raise UsageError(f"{name}: {text!r} is no date; write it like 2024-12-31") from None


def day_start_us(date: datetime.date, time_zone: str) -> int:
    """Returns when a date begins at a place, in microseconds since 1970-01-01 UTC.

    Where the clock is put forward at midnight, that is the moment of the change.
    """
    midnight = datetime.datetime(date.year, date.month, date.day, tzinfo=zone_of(time_zone))
    return (midnight - _EPOCH) // _MICROSECOND


def day_number(date: datetime.date) -> int:
    """Returns the days from 1970-01-01 to a date."""
    return (date - _EPOCH.date()).days


def weekday_of(days: np.ndarray) -> np.ndarray:
    """Returns int64[n] from 0, Monday, to 6 for days counted from 1970-01-01."""
    return (days + _WEEKDAY_OF_1970) % 7
