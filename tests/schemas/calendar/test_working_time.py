"""Working time against a loop over minutes, on days on which clocks change; local clocks."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US, date_of, day_start_us
from tracecloak.schemas.calendar.working_time import WorkingCalendar
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
    middle = utc(datetime.datetime.fromisoformat(date).replace(tzinfo=ZoneInfo(zone)))
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
        "got 9 and 9": [{"from_hour": 9, "to_hour": 9}],
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
