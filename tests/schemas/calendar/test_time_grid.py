"""Grids of stamps in working time: ticks and stamps by a loop over the minutes of the range.

Durations and moments as texts: what is read, what is refused, and durations in words.
"""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tracecloak.schemas.calendar.durations import duration_text, duration_us, moment_us
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.calendar.working_time import GRID_US, TimeGrid, WorkingCalendar


def test_what_is_no_duration_or_moment_is_told_what_one_is() -> None:
    for value in ("", "90", "d", "-1d", "1y", "1 month", "0.0001ms", 90, None):
        with pytest.raises(ValueError, match=r"such as 90s|whole number of milliseconds"):
            duration_us(value)
    for value in ("", "January", "1970-13-01", "1970-01-01T00:00:00.0001"):
        with pytest.raises(ValueError, match=r"such as 2026-12-01|whole number of milliseconds"):
            moment_us(value)


def test_a_duration_is_said_in_words_and_a_moment_without_an_offset_is_in_utc() -> None:
    words = {
        "0s": "0 seconds", "1s": "1 second", "1500ms": "1.5 seconds", "90m": "1 hour 30 minutes",
        "2w": "14 days", "25h": "1 day 1 hour", "900d": "900 days", "1ms": "0.001 seconds",
    }  # fmt: skip
    assert {text: duration_text(duration_us(text)) for text in words} == words
    moments = {
        "1970-01-02": 864 * 10**8, "1970-01-01T01:00": 36 * 10**8, "1970-01-01T01:00+01:00": 0,
        datetime.date(1970, 1, 2): 864 * 10**8, datetime.datetime(1970, 1, 1, 1): 36 * 10**8,
    }  # fmt: skip
    assert {value: moment_us(value) for value in moments} == moments


MINUTE_US = HOUR_US // 60
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Weeks in which the clock is put forward by an hour, back by half an hour, and forward at midnight.
PLACES = {
    "Amsterdam": ("Europe/Amsterdam", "2024-03-29", "2024-04-02"),
    "Amsterdam in autumn": ("Europe/Amsterdam", "2024-10-25", "2024-10-29"),
    "Lord Howe": ("Australia/Lord_Howe", "2024-04-05", "2024-04-09"),
    "Sao Paulo": ("America/Sao_Paulo", "2018-11-02", "2018-11-07"),
}
CALENDARS = {"always": {}, "office": {"days": (0, 1, 4, 6), "from_hour": 0, "to_hour": 17}}


def midnight(zone: str, date: str) -> int:
    local = datetime.datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(zone))
    return (local - EPOCH) // datetime.timedelta(microseconds=1)


def shown(zone: str, time_us: int) -> int:
    """What the clock shows, in microseconds, by the library of Python."""
    moment = EPOCH + datetime.timedelta(microseconds=int(time_us))
    offset = moment.astimezone(ZoneInfo(zone)).utcoffset() or datetime.timedelta()
    return int(time_us) + offset // datetime.timedelta(microseconds=1)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("granularity", ["minute", "hour", "day"])
def test_ticks_are_those_of_a_loop_over_all_minutes(place, calendar, granularity):
    """A tick begins at each working minute at which the clock shows another minute, hour or day."""
    zone, first, last = PLACES[place]
    begin, end = midnight(zone, first), midnight(zone, last)
    time = WorkingCalendar(zone, **CALENDARS[calendar]).over(begin, end)
    grid = TimeGrid(time, granularity)
    minutes = np.arange(begin, end, MINUTE_US)
    working = minutes[time.at_us(time.elapsed_us(minutes)) == minutes]
    expected, stamps, before = {}, [], None
    for moment in working.tolist():
        clock = shown(zone, moment)
        # Where the clock shows an hour twice, it has two; half an hour by itself is none.
        now = clock // GRID_US[granularity], granularity == "day" or moment - clock
        is_on = granularity != "hour" or clock % HOUR_US == 0
        if before is None or (now != before and is_on):
            stamps.append(moment)
            before = now
        expected[moment] = len(stamps) - 1
    assert grid.ticks(working).tolist() == list(expected.values())
    assert grid.n_ticks == len(stamps)
    found = grid.at_us(np.arange(grid.n_ticks))
    assert found.tolist() == stamps  # work begins at midnight, so days have it for a stamp
    assert grid.ticks(found).tolist() == list(range(grid.n_ticks))
    # What is out of working time counts as the next of it, and after the end as the last.
    times = np.random.default_rng(0).integers(begin - DAY_US, end + DAY_US, 2000)
    following = np.minimum(
        np.searchsorted(working, times // MINUTE_US * MINUTE_US), len(working) - 1
    )
    wanted = [expected[moment] for moment in working[following].tolist()]
    assert grid.ticks(times).tolist() == wanted


def test_seconds_are_counted_in_working_time():
    grid = TimeGrid(WorkingCalendar("UTC", to_hour=1).over(0, 2 * DAY_US), "second")
    assert grid.n_ticks == 7200
    assert grid.ticks(np.array([0, 999_999, 1_000_000, DAY_US, 3 * DAY_US])).tolist() == [
        *(0, 0, 1, 3600, 7199),
    ]
    assert grid.at_us(np.array([0, 1, 3600])).tolist() == [0, 1_000_000, DAY_US]
