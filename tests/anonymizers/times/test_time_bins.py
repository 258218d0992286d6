"""Bins of times, and times of whole cases: borders, shares and counts by a loop."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import MINUTE, Log, cases_of, event_logs, trace_batch
from tests.support.timed_logs import given_of
from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.times import case_spans, time_bins
from tracecloak.anonymizers.times.case_spans import (
    SpansDecision,
    count_spans,
    decide_spans,
)
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells


def naive_borders(n_bins: int, n_ticks: int, second: int) -> list[int]:
    """Whole numbers nearest to what divides a scale evenly that is shrunk to a third below 1 s."""

    def on_scale(ticks: float) -> float:
        return math.log(min(ticks, second)) / 3 + math.log(max(ticks / second, 1))

    def ticks_at(place: float) -> float:
        low, high = 1.0, float(n_ticks)
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if on_scale(middle) < place else (low, middle)
        return low

    width = on_scale(n_ticks) / (n_bins - 1)
    wanted = {round(ticks_at(i * width)) for i in range(n_bins - 1)}
    return sorted(border for border in wanted if border < n_ticks)


@given(
    st.integers(time_bins.MIN_BINS, 60), st.integers(1, 10**9), st.sampled_from([1, 10**3, 10**6])
)
def test_borders_are_those_of_a_loop(n_bins, n_seconds, second):
    borders = time_bins.time_borders(n_bins, n_seconds * second, second)
    assert borders.dtype == np.int64
    assert (
        len(borders) < n_bins
        and (n_seconds * second == 1 or borders[0] == 1)
        and (np.diff(borders) > 0).all()
    )
    expected = naive_borders(n_bins, n_seconds * second, second)
    assert len(borders) == len(expected)
    assert (np.abs(borders - expected) <= 1 + 1e-9 * np.array(expected)).all()


def test_bins_are_as_many_as_the_noise_leaves_something_of():
    """8 deviations a bin: s / root f is 20 for the Gaussian share, root 8 for the Laplace one."""
    for max_units in [1, 3]:
        gaussian = Allowance(Fraction(0), share=Fraction(1, 25), deviation=Fraction(4))
        laplace = Allowance(Fraction(1, 2))
        for allowance, deviation in ((gaussian, 20), (laplace, math.sqrt(8))):
            own = 8 * deviation * max_units
            cases = [0, 12.9 * own, 13.1 * own, 30.5 * own, 48.5 * own, 10**9]
            found = [time_bins.n_bins_of(int(n), allowance, max_units) for n in cases]
            assert found == [12, 12, 13, 30, time_bins.MOST_BINS, 48]
            cases = [13.1 * own, 48.5 * own, 4 * 48.5 * own, 4 * 70.5 * own, 10**9]
            found = [
                time_bins.n_bins_of(int(n), allowance, max_units, is_of_cases=True) for n in cases
            ]
            assert found == [13, 48, 48, 70, 200]


def naive_shares(
    row: list[float], deviation: float, shares: list[float], is_large: list[bool]
) -> list[float]:
    """What the docstring of `decide_durations` says, one cell after the other."""
    counted = [
        x for x, share, large in zip(row, shares, is_large, strict=True) if share > 0 or large
    ]
    total = max(sum(counted), 0)
    found = []
    for x, share, large in zip(row, shares, is_large, strict=True):
        m = total * share
        mixed = m + m * m / (m * m + deviation**2) * (x - m) if m > 0 else 0
        found.append(max(x if large else mixed, 0))
    return [x / sum(found) for x in found] if sum(found) > 0 else shares


@st.composite
def noisy_rows(draw: st.DrawFn) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Rows, the deviation of their noise, the coarser shares and which cells are large."""
    n, k = draw(st.integers(0, 4)), draw(st.integers(1, 6))
    counts = st.integers(-100, 300)
    rows = draw(st.lists(st.lists(counts, min_size=k, max_size=k), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(0, 5), min_size=k, max_size=k).filter(any))
    deviation = draw(st.sampled_from([1e-6, 0.5, 20, 10**6]))
    found = np.array(rows, np.float64).reshape(n, k)
    return found, deviation, np.array(weights) / sum(weights), found > 4 * deviation


