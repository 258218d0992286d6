"""Time windows of a data lake: the schedule that releases follow, and which cases each counts.

Here: the calendar arithmetic of a schedule, and belonging. Not here: cases that are counted
already, the reading of files (transforms), and the budget (pipelines/budget).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from bisect import bisect_left
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np

from tracecloak.schemas.calendar.durations import duration_text
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US, day_start_us, zone_of
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import MAX_TIME_US, MIN_TIME_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.streams.closing_rule import closing

# --- A schedule: the windows of time in which a data lake is released, one after the other. -------
# Months from 2026-01-01 on in Amsterdam, by close, with a lifetime of 90 days: window 0 is
# `2026-01`, from 2025-12-31T23:00Z to 2026-01-31T23:00Z, and reads the events from 180 days
# before it on. All of it is arithmetic on public numbers; nothing of the data is looked at.
#
# How long a window is: some hours, or some days or months of a calendar.
#
# From midnight to midnight is a day, be it of 23, 24 or 25 hours; a month has as many days as the
# calendar gives it. Hours are elapsed time, and no clock that is put forward or back changes
# them.


_TEXT = re.compile(r"(?:(\d{1,4}) ?)?(hour|day|week|month|quarter|year)s?|(\d{1,4})([hdw])")
_OF_UNITS: dict[str, tuple[Literal["hour", "day", "month"], int]] = {
    "hour": ("hour", 1),
    "day": ("day", 1),
    "week": ("day", 7),
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
class Calendar:
    """The length of all windows, and where window 0 begins, and so where all others do.

    Attributes:
        unit: What a window's length is counted in; weeks are counted in days, quarters and years in
            months.
        n: How many of them.
        date: The day on which window 0 begins, by the clock of the zone.
        moment_us: When it does, microseconds since 1970-01-01 UTC.
        time_zone: IANA name; of hours UTC, in which they are named.
    """

    unit: Literal["hour", "day", "month"]
    n: int
    date: datetime.date
    moment_us: int
    time_zone: str

    @classmethod
    def of(cls, period: str, origin: str, time_zone: str) -> Calendar:
        """Reads texts.

        Args:
            period: Such as hour, 6 hours, day, week, month, quarter, year, or 6h, 1d, 2w.
            origin: A date, whose midnight is meant; of hours also a time with its offset from UTC.
            time_zone: IANA name.

        Raises:
            UsageError: The period is none, or is no time between an hour and a year; the origin is
                no such date or time, or windows of this period cannot begin there; or there is no
                such zone.
        """
        match = _TEXT.fullmatch(period)
        if match is None:
            raise UsageError(f"period: {period!r} is no period such as 6 hours, day or quarter")
        named = match[2] or match[4]
        unit, each = next(one for name, one in _OF_UNITS.items() if name.startswith(named))
        n = int(match[1] or match[3] or 1) * each
        if not 1 <= n <= _MOST[unit]:
            raise UsageError(f"period: {period!r} must be between an hour and a year")
        date = _date(origin)
        if unit == "hour":
            moment = _moment(origin) if date is None else day_start_us(date, time_zone)
            if moment % HOUR_US:
                raise UsageError(f"origin: {origin!r} must be a full hour like 2026-11-23T14:00Z")
            return cls(unit, n, (_EPOCH + moment * _MICROSECOND).date(), moment, "UTC")
        if date is None:
            raise UsageError(f"origin: {origin!r} must be a date like 2026-11-23")
        if unit == "month" and date.day > _LAST_DAY:
            raise UsageError(f"origin: {origin!r} must be a day that every month has, up to 28")
        return cls(unit, n, date, day_start_us(date, time_zone), time_zone)

    @property
    def text(self) -> str:
        """The one text of all that mean this length."""
        named = {("month", 3): "quarter", ("month", 12): "year"}.get((self.unit, self.n))
        if named is not None:
            return named
        in_weeks = self.unit == "day" and self.n % 7 == 0
        n, word = (self.n // 7, "week") if in_weeks else (self.n, self.unit)
        return word if n == 1 else f"{n} {word}s"

    def label(self, number: int) -> str:
        """Returns the shortest text of a window's begin; later windows have greater texts."""
        if self.unit == "hour":
            moment = self.moment_us + number * self.n * HOUR_US
            return f"{_EPOCH + moment * _MICROSECOND:%Y-%m-%dT%HZ}"
        date = self._date(number)
        if self.unit == "day" or date.day > 1:
            return date.isoformat()
        if self.n == _MOST["month"] and date.month == 1:
            return f"{date.year:04}"
        return f"{date.year:04}-{date.month:02}"

    def _date(self, number: int) -> datetime.date:
        if self.unit == "day":
            return self.date + datetime.timedelta(days=number * self.n)
        months = self.date.year * 12 + self.date.month - 1 + number * self.n
        if months // 12 > datetime.MAXYEAR:
            raise OverflowError
        return self.date.replace(year=months // 12, month=months % 12 + 1)


@lru_cache(maxsize=16)
def _begins_us(origin: Calendar, n: int) -> np.ndarray:
    """Returns int64[n], when windows 0 to n-1 begin; it is not decreasing.

    Two are equal where a zone left out a whole day, as Pacific/Apia did in 2011.

    Raises:
        OverflowError: The calendar ends before.
    """
    if origin.unit == "hour":
        begins = origin.moment_us + np.arange(n, dtype=np.int64) * (origin.n * HOUR_US)
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
        raise UsageError(f"origin: {text!r} must be like 2026-11-23T14:00Z, from {_FIRST_YEAR} on")
    return (moment - _EPOCH) // _MICROSECOND


By = Literal["close", "first_event"]

MOST_WINDOWS = 100_000
# A century; a sum of a stamp and a few of them stays far from the ends of int64.
_LONGEST_US = 36_525 * DAY_US
_RANGE = ".."


@dataclass(frozen=True)
class Window:
    """One window of a schedule; all times are in microseconds since 1970-01-01 UTC.

    Attributes:
        number: From 0 at the origin.
        label: The shortest text of its begin, such as 2026-11.
        begin_us: Where it begins.
        end_us: Where the next one begins, which does not belong to it.
        reads_from_us: Time of the first events that it needs.
        reads_until_us: Time from which on it needs none.
        due_us: When it can be released: its events have happened, and had the release delay to
            arrive.
    """

    number: int
    label: str
    begin_us: int
    end_us: int
    reads_from_us: int
    reads_until_us: int
    due_us: int


@dataclass(frozen=True)
class Schedule:
    """The public numbers of a schedule. With one digest the same cases are in the same windows.

    Attributes:
        dataset: Name of the data set.
        origin: Where window 0 begins: a date, or of hours also a time with its offset from UTC.
        period: Length of a window, such as 6 hours, day, week, month, quarter or year.
        time_zone: IANA name; days and longer begin at its midnight.
        by: What puts a case into a window: `close`, the moment at which it is over, or
            `first_event`.
        max_lifetime_us: Age at which a case is over; events from then on do not count.
        gap_us: Silence after which it is over; None: only its age and end activities end it.
        end_activities: Public names, as the source has them, of activities that end it.
        release_delay_us: How long after the last of its events a window is due.
        horizon: Number of windows.

    Raises:
        UsageError: A number is out of range, or does not go with another.
    """

    dataset: str
    origin: str
    period: str
    time_zone: str
    by: By
    max_lifetime_us: int
    gap_us: int | None
    end_activities: tuple[str, ...]
    release_delay_us: int
    horizon: int

    def __post_init__(self) -> None:
        zone_of(self.time_zone)
        for name, low in (("max_lifetime", 1), ("gap", 1), ("release_delay", 0)):
            value = getattr(self, f"{name}_us")
            if value is not None and not low <= value <= _LONGEST_US:
                limits = f"{'above 0 and ' * low}at most {duration_text(_LONGEST_US)}"
                raise UsageError(f"{name}: must be {limits}, got {duration_text(value)}")
        if self.gap_us is not None and self.gap_us > self.max_lifetime_us:
            raise UsageError(
                f"gap: must be at most max_lifetime, {duration_text(self.max_lifetime_us)}"
            )
        if self.by == "first_event" and (self.gap_us is not None or self.end_activities):
            name = "gap" if self.gap_us is not None else "end_activity"
            raise UsageError(f"{name}: goes with close, not with by: first_event; leave it out")
        if "" in self.end_activities or len(set(self.end_activities)) < len(self.end_activities):
            raise UsageError(f"end_activity: must be distinct, got {list(self.end_activities)}")
        if not 1 <= self.horizon <= MOST_WINDOWS:
            raise UsageError(
                f"horizon: must be between 1 and {MOST_WINDOWS:,} windows, got {self.horizon}"
            )
        try:
            last_us = int(self._bounds_us[-1]) + self.max_lifetime_us + self.release_delay_us
        except OverflowError:
            last_us = MAX_TIME_US + 1
        if last_us > MAX_TIME_US:
            raise UsageError(f"horizon: {self.horizon} windows end after the year 9999; give fewer")

    @cached_property
    def length(self) -> Calendar:
        """The length of a window, and where the first one begins."""
        return Calendar.of(self.period, self.origin, self.time_zone)

    @property
    def _bounds_us(self) -> np.ndarray:
        """int64[horizon+1], where the windows begin, and where the last one ends."""
        return _begins_us(self.length, self.horizon + 1)

    def numbered(self, number: int) -> Window:
        """Returns a window by its number.

        Raises:
            UsageError: It is outside the horizon.
        """
        if not 0 <= number < self.horizon:
            raise UsageError(f"window: must be from 0 to {self.horizon - 1}, got {number}")
        begin, end = (int(bound) for bound in self._bounds_us[number : number + 2])
        lifetime = self.max_lifetime_us
        if self.by == "close":
            reads_from, reads_until = begin - 2 * lifetime, end
        else:
            reads_from, reads_until = begin - lifetime, end + lifetime
        return Window(
            int(number),
            self.length.label(number),
            begin,
            end,
            max(reads_from, MIN_TIME_US),
            reads_until,
            reads_until + self.release_delay_us,
        )

    def named(self, label: str) -> Window:
        """Returns a window by its label.

        Raises:
            UsageError: It is no window's label, or outside the horizon.
        """
        numbers = range(self.horizon)
        place = bisect_left(numbers, label, key=self.length.label)
        if place < self.horizon and self.length.label(place) == label:
            return self.numbered(place)
        first, last = self.length.label(0), self.length.label(self.horizon - 1)
        near = ""
        if 0 < place < self.horizon and len(label) == len(first):
            near = f"; {self.length.label(place - 1)} is the last that begins before it"
        raise UsageError(
            f"window: {label!r} is none of the {self.horizon} windows of a {self.length.text} from "
            f"{first} to {last}{near}; write one label, or two with {_RANGE} between them"
        )

    def ranged(self, text: str) -> tuple[Window, ...]:
        """Returns the windows of a range such as 2026-01..2026-10, both ends included, or of one.

        Raises:
            UsageError: An end is no window's label, or the first is later than the last.
        """
        first_label, _, last_label = text.partition(_RANGE)
        first = self.named(first_label.strip())
        last = self.named(last_label.strip()) if _RANGE in text else first
        if first.number > last.number:
            raise UsageError(f"window: {text!r} ends before it begins; swap the labels")
        return tuple(map(self.numbered, range(first.number, last.number + 1)))

    def windows(self) -> tuple[Window, ...]:
        """Returns all windows of the horizon."""
        return tuple(map(self.numbered, range(self.horizon)))

    def to_json(self) -> dict[str, Any]:
        """Returns the numbers, each written in one way only; durations in microseconds."""
        calendar = self.length
        return {
            **asdict(self),
            "origin": calendar.label(0) if calendar.unit == "hour" else calendar.date.isoformat(),
            "period": calendar.text,
            "end_activities": sorted(self.end_activities),
        }

    @cached_property
    def digest(self) -> str:
        """32 hex digits that say which case is in which window; public, not keyed.

        The release delay is no part of that: it may change while a schedule runs.
        """
        numbers = {k: v for k, v in self.to_json().items() if k != "release_delay_us"}
        text = json.dumps(numbers, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(f"tracecloak schedule 1\n{text}".encode()).hexdigest()[:32]


# --- Which cases belong to a window, and which of their events count there. -----------------------
# A schedule says which of two rules holds: a case belongs to the window in which it closes, or to
# the one of its first event. Both rules are functions of the case's own events and of public
# numbers, so every case belongs to at most one window.
#
# The events of a window's reading span give the same answer as all events of the lake would, but
# for one kind of case. A case that is silent for longer than its lifetime and then goes on is
# taken for a case that begins there, since its earlier events are not read. It then counts in two
# windows. Late events move a case as well, which one state of the lake cannot show. Whether a
# case was counted before is not decided here.


def members(traces: TraceBatch, schedule: Schedule, window: Window) -> TraceBatch:
    """Returns the cases of a window, in their order, with the events that count.

    Args:
        traces: All events of their cases within the window's reading span, with the activities of
            the source: a name that a vocabulary has replaced ends no case.
        schedule: What belongs where.
        window: One of its windows.

    Returns:
        Cases with at least one event. An attribute of the case may be from an event that does not
        count.
    """
    if traces.n_cases == 0:
        return traces
    if schedule.by == "close":
        lifetime = schedule.max_lifetime_us
        # If no gap is given, a case ends by its age alone and never by a silence.
        gap = lifetime if schedule.gap_us is None else schedule.gap_us
        ends = np.isin(traces.vocabulary.names.to_pylist(), schedule.end_activities)
        is_end = ends[traces.activities]
        moments, counted = closing(traces.offsets, traces.times, is_end, gap, lifetime)
    else:
        moments = traces.starts
        counted = traces.times < np.repeat(moments + schedule.max_lifetime_us, traces.lengths)
    inside = (window.begin_us <= moments) & (moments < window.end_us)
    return traces.events_where(counted & np.repeat(inside, traces.lengths))
