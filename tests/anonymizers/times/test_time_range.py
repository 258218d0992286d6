"""The range, the granularity and the detail of times: what is counted and what is chosen."""

from __future__ import annotations

import datetime
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.anonymizers.times.test_step_durations import public
from tests.support.keys import randomness
from tests.support.logs import Event, trace_batch
from tests.support.timed_logs import LITTLE, given_of, variants_of
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.noise.samplers import EXACT
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.times import time_range
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, Detail, times_by
from tracecloak.anonymizers.times.case_spans import count_granularities, decide_granularity
from tracecloak.anonymizers.times.time_range import (
    N_MONTHS,
    TIME_RANGE,
    CaseMonths,
    LogTime,
    TimeRange,
    TimeRangeDecision,
    choose_time_range,
    grid_clock,
)
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.calendar.working_time import GRANULARITIES, WorkingCalendar
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

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
    span = TimeRange.from_dates("2024-03-31", "2024-03-31", "Europe/Amsterdam")
    assert span == TimeRange(at("2024-03-30T23:00"), at("2024-03-31T22:00"))  # of 23 hours
    span = TimeRange.from_dates("1999-12-31", "2000-01-01", "UTC")
    assert span == TimeRange(at("1999-12-31"), at("2000-01-02"))
    assert TimeRange.from_dates("1970-01-01", "2099-12-31", "UTC").last_us == at("2100-01-01")


def test_other_dates_are_refused():
    for first, last, said in [
        ("2024-02-01", "2024-01-01", "swap"),
        ("1969-12-31", "2024-01-01", "first_date: expected a date from 1970"),
        ("2024-01-01", "2100-01-01", "last_date: expected a date from 1970"),
        ("soon", "2024-01-01", "first_date: 'soon'"),
    ]:
        with pytest.raises(UsageError, match=said):
            TimeRange.from_dates(first, last, "UTC")


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
        monkeypatch.setattr(EXACT, "select", flip)


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


SECOND, MINUTE = 1_000_000, 60_000_000
MILLISECOND = 1_000
GRIDS = (1, MILLISECOND, SECOND, MINUTE, HOUR_US, DAY_US)


def counts_of(log: list[Event], time_zone: str = "UTC") -> list[int]:
    counter = Counted(ClippedCells, count_granularities, (time_zone,))
    counted = counter.count(trace_batch(log), {}, randomness())
    return [int(x) for x in counted.dense(np.arange(6))]


def finest(times: list[int]) -> int:
    """The coarsest grid that has all of a case's stamps, by a loop."""
    return max(i for i, step in enumerate(GRIDS) if all(time % step == 0 for time in times))


stamps = st.tuples(st.sampled_from(GRIDS), st.integers(0, 10_000)).map(lambda x: x[0] * x[1])


@given(st.lists(st.lists(stamps, min_size=1, max_size=4), max_size=6), st.integers(1, 3))
def test_cases_are_counted_by_their_finest_stamp(cases, n_pieces):
    log = [(f"c{i}", "A", time) for i, times in enumerate(cases) for time in times]
    expected = [0] * 6
    for times in cases:
        expected[finest(times)] += 1
    assert counts_of(log) == expected
    traces, counter = trace_batch(log), Counted(ClippedCells, count_granularities, ("UTC",))
    parts = [traces.take(np.arange(i, traces.n_cases, n_pieces)) for i in range(n_pieces)]
    pieces = [counter.count(part, {}, randomness()) for part in parts]
    merged = ClippedCells.merge(pieces[::-1])
    assert merged == counter.count(traces, {}, randomness()) == decode(encode(merged))


def test_around_changes_of_the_clock_each_stamp_is_asked_for_its_grids():
    for zone in ["Africa/Cairo", "America/Sao_Paulo", "Pacific/Apia"]:
        clock = grid_clock(zone)
        steps = np.array([-DAY_US, -HOUR_US, -1, 0, 1, MINUTE, HOUR_US, 5 * HOUR_US, DAY_US])
        times = np.unique(clock.since_us[1:, None] + steps)
        local, expected = clock.local_us(times), np.zeros(len(times), np.int64)
        for i, step in enumerate(GRIDS):
            over = local % step
            expected[(over == 0) | (clock.first_us(local - over) == times)] = i
        log = [(f"c{i}", "A", time) for i, time in enumerate(times.tolist())]
        assert counts_of(log, zone) == np.bincount(expected, minlength=6).tolist()


def chosen(counts: list[int], noise: SumNoise = LITTLE, number: int = 0) -> str:
    used = np.flatnonzero(counts)
    counted = ClippedCells(used, np.array(counts, np.int64)[used])
    given = given_of("granularity", counted, {}, randomness(number))
    return decide_granularity(given, noise).granularity


