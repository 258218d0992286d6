"""The time range that is bought: its counts by a loop, who can tip it, and where it falls."""

from __future__ import annotations

import datetime
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tracecloak.anonymizers.times import time_range
from tracecloak.anonymizers.times.time_range import (
    N_MONTHS,
    TIME_RANGE,
    CaseMonths,
    LogTime,
    TimeRange,
    TimeRangeDecision,
    choose_time_range,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.local_time import DAY_US
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.errors import UsageError

ALWAYS = WorkingCalendar()


def at(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(
        microseconds=1
    )


spans_of_months = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 30)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=12,
)


def counted(spans: list[tuple[int, int]]) -> CaseMonths:
    keys = np.array([first * N_MONTHS + last for first, last in spans], np.int64)
    distinct, counts = np.unique(keys, return_counts=True)
    return CaseMonths(distinct, counts.astype(np.int64))


def test_dates_are_days_of_the_place_and_both_included():
    span = TimeRange.of_dates("2024-03-31", "2024-03-31", "Europe/Amsterdam")
    assert span == TimeRange(at("2024-03-30T23:00"), at("2024-03-31T22:00"))  # of 23 hours
    span = TimeRange.of_dates("1999-12-31", "2000-01-01", "UTC")
    assert span == TimeRange(at("1999-12-31"), at("2000-01-02"))
    assert TimeRange.of_dates("1970-01-01", "2099-12-31", "UTC").last_us == at("2100-01-01")


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("2024-02-01", "2024-01-01", "swap"),
        ("1969-12-31", "2024-01-01", "first_date: expected a date from 1970"),
        ("2024-01-01", "2100-01-01", "last_date: expected a date from 1970"),
        ("soon", "2024-01-01", "first_date: 'soon'"),
    ],
)
def test_other_dates_are_refused(first, last, said):
    with pytest.raises(UsageError, match=said):
        TimeRange.of_dates(first, last, "UTC")


def test_the_working_time_is_of_the_public_range_or_of_the_bought_one():
    public, bought = TimeRange(0, 5 * DAY_US), TimeRange(0, 9 * DAY_US)
    decisions = {TIME_RANGE: TimeRangeDecision(bought)}
    assert LogTime(ALWAYS, public).working_time(decisions).total_us == 5 * DAY_US
    rule = pickle.loads(pickle.dumps(LogTime(ALWAYS, None)))  # noqa: S301
    assert rule.working_time(decisions).total_us == 9 * DAY_US
    assert decode(encode(decisions[TIME_RANGE])) == decisions[TIME_RANGE]
    with pytest.raises(UsageError, match="no working hour"):
        LogTime(WorkingCalendar(days=(6,)), TimeRange(0, DAY_US))  # a Thursday


