"""Starts of cases: counts by a loop, sensitivity by enumeration, and the law of what is drawn.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import datetime
from collections import Counter
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness, release_key
from tests.support.logs import trace_batch
from tests.support.rounds import Recording
from tests.support.timed_logs import given_of
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.times.case_starts import (
    StartsDecision,
    changed_starts,
    count_starts,
    decide_starts,
    periods_of,
    sample_starts,
)
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.local_time import HOUR_US
from tracecloak.schemas.calendar.working_time import WorkingCalendar, WorkingTime
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def noise_of(epsilon: Fraction, max_units: int = 1) -> SumNoise:
    """Laplace noise with a share of epsilon of its own."""
    return Allowance(epsilon).noise(changed_starts(max_units))


def rule(first: str, last: str, zone: str = "UTC", **calendar: Any) -> LogTime:
    return LogTime(WorkingCalendar(zone, **calendar), TimeRange.from_dates(first, last, zone))


def time_of(*given_: Any, **calendar: Any) -> WorkingTime:
    return rule(*given_, **calendar).working_time({})


def log_of(starts: list[int]) -> TraceBatch:
    if not starts:
        return trace_batch({}, "AB")
    events = [(f"c{i}", "A", start) for i, start in enumerate(starts)]
    return trace_batch([*events, *(("c0", "B", starts[0] + 5 * HOUR_US) for _ in range(2))], "AB")


def wall(time_us: int, zone: str) -> datetime.datetime:
    return (EPOCH + datetime.timedelta(microseconds=int(time_us))).astimezone(ZoneInfo(zone))


def us(text: str, zone: str = "UTC") -> int:
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


RULES = [
    rule("2024-03-27", "2024-04-09", "Europe/Amsterdam"),
    rule("2024-10-21", "2024-11-03", "Europe/Amsterdam", days=(0, 2, 6), from_hour=1, to_hour=5),
    rule("2018-10-28", "2018-11-10", "America/Sao_Paulo", holidays=("2018-11-04",)),
]


@pytest.mark.parametrize("log_time", RULES)
@settings(max_examples=25)
@given(st.lists(st.integers(-3 * 24 * 60, 18 * 24 * 60), max_size=15), st.integers(0, 15))
def test_starts_are_counted_by_date_and_hour(log_time, minutes, cut):
    time = log_time.working_time({})
    starts = [time.first_us + minute * 60_000_000 for minute in minutes]
    counter = Counted(ClippedCells, count_starts, (log_time,))
    pieces = [
        counter.count(log_of(part), {}, randomness()) for part in (starts[:cut], starts[cut:])
    ]
    found = counter.kind.merge(pieces).dense(np.arange(time.n_days + 168))
    assert found.sum() == 2 * len(starts)
    expected: Counter[tuple[str, Any]] = Counter()
    for start in starts:
        # The next open minute of the range, or else the last one.
        open_minutes = range(max(start, time.first_us), time.last_us, 60_000_000)
        moment = next((m for m in open_minutes if is_open(log_time, m)), time.closes_us[-1] - 1)
        local = wall(moment, log_time.calendar.time_zone)
        expected["date", local.date()] += 1
        expected["hour", 24 * local.weekday() + local.hour] += 1
    monday = EPOCH.date() + datetime.timedelta(days=time.first_monday)
    named = {
        ("date", monday + datetime.timedelta(days=day)): int(found[day])
        for day in range(time.n_days)
    } | {("hour", hour): int(found[time.n_days + hour]) for hour in range(168)}
    assert {cell: count for cell, count in named.items() if count} == expected


def is_open(log_time: LogTime, moment: int) -> bool:
    local, rules = wall(moment, log_time.calendar.time_zone), log_time.calendar
    return (
        local.weekday() in rules.days
        and rules.from_hour <= local.hour < rules.to_hour
        and local.date().isoformat() not in rules.holidays
    )


def test_every_cell_with_working_time_has_noise_of_its_own_whatever_the_log():
    log_time = rule("2024-03-01", "2024-04-30", days=(0, 1), from_hour=9, to_hour=11)
    time = log_time.working_time({})
    asked = []
    for starts in ([], [time.first_us, time.last_us]):
        noting = Recording(release_key(), "release", "input", "configuration")
        counts = Counted(ClippedCells, count_starts, (log_time,)).count(log_of(starts), {}, noting)
        given = given_of("starts", counts, {"sizes": 10**6}, noting)
        decided = decide_starts(given, noise_of(Fraction(1, 10)), log_time)
        assert (decided.bucket_days, decided.n_hours) == (1, 168)
        asked.append({what: set(cells) for what, cells in noting.asked.items()})
        first = {what: {a for a, _, counter in c if counter == 0} for what, c in asked[-1].items()}
        assert first == {
            # Mondays and Tuesdays from the Monday before, 26 February; the first are too early.
            "starts by date": {7 * week + day for week in range(1, 10) for day in (0, 1)},
            "starts by hour": {9, 10, 33, 34},
        }
        sample_starts(decided, np.arange(3), noting)
        assert len(noting.asked) == 3  # what is drawn has a purpose of its own


@pytest.mark.parametrize("bucket_days", [1, 7, 91])
def test_the_law_of_a_start_is_that_of_the_rates(bucket_days):
    """50,000 draws against the integral of rate times bucket, hour by hour and within hours."""
    zone = "Europe/Amsterdam"
    time = time_of("2024-03-21", "2024-04-15", zone, days=(0, 3, 6), from_hour=1, to_hour=6)
    n_buckets = -(-time.n_days // bucket_days)
    rng = np.random.default_rng(3)
    open_days, _ = time.days_and_hours(time.slots_us[0])
    used = np.isin(np.arange(n_buckets), open_days // bucket_days)
    buckets = np.where(used, rng.random(n_buckets), 0)
    buckets /= buckets.sum()
    rates = rng.random(168)
    rates[24 * 3 + 4] = 0
    n = 50_000
    decided = StartsDecision(time, bucket_days, buckets, 168, rates)
    drawn = sample_starts(decided, np.arange(n), randomness(5))

    def law(rates: np.ndarray) -> dict[int, float]:
        """By the quarter of an hour."""
        weights = {}
        for moment in range(time.first_us, time.last_us, HOUR_US // 4):
            local = wall(moment, zone)
            if local.weekday() in (0, 3, 6) and 1 <= local.hour < 6:
                monday = EPOCH.date() + datetime.timedelta(days=time.first_monday)
                bucket = (local.date() - monday).days // bucket_days
                weights[moment] = (bucket, rates[24 * local.weekday() + local.hour])
        sums: Counter[int] = Counter()
        for bucket, rate in weights.values():
            sums[bucket] += rate
        return {
            moment: buckets[bucket] * rate / sums[bucket]
            for moment, (bucket, rate) in weights.items()
        }

    quarter = Counter(((drawn - time.first_us) // (HOUR_US // 4)).tolist())
    expected = law(rates)
    assert sum(expected.values()) == pytest.approx(1)
    places = [(moment - time.first_us) // (HOUR_US // 4) for moment in expected]
    assert not set(quarter) - set(places)
    observed = np.array([quarter[place] for place in places])
    assert p_value(observed, n * np.array(list(expected.values()))) > ALPHA
    moved = law(np.roll(rates, 1))
    wrong = np.array([moved[moment] for moment in expected])
    assert p_value(observed, n * np.maximum(wrong, 1e-12) / np.maximum(wrong, 1e-12).sum()) < ALPHA
    zeros = [place for place, chance in zip(places, expected.values(), strict=True) if chance == 0]
    assert zeros and not set(quarter) & set(zeros)


@st.composite
def some_starts(draw: st.DrawFn) -> StartsDecision:
    """Weeks with many, few or one slot of working time; many hours and days without a start."""
    first, n_days = draw(st.integers(0, 400)), draw(st.integers(1, 40))
    days = draw(st.sets(st.integers(0, 6), min_size=1))
    from_hour = draw(st.integers(0, 23))
    to_hour = draw(st.integers(from_hour + 1, min(from_hour + 3, 24)))
    calendar = WorkingCalendar("Europe/Amsterdam", tuple(sorted(days)), from_hour, to_hour)
    begin = datetime.date(2024, 1, 1) + datetime.timedelta(days=first)
    dates = begin, begin + datetime.timedelta(days=max(n_days, 7))
    time_range = TimeRange.from_dates(*map(str, dates), "Europe/Amsterdam")
    time = LogTime(calendar, time_range).working_time({})
    shares = st.one_of(st.just(0), st.floats(1e-6, 1))
    bucket_days = draw(st.sampled_from([1, 7, 28]))
    open_days, _ = time.days_and_hours(time.slots_us[0])
    n_buckets = -(-time.n_days // bucket_days)
    is_open = np.isin(np.arange(n_buckets), open_days // bucket_days)
    buckets = np.where(is_open, draw(st.lists(shares, min_size=n_buckets, max_size=n_buckets)), 0)
    buckets = np.where(is_open, 1, 0) if not buckets.any() else buckets
    rates = np.array(draw(st.lists(shares, min_size=168, max_size=168)))
    return StartsDecision(time, bucket_days, buckets / buckets.sum(), 168, rates)


@settings(max_examples=60)
@given(some_starts(), st.integers(1, 24))
def test_periods_are_parts_of_the_range_between_slots(decided, n):
    periods = periods_of(decided, n)
    begins, ends = decided.time.slots_us
    assert 1 <= periods.size <= n and len(periods.borders_us) == periods.size - 1
    assert (np.diff(periods.borders_us) > 0).all()
    assert periods.borders_us.dtype == np.int64
    assert set(periods.borders_us.tolist()) <= set(ends[:-1].tolist())
    assert periods.ranks[0] == 0 and periods.ranks[-1] == 1 and (np.diff(periods.ranks) >= 0).all()
    # A border cuts nothing: the slots before it are of the lower period, the others are not.
    assert np.array_equal(periods.of(begins), periods.of(ends - 1))
    assert periods.of(np.array([decided.time.first_us, decided.time.last_us])).tolist() == [
        0,
        periods.size - 1,
    ]
    # Drawn within a period that anything starts in, a start is of that period.
    used = np.flatnonzero(np.diff(periods.ranks))
    own = used[np.arange(200) % len(used)]
    within = periods.ranks[own], periods.ranks[own + 1]
    drawn = sample_starts(decided, np.arange(200), randomness(), within)
    assert periods.of(drawn).tolist() == own.tolist()
    assert decode(encode(periods)).ranks.tolist() == periods.ranks.tolist()


def test_ranks_of_periods_are_the_shares_of_starts():
    """Of 19 starts on Mondays 10 are in the first of ten hours, and one in each of the others."""
    time = time_of("2024-01-01", "2024-01-07", days=(0,), from_hour=8, to_hour=18)
    rates = np.zeros(168)
    rates[8:18] = 10, 1, 1, 1, 1, 1, 1, 1, 1, 1
    decided = StartsDecision(time, 7, np.array([1.0]), 168, rates)
    periods = periods_of(decided, 3)
    assert periods.borders_us.tolist() == [us("2024-01-01T09:00"), us("2024-01-01T12:00")]
    assert periods.ranks == pytest.approx([0, 10 / 19, 13 / 19, 1])
    starts = [us(f"2024-01-01T{text}") for text in ("08:59", "09:00", "11:59", "12:00", "17:59")]
    assert periods.of(np.array(starts)).tolist() == [0, 1, 1, 2, 2]
    # The first hour has two of four quarters, so one border less.
    quarters = periods_of(decided, 4)
    assert quarters.ranks == pytest.approx([0, 10 / 19, 15 / 19, 1])
