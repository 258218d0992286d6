"""Stamps of generated cases: a plain loop, the range, working hours, and any number of pieces.

Drawn times of steps are brought to the time of their case; `fitted` does so by a loop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tracecloak.anonymizers.logs import generated_times
from tracecloak.anonymizers.logs.case_spans import (
    CaseSpans,
    SpansDecision,
    decide_spans,
    spans_at,
)
from tracecloak.anonymizers.logs.case_starts import (
    CaseStarts,
    StartsDecision,
    decide_starts,
    sample_starts,
)
from tracecloak.anonymizers.logs.generated_times import drawn_steps, sums_of_cases, timed
from tracecloak.anonymizers.logs.step_durations import (
    DurationsDecision,
    StepDurations,
    decide_durations,
    sample_durations,
)
from tracecloak.anonymizers.logs.step_sums import StepSums, decide_step_sums, ranks_of
from tracecloak.anonymizers.logs.time_bins import time_borders
from tracecloak.anonymizers.logs.time_range import LogTime, TimeRange
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.schemas.events.local_time import HOUR_US
from tracecloak.schemas.events.time_grid import GRANULARITIES, GRID_US, TimeGrid
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.events.working_time import WorkingCalendar, WorkingTime
from tracecloak.schemas.statistics.clipped_cells import ClippedCells

DAY = 24 * HOUR_US
LITTLE = SumNoise((1, 10**6), 1, True)  # so narrow that 0 is drawn
EXACT = SumNoise((1, 2**40), UNITS, False)  # so narrow that 0 is drawn
WORDS = ActivityVocabulary.of("AB")
CALENDARS = {
    "always": WorkingCalendar("Europe/Amsterdam"),
    "office": WorkingCalendar("Europe/Amsterdam", (0, 1, 2, 3), 9, 17, ("2024-04-01",)),
}
WEEKS = TimeRange.of_dates("2024-03-18", "2024-04-07", "Europe/Amsterdam")
GRIDS = {
    f"{name} {granularity}": TimeGrid(calendar.over(WEEKS.first_us, WEEKS.last_us), granularity)
    for name, calendar in CALENDARS.items()
    for granularity in GRANULARITIES
}
EVEN = StepSums(np.zeros(0, np.int64))  # ranks by chance


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
    return decide_starts(ClippedCells.merge([]), time, 0, LITTLE, randomness())


def reached_of(bins: tuple[int, ...], n_ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """Borders of at most 12 bins, and chances: that of each of these is the same."""
    borders = time_borders(12, n_ticks)
    k = len(borders) + 1
    reached = np.cumsum(np.bincount([bin_ % k for bin_ in bins], minlength=k) / len(bins))
    return borders, reached / reached[-1]


def durations_of(n_ticks: int, *bins: int) -> DurationsDecision:
    """Every step is in one of these bins, with equal chances."""
    borders, reached = reached_of(bins, n_ticks)
    return DurationsDecision(borders, np.tile(reached, (2, 2, 1)), n_ticks)


def spans_of(n_ticks: int, *bins: int) -> SpansDecision:
    """Every case takes as long as one of these bins says, with equal chances."""
    return SpansDecision(*reached_of(bins, n_ticks), n_ticks)


def check(made: TraceBatch, grid: TimeGrid) -> None:
    """Stamps are in order, in the range, in working hours and on the grid of the local clock."""
    time = grid.time
    assert made.times.dtype == np.int64 and len(made.times) == made.n_events
    assert ((made.times >= time.first_us) & (made.times < time.last_us)).all()
    assert (np.diff(made.times)[~made.is_first[1:]] >= 0).all()
    assert np.array_equal(grid.at_us(grid.ticks(made.times)), made.times)
    assert (time.clock.local_us(made.times) % GRID_US[grid.granularity] == 0).all()
    if grid.granularity != "day":
        assert np.array_equal(time.at_us(time.elapsed_us(made.times)), made.times)


def fitted(taken: list[int], span: int) -> list[int]:
    """The times of one case's steps brought to a sum by the longest, one after the other."""
    found = list(taken)
    if sum(found) < span:
        found[found.index(max(found))] += span - sum(found)
    order = sorted(range(len(taken)), key=lambda i: -taken[i])
    for longest in order:
        found[longest] = max(found[longest] - max(sum(found) - span, 0), 0)
    return found


lengths_of_cases = st.lists(st.integers(1, 9), max_size=12)
some_bins = st.lists(st.integers(0, 11), min_size=1, max_size=4)


# --- steps brought to the time of their case ------------------------------------------------------