@given(spans_of_months, st.integers(0, 12), st.integers(1, 60))
def test_windows_hold_what_a_loop_counts(spans, cut, length):
    merged = CaseMonths.merge([counted(spans[:cut]), counted(spans[cut:])])
    assert merged == counted(spans) == decode(encode(merged))
    held = merged.within(length)
    step = -(-length // 8)
    assert len(held) == len(range(0, N_MONTHS, step))
    for place, begin in enumerate(range(0, 72, step)):
        assert held[place] == sum(begin <= first and last < begin + length for first, last in spans)
    assert (held[len(range(0, 72, step)) :] == 0).all()


@given(st.integers(0, N_MONTHS - 1), st.integers(0, len(time_range._LENGTHS) - 2))
def test_every_window_lies_within_one_of_the_next_length(first, place):
    """So the largest number of cases does not fall with the length."""
    shorter, longer = time_range._LENGTHS[place : place + 2]
    last = min(first + shorter, N_MONTHS) - 1
    assert counted([(first, last)]).within(longer).max() == 1
    if last > first:
        assert counted([(first, last)]).within(last - first).max() == 0  # a month too short


class Seen:
    """Notes the scores and sensitivities with which the two choices are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
        self.cases = self.scores = np.zeros(0)
        self.epsilons: list[Fraction] = []

        def quantile(
            cases: Any, epsilon: Fraction, _: Any, max_units: int, *own: Any, most_lost: int
        ) -> int:
            self.cases, self.units, self.most_lost = cases, max_units, most_lost
            self.epsilons.append(epsilon)
            return length

        def flip(stream: Any, scores: Any, epsilon: Fraction, sensitivity: Any, monotone: bool):
            self.scores, self.sensitivity, self.monotone = scores, sensitivity, monotone
            self.epsilons.append(epsilon)
            return 0

        monkeypatch.setattr(time_range, "choose_quantile", quantile)
        monkeypatch.setattr(time_range, "select", flip)


@pytest.mark.parametrize("length", [0, 3, 9, 17])
def test_one_case_raises_every_score_by_0_or_1(monkeypatch, length):
    """Every case of few months beside every small log; the scores where the choices are made."""
    seen = Seen(monkeypatch, length)
    months = [0, 1, 5, 30, N_MONTHS - 1]
    cases = [(a, b) for a in months for b in months if a <= b]
    changes = set()
    for others in ([], [(0, 0)], [(0, 1), (5, 30), (5, 5)], [(1, N_MONTHS - 1)] * 3):
        seen.epsilons.clear()
        choose_time_range(counted(others), Fraction(1), 1, ALWAYS, randomness())
        assert sum(seen.epsilons) == 1 and seen.sensitivity == seen.units == 1 and seen.monotone
        reached, scores = np.cumsum(seen.cases), seen.scores
        assert reached[-1] == len(others)
        assert (seen.cases >= 0).all()
        for case in cases:
            choose_time_range(counted([*others, case]), Fraction(1), 1, ALWAYS, randomness())
            changes |= set((np.cumsum(seen.cases) - reached).tolist())
            changes |= set((seen.scores - scores).tolist())
            assert np.cumsum(seen.cases)[-1] == len(others) + 1
    assert changes == {0, 1}


def test_units_of_several_cases_are_covered(monkeypatch):
    seen = Seen(monkeypatch, 4)
    choose_time_range(counted([(0, 1)]), Fraction(1, 2), 3, ALWAYS, randomness())
    assert (seen.sensitivity, seen.units, sum(seen.epsilons)) == (3, 3, Fraction(1, 2))
    assert seen.most_lost == 12 * 3 * 3


def is_whole_months(span: TimeRange) -> bool:
    """Whether both ends are the first of a month, UTC."""
    days = [divmod(moment, DAY_US) for moment in (span.first_us, span.last_us)]
    firsts = [np.datetime64(day, "D").astype(object).day for day, _ in days]
    return firsts == [1, 1] and not any(rest for _, rest in days)


@given(spans_of_months, st.integers(0, 50))
def test_whatever_the_log_the_range_is_of_whole_months_with_work(spans, number):
    calendar = WorkingCalendar(days=(1, 2), from_hour=9, to_hour=17)
    span = choose_time_range(
        counted(spans), Fraction(1, 10), 1, calendar, randomness(number)
    ).time_range
    assert is_whole_months(span)
    assert 0 <= span.first_us < span.last_us <= at("2100-01-01")
    assert span.last_us - span.first_us >= 59 * DAY_US
    assert calendar.is_open_within(span.first_us, span.last_us)


def test_where_a_holiday_leaves_no_work_in_the_range_it_is_all_of_time():
    begin = datetime.date(1990, 1, 1).toordinal()
    free = tuple(datetime.date.fromordinal(begin + i).isoformat() for i in range(3000))
    log = counted([(12 * 22, 12 * 22)] * 5000)
    open_span = choose_time_range(log, Fraction(1), 1, ALWAYS, randomness()).time_range
    assert open_span.last_us - open_span.first_us < 400 * DAY_US
    calendar = WorkingCalendar(holidays=free)
    span = choose_time_range(log, Fraction(1), 1, calendar, randomness()).time_range
    assert span == TimeRange(0, at("2100-01-01"))