@given(noisy_rows())
def test_shares_are_those_of_a_loop_and_sum_to_1(drawn):
    rows, deviation, shares, is_large = drawn
    found = time_bins.estimated_shares(rows, deviation, shares, is_large)
    assert found.shape == rows.shape and (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(1)
    assert (found[:, shares == 0] == 0)[~is_large[:, shares == 0]].all()
    for i, row in enumerate(rows.tolist()):
        expected = naive_shares(row, deviation, shares.tolist(), is_large[i].tolist())
        assert found[i] == pytest.approx(expected, abs=1e-9)


def naive_without_longest(row: list[float], deviation: float, shares: list[float]) -> list[float]:
    """From the first bin on from which nothing is above noise, and what is expected is missed."""
    kept = []

    def beyond(values: list[float], first: int) -> bool:
        squares = sum(share**2 for share in shares[first:])
        together = sum(s * x for s, x in zip(shares[first:], values[first:], strict=True))
        return together > 3 * deviation * math.sqrt(squares)

    total = sum(x for x, share in zip(row, shares, strict=True) if share > 0)
    missed = [total * share - x for x, share in zip(row, shares, strict=True)]
    is_empty = False
    for d, share in enumerate(shares):
        is_last = not any(beyond(row, later) for later in range(d, len(row)))
        is_empty = is_empty or (is_last and beyond(missed, d))
        kept.append(0.0 if is_empty else share)
    return kept if any(kept) else shares


@given(noisy_rows())
def test_the_longest_times_are_those_of_a_loop(drawn):
    rows, deviation, shares, _ = drawn
    found = time_bins.without_longest(rows, deviation, shares)
    for i, row in enumerate(rows.tolist()):
        assert found[i].tolist() == naive_without_longest(row, deviation, shares.tolist())
    assert np.array_equal(
        time_bins.without_longest(rows, deviation, np.tile(shares, (len(rows), 1))), found
    )


def times_of(shares: list[float], ranks: np.ndarray, borders: np.ndarray, n_ticks: int) -> Any:
    """The times with these ranks of the second of three rows, the others being of bin 0."""
    reached = np.ones((3, len(shares)))
    reached[1] = np.cumsum(shares) / sum(shares)
    found = time_bins.times_at(reached, np.ones(len(ranks), np.int64), borders, n_ticks, ranks)
    assert found.dtype == np.int64 and found.shape == ranks.shape
    return found


def naive_time(shares: list[float], rank: float, borders: list[int], n_ticks: int) -> int:
    """Goes through the bins, then halves the place until the density's integral is the rank."""
    shares = [share / sum(shares) for share in shares]
    reached, bin_ = 0.0, 0
    while bin_ < len(shares) - 1 and rank >= reached + shares[bin_]:
        reached += shares[bin_]
        bin_ += 1
    if bin_ == 0:
        return 0
    own = (rank - reached) / shares[bin_]
    below = shares[bin_ - 1] if bin_ > 1 else 0
    above = shares[bin_ + 1] if bin_ + 1 < len(shares) else 0
    slope = min(max((above - below) / (2 * shares[bin_]), -2), 2)
    low, high = 0.0, 1.0
    for _ in range(60):
        place = (low + high) / 2
        is_above = place + slope * (place * place - place) / 2 > own
        low, high = (low, place) if is_above else (place, high)
    begin, end = borders[bin_ - 1], [*borders[1:], n_ticks][bin_ - 1]
    return min(int(begin * (end / begin) ** low), end - 1)


@st.composite
def bins_to_draw_from(draw: st.DrawFn) -> tuple[list[float], np.ndarray, int]:
    """Shares of bins, some 0, their borders and the length of the range."""
    n_ticks = draw(st.integers(1, 10**9))
    borders = time_bins.time_borders(draw(st.integers(4, 30)), n_ticks)
    weights = st.sampled_from([0, 0, 1, 2, 7, 100])
    n = len(borders) + 1
    return draw(st.lists(weights, min_size=n, max_size=n).filter(any)), borders, n_ticks


@given(bins_to_draw_from(), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=9))
def test_times_are_those_of_a_loop_and_do_not_fall_with_their_rank(drawn, ranks):
    shares, borders, n_ticks = drawn
    ranks = sorted(ranks)
    found = times_of(shares, np.array(ranks), borders, n_ticks)
    assert (found >= 0).all() and (found < n_ticks).all() and (np.diff(found) >= 0).all()
    bins = np.searchsorted(borders, found, side="right")
    assert all(shares[bin_] > 0 for bin_ in bins)
    ends = np.cumsum(shares) / sum(shares)
    for rank, time in zip(ranks, found.tolist(), strict=True):
        if np.abs(ends - rank).min() > 1e-8:  # else rounding decides on the bin
            expected = naive_time(shares, rank, borders.tolist(), n_ticks)
            assert time == pytest.approx(expected, rel=1e-5, abs=1)


DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
N_TICKS = 10_000 * 86_400
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 10_000 * DAY))
WORDS = ActivityVocabulary.public("AB")
N_BINS = 16
BORDERS = time_bins.time_borders(N_BINS, N_TICKS).tolist()
LARGE = Fraction(10**6)  # an epsilon at which there is no noise
COUNTER = Counted(ClippedCells, count_spans, (ALWAYS,))
BINS = {"bins": time_bins.TimeBins(4, N_BINS)}


