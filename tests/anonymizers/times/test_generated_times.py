"""Stamps of generated cases: a plain loop, the range, working hours, and any number of pieces.

How the time of a case is divided among its steps is tested with `split_times`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.tiers import at_night
from tests.support.timed_logs import LITTLE, Timing, asked, given_of, timing_of_log
from tracecloak.anonymizers.times import case_starts, fitted_times
from tracecloak.anonymizers.times.case_classes import NO_CLASSES
from tracecloak.anonymizers.times.case_spans import SpansDecision, spans_at
from tracecloak.anonymizers.times.case_times import CaseTimes
from tracecloak.anonymizers.times.fitted_times import IN_BIN, StepSums, ranks_of
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps, sample_durations
from tracecloak.anonymizers.times.time_bins import time_borders
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.calendar.local_time import HOUR_US
from tracecloak.schemas.calendar.working_time import (
    GRANULARITIES,
    GRID_US,
    TimeGrid,
    WorkingCalendar,
    WorkingTime,
)
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

DAY = 24 * HOUR_US
WORDS = ActivityVocabulary.of("AB")
CALENDARS = {
    "always": WorkingCalendar("Europe/Amsterdam"),
    "office": WorkingCalendar("Europe/Amsterdam", (0, 1, 2, 3), 9, 17, ("2024-04-01",)),
}
WEEKS = TimeRange.from_dates("2024-03-18", "2024-04-07", "Europe/Amsterdam")
GRIDS = {
    f"{name} {granularity}": TimeGrid(calendar.over(WEEKS.first_us, WEEKS.last_us), granularity)
    for name, calendar in CALENDARS.items()
    for granularity in GRANULARITIES
}
# Cases are of the class of their last activity, which are two, and at most twelve bins.
N_CLASSES, N_BINS = 2, 12


def sums_of(*groups: np.ndarray) -> StepSums:
    """Of the classes, then of the bins; of those that are not given none, so ranks by chance."""
    sizes = [len(group) for group in groups] + [0] * (N_CLASSES + N_BINS - len(groups))
    values = np.concatenate([np.zeros(0, np.int64), *groups]).astype(np.int64)
    return StepSums(values, np.cumsum([0, *sizes]).astype(np.int64))


EVEN = sums_of()


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


def starts_in(time: WorkingTime) -> case_starts.StartsDecision:
    """Even starts."""
    given = given_of("starts", ClippedCells.merge([]), {"sizes": 0})
    return case_starts.decide_starts(given, LITTLE, asked(working_time=lambda known: time))


def reached_of(bins: tuple[int, ...], n_ticks: int) -> tuple[np.ndarray, np.ndarray]:
    """Borders of at most 12 bins, and chances: that of each of these is the same."""
    borders = time_borders(12, n_ticks)
    k = len(borders) + 1
    reached = np.cumsum(np.bincount([bin_ % k for bin_ in bins], minlength=k) / len(bins))
    return borders, reached / reached[-1]


def durations_of(n_ticks: int, *bins: int) -> DurationsDecision:
    """Every step is in one of these bins, with equal chances."""
    borders, reached = reached_of(bins, n_ticks)
    return DurationsDecision(borders, np.tile(reached, (4, 1)), np.zeros(4, np.bool_), 2, n_ticks)


def spans_of(n_ticks: int, *bins: int) -> SpansDecision:
    """Every case takes as long as one of these bins says, with equal chances."""
    borders, reached = reached_of(bins, n_ticks)
    return SpansDecision(borders, reached, n_ticks, reached, 1.0, np.arange(len(reached)))


def timing_of(
    grid: TimeGrid, durations: DurationsDecision, spans: SpansDecision, sums: StepSums = EVEN
) -> Timing:
    """One period, both classes take as long as all cases, and of A B and B A one has a factor."""
    known = {
        "starts": starts_in(grid.time),
        "periods": case_starts.Periods(np.zeros(0, np.int64), np.array([0.0, 1.0])),
        "spans": spans,
        "case times": CaseTimes(np.ones((4, 1)), np.tile(spans.reached, (2, 1, 1))),
        "durations": durations,
        "step sums": sums,
        "pair factors": fitted_times.PairFactors(np.array([0, 1.5, 0, 0]), durations.is_idle),
    }
    return grid, NO_CLASSES, known


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


lengths_of_cases = st.lists(st.integers(1, 9), max_size=12)
some_bins = st.lists(st.integers(0, 11), min_size=1, max_size=4)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", GRIDS)
@given(lengths_of_cases, some_bins, some_bins)
def test_stamps_are_in_order_in_the_range_on_the_grid_and_in_working_hours(
    name, lengths, bins, bins_of_spans
):
    grid, traces = GRIDS[name], traces_of(lengths)
    numbers = np.arange(len(lengths)) * 3 + 5
    durations = durations_of(grid.n_ticks, *bins)
    spans = spans_of(grid.n_ticks, *bins_of_spans)
    made = fitted_times.timed(traces, numbers, *timing_of(grid, durations, spans), randomness())
    check(made, grid)
    assert np.array_equal(made.offsets, traces.offsets)
    assert np.array_equal(made.activities, traces.activities)
    assert made.case_ids.equals(traces.case_ids)
    # Each case takes as long as its rank says.
    ticks = grid.ticks(made.times)
    took = ticks[made.offsets[1:] - 1] - ticks[made.offsets[:-1]]
    none = np.zeros(len(lengths), np.int64)
    wanted = spans_at(spans, ranks_by(EVEN, spans, none, none, numbers))
    assert np.array_equal(took, np.where(traces.lengths > 1, wanted, 0))


def ranks_by(
    sums: StepSums, spans: SpansDecision, of: np.ndarray, classes: np.ndarray, numbers: np.ndarray
) -> np.ndarray:
    """Ranks among all cases: that in the class says which bin, that in the bin says where in it."""
    in_class = ranks_of(sums, of, classes, numbers, randomness())
    bins = np.searchsorted(spans.reached, np.minimum(in_class, 1 - 1e-9), side="right")
    in_bin = ranks_of(sums, of, N_CLASSES + bins, numbers, randomness(), IN_BIN)
    before = np.concatenate([[0.0], spans.reached])[bins]
    return before + in_bin * (spans.reached[bins] - before)


@pytest.mark.parametrize(
    "name",
    [at_night(name) if name in ("always millisecond", "office hour") else name for name in GRIDS],
)
def test_stamps_are_those_of_a_loop(name):
    grid, traces = GRIDS[name], traces_of([1, 5, 2, 9, 3] * 80)
    numbers = np.arange(traces.n_cases)[::-1].copy()
    durations = durations_of(grid.n_ticks, 0, *range(12))
    spans = spans_of(grid.n_ticks, 0, *range(3, 12))
    kept = np.geomspace(1, 1000 * grid.n_ticks, 40).astype(np.int64)
    sums = sums_of(kept[::2], kept, *(kept[i::5] for i in range(9)))
    timing = timing_of(grid, durations, spans, sums)
    made = fitted_times.timed(traces, numbers, *timing, randomness())
    begun = grid.ticks(case_starts.sample_starts(timing[2]["starts"], numbers, randomness()))
    kinds: Counter[str] = Counter()
    for i in range(traces.n_cases):
        case, own = traces.take(np.array([i])), numbers[i : i + 1]
        classes = NO_CLASSES.of_cases(case)
        steps = Steps(case, own, NO_CLASSES, classes)
        taken = sample_durations(durations, steps, randomness())
        weights = fitted_times.weights_of(taken, steps, timing[2]["pair factors"])
        ranks = ranks_by(sums, spans, weights.sum(keepdims=True), classes, own)
        [span] = spans_at(spans, ranks)
        since = np.zeros(1, np.int64)
        if len(taken):
            kinds["shortened" if taken.sum() > span else "lengthened"] += 1
            since = np.cumsum([0, *fitted_times.divided(np.array([span]), weights, steps)])
        begin = int(begun[i])
        if begin + since[-1] >= grid.n_ticks:
            kinds["moved"] += 1
            begin = grid.n_ticks - 1 - int(since[-1])
        found = made.times[made.offsets[i] : made.offsets[i + 1]]
        assert found.tolist() == grid.at_us(begin + since).tolist()
    assert set(kinds) == {"shortened", "lengthened", "moved"}


def test_long_cases_do_not_overflow():
    """A million steps of up to 130 years each, in seconds; in microseconds int64 would end."""
    time = WorkingCalendar().over(0, 130 * 365 * DAY)
    grid = TimeGrid(time, "second")
    traces, n = traces_of([3, 1_000_000, 2]), grid.n_ticks
    timing = timing_of(grid, durations_of(n, 11), spans_of(n, 11))
    made = fitted_times.timed(traces, np.arange(3), *timing, randomness())
    check(made, grid)
    took = made.times[made.offsets[1:] - 1] - made.starts
    assert (took > 10 * 365 * DAY).all()


@given(st.data())
def test_stamps_of_a_decided_log_do_not_depend_on_the_pieces(data):
    """With classes, periods, sums and factors of all kinds; also of cases not seen before."""
    timing = timing_of_mixed()
    assert timing[2]["periods"].size == 4 and timing[1].n_variants == 6
    lengths = data.draw(lengths_of_cases)
    traces, numbers = traces_of(lengths), 7 + 3 * np.arange(len(lengths))
    whole = fitted_times.timed(traces, numbers, *timing, randomness())
    check(whole, timing[0])
    order = np.array(data.draw(st.permutations(range(len(lengths)))), np.int64)
    for rows in np.split(order, sorted(data.draw(st.lists(st.integers(0, 12), max_size=3)))):
        made = fitted_times.timed(traces.take(rows), numbers[rows], *timing, randomness())
        assert np.array_equal(made.times, whole.take(rows).times)


@lru_cache(maxsize=1)
def timing_of_mixed() -> Timing:
    """Of cases of one to four events; the more they have the later they begin and the longer."""
    log_time = LogTime(CALENDARS["office"], WEEKS, "minute")
    time = log_time.working_time({})
    rng = np.random.default_rng(2)
    lengths = np.repeat([1, 2, 3, 4], 50)
    begun = (lengths - 1) * time.total_us // 5 + rng.integers(0, time.total_us // 5, 200)
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    times = time.at_us(np.repeat(begun, lengths) + place * np.repeat(lengths, lengths) * HOUR_US)
    return timing_of_log(replace(traces_of(lengths.tolist()), times=times), log_time, 4)
