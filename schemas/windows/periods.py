"""How long a window is: some hours, or some days or months of a calendar.

From midnight to midnight is a day, be it of 23, 24 or 25 hours; a month has as many days as the
calendar gives it. Hours are elapsed time, and no clock that is put forward or back changes them.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from tracecloak.schemas.calendar.local_time import HOUR_US, day_start_us
from tracecloak.schemas.errors import UsageError

_TEXT = re.compile(r"(?:(\d{1,4}) ?)?(hour|day|week|month|quarter|year)s?|(\d{1,4})([hdw])")
_OF_UNITS: dict[str, tuple[Literal["hour", "day", "month"], int]] = {
    "hour": ("hour", 1),
    "h": ("hour", 1),
    "day": ("day", 1),
    "d": ("day", 1),
    "week": ("day", 7),
    "w": ("day", 7),
    "month": ("month", 1),
    "quarter": ("month", 3),
    "year": ("month", 12),
}
# A year, in each of the three units.
_MOST = {"hour": 366 * 24, "day": 366, "month": 12}
# Every month has a day of this number. A schedule that begins each month on a later day would have
# no begin in the shorter months.
_LAST_DAY = 28
# No log of events is older, and no arithmetic comes near the first year of the calendar.
_FIRST_YEAR = 1900
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True)
class Period:
    """A length of windows.

    Attributes:
        unit: What it is counted in; weeks are counted in days, quarters and years in months.
        n: How many of them.
    """

    unit: Literal["hour", "day", "month"]
    n: int

    @classmethod
    def of(cls, text: str) -> Period:
        """Reads a text such as hour, 6 hours, day, week, month, quarter, year, or 6h, 1d, 2w.

        Raises:
            UsageError: It is none, or is no time between an hour and a year.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError(
                f"period: {text!r} is no period; write it like hour, 6 hours, day, week, month, "
                "quarter or year"
            )
        unit, each = _OF_UNITS[match[2] or match[4]]
        n = int(match[1] or match[3] or 1) * each
        if not 1 <= n <= _MOST[unit]:
            raise UsageError(
                f"period: {text!r} must be between an hour and a year; write hour, day, week, "
                "month, quarter or year"
            )
        return cls(unit, n)

    @property
    def text(self) -> str:
        """The one text of all that mean this period."""
        named = {("month", 3): "quarter", ("month", 12): "year"}.get((self.unit, self.n))
        if named is not None:
            return named
        in_weeks = self.unit == "day" and self.n % 7 == 0
        n, word = (self.n // 7, "week") if in_weeks else (self.n, self.unit)
        return word if n == 1 else f"{n} {word}s"

    def begin(self, origin: str, time_zone: str) -> Origin:
        """Returns where window 0 begins.

        Args:
            origin: A date, whose midnight is meant; of hours also a time with its offset from UTC.
            time_zone: IANA name.

        Raises:
            UsageError: The text is no such date or time, or windows of this period cannot begin
                there, or there is no such zone.
        """
        date = _date(origin)
        if self.unit == "hour":
            moment = _moment(origin) if date is None else day_start_us(date, time_zone)
            if moment % HOUR_US:
                raise UsageError(
                    f"origin: {origin!r} is no full hour of UTC, as windows of hours begin at; "
                    "write it like 2026-11-23T14:00Z"
                )
            return Origin(self, (_EPOCH + moment * _MICROSECOND).date(), moment, "UTC")
        if date is None:
            raise UsageError(
                f"origin: {origin!r} must be a date, as a {self.text} begins at midnight; write it "
                "like 2026-11-23"
            )
        if self.unit == "month" and date.day > _LAST_DAY:
            raise UsageError(
                f"origin: {origin!r} must be a day that every month has; write the first of a month"
            )
        return Origin(self, date, day_start_us(date, time_zone), time_zone)


@dataclass(frozen=True)
class Origin:
    """Where window 0 begins, and so where all others do.

    Attributes:
        period: The length of all windows.
        date: The day on which it begins, by the clock of the zone.
        moment_us: When it does, microseconds since 1970-01-01 UTC.
        time_zone: IANA name; of hours UTC, in which they are named.
    """

    period: Period
    date: datetime.date
    moment_us: int
    time_zone: str

    def label(self, number: int) -> str:
        """Returns the shortest text of a window's begin; later windows have greater texts."""
        if self.period.unit == "hour":
            moment = self.moment_us + number * self.period.n * HOUR_US
            return f"{_EPOCH + moment * _MICROSECOND:%Y-%m-%dT%HZ}"
        date = self._date(number)
        if self.period.unit == "day" or date.day > 1:
            return date.isoformat()
        if self.period.n == _MOST["month"] and date.month == 1:
            return f"{date.year:04}"
        return f"{date.year:04}-{date.month:02}"

    def begins_us(self, n: int) -> np.ndarray:
        """Returns int64[n], when windows 0 to n-1 begin; it is not decreasing.

        Two are equal where a zone left out a whole day, as Pacific/Apia did in 2011.

        Raises:
            OverflowError: The calendar ends before.
        """
        return _begins_us(self, n)

    def _date(self, number: int) -> datetime.date:
        if self.period.unit == "day":
            return self.date + datetime.timedelta(days=number * self.period.n)
        months = self.date.year * 12 + self.date.month - 1 + number * self.period.n
        if months // 12 > datetime.MAXYEAR:
            raise OverflowError
        return self.date.replace(year=months // 12, month=months % 12 + 1)


@lru_cache(maxsize=16)
def _begins_us(origin: Origin, n: int) -> np.ndarray:
    if origin.period.unit == "hour":
        begins = origin.moment_us + np.arange(n, dtype=np.int64) * (origin.period.n * HOUR_US)
    else:
        days = (day_start_us(origin._date(number), origin.time_zone) for number in range(n))
        begins = np.fromiter(days, np.int64, n)
    begins.flags.writeable = False
    return begins


def _date(text: str) -> datetime.date | None:
    """The date that a text stands for; None if it is none."""
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    if date.year < _FIRST_YEAR:
        raise UsageError(f"origin: {text!r} must be in the year {_FIRST_YEAR} or later")
    return date


def _moment(text: str) -> int:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.year < _FIRST_YEAR:
        raise UsageError(
            f"origin: {text!r} must be a date or a time with its offset from UTC, in the year "
            f"{_FIRST_YEAR} or later; write it like 2026-11-23 or 2026-11-23T14:00Z"
        )
    return (moment - _EPOCH) // _MICROSECOND
