"""Stamps of generated cases: a plain loop, the range, working hours, and any number of pieces.

Drawn times of steps are brought to the drawn time of their case; `fitted` does so by a loop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tracecloak.anonymizers.logs import generated_times
from tracecloak.anonymizers.logs.case_spans import (
    N_SPAN_BINS,
    CaseSpans,
    SpansDecision,
    decide_spans,
    sample_spans,
)
from tracecloak.anonymizers.logs.case_starts import (
    CaseStarts,
    StartsDecision,
    decide_starts,
    sample_starts,
)
from tracecloak.anonymizers.logs.generated_times import timed
from tracecloak.anonymizers.logs.step_durations import (
    UNITS,
    DurationsDecision,
    StepDurations,
    decide_durations,
    sample_durations,
)
from tracecloak.anonymizers.logs.time_bins import step_borders
from tracecloak.anonymizers.logs.time_range import LogTime, TimeRange
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.schemas.events.local_time import HOUR_US
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.events.working_time import WorkingCalendar, WorkingTime
from tracecloak.schemas.statistics.clipped_cells import ClippedCells

DAY = 24 * HOUR_US
LARGE = Fraction(10**6)  # an epsilon at which there is no noise
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
    return decide_starts(ClippedCells.merge([]), time, 0, LARGE, 1, randomness())


def durations_of(*bins: int, n_bins: int = 12) -> DurationsDecision:
    """Every step is in one of these bins, with equal chances."""
    shares = np.bincount(bins, minlength=n_bins) / len(bins)
    reached = np.cumsum(np.broadcast_to(shares, (2, 2, n_bins)), axis=2)
    return DurationsDecision(step_borders(n_bins), reached / reached[:, :, -1:], 10**16)


def spans_of(*bins: int) -> SpansDecision:
    """Every case takes as long as one of these bins says, with equal chances."""
    shares = np.bincount(bins, minlength=N_SPAN_BINS) / len(bins)
    reached = np.cumsum(np.broadcast_to(shares, (2, N_SPAN_BINS)), axis=1)
    return SpansDecision(step_borders(N_SPAN_BINS), reached / reached[:, -1:], 10**16)


def last_of(traces: TraceBatch) -> np.ndarray:
    return traces.activities[traces.offsets[1:] - 1]


def longest_bin_below(us: int, n_bins: int = 12) -> int:
    return int(np.searchsorted(step_borders(n_bins), us)) - 1


def check(made: TraceBatch, time: WorkingTime) -> None:
    assert made.times.dtype == np.int64 and len(made.times) == made.n_events
    assert ((made.times >= time.first_us) & (made.times < time.last_us)).all()
    assert (np.diff(made.times)[~made.is_first[1:]] >= 0).all()
    assert np.array_equal(time.at_us(time.elapsed_us(made.times)), made.times)  # working hours


def fitted(taken: list[int], span: int) -> list[int]:
    """The times of one case's steps brought to a sum: in proportion, or by the longest of them."""
    total = sum(taken)
    found = [x * span // total for x in taken] if total > span else list(taken)
    found[found.index(max(found))] += span - sum(found)
    return found


lengths_of_cases = st.lists(st.integers(1, 9), max_size=12)
bins_of_steps = st.lists(st.integers(0, 11), min_size=1, max_size=4)
bins_of_cases = st.lists(st.integers(0, N_SPAN_BINS - 1), min_size=1, max_size=4)


# --- steps brought to the time of their case ------------------------------------------------------


@st.composite
def cases_to_fit(draw: st.DrawFn) -> list[tuple[list[int], int]]:
    """Times of steps, up to the largest that int64 has, and the sums that are wanted."""
    step = st.one_of(st.integers(0, 3), st.integers(0, 10**12), st.integers(0, 2**62))
    span = st.one_of(st.integers(0, 3), st.integers(0, 10**13), st.integers(0, 5 * 10**15))
    return draw(st.lists(st.tuples(st.lists(step, max_size=6), span), max_size=6))


def fit(cases: list[tuple[list[int], int]]) -> list[list[int]]:
    """What `_fitted` makes of the cases, the first event of each included."""
    traces = traces_of([1 + len(taken) for taken, _ in cases])
    taken = np.array([x for steps, _ in cases for x in (0, *steps)], np.int64)
    before = taken.copy()
    found = generated_times._fitted(taken, traces, np.array([span for _, span in cases], np.int64))
    assert found.dtype == np.int64 and np.array_equal(taken, before)
    return [part.tolist() for part in np.split(found, traces.offsets[1:-1])] if cases else []


@given(cases_to_fit())
def test_steps_come_to_the_wanted_sum_exactly(cases):
    for (taken, span), (first, *found) in zip(cases, fit(cases), strict=True):
        assert first == 0 and len(found) == len(taken)  # a case of one event takes no time
        assert min(found, default=0) >= 0
        assert sum(found) == (span if taken else 0)
        if sum(taken) <= span and taken:
            assert found == fitted(taken, span)  # one step takes the rest, the others stay


@given(cases_to_fit())
def test_longer_cases_are_shortened_in_proportion(cases):
    """By a microsecond less, and by a billionth; what is missing goes to a longest step."""
    for (taken, span), (_, *found) in zip(cases, fit(cases), strict=True):
        total = sum(taken)
        if total <= span:
            continue
        shares = [x * span / total for x in taken]
        short = [share - x for x, share in zip(found, shares, strict=True)]
        places = [i for i, x in enumerate(short) if x < -1e-6 * max(shares[i], 1)]
        slack = 1 + 2e-9 * max(shares)
        assert max(short) <= slack
        if places:
            [place] = places
            assert max(shares) - shares[place] <= slack
            assert -short[place] <= len(taken) + 2e-9 * span


def test_fitted_by_hand():
    found = fit([([2, 5, 5], 30), ([20, 60, 10], 9), ([0, 0], 4), ([7, 3], 10), ([], 5), ([8], 0)])
    # Shortened, 2, 6 and 1 are floored from a little less.
    assert found == [[0, 2, 23, 5], [0, 1, 8, 0], [0, 4, 0], [0, 7, 3], [0], [0, 0]]


def test_a_single_event_takes_no_time_beside_other_cases():
    assert fit([([], 9), ([], 8)]) == [[0], [0]]
    assert fit([([], 9), ([1], 8), ([], 7)]) == [[0], [0, 8], [0]]


# --- stamps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("calendar", CALENDARS)
@given(lengths_of_cases, bins_of_steps, bins_of_cases)
def test_stamps_are_in_order_in_the_range_and_in_working_hours(
    calendar, lengths, bins, bins_of_spans
):
    time = CALENDARS[calendar].over(WEEKS.first_us, WEEKS.last_us)
    traces = traces_of(lengths)
    numbers = np.arange(len(lengths)) * 3 + 5
    durations, spans = durations_of(*bins), spans_of(*bins_of_spans)
    made = timed(traces, numbers, starts_in(time), durations, spans, randomness())
    check(made, time)
    assert np.array_equal(made.offsets, traces.offsets)
    assert np.array_equal(made.activities, traces.activities)
    assert made.case_ids.equals(traces.case_ids)
    # Each case takes as long as was drawn for it, if the range is so long.
    elapsed = time.elapsed_us(made.times)
    took = elapsed[made.offsets[1:] - 1] - elapsed[made.offsets[:-1]]
    wanted = np.minimum(
        sample_spans(spans, last_of(traces), numbers, randomness()), time.total_us - 1
    )
    assert np.array_equal(took, np.where(traces.lengths > 1, wanted, 0))


@pytest.mark.parametrize("calendar", CALENDARS)
def test_stamps_are_those_of_a_loop(calendar):
    time = CALENDARS[calendar].over(WEEKS.first_us, WEEKS.last_us)
    traces = traces_of([1, 5, 2, 9, 3] * 150)
    numbers = np.arange(traces.n_cases)[::-1].copy()
    starts = starts_in(time)
    durations = durations_of(0, 2, *range(5, longest_bin_below(120 * DAY) + 1))
    spans = spans_of(0, *range(5, N_SPAN_BINS))
    spans.reached[1] = spans_of(4, 9, 10).reached[1]  # the last activity matters
    made = timed(traces, numbers, starts, durations, spans, randomness())
    begun = sample_starts(starts, numbers, randomness())
    wanted = sample_spans(spans, last_of(traces), numbers, randomness())
    kinds: Counter[str] = Counter()
    for i in range(traces.n_cases):
        codes = traces.activities[traces.offsets[i] : traces.offsets[i + 1]]
        steps = np.arange(1, len(codes))
        number = numbers[i : i + 1].repeat(len(steps))
        taken = sample_durations(durations, codes[:-1], codes[1:], number, steps, randomness())
        span = min(int(wanted[i]), time.total_us - 1)
        kinds["shortened" if taken.sum() > span else "lengthened"] += len(steps) > 0
        parts = fitted(taken.tolist(), span) if len(steps) else []
        since = np.cumsum([0, *parts])
        begin = int(time.elapsed_us(begun[i : i + 1])[0])
        if begin + since[-1] >= time.total_us:
            kinds["moved"] += 1
            begin = time.total_us - 1 - int(since[-1])
        found = made.times[made.offsets[i] : made.offsets[i + 1]]
        elapsed = time.elapsed_us(found)
        assert elapsed[0] == begin and elapsed[-1] == begin + since[-1]
        if taken.sum() <= span:
            assert elapsed.tolist() == (begin + since).tolist()
        assert np.abs(elapsed - begin - since).max() <= len(codes) + 2e-9 * span
    assert min(kinds.values()) > 50 and set(kinds) == {"shortened", "lengthened", "moved"}


def test_ties_stay_ties():
    time = CALENDARS["office"].over(WEEKS.first_us, WEEKS.last_us)
    traces, starts = traces_of([4] * 50), starts_in(time)
    for durations in (durations_of(0), durations_of(3, 8)):
        made = timed(traces, np.arange(50), starts, durations, spans_of(0), randomness())
        assert np.array_equal(made.times, np.repeat(made.starts, 4))
        assert len(np.unique(made.starts)) == 50
    # Where a case takes time, the other steps' ties stay.
    made = timed(traces, np.arange(50), starts, durations_of(0), spans_of(8), randomness())
    assert (np.diff(made.times.reshape(50, 4))[:, 1:] == 0).all()
    assert (np.diff(made.times.reshape(50, 4))[:, 0] > 0).all()


def test_long_cases_do_not_overflow():
    """20,000 steps of about 15 years each are beyond int64 in microseconds."""
    time = WorkingCalendar().over(0, 100 * 365 * DAY)
    traces, spans = traces_of([3, 20_000, 2]), spans_of(N_SPAN_BINS - 1)
    made = timed(traces, np.arange(3), starts_in(time), durations_of(11), spans, randomness())
    check(made, time)
    took = made.times[made.offsets[1:] - 1] - made.starts
    assert np.array_equal(took, sample_spans(spans, last_of(traces), np.arange(3), randomness()))
    assert (took > 10 * 365 * DAY).all()


def test_a_range_of_a_microsecond_is_enough():
    time = WorkingCalendar().over(1000, 1001)
    for spans in (spans_of(0), spans_of(1, 15)):
        traces = traces_of([1, 4])
        made = timed(
            traces, np.arange(2), starts_in(time), durations_of(3, 11), spans, randomness()
        )
        assert (made.times == 1000).all()


@given(lengths_of_cases, st.integers(1, 5), st.integers(0, 10**9))
def test_stamps_do_not_depend_on_the_number_of_pieces(lengths, n_pieces, first):
    time = CALENDARS["office"].over(WEEKS.first_us, WEEKS.last_us)
    traces, numbers = traces_of(lengths), first + np.arange(len(lengths))
    rules = starts_in(time), durations_of(0, 4, 7, 8, 9), spans_of(0, 5, 7, 9, 11)
    whole = timed(traces, numbers, *rules, randomness())
    for piece in range(n_pieces):
        rows = np.arange(piece, len(lengths), n_pieces)
        made = timed(traces.take(rows), numbers[rows], *rules, randomness())
        assert np.array_equal(made.times, whole.take(rows).times)
    # The stamps that the traces come with do not matter, the number of the case does.
    again = timed(replace(traces, times=traces.times * 3), numbers, *rules, randomness())
    assert np.array_equal(again.times, whole.times)
    if len(lengths) > 2:
        others = timed(traces, numbers + 1, *rules, randomness())
        assert not np.array_equal(others.times, whole.times)


# --- a log timed anew -----------------------------------------------------------------------------


def timed_anew(traces: TraceBatch, log_time: LogTime) -> TraceBatch:
    """The same cases with times drawn from what their own counts say, without noise."""
    time = log_time.working_time({})
    counted = StepDurations(log_time, 100, 10**9, UNITS).count(traces, {}, randomness())
    durations = decide_durations(counted, WORDS, 100, time.total_us, EXACT, randomness())
    counts = CaseSpans(log_time).count(traces, {}, randomness())
    spans = decide_spans(counts, WORDS, time.total_us, LARGE, 1, randomness())
    counts = CaseStarts(log_time).count(traces, {}, randomness())
    starts = decide_starts(counts, time, traces.n_cases, LARGE, 1, randomness())
    made = timed(traces, np.arange(traces.n_cases), starts, durations, spans, randomness())
    check(made, time)
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

    40,000 cases, of which a quartile has a deviation of 1 %. Bins of cases end at four times their
    begin and times are drawn evenly in the logarithm, so that quartiles of cases were a seventh
    off, and those of steps, drawn apart and then fitted, 60 and 25 %; 7 deviations more are
    allowed, a chance below 1e-10.
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
    assert took == pytest.approx(wanted, rel=0.22)
    assert quartiles(np.diff(steps)[:, 0]) == pytest.approx(quartiles(first), rel=0.7)
    assert quartiles(np.diff(steps)[:, 1]) == pytest.approx(quartiles(second), rel=0.33)
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
    durations = decide_durations(counted, WORDS, 100, time.total_us, EXACT, randomness())
    step = np.flatnonzero(~traces.is_first)
    alone = sample_durations(
        durations,
        traces.activities[step - 1],
        traces.activities[step],
        np.repeat(np.arange(n), 2),
        np.tile(np.array([1, 2]), n),
        randomness(),
    )
    assert abs(n_short(alone.reshape(n, 2)) - n / 4) < 150