@st.composite
def cases_to_fit(draw: st.DrawFn) -> list[tuple[list[int], int]]:
    """Times of steps, up to the largest that there are, and the sums that are wanted."""
    step = st.one_of(st.integers(0, 3), st.integers(0, 10**6), st.integers(0, 2**33))
    span = st.one_of(st.integers(0, 3), st.integers(0, 10**6), st.integers(0, 2**33))
    return draw(st.lists(st.tuples(st.lists(step, max_size=6), span), max_size=6))


def fit(cases: list[tuple[list[int], int]]) -> list[list[int]]:
    """What `_fitted` makes of the cases, the first event of each included."""
    traces = traces_of([1 + len(taken) for taken, _ in cases])
    taken = np.array([x for steps, _ in cases for x in (0, *steps)], np.int64)
    before = taken.copy()
    assert sums_of_cases(taken, traces).tolist() == [sum(steps) for steps, _ in cases]
    found = generated_times._fitted(taken, traces, np.array([span for _, span in cases], np.int64))
    assert found.dtype == np.int64 and np.array_equal(taken, before)
    return [part.tolist() for part in np.split(found, traces.offsets[1:-1])] if cases else []


@given(cases_to_fit())
def test_steps_come_to_the_wanted_sum_as_in_a_loop(cases):
    for (taken, span), (first, *found) in zip(cases, fit(cases), strict=True):
        assert first == 0 and min(found, default=0) >= 0  # a case of one event takes no time
        assert found == (fitted(taken, span) if taken else [])
        assert not taken or sum(found) == span


def test_fitted_by_hand():
    found = fit([([2, 5, 5], 30), ([20, 60, 10], 9), ([0, 0], 4), ([7, 3], 10), ([], 5), ([8], 0)])
    assert found == [[0, 2, 23, 5], [0, 0, 0, 9], [0, 4, 0], [0, 7, 3], [0], [0, 0]]
    assert fit([([20, 60, 10], 50), ([4, 4, 4], 6)]) == [[0, 20, 20, 10], [0, 0, 2, 4]]


def test_a_single_event_takes_no_time_beside_other_cases():
    assert fit([([], 9), ([], 8)]) == [[0], [0]]
    assert fit([([], 9), ([1], 8), ([], 7)]) == [[0], [0, 8], [0]]


# --- stamps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRIDS)
@given(lengths_of_cases, some_bins, some_bins)
def test_stamps_are_in_order_in_the_range_on_the_grid_and_in_working_hours(
    name, lengths, bins, bins_of_spans
):
    grid, traces = GRIDS[name], traces_of(lengths)
    numbers = np.arange(len(lengths)) * 3 + 5
    durations = durations_of(grid.n_ticks, *bins)
    spans = spans_of(grid.n_ticks, *bins_of_spans)
    made = timed(traces, numbers, grid, starts_in(grid.time), durations, spans, EVEN, randomness())
    check(made, grid)
    assert np.array_equal(made.offsets, traces.offsets)
    assert np.array_equal(made.activities, traces.activities)
    assert made.case_ids.equals(traces.case_ids)
    # Each case takes as long as its rank says.
    ticks = grid.ticks(made.times)
    took = ticks[made.offsets[1:] - 1] - ticks[made.offsets[:-1]]
    none = np.zeros(len(lengths), np.int64)
    wanted = spans_at(spans, ranks_of(EVEN, none, numbers, randomness()))
    assert np.array_equal(took, np.where(traces.lengths > 1, wanted, 0))


@pytest.mark.parametrize("name", GRIDS)
def test_stamps_are_those_of_a_loop(name):
    grid, traces = GRIDS[name], traces_of([1, 5, 2, 9, 3] * 150)
    numbers = np.arange(traces.n_cases)[::-1].copy()
    starts = starts_in(grid.time)
    durations = durations_of(grid.n_ticks, 0, *range(12))
    spans = spans_of(grid.n_ticks, 0, *range(3, 12))
    sums = StepSums(np.geomspace(1, grid.n_ticks, 40).astype(np.int64))
    made = timed(traces, numbers, grid, starts, durations, spans, sums, randomness())
    begun = grid.ticks(sample_starts(starts, numbers, randomness()))
    kinds: Counter[str] = Counter()
    for i in range(traces.n_cases):
        codes = traces.activities[traces.offsets[i] : traces.offsets[i + 1]]
        steps = np.arange(1, len(codes))
        own = numbers[i : i + 1]
        taken = sample_durations(
            durations, codes[:-1], codes[1:], own.repeat(len(steps)), steps, randomness()
        )
        [span] = spans_at(spans, ranks_of(sums, taken.sum(keepdims=True), own, randomness()))
        kinds["shortened" if taken.sum() > span else "lengthened"] += len(steps) > 0
        since = np.cumsum([0, *(fitted(taken.tolist(), int(span)) if len(steps) else [])])
        begin = int(begun[i])
        if begin + since[-1] >= grid.n_ticks:
            kinds["moved"] += 1
            begin = grid.n_ticks - 1 - int(since[-1])
        found = made.times[made.offsets[i] : made.offsets[i + 1]]
        assert found.tolist() == grid.at_us(begin + since).tolist()
    assert min(kinds.values()) > 20 and set(kinds) == {"shortened", "lengthened", "moved"}


