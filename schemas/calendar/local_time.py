"""The clock of a place, and times as texts."""

from __future__ import annotations

import datetime
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracecloak.schemas.errors import UsageError

_SECOND_US = 1_000_000


# --- Time on the clock of a place: when its offset from UTC changes, and what it shows. -----------
# The offsets of a zone are looked up once, in the rules of the IANA time zone database that
# Python's `zoneinfo` finds, and then used for whole columns. Nothing else of the product reads
# zone files, so that all of it has the same clock. Holds no data.


HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DAY_S = 86_400
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# 1970-01-01 was a Thursday, and a week begins on Monday.
_WEEKDAY_OF_1970 = 3

# Seconds since 1970. Before 1800 no zone of the database changes its offset. The changes up to 2100
# are looked for day by day. Those after it follow one rule of each zone for all years (the last
# explicit ones are Morocco's of 2087), by which no offset holds for less than a week.
_FIRST_S, _RULE_S = -5_364_662_400, 4_102_444_800
# The Gregorian calendar repeats after 400 years, which are whole weeks, and with it the rule.
_CYCLE_S = 146_097 * _DAY_S
_N_CYCLES = 20  # to beyond the year 9999
_EVER_US = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class LocalClock:
    """The offsets of a time zone; made once, since machines may have other zone files.

    Attributes:
        time_zone: Its IANA name.
        since_us: int64[n], ascending microseconds since 1970-01-01 UTC: from when on each offset
            holds; the first is where the range begins, the least int64 where it is all of time.
        offsets_us: int64[n], local time minus UTC.
    """

    time_zone: str
    since_us: np.ndarray
    offsets_us: np.ndarray

    @staticmethod
    @lru_cache(maxsize=16)
    def of(time_zone: str) -> LocalClock:
        """Returns the clock of a zone for all years from 1 to 9999.

        Raises:
            UsageError: There is no such time zone.
        """
        zone = zone_of(time_zone)
        if time_zone == "UTC":
            return LocalClock(time_zone, np.array([_EVER_US]), np.array([0]))

        def offset(second: int) -> datetime.timedelta | None:
            return datetime.datetime.fromtimestamp(second, zone).utcoffset()

        days = range(_FIRST_S, _RULE_S, _DAY_S)
        weeks = range(_RULE_S, _RULE_S + _CYCLE_S + 1, 7 * _DAY_S)
        since, offsets = [0], [offset(_FIRST_S)]
        second = _FIRST_S
        for following in (*days, *weeks):
            while offset(following) != offsets[-1]:  # the change is behind `second`
                between = range(second + 1, following)
                second += 1 + bisect_left(between, True, key=lambda at: offset(at) != offsets[-1])
                since.append(second)
                offsets.append(offset(second))
            second = following
        since_us = np.array(since, np.int64) * _SECOND_US
        since_us[0] = _EVER_US
        offsets_us = [(of or datetime.timedelta()) // _MICROSECOND for of in offsets]
        return _repeated(time_zone, since_us, np.array(offsets_us, np.int64))

    def within(self, first_us: int, last_us: int) -> LocalClock:
        """Returns the clock of a range of time, both ends of which are in it."""
        first, last = np.searchsorted(self.since_us, [first_us, last_us], side="right")
        since_us = np.append(first_us, self.since_us[first:last])
        return LocalClock(self.time_zone, since_us, self.offsets_us[first - 1 : last])

    def __reduce__(self) -> tuple[Any, ...]:
        """Leaves out of a pickle what is repeated; a clock of a range has nothing of that."""
        if self.since_us[0] != _EVER_US:
            return LocalClock, (self.time_zone, self.since_us, self.offsets_us)
        n = np.searchsorted(self.since_us, (_RULE_S + _CYCLE_S) * _SECOND_US, side="right")
        return _repeated, (self.time_zone, self.since_us[:n], self.offsets_us[:n])

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
        place = np.searchsorted(self._shown_until, local_us, side="right")
        return np.maximum(local_us - self.offsets_us[place], self.since_us[place])

    def is_shown(self, local_us: np.ndarray) -> np.ndarray:
        """Returns int8[n], how a time is shown: 0 once, 1 more than once, -1 never.

        Args:
            local_us: As for `first_us`.
        """
        first = np.searchsorted(self._shown_until, local_us, side="right")
        last = np.searchsorted(self._shown_from, local_us, side="right")
        return np.sign(last - first).astype(np.int8)

    def to_utc(self, local_us: pa.Array, hours: np.ndarray | None = None) -> pa.Array:
        """Reads what the clock shows; of a repeated hour the first time, of a skipped one its end.

        Args:
            local_us: int64[n], as for `first_us`; null where nothing is shown.
            hours: int8[n], gets a negative number for a time in a skipped hour, and a positive one
                for a time in a repeated hour.
        """
        if self.time_zone == "UTC":
            return local_us
        is_missing = np.asarray(pc.is_null(local_us))
        shown = np.asarray(pc.fill_null(local_us, 0))
        if hours is not None:
            is_shown = self.is_shown(shown)
            np.copyto(hours, is_shown, where=~is_missing & (is_shown != 0))
        return pa.array(self.first_us(shown), mask=is_missing)

    @cached_property
    def _shown_until(self) -> np.ndarray:
        """int64[n-1], ascending: until when a time is first shown by an offset or one before it."""
        return np.maximum.accumulate(self.since_us[1:] + self.offsets_us[:-1])

    @cached_property
    def _shown_from(self) -> np.ndarray:
        """int64[n-1], ascending: from when on a time is shown by the next offset or a later one."""
        return np.minimum.accumulate((self.since_us[1:] + self.offsets_us[1:])[::-1])[::-1]


def _repeated(time_zone: str, since_us: np.ndarray, offsets_us: np.ndarray) -> LocalClock:
    """Returns a clock for all years, by its changes to the end of the rule's first 400 years."""
    is_of_rule = since_us > _RULE_S * _SECOND_US
    shifts = np.arange(1, _N_CYCLES)[:, None] * (_CYCLE_S * _SECOND_US)
    repeats = (since_us[is_of_rule] + shifts).ravel()
    return LocalClock(
        time_zone,
        np.append(since_us, repeats),
        np.append(offsets_us, np.tile(offsets_us[is_of_rule], _N_CYCLES - 1)),
    )


def zone_of(time_zone: str) -> ZoneInfo:
    """Returns an IANA time zone.

    Raises:
        UsageError: There is none of that name.
    """
    try:
        return ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"time_zone: {time_zone!r} is no time zone such as Europe/Oslo") from None


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
    return microseconds_at(midnight)


