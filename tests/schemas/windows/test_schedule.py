"""Schedules: windows follow the calendar of their zone, and every moment is in one of them."""

from __future__ import annotations

import datetime
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.windows import HOURS, schedule
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.windows import MOST_WINDOWS, Schedule

# --- worked examples ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "period", "labels"),
    [
        ("2026-01-01", "year", ["2026", "2027", "2028"]),
        ("2026-07-01", "year", ["2026-07", "2027-07", "2028-07"]),
        ("2026-10-01", "quarter", ["2026-10", "2027-01", "2027-04"]),
        ("2026-12-01", "month", ["2026-12", "2027-01", "2027-02"]),
        ("2026-11-15", "month", ["2026-11-15", "2026-12-15", "2027-01-15"]),
        ("2026-08-01", "4 months", ["2026-08", "2026-12", "2027-04"]),
        ("2026-12-21", "week", ["2026-12-21", "2026-12-28", "2027-01-04"]),
        ("2028-02-28", "day", ["2028-02-28", "2028-02-29", "2028-03-01"]),
        ("2027-02-28", "1d", ["2027-02-28", "2027-03-01", "2027-03-02"]),
        ("2026-11-23T14:00Z", "hour", ["2026-11-23T14Z", "2026-11-23T15Z", "2026-11-23T16Z"]),
        ("2026-12-31T13:00+01:00", "6h", ["2026-12-31T12Z", "2026-12-31T18Z", "2027-01-01T00Z"]),
        ("2026-11-23", "hour", ["2026-11-22T23Z", "2026-11-23T00Z", "2026-11-23T01Z"]),
    ],
)
def test_a_label_is_the_shortest_text_of_the_begin(origin, period, labels):
    found = schedule(origin=origin, period=period, horizon=3)
    assert [window.label for window in found.windows()] == labels
    assert [found.named(label).number for label in labels] == [0, 1, 2]


def test_a_day_has_23_or_25_hours_where_the_clock_changes_and_hours_are_elapsed():
    hours = {
        label: (window.end_us - window.begin_us) // HOUR_US
        for window in schedule(origin="2026-01-01", period="day", horizon=365).windows()
        for label in [window.label]
    }
    assert {label: n for label, n in hours.items() if n != 24} == {
        "2026-03-29": 23,
        "2026-10-25": 25,
    }
    six = schedule(origin="2026-03-28", period="6 hours", horizon=12).windows()
    assert {(window.end_us - window.begin_us) // HOUR_US for window in six} == {6}


# --- every moment ---------------------------------------------------------------------------------

schedules = st.builds(
    schedule,
    period=st.sampled_from(
        ["hour", "7 hours", "day", "3 days", "week", "month", "5 months", "quarter", "year"]
    ),
    origin=st.dates(datetime.date(1950, 1, 1), datetime.date(2040, 12, 28))
    .filter(lambda date: date.day <= 28)
    .map(str),
    time_zone=st.sampled_from(["UTC", "Europe/Amsterdam", "America/New_York", "Africa/Cairo"]),
    horizon=st.integers(1, 40),
)


@given(schedules)
def test_windows_follow_one_another_and_are_found_by_their_labels(found: Schedule):
    windows = found.windows()
    for one, following in itertools.pairwise(windows):
        assert one.end_us == following.begin_us > one.begin_us
        assert one.label < following.label
    assert found.ranged(f"{windows[0].label}..{windows[-1].label}") == windows
    assert all(found.named(window.label) == window for window in windows)


# --- one digest for one meaning -------------------------------------------------------------------


@pytest.mark.parametrize(
    "one, other",
    [
        ({"period": "day"}, {"period": "1d"}),
        ({"period": "week"}, {"period": "7 days"}),
        ({"period": "quarter"}, {"period": "3 months"}),
        ({"period": "year"}, {"period": "12 months"}),
        ({"end_activities": ("a", "b")}, {"end_activities": ("b", "a")}),
        (
            {"period": "hour", "origin": "2026-01-01T00:00Z"},
            {"period": "hour", "origin": "2026-01-01T01:00+01:00"},
        ),
    ],
)
def test_what_means_the_same_has_one_digest(one, other):
    assert schedule(**one).digest == schedule(**other).digest


def test_when_a_window_is_due_is_no_part_of_the_digest():
    assert schedule(release_delay_us=0).digest == schedule().digest


def test_the_digest_stays_what_it_is():
    """Scopes of a ledger are named after it: another one would begin the budget anew."""
    assert schedule().digest == "e81b3489888845ff1605e63bda7a695d"


# --- what is wrong --------------------------------------------------------------------------------


WRONG = {
    "period": [
        *({"period": p} for p in ("fortnight", "30m", "0 days", "2 years", "400 days")),
        {"period": "9999 hours"},
    ],
    "time_zone": [{"time_zone": "Europe/Atlantis"}, {"time_zone": ""}],
    "origin": [
        *({"origin": o} for o in ("January", "2026-01-01T00:00Z", "2026-01-31", "1812-01-01")),
        *({"period": "hour", "origin": o}
          for o in ("2026-01-01T08:00", "2026-01-01T08:30Z", "1812-01-01T08:00Z")),
        {"period": "hour", "origin": "2026-01-01", "time_zone": "Asia/Kolkata"},
    ],
    "horizon": [
        {"horizon": 0}, {"horizon": MOST_WINDOWS + 1}, {"period": "year", "horizon": 9000},
    ],
    "max_lifetime": [{"max_lifetime_us": 0}, {"max_lifetime_us": 40_000 * DAY_US}],
    "release_delay": [{"release_delay_us": -1}],
    "gap": [{"gap_us": 91 * DAY_US}, {"gap_us": 0}, {"by": "first_event", "gap_us": DAY_US}],
    "end_activity": [
        {"by": "first_event", "end_activities": ("a",)}, {"end_activities": ("a", "a")},
    ],
}  # fmt: skip


@pytest.mark.parametrize(("key", "many"), WRONG.items())
def test_a_wrong_value_is_told_by_its_key(key, many):
    for changes in many:
        with pytest.raises(UsageError, match=f"^{key}: "):
            schedule(**changes)


NO_WINDOW = ("2025-12", "2028-01", "2026", "2026-11-23", "", "2026-11..", "2026-11..2028-01")


def test_what_is_no_window_is_told_what_there_is():
    for text in NO_WINDOW:
        with pytest.raises(UsageError, match="is none of the 24 windows"):
            schedule().ranged(text)
    with pytest.raises(UsageError, match=r"swap the labels"):
        schedule().ranged("2027-01..2026-11")


def test_a_day_within_a_week_is_told_where_the_week_begins():
    weeks = schedule(origin="2026-11-02", period="week")
    with pytest.raises(UsageError, match=r"2026-11-16 is the last that begins"):
        weeks.named("2026-11-18")


@pytest.mark.parametrize("number", [-1, 6])
def test_a_number_outside_the_horizon_is_refused(number):
    with pytest.raises(UsageError, match="must be from 0 to 5"):
        HOURS.numbered(number)