def test_ties_stay_ties():
    grid = GRIDS["office second"]
    traces, starts, n = traces_of([4] * 50), starts_in(grid.time), grid.n_ticks

    def made(durations: DurationsDecision, spans: SpansDecision) -> TraceBatch:
        return timed(traces, np.arange(50), grid, starts, durations, spans, EVEN, randomness())

    for durations in (durations_of(n, 0), durations_of(n, 3, 8)):
        tied = made(durations, spans_of(n, 0))
        assert np.array_equal(tied.times, np.repeat(tied.starts, 4))
        assert len(np.unique(tied.starts)) == 50
    # Where a case takes time, the other steps' ties stay.
    steps = np.diff(made(durations_of(n, 0), spans_of(n, 8)).times.reshape(50, 4))
    assert (steps[:, 1:] == 0).all() and (steps[:, 0] > 0).all()


def test_long_cases_do_not_overflow():
    """A million steps of up to 130 years each, in seconds; in microseconds int64 would end."""
    time = WorkingCalendar().over(0, 130 * 365 * DAY)
    grid = TimeGrid(time, "second")
    traces, spans = traces_of([3, 1_000_000, 2]), spans_of(grid.n_ticks, 11)
    rules = starts_in(time), durations_of(grid.n_ticks, 11), spans
    made = timed(traces, np.arange(3), grid, *rules, EVEN, randomness())
    check(made, grid)
    took = made.times[made.offsets[1:] - 1] - made.starts
    assert (took > 10 * 365 * DAY).all()


def test_a_range_of_one_tick_is_enough():
    grid = TimeGrid(WorkingCalendar().over(10**6, 2 * 10**6), "second")
    rules = starts_in(grid.time), durations_of(1, 3, 11), spans_of(1, 0)
    made = timed(traces_of([1, 4]), np.arange(2), grid, *rules, EVEN, randomness())
    assert (made.times == 10**6).all()