def microseconds_at(moment: datetime.datetime) -> int:
    """Returns microseconds since 1970-01-01 UTC of a moment that says its offset."""
    return (moment - _EPOCH) // _MICROSECOND


def period_around(period: str, date: datetime.date) -> tuple[datetime.date, datetime.date, str]:
    """Returns when a period around a date begins, the first date after it, and its name.

    Args:
        period: Of `day`, `week`, `month`, `quarter` and `year`.
        date: Any of it.

    Raises:
        ValueError, OverflowError: Dates do not reach that far.
    """
    if period == "day":
        return date, date + datetime.timedelta(days=1), date.isoformat()
    if period == "week":
        begin = date - datetime.timedelta(days=date.weekday())
        year, week, _ = date.isocalendar()
        return begin, begin + datetime.timedelta(days=7), f"{year}-W{week:02}"
    n_months = _MONTHS[period]
    number = (date.month - 1) // n_months
    begin = date.replace(day=1, month=number * n_months + 1)
    years, month = divmod(begin.month - 1 + n_months, 12)
    name = {1: f"-{date.month:02}", 3: f"-Q{number + 1}", 12: ""}[n_months]
    return begin, begin.replace(year=begin.year + years, month=month + 1), f"{date.year}{name}"


def day_number(date: datetime.date) -> int:
    """Returns the days from 1970-01-01 to a date."""
    return (date - _EPOCH.date()).days


def weekday_of(days: np.ndarray) -> np.ndarray:
    """Returns int64[n] from 0, Monday, to 6 for days counted from 1970-01-01."""
    return (days + _WEEKDAY_OF_1970) % 7
