"""Grids of stamps in working time: ticks and stamps by a loop over the minutes of the range."""

from __future__ import annotations

import datetime
import itertools
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US, LocalClock
from tracecloak.schemas.calendar.time_grid import GRANULARITIES, GRID_US, TimeGrid
from tracecloak.schemas.calendar.working_time import WorkingCalendar

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


def test_the_stamp_of_a_day_is_its_midnight_though_work_begins_later():
    begin = midnight("Europe/Amsterdam", "2024-03-29")
    calendar = WorkingCalendar("Europe/Amsterdam", (0, 4), 9, 17)  # Monday and Friday
    grid = TimeGrid(calendar.over(begin, begin + 5 * DAY_US), "day")
    assert grid.n_ticks == 2
    friday, monday = grid.at_us(np.arange(2)).tolist()
    assert (friday, monday) == (begin, midnight("Europe/Amsterdam", "2024-04-01"))
    times = np.array([friday, friday + 16 * HOUR_US, friday + 17 * HOUR_US, monday + 9 * HOUR_US])
    assert grid.ticks(times).tolist() == [0, 0, 1, 1]


def test_seconds_are_counted_in_working_time():
    grid = TimeGrid(WorkingCalendar("UTC", to_hour=1).over(0, 2 * DAY_US), "second")
    assert grid.n_ticks == 7200
    assert grid.ticks(np.array([0, 999_999, 1_000_000, DAY_US, 3 * DAY_US])).tolist() == [
        *(0, 0, 1, 3600, 7199),
    ]
    assert grid.at_us(np.array([0, 1, 3600])).tolist() == [0, 1_000_000, DAY_US]


def test_coarser_grids_are_made_of_points_of_finer_ones():
    steps = [GRID_US[granularity] for granularity in GRANULARITIES]
    assert all(coarse % fine == 0 for fine, coarse in itertools.pairwise(steps))


def test_the_first_moment_at_which_a_clock_shows_something():
    first, last = (midnight("UTC", date) for date in ("2024-03-01", "2024-12-01"))
    clock = LocalClock.of("Europe/Amsterdam").within(first, last)
    hour = HOUR_US
    spring, autumn = midnight("UTC", "2024-03-31"), midnight("UTC", "2024-10-27")
    # Half past two is leapt over, at one o'clock UTC; in autumn it is shown twice, first at half
    # past midnight UTC.
    for local, utc in (
        (spring + hour, spring),
        (spring + 5 * hour // 2, spring + hour),
        (spring + 3 * hour, spring + hour),
        (autumn + 5 * hour // 2, autumn + hour // 2),
        (autumn + 3 * hour, autumn + 2 * hour),
        (0, first),
    ):
        assert clock.first_us(np.array([local])).tolist() == [utc]