def noise_of(epsilon: Fraction, max_units: int = 1) -> SumNoise:
    """Laplace noise with a share of epsilon of its own."""
    return Allowance(epsilon).noise(of_one_cell(max_units))


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def counts_of(log: Log, decisions: contract.Decisions | None = None) -> list[int]:
    """What is counted of a log, by bin."""
    counted = COUNTER.count(public(log), BINS | dict(decisions or {}), randomness())
    return [int(x) for x in counted.dense(np.arange(N_BINS))]


def bin_of(microseconds: int) -> int:
    return bisect.bisect_right(BORDERS, microseconds // SECOND)


def naive(log: Log) -> list[int]:
    """The counts by a loop."""
    counts = [0] * N_BINS
    for steps in cases_of(log).values():
        if len(steps) > 1:
            first, *_, last = (time // SECOND for _, time in steps)
            counts[bisect.bisect_right(BORDERS, last - first)] += 1
    return counts


@given(
    event_logs(max_events=25, n_cases=8, activities="ABX", minutes=5),
    st.sampled_from([1, 400_000, 1_000_001, MINUTE, 60 * MINUTE, 700 * DAY]),
)
def test_cases_are_counted_by_time(log, unit):
    log = [(case, name, time // MINUTE * unit) for case, name, time in log]
    assert counts_of(log) == naive(log)


def test_times_are_working_times_within_the_range():
    calendar = WorkingCalendar("UTC", (0, 1, 2, 3, 4), 9, 17)
    friday = TimeRange.from_dates("2024-06-07", "2024-06-10", "UTC")  # to Monday
    hour, borders = 60 * MINUTE, time_bins.time_borders(N_BINS, 16 * 3600)

    def found(granularity: Any, *hours: int) -> int:
        log = [("c", "A", friday.first_us + time * hour) for time in hours]
        counter = Counted(ClippedCells, count_spans, (LogTime(calendar, friday, granularity),))
        [key] = counter.count(public(log), BINS, randomness()).keys
        return int(key)

    def of_hours(n: int) -> int:
        return int(np.searchsorted(borders, n * 3600, side="right"))

    assert len({of_hours(1), of_hours(8), 0}) == 3
    assert found("second", 16, 50, 3 * 24 + 9) == of_hours(1)  # 65 hours by the clock
    assert found("second", 9, 17, 3 * 24 + 9) == of_hours(8)
    assert found("second", 17, 18, 2 * 24 + 12) == 0  # over the weekend
    assert found("second", -4000, 0, 10) == of_hours(1)  # clipped at the begin
    assert found("second", 3 * 24 + 16, 4000, 8000) == of_hours(1)  # and at the end
    # Two working days are two ticks of a grid of days, apart by one: the bin above no time.
    assert found("day", 9, 3 * 24 + 9) == found("day", 0, 3 * 24) == 1
    assert found("day", 9, 16) == found("hour", 9, 9) == 0


def decided_on(log: Log, epsilon: Fraction = LARGE, number: int = 0) -> SpansDecision:
    counted = COUNTER.count(public(log), BINS, randomness())
    given = given_of("spans", counted, BINS, randomness(number))
    return decide_spans(given, noise_of(epsilon), ALWAYS)


def shares_of(decided: SpansDecision) -> np.ndarray:
    return np.diff(decided.reached, prepend=0.0)


def test_without_noise_the_shares_are_those_of_the_log():
    log = {"c": "A@0 B@60", "d": "B@3 B@63", "e": "A@0 X@9 B@9000", "f": "A B X A@3", "g": "X"}
    shares = shares_of(decided_on(log))
    bins = [bin_of(x * MINUTE) for x in (3, 60, 9000)]
    assert len(set(bins)) == 3
    assert shares[bins] == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    assert shares.sum() == pytest.approx(1)


def test_a_bin_counts_where_it_and_those_beside_it_stand_out(monkeypatch):
    """By hand: of deviation 10, three must come to more than 25 root 3 = 43.3, two to 35.4."""
    noise = SumNoise((10, 1), 1, False)
    sums = [36, 0, 0, 40, 0, -9, 13, 16, 15, -2, 0, 44, 0, 0, 0, 0]

    def noisy(counted: ClippedCells, n_cells: int, *given: Any, is_whole: bool) -> np.ndarray:
        assert is_whole and n_cells == len(sums)
        return np.array(sums, np.float64)

    monkeypatch.setattr(case_spans, "noisy_counts", noisy)
    decided = decide_spans(given_of("spans", ClippedCells.merge([]), BINS), noise, ALWAYS)
    # 40 alone is noise; 16 with 13 and 15 is not, but they stand out by less than 43.3.
    kept = {0: 36, 7: 16, 11: 44}
    expected = [kept.get(bin_, 0) / sum(kept.values()) for bin_ in range(N_BINS)]
    assert shares_of(decided) == pytest.approx(expected)
