"""Working time against a loop over minutes, on days on which clocks change; local clocks."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.calendar.durations import duration_text, duration_us, moment_us
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US, date_of, day_start_us
from tracecloak.schemas.calendar.working_time import GRID_US, TimeGrid, WorkingCalendar
from tracecloak.schemas.errors import UsageError

MINUTE_US = 60_000_000
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# Each with a local date about which its clock changes: an hour at night, half an hour, at midnight,
# by a whole day, never, and an offset that is no whole hour.
CHANGES = {
    "Europe/Amsterdam": ("2024-03-31", "2024-10-27"),
    "Australia/Lord_Howe": ("2024-04-07", "2024-10-06"),
    "America/Sao_Paulo": ("2018-11-04", "2018-02-18"),
    "Pacific/Apia": ("2011-12-30", "2011-12-31"),
    "UTC": ("2024-02-29", "2000-01-01"),
    "Asia/Kathmandu": ("2020-06-01", "1985-12-31"),
}
PLACES = [(zone, date) for zone, dates in CHANGES.items() for date in dates]

calendars = st.builds(
    lambda days, hours, holidays: {
        "days": tuple(sorted(days)),
        "from_hour": min(hours),
        "to_hour": max(hours),
        "holidays": holidays,
    },
    st.sets(st.integers(0, 6), min_size=1),
    st.sets(st.integers(0, 24), min_size=2, max_size=2),
    st.sampled_from([(), ("2024-03-31",), ("2024-10-27", "2018-11-04", "2011-12-31")]),
)


def utc(moment: datetime.datetime) -> int:
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def around(zone: str, date: str, days: int = 4) -> tuple[int, int]:
    """From some days before the date to some after, not at midnight."""
    middle = midnight(zone, date)
    return middle - days * DAY_US + 17 * MINUTE_US, middle + days * DAY_US + 43 * MINUTE_US


def is_open(calendar: WorkingCalendar, time_us: int) -> bool:
    """By the clock on the wall."""
    moment = EPOCH + datetime.timedelta(microseconds=time_us)
    wall = moment.astimezone(ZoneInfo(calendar.time_zone))
    return (
        wall.weekday() in calendar.days
        and calendar.from_hour <= wall.hour < calendar.to_hour
        and wall.date().isoformat() not in calendar.holidays
    )


# --- working time ---------------------------------------------------------------------------------


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("zone", "date"), PLACES)
@settings(max_examples=12)
@given(calendars)
def test_working_time_is_what_a_loop_over_minutes_counts(zone, date, given_):
    calendar = WorkingCalendar(zone, **given_)
    first, last = around(zone, date)
    minutes = list(range(first, last, MINUTE_US))  # every change of these clocks is at a minute
    is_working = [is_open(calendar, minute) for minute in minutes]
    assert calendar.is_open_within(first, last) == any(is_working)
    if not any(is_working):
        with pytest.raises(UsageError, match="no working hour"):
            calendar.over(first, last)
        return
    time = calendar.over(first, last)
    counted = np.concatenate([[0], np.cumsum(is_working)]) * MINUTE_US
    assert time.total_us == counted[-1]
    assert np.array_equal(time.elapsed_us(np.array([*minutes, last])), counted)
    # The intervals are disjoint and do not touch.
    assert (time.opens_us < time.closes_us).all()
    assert (time.opens_us[1:] > time.closes_us[:-1]).all()
    # Back: the minutes in which work is done, in their order.
    back = time.at_us(np.arange(0, time.total_us, MINUTE_US))
    assert back.tolist() == [m for m, working in zip(minutes, is_working, strict=True) if working]


@given(
    st.sampled_from(PLACES),
    calendars,
    st.lists(st.integers(-30 * DAY_US, 30 * DAY_US), min_size=1, max_size=20),
)
def test_there_and_back(place, given_, shifts):
    calendar = WorkingCalendar(place[0], **given_)
    first, last = around(*place, days=12)
    time = calendar.over(first, last)
    times = np.sort(np.array(shifts)) + (first + last) // 2
    elapsed = time.elapsed_us(times)
    assert elapsed.dtype == np.int64 and (np.diff(elapsed) >= 0).all()
    back = time.at_us(elapsed)
    assert all(is_open(calendar, stamp) for stamp in back.tolist())
    assert np.array_equal(time.elapsed_us(back), np.minimum(elapsed, time.total_us - 1))
    for stamp, found in zip(times.tolist(), back.tolist(), strict=True):
        if first <= stamp < last and is_open(calendar, stamp):
            assert found == stamp
        elif stamp < last and found != time.closes_us[-1] - 1:
            assert found > stamp  # the next working moment
    steps = time.at_us(np.sort(shifts))
    assert (np.diff(steps) >= 0).all() and first <= steps[0] and steps[-1] < last


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("zone", "date"), PLACES)
@settings(max_examples=8)
@given(calendars)
def test_slots_are_working_time_by_day_and_hour(zone, date, given_):
    calendar = WorkingCalendar(zone, **given_)
    first, last = around(zone, date, days=10)
    time = calendar.over(first, last)
    begins, ends = time.slots_us
    assert (begins < ends).all() and (begins[1:] >= ends[:-1]).all()
    assert (ends - begins <= HOUR_US).all()
    assert (ends - begins).sum() == time.total_us
    assert np.array_equal(time.elapsed_us(ends) - time.elapsed_us(begins), ends - begins)
    days, hours = time.days_and_hours(begins)
    assert 0 <= days.min() and days.max() < time.n_days
    for stamps in (begins, (begins + ends) // 2, ends - 1):
        same_days, same_hours = time.days_and_hours(stamps)
        assert np.array_equal(same_days, days) and np.array_equal(same_hours, hours)
    monday = EPOCH.date() + datetime.timedelta(days=time.first_monday)
    assert monday.weekday() == 0
    for stamp, day, hour in zip(begins.tolist(), days.tolist(), hours.tolist(), strict=True):
        wall = (EPOCH + datetime.timedelta(microseconds=stamp)).astimezone(ZoneInfo(zone))
        assert wall.date() == monday + datetime.timedelta(days=day)
        assert hour == 24 * wall.weekday() + wall.hour


def test_what_is_no_calendar_is_refused():
    refused = {
        "time_zone": [{"time_zone": zone} for zone in ("Mars/Olympus", "../etc/passwd", "")],
        "days": [{"days": days} for days in ((), (0, 7))],
        "0 <= from_hour": [{"from_hour": 9, "to_hour": 9}],
        "from_hour": [{"from_hour": 22, "to_hour": 6}, {"from_hour": -1}, {"to_hour": 25}],
        "holidays: 'tomorrow'": [{"holidays": ("2024-12-25", "tomorrow")}],
    }
    for said, many in refused.items():
        for given_ in many:
            with pytest.raises(UsageError, match=said):
                WorkingCalendar(**given_)


def test_a_range_without_working_hours_is_refused():
    weekend = day_start_us(date_of("date", "2024-06-01"), "UTC")
    with pytest.raises(UsageError, match="no working hour"):
        WorkingCalendar(days=(0, 1, 2, 3, 4)).over(weekend, weekend + 2 * DAY_US)
    with pytest.raises(UsageError, match="empty"):
        WorkingCalendar().over(5, 5)


# --- grids of stamps, durations and moments -------------------------------------------------------


def test_what_is_no_duration_or_moment_is_told_what_one_is() -> None:
    for value in ("", "90", "d", "-1d", "1y", "1 month", "0.0001ms", 90, None):
        with pytest.raises(ValueError, match=r"such as 90s|whole number of milliseconds"):
            duration_us(value)
    for value in ("", "January", "1970-13-01", "1970-01-01T00:00:00.0001"):
        with pytest.raises(ValueError, match=r"like 2026-12-01 or|whole number of milliseconds"):
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


# Weeks in which the clock is put forward by an hour, back by half an hour, and forward at midnight.
RANGES = {
    "Amsterdam": ("Europe/Amsterdam", "2024-03-29", "2024-04-02"),
    "Amsterdam in autumn": ("Europe/Amsterdam", "2024-10-25", "2024-10-29"),
    "Lord Howe": ("Australia/Lord_Howe", "2024-04-05", "2024-04-09"),
    "Sao Paulo": ("America/Sao_Paulo", "2018-11-02", "2018-11-07"),
}
CALENDARS = {"always": {}, "office": {"days": (0, 1, 4, 6), "from_hour": 0, "to_hour": 17}}


def midnight(zone: str, date: str) -> int:
    return utc(datetime.datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(zone)))


def shown(zone: str, time_us: int) -> int:
    """What the clock shows, in microseconds, by the library of Python."""
    moment = EPOCH + datetime.timedelta(microseconds=int(time_us))
    offset = moment.astimezone(ZoneInfo(zone)).utcoffset() or datetime.timedelta()
    return int(time_us) + offset // datetime.timedelta(microseconds=1)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("place", RANGES)
@pytest.mark.parametrize("granularity", ["minute", "hour", "day"])
def test_ticks_are_those_of_a_loop_over_all_minutes(place, calendar, granularity):
    """A tick begins at each working minute at which the clock shows another minute, hour or day."""
    zone, first, last = RANGES[place]
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
