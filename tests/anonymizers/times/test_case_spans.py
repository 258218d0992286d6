"""Times of whole cases: counts by a loop, sensitivity by enumeration, shares, times by rank."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import MINUTE, Log, cases_of, event_logs, trace_batch
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import LengthDecision, VocabularyDecision
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.times import case_spans
from tracecloak.anonymizers.times.case_spans import (
    GranularityDecision,
    SpansDecision,
    changed_spans,
    count_spans,
    decide_spans,
)
from tracecloak.anonymizers.times.time_bins import TimeBins, time_borders
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
N_TICKS = 10_000 * 86_400
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 10_000 * DAY))
WORDS = ActivityVocabulary.public("AB")
N_BINS = 16
BORDERS = time_borders(N_BINS, N_TICKS).tolist()
LARGE = Fraction(10**6)  # an epsilon at which there is no noise
COUNTER = Counted(ClippedCells, count_spans, (ALWAYS, N_BINS))


def noise_of(epsilon: Fraction, max_units: int = 1) -> SumNoise:
    """Laplace noise with a share of epsilon of its own."""
    return Allowance(epsilon).noise(changed_spans(max_units))


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def counts_of(log: Log, decisions: contract.Decisions | None = None) -> list[int]:
    """What is counted of a log, by bin."""
    counted = COUNTER.count(public(log), decisions or {}, randomness())
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
    friday = TimeRange.of_dates("2024-06-07", "2024-06-10", "UTC")  # to Monday
    hour, borders = 60 * MINUTE, time_borders(N_BINS, 16 * 3600)

    def found(granularity: Any, *hours: int) -> int:
        log = [("c", "A", friday.first_us + time * hour) for time in hours]
        counter = Counted(
            ClippedCells, count_spans, (LogTime(calendar, friday, granularity), N_BINS)
        )
        [key] = counter.count(public(log), {}, randomness()).keys
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


def test_what_was_bought_is_counted_in():
    @dataclass(frozen=True)
    class Range(contract.Decision):
        time_range: TimeRange

    decisions: dict[str, Any] = {
        "vocabulary": VocabularyDecision(WORDS),
        "length": LengthDecision(2),
        "time_range": Range(TimeRange(0, 30 * DAY)),
        "granularity": GranularityDecision("minute"),
        "bins": TimeBins(9, N_BINS),
    }
    counter = Counted(ClippedCells, count_spans, (LogTime(WorkingCalendar(), None, None),))
    log = trace_batch({"c": "A@0 X@90 B@5000", "d": "X@9", "e": "B@100 B@1000000"})
    found = counter.count(log, decisions, randomness())
    borders = time_borders(N_BINS, 30 * 1440)
    expected = np.searchsorted(borders, [90, 30 * 1440 - 101], side="right")
    assert found.keys.tolist() == expected.tolist() and found.values.tolist() == [1, 1]
    decisions["length"] = LengthDecision(1)
    assert counter.count(log, decisions, randomness()) == ClippedCells.merge([])


def decided_on(log: Log, epsilon: Fraction = LARGE, number: int = 0) -> SpansDecision:
    counted = COUNTER.count(public(log), {}, randomness())
    return decide_spans(counted, N_BINS, N_TICKS, noise_of(epsilon), randomness(number))


def shares_of(decided: SpansDecision) -> np.ndarray:
    return np.diff(decided.reached, prepend=0.0)


def test_without_noise_the_shares_are_those_of_the_log():
    log = {"c": "A@0 B@60", "d": "B@3 B@63", "e": "A@0 X@9 B@9000", "f": "A B X A@3", "g": "X"}
    shares = shares_of(decided_on(log))
    bins = [bin_of(x * MINUTE) for x in (3, 60, 9000)]
    assert len(set(bins)) == 3
    assert shares[bins] == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("n_cases", "n_ticks", "epsilon"),
    [(0, 1, LARGE), (40, 2, Fraction(1)), (0, 60, Fraction(1, 10**6)), (40, N_TICKS, LARGE)],
)
def test_shares_sum_to_1_whatever_the_noise(n_cases, n_ticks, epsilon):
    log = {f"c{i}": f"A@0 B@{i * 9}" for i in range(n_cases)}
    time = LogTime(WorkingCalendar(), TimeRange(0, n_ticks * SECOND))
    for number in range(10):
        counted = Counted(ClippedCells, count_spans, (time, N_BINS)).count(
            public(log), {}, randomness()
        )
        decided = decide_spans(counted, N_BINS, n_ticks, noise_of(epsilon), randomness(number))
        assert decided.borders.tolist() == time_borders(N_BINS, n_ticks).tolist()
        assert decided.reached.shape == (len(decided.borders) + 1,)
        assert (shares_of(decided) >= 0).all() and decided.reached[-1] == 1
        assert decided.n_ticks == n_ticks


def test_a_bin_counts_where_it_and_those_beside_it_stand_out(monkeypatch):
    """By hand: of deviation 10, three must come to more than 25 root 3 = 43.3, two to 35.4."""
    noise = SumNoise((10, 1), 1, False)
    sums = [36, 0, 0, 40, 0, -9, 13, 16, 15, -2, 0, 44, 0, 0, 0, 0]

    def noisy(counted: ClippedCells, n_cells: int, *given: Any, is_whole: bool) -> np.ndarray:
        assert is_whole and n_cells == len(sums)
        return np.array(sums, np.float64)

    monkeypatch.setattr(case_spans, "noisy_counts", noisy)
    decided = decide_spans(ClippedCells.merge([]), N_BINS, N_TICKS, noise, randomness())
    # 40 alone is noise; 16 with 13 and 15 is not, but they stand out by less than 43.3.
    kept = {0: 36, 7: 16, 11: 44}
    expected = [kept.get(bin_, 0) / sum(kept.values()) for bin_ in range(N_BINS)]
    assert shares_of(decided) == pytest.approx(expected)
