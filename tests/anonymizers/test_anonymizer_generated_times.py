"""Stamps of generated cases: a plain loop, the range, working hours, and any number of pieces."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonymizers.case_starts import CaseStarts, StartsDecision, decide_starts, sample_starts
from anonymizers.generated_times import timed
from anonymizers.noisy_graph import SumNoise
from anonymizers.step_durations import (
    UNITS,
    DurationsDecision,
    StepDurations,
    decide_durations,
    sample_durations,
    step_borders,
)
from anonymizers.time_range import LogTime, TimeRange
from schemas.clipped_cells import ClippedCells
from schemas.local_time import HOUR_US
from schemas.traces import TraceBatch
from schemas.vocabulary import ActivityVocabulary
from schemas.working_time import WorkingCalendar, WorkingTime
from tests.support.keys import randomness

DAY = 24 * HOUR_US
EXACT = SumNoise((1, 2**40), UNITS, False)  # so narrow that 0 is drawn
WORDS = ActivityVocabulary.of("AB")
CALENDARS = {
    "always": WorkingCalendar("Europe/Amsterdam"),
    "office": WorkingCalendar("Europe/Amsterdam", (0, 1, 2, 3), 9, 17, ("2024-04-01",)),
}
WEEKS = TimeRange.of_dates("2024-03-18", "2024-04-07", "Europe/Amsterdam")


def traces_of(lengths: list[int]) -> TraceBatch:
    """Cases of these lengths whose activities alternate; their stamps are not to be looked at."""
    offsets = np.cumsum([0, *lengths])
    n = int(offsets[-1])
    return TraceBatch(
        pa.array([f"c{i}" for i in range(len(lengths))], pa.string()),
        offsets,
        (np.arange(n) % 2).astype(np.int32),
        np.full(n, 77, np.int64),
        WORDS,
    )


def starts_in(time: WorkingTime) -> StartsDecision:
    """Even starts."""
    return decide_starts(ClippedCells.merge([]), time, 0, Fraction(10**6), 1, randomness())


def durations_of(*bins: int, n_bins: int = 12) -> DurationsDecision:
    """Every step is in one of these bins, with equal chances."""
    shares = np.bincount(bins, minlength=n_bins) / len(bins)
    reached = np.cumsum(np.broadcast_to(shares, (2, 2, n_bins)), axis=2)
    return DurationsDecision(step_borders(n_bins), reached / reached[:, :, -1:], 10**16)


def longest_bin_below(us: int, n_bins: int = 12) -> int:
    return int(np.searchsorted(step_borders(n_bins), us)) - 1


def check(made: TraceBatch, time: WorkingTime) -> None:
    assert made.times.dtype == np.int64 and len(made.times) == made.n_events
    assert ((made.times >= time.first_us) & (made.times < time.last_us)).all()
    assert (np.diff(made.times)[~made.is_first[1:]] >= 0).all()
    assert np.array_equal(time.at_us(time.elapsed_us(made.times)), made.times)  # working hours


lengths_of_cases = st.lists(st.integers(1, 9), max_size=12)


@pytest.mark.parametrize("calendar", CALENDARS)
@given(lengths_of_cases, st.lists(st.integers(0, 11), min_size=1, max_size=4))
def test_stamps_are_in_order_in_the_range_and_in_working_hours(calendar, lengths, bins):
    time = CALENDARS[calendar].over(WEEKS.first_us, WEEKS.last_us)
    traces = traces_of(lengths)
    numbers = np.arange(len(lengths)) * 3 + 5
    made = timed(traces, numbers, starts_in(time), durations_of(*bins), randomness())
    check(made, time)
    assert np.array_equal(made.offsets, traces.offsets)
    assert np.array_equal(made.activities, traces.activities)
    assert made.case_ids.equals(traces.case_ids)


@pytest.mark.parametrize("calendar", CALENDARS)
def test_stamps_are_those_of_a_loop(calendar):
    time = CALENDARS[calendar].over(WEEKS.first_us, WEEKS.last_us)
    traces = traces_of([1, 5, 2, 9, 3] * 150)
    numbers = np.arange(traces.n_cases)[::-1].copy()
    starts = starts_in(time)
    durations = durations_of(0, 2, *range(5, longest_bin_below(120 * DAY) + 1))
    made = timed(traces, numbers, starts, durations, randomness())
    begun = sample_starts(starts, numbers, randomness())
    n_moved = n_shrunk = 0
    for i in range(traces.n_cases):
        codes = traces.activities[traces.offsets[i] : traces.offsets[i + 1]]
        steps = np.arange(1, len(codes))
        taken = sample_durations(
            durations, codes[:-1], codes[1:], np.full(len(steps), numbers[i]), steps, randomness()
        )
        since = [0, *np.cumsum(taken).tolist()]
        found = made.times[made.offsets[i] : made.offsets[i + 1]]
        elapsed = time.elapsed_us(found)
        if since[-1] >= time.total_us:  # too long for the range
            n_shrunk += 1
            assert elapsed[0] < 1e-8 * time.total_us
            assert elapsed[-1] == pytest.approx(time.total_us, rel=1e-6)
            parts = np.array(since) / since[-1]
            assert elapsed / elapsed[-1] == pytest.approx(parts, abs=1e-6)
            continue
        begin = int(time.elapsed_us(begun[i : i + 1])[0])
        if begin + since[-1] >= time.total_us:
            n_moved += 1
            begin = time.total_us - 1 - since[-1]
        else:
            assert found[0] == begun[i]
        assert elapsed.tolist() == [begin + x for x in since]
    assert n_moved > 10 and n_shrunk > 10


def test_ties_stay_ties():
    time = CALENDARS["office"].over(WEEKS.first_us, WEEKS.last_us)
    made = timed(traces_of([4] * 50), np.arange(50), starts_in(time), durations_of(0), randomness())
    assert np.array_equal(made.times, np.repeat(made.starts, 4))
    assert len(np.unique(made.starts)) == 50


def test_long_cases_do_not_overflow():
    """20,000 steps of about 15 years each are beyond int64 in microseconds."""
    time = WorkingCalendar().over(0, 100 * 365 * DAY)
    made = timed(
        traces_of([3, 20_000, 2]), np.arange(3), starts_in(time), durations_of(11), randomness()
    )
    check(made, time)
    long = made.take(np.array([1]))
    assert long.times[-1] - long.times[0] == pytest.approx(time.total_us, rel=1e-6)


def test_a_range_of_a_microsecond_is_enough():
    time = WorkingCalendar().over(1000, 1001)
    made = timed(
        traces_of([1, 4]), np.arange(2), starts_in(time), durations_of(3, 11), randomness()
    )
    assert (made.times == 1000).all()


@given(lengths_of_cases, st.integers(1, 5), st.integers(0, 10**9))
def test_stamps_do_not_depend_on_the_number_of_pieces(lengths, n_pieces, first):
    time = CALENDARS["office"].over(WEEKS.first_us, WEEKS.last_us)
    traces, numbers = traces_of(lengths), first + np.arange(len(lengths))
    starts, durations = starts_in(time), durations_of(0, 4, 7, 8, 9)
    whole = timed(traces, numbers, starts, durations, randomness())
    for piece in range(n_pieces):
        rows = np.arange(piece, len(lengths), n_pieces)
        made = timed(traces.take(rows), numbers[rows], starts, durations, randomness())
        assert np.array_equal(made.times, whole.take(rows).times)
    # The stamps that the traces come with do not matter, the number of the case does.
    again = timed(replace(traces, times=traces.times * 3), numbers, starts, durations, randomness())
    assert np.array_equal(again.times, whole.times)
    if len(lengths) > 2:
        others = timed(traces, numbers + 1, starts, durations, randomness())
        assert not np.array_equal(others.times, whole.times)


def test_a_log_timed_anew_without_noise_is_like_itself():
    """Times of a log with two kinds of steps; the control takes the starts for the durations.

    4,000 cases; what is compared are means that differ by a deviation of 2.3 %, and 20 % is beyond
    8 of these: a chance below 1e-15.
    """
    rng = np.random.default_rng(4)
    log_time = LogTime(CALENDARS["office"], TimeRange.of_dates("2024-01-01", "2024-12-31", "UTC"))
    time = log_time.working_time({})
    n = 4000
    begun = rng.integers(0, time.total_us * 3 // 4, n)
    first, second = rng.exponential(HOUR_US, n), rng.exponential(3 * 8 * HOUR_US, n)
    elapsed = np.stack([begun, begun + first, begun + first + second], axis=1).astype(np.int64)
    traces = replace(
        traces_of([3] * n),
        activities=np.tile(np.array([0, 1, 0], np.int32), n),
        times=time.at_us(elapsed.reshape(-1)),
    )
    counted = StepDurations(log_time, 100, 10**9, UNITS).count(traces, {}, randomness())
    durations = decide_durations(counted, WORDS, 100, time.total_us, EXACT, randomness())
    counts = CaseStarts(log_time).count(traces, {}, randomness())
    starts = decide_starts(counts, time, n, Fraction(10**6), 1, randomness())
    made = timed(traces, np.arange(n), starts, durations, randomness())
    check(made, time)
    steps = time.elapsed_us(made.times).reshape(n, 3)
    assert np.diff(steps).mean(axis=0) == pytest.approx([first.mean(), second.mean()], rel=0.2)
    assert steps[:, 0].mean() == pytest.approx(begun.mean(), rel=0.1)
    assert np.diff(steps)[:, ::-1].mean(axis=0) != pytest.approx(
        [first.mean(), second.mean()], rel=0.2
    )