def test_the_coarsest_grid_that_nearly_all_cases_are_on_is_chosen():
    for place, name in enumerate(GRANULARITIES):
        assert chosen([100 * (i == place) for i in range(6)]) == name
    # A fiftieth may be off.
    assert chosen([0, 0, 1, 1, 0, 98]) == "day"
    assert chosen([0, 1, 0, 2, 0, 97]) == "minute"
    assert chosen([0, 0, 0, 0, 3, 97]) == "hour"
    assert chosen([0, 0, 50, 0, 0, 50]) == "second"
    assert chosen([0, 50, 0, 0, 0, 50]) == "millisecond"
    assert chosen([2, 98, 0, 0, 0, 0]) == "millisecond"
    assert chosen([3, 0, 0, 0, 0, 97]) == "microsecond"
    assert chosen([1, 1, 98, 0, 0, 0]) == "second"


def test_a_log_that_noise_hides_keeps_its_seconds():
    """By hand: of deviation 10, those on a grid must be 2.5 * 10 * 2.4 = 61 more than those off."""
    wide = SumNoise((10, 1), 1, False)

    def found(counts: list[int]) -> list[str]:
        return [chosen(counts, wide, number) for number in range(400)]

    assert found([0, 0, 20, 0, 0, 0]).count("second") > 380
    assert found([0, 0, 0, 0, 0, 0]).count("second") > 380
    assert found([0, 0, 0, 0, 0, 120]).count("day") > 380
    # By hand: 20 finer ones are no 2.5 * 10, and as many as 60 are that for sure.
    assert found([20, 0, 0, 0, 0, 0]).count("second") > 100
    assert found([60, 0, 0, 0, 0, 0]).count("microsecond") > 380


OF_ALL = Detail("case")


def by(n_names: int, n_cases: int | None, epsilon: str = "1") -> str:
    return times_by(n_names, n_cases, None, (Fraction(epsilon), Fraction(1, 10**6)), 1)


def test_a_wide_log_of_few_cases_is_counted_by_case_and_a_narrow_one_by_activity():
    assert by(400, 1_000) == by(200, 937) == by(100, 1_000) == "case"
    assert by(20, 1_000) == by(27, 1_434) == by(400, 100_000) == by(200, 937, "90") == "activity"
    # Where no number is declared only hundreds of names count against activities.
    assert by(100, None, "0.01") == by(20, None) == "activity" and by(400, None) == "case"


def params(n_names: int, **given: object) -> PrivateLogParams:
    names = tuple(f"a{i}" for i in range(n_names))
    return PrivateLogParams.model_validate({"epsilon": "1", "vocabulary": names, **given})


def test_the_rule_needs_declared_names_and_delta_and_what_is_asked_for_goes_first():
    assert params(399).detail == OF_ALL
    assert params(399, times_by="activity").detail == params(20).detail == BY_ACTIVITY
    assert params(3, times_by="case").detail == OF_ALL
    pure = params(150, delta="0", max_trace_length=9, n_duration_bins=4)
    assert pure.detail == BY_ACTIVITY
    bought = PrivateLogParams.model_validate({"epsilon": "1", "buy_vocabulary": True})
    assert bought.detail == BY_ACTIVITY


def test_a_declared_number_of_cases_is_a_parameter_only_where_it_changes_the_answer():
    assert params(20).expecting(1_000) == params(20)
    assert params(90).expecting(1_000).given()["times_by"] == "case"
    assert params(399).expecting(10**6).given()["times_by"] == "activity"
    assert params(150, times_by="activity").expecting(1_000).detail == BY_ACTIVITY


def test_a_number_of_cases_that_asks_for_more_names_than_can_be_counted_is_refused():
    """By the same check as where it is asked for; otherwise it would fail after it was paid for."""
    with pytest.raises(pydantic.ValidationError, match="smaller vocabulary or fewer bins"):
        params(3_000).expecting(10**9)


def test_of_all_cases_alike_the_variants_have_most_and_the_parts_add_up():
    few, many = (params(n).spending for n in (20, 399))
    assert many.means["joint-variants"].share > few.means["joint-variants"].share * Fraction(3, 2)
    assert "tables" in few.means and "tables" not in many.means
    for budget in (few, many):
        assert sum(allowance.share for allowance in budget.means.values()) == 1


def test_cases_look_alike_and_keep_their_times():
    traces = public({"c": "A B@9 X A", "d": "B"})
    alike = OF_ALL.cases(traces)
    assert len(alike.vocabulary) == 1 and not alike.activities.any()
    assert alike.times.tolist() == traces.times.tolist()
    assert BY_ACTIVITY.cases(traces) is traces
    classes = OF_ALL.classes(variants_of(traces), traces.vocabulary)
    assert classes.sizes.tolist() == [2] and classes.of_cases(alike).tolist() == [0, 0]