@given(lengths_of_cases, st.integers(1, 5), st.integers(0, 10**9), st.sampled_from(sorted(GRIDS)))
def test_stamps_do_not_depend_on_the_number_of_pieces(lengths, n_pieces, first, name):
    grid = GRIDS[name]
    traces, numbers = traces_of(lengths), first + np.arange(len(lengths))
    rules = (
        starts_in(grid.time),
        durations_of(grid.n_ticks, 0, 4, 7, 8, 9),
        spans_of(grid.n_ticks, 0, 5, 7, 9, 11),
        StepSums(np.arange(0, grid.n_ticks, 1 + grid.n_ticks // 9)),
    )
    whole = timed(traces, numbers, grid, *rules, randomness())
    for piece in range(n_pieces):
        rows = np.arange(piece, len(lengths), n_pieces)
        made = timed(traces.take(rows), numbers[rows], grid, *rules, randomness())
        assert np.array_equal(made.times, whole.take(rows).times)
    # The stamps that the traces come with do not matter, the number of the case does.
    again = timed(replace(traces, times=traces.times * 3), numbers, grid, *rules, randomness())
    assert np.array_equal(again.times, whole.times)
    if len(lengths) > 2 and grid.granularity in ("second", "minute"):
        others = timed(traces, numbers + 1, grid, *rules, randomness())
        assert not np.array_equal(others.times, whole.times)


# --- a log timed anew -----------------------------------------------------------------------------


def timed_anew(traces: TraceBatch, log_time: LogTime) -> TraceBatch:
    """The same cases with times drawn from what their own counts say, without noise."""
    grid = log_time.grid({})
    counted = StepDurations(log_time, 100, 10**9, UNITS).count(traces, {}, randomness())
    durations = decide_durations(counted, WORDS, 100, grid.n_ticks, EXACT, randomness())
    counts = CaseSpans(log_time, 48).count(traces, {}, randomness())
    spans = decide_spans(counts, 48, grid.n_ticks, LITTLE, randomness())
    counts = CaseStarts(log_time).count(traces, {}, randomness())
    starts = decide_starts(counts, grid.time, traces.n_cases, LITTLE, randomness())
    numbers = np.arange(traces.n_cases)
    others = drawn_steps(traces, numbers + len(numbers), durations, randomness())
    sums = decide_step_sums(sums_of_cases(others, traces))
    made = timed(traces, numbers, grid, starts, durations, spans, sums, randomness())
    check(made, grid)
    return made


def of_three_events(elapsed: np.ndarray, time: WorkingTime) -> TraceBatch:
    """Cases A B A at these working times, [n, 3]."""
    n = len(elapsed)
    return replace(
        traces_of([3] * n),
        activities=np.tile(np.array([0, 1, 0], np.int32), n),
        times=time.at_us(elapsed.reshape(-1)),
    )


def test_a_log_timed_anew_without_noise_is_like_itself():
    """Times of a log with two kinds of steps; the control takes one kind for the other.

    40,000 cases, of which a quartile has a deviation of 1 %. Of 48 bins of cases and 100 of steps
    quartiles were within 3 %; 7 deviations more are allowed, a chance below 1e-10. Waits that
    follow each other are no more alike than in the log.
    """
    rng = np.random.default_rng(4)
    log_time = LogTime(CALENDARS["office"], TimeRange.of_dates("2024-01-01", "2024-12-31", "UTC"))
    time = log_time.working_time({})
    n = 40_000
    begun = rng.integers(0, time.total_us * 3 // 4, n)
    first, second = rng.exponential(HOUR_US, n), rng.exponential(3 * 8 * HOUR_US, n)
    elapsed = np.stack([begun, begun + first, begun + first + second], axis=1).astype(np.int64)
    made = timed_anew(of_three_events(elapsed, time), log_time)
    steps = time.elapsed_us(made.times).reshape(n, 3)
    assert steps[:, 0].mean() == pytest.approx(begun.mean(), rel=0.1)

    def quartiles(times: np.ndarray) -> np.ndarray:
        return np.quantile(times, [0.25, 0.5, 0.75])

    took, wanted = quartiles(steps[:, 2] - steps[:, 0]), quartiles(first + second)
    assert took == pytest.approx(wanted, rel=0.1)
    assert quartiles(np.diff(steps)[:, 0]) == pytest.approx(quartiles(first), rel=0.1)
    assert quartiles(np.diff(steps)[:, 1]) == pytest.approx(quartiles(second), rel=0.1)
    assert abs(np.corrcoef(np.log1p(np.diff(steps)).T)[0, 1]) < 0.05
    assert (took > 1.7 * quartiles(first)).all()
    assert (quartiles(np.diff(steps)[:, 1]) > 1.7 * quartiles(first)).all()
    assert (1.7 * quartiles(np.diff(steps)[:, 0]) < quartiles(second)).all()


def test_cases_last_as_long_though_their_steps_depend_on_each_other():
    """Both steps of a case are minutes, or both are days; the control adds up drawn steps.

    Of 2,000 cases half are short. A fair coin differs by 150 with a chance below 1e-10. Of the
    control, whose steps do not know of each other, a quarter are.
    """
    log_time = LogTime(CALENDARS["always"], TimeRange.of_dates("2024-01-01", "2024-12-31", "UTC"))
    time = log_time.working_time({})
    n = 2000
    unit = np.where(np.arange(n) % 2, DAY, HOUR_US // 60)
    elapsed = np.arange(n)[:, None] * HOUR_US + unit[:, None] * np.array([0, 3, 7])
    traces = of_three_events(elapsed, time)
    made = timed_anew(traces, log_time)

    def n_short(steps: np.ndarray) -> int:
        return int((steps.sum(axis=1) < HOUR_US).sum())

    assert abs(n_short(np.diff(made.times.reshape(n, 3))) - n / 2) < 150
    counted = StepDurations(log_time, 100, 10**9, UNITS).count(traces, {}, randomness())
    n_ticks = log_time.grid({}).n_ticks
    durations = decide_durations(counted, WORDS, 100, n_ticks, EXACT, randomness())
    step = np.flatnonzero(~traces.is_first)
    alone = sample_durations(
        durations,
        traces.activities[step - 1],
        traces.activities[step],
        np.repeat(np.arange(n), 2),
        np.tile(np.array([1, 2]), n),
        randomness(),
    )
    assert abs(n_short(alone.reshape(n, 2) * 10**6) - n / 4) < 150
