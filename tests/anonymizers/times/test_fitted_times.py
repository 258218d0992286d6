"""Times that are tied to variants: logs whose classes differ come out as they were counted.

Counts come from the real counters and have next to no noise, so that all of the error is that of
the bins and of how the tables are completed.

Times of cases divided among their steps: by a loop, by hand, and what must hold of any.

Lengths of cases that agree with counts by bin and with the sum of all.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import MINUTE
from tests.support.timed_logs import decided_on, timing_from, variants_of
from tracecloak.anonymizers.noise.sums import MeasureRecorder
from tracecloak.anonymizers.times import fitted_times
from tracecloak.anonymizers.times.case_spans import PairTimesDecision, SpansDecision, spans_at
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.published.figures import TIME_KEPT
from tracecloak.schemas.published.variants import ReleasedVariants

BORDERS = np.array([1, 100, 1_000, 10_000])
COUNTS = np.array([0.0, 20.0, 60.0, 20.0, 0.0])
SPANS = SpansDecision(
    BORDERS, np.cumsum(COUNTS) / 100, 10**6, COUNTS, 1.0, np.array([0, 1, 2, 3, 3])
)
RANKS = (np.arange(20_000) + 0.5) / 20_000
CLIP = 5_000


def fitted_to(mean: float, n_cases: int = 100) -> np.ndarray:
    """Times at even ranks, where clipped times are measured to come to such a mean."""
    measured = PairTimesDecision(np.array([mean * n_cases / CLIP]), 1.0, CLIP, False)
    spans = fitted_times.agreeing_spans(SPANS, measured, n_cases)
    assert spans.counts.sum() == COUNTS.sum() and spans.n_wide == SPANS.n_wide
    assert np.bincount(spans.wide, spans.counts).tolist() == [0, 20, 60, 20]
    return spans_at(spans, RANKS)


@pytest.mark.parametrize("mean", [700.0, 900.0, 1_100.0])
def test_the_mean_is_the_measured_one_and_every_bin_keeps_its_cases(mean):
    times = fitted_to(mean)
    assert np.minimum(times, CLIP).mean() == pytest.approx(mean, rel=0.02)
    of_bins = np.bincount(np.searchsorted(BORDERS, times, side="right"), minlength=5) / len(times)
    assert of_bins == pytest.approx(COUNTS / 100, abs=0.001)
    assert (np.diff(times) >= 0).all()


def test_a_sum_out_of_reach_moves_times_as_far_as_their_bins_go():
    for mean in (0.0, -500.0, 1e9):
        times = fitted_to(mean)
        of_bins = np.bincount(np.searchsorted(BORDERS, times, side="right"), minlength=5)
        assert of_bins / len(times) == pytest.approx(COUNTS / 100, abs=0.001)
    assert fitted_to(0.0).mean() < fitted_to(900.0).mean() < fitted_to(1e9).mean()


IDLE = np.array([False, False, True, False])

some_steps = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**33)), max_size=5)
some_cases = st.lists(st.tuples(some_steps, st.integers(0, 2**33)), max_size=6)
some_logs = st.lists(
    st.floats(-fitted_times.LARGEST_LOG, fitted_times.LARGEST_LOG), min_size=4, max_size=4
)


def steps_of(pairs: list[list[int]]) -> Any:
    """The steps of cases, by the pairs of each."""
    own = np.repeat(np.arange(len(pairs)), [len(case) for case in pairs]).astype(np.int64)
    n = len(own)
    flat = np.array([pair for case in pairs for pair in case], np.int64)
    return SimpleNamespace(events=np.arange(n), own=own, pairs=flat)


@given(some_cases, some_logs)
def test_times_add_up_are_not_negative_and_are_in_proportion(cases, logs):
    steps = steps_of([[pair for pair, _ in case] for case, _ in cases])
    taken = np.array([x for case, _ in cases for _, x in case], np.int64)
    wanted = np.array([span for _, span in cases], np.int64)
    factors = decode(encode(fitted_times.PairFactors(np.array(logs), IDLE)))
    weights = fitted_times.weights_of(taken, steps, factors)
    assert ((weights == 0) | ~IDLE[steps.pairs]).all() and (weights[IDLE[steps.pairs]] == 0).all()
    found = fitted_times.divided(wanted, weights, steps)
    assert found.dtype == np.int64 and (found >= 0).all() and (found[weights == 0] == 0).all()
    for number, (_, span) in enumerate(cases):
        is_own = steps.own == number
        of_case, own = weights[is_own].tolist(), found[is_own].tolist()
        total = sum(of_case)
        assert sum(own) == (span if total else 0)
        for weight, time in zip(of_case, own, strict=True):
            if weight < max(of_case, default=0):
                assert abs(time - span * weight / total) <= 1
        assert is_own.sum() == len(own) and fitted_times.sums_of_steps(found, steps, len(cases))[
            number
        ] == sum(own)


DAY = 24 * 60 * MINUTE
HOUR = 60 * MINUTE
N_DAYS = 360
LOG_TIME = LogTime(WorkingCalendar(), TimeRange(0, N_DAYS * DAY), "second")
WORDS = ActivityVocabulary.of("ABC")
N_PERIODS = 6

# A case: its variant, its start and the times of its steps.
Case = tuple[str, int, list[int]]


def log_of(cases: list[Case]) -> TraceBatch:
    """These cases."""
    lengths = [len(variant) for variant, _, _ in cases]
    codes = [WORDS.names.to_pylist().index(name) for variant, _, _ in cases for name in variant]
    times = [time for _, begin, steps in cases for time in begin + np.cumsum([0, *steps])]
    return TraceBatch(
        pa.array([f"c{i}" for i in range(len(cases))], pa.string()),
        np.append(0, np.cumsum(lengths)).astype(np.int64),
        np.array(codes, np.int32),
        np.array(times, np.int64),
        WORDS,
    )


def timed_anew(
    traces: TraceBatch, variants: ReleasedVariants | None = None, number: int = 3
) -> TraceBatch:
    """The same cases with drawn times."""
    known = decided_on(traces, LOG_TIME, N_PERIODS, variants)
    known |= fitted_times.fitted(known, WORDS, randomness(number))
    timing = timing_from(known, LOG_TIME, WORDS)
    return fitted_times.timed(traces, np.arange(traces.n_cases), *timing, randomness())


def spans_of(traces: TraceBatch) -> np.ndarray:
    """How long each case takes, in hours."""
    return (traces.times[traces.offsets[1:] - 1] - traces.starts) / HOUR


def rows_of(cases: list[Case], variant: str) -> np.ndarray:
    return np.array([i for i, case in enumerate(cases) if case[0] == variant])


def drifting(n: int) -> list[Case]:
    """As many of each variant: A B is short and early, C B A long and late, A is in the middle."""
    rng = np.random.default_rng(8)
    cases: list[Case] = []
    for _ in range(n):
        early, late, middle = (
            int(rng.integers(a, a + 60 * DAY)) for a in (0, 240 * DAY, 150 * DAY)
        )
        anywhere = int(rng.integers(0, 300 * DAY))
        hours = [int(x) for x in rng.uniform(1, 3, 6) * HOUR]
        cases.append(("AB", early, [hours[0]]))
        cases.append(("CBA", late, [200 * hours[1], 10 * hours[2]]))
        cases.append(("A", middle, []))
        cases.append(("BBA", anywhere, [20 * hours[3], 20 * hours[4]]))
        is_late = anywhere > 150 * DAY
        cases.append(("CC", anywhere, [hours[5] * 100 if is_late else hours[5] // 10]))
    return cases


def test_times_of_variants_come_out_as_counted():
    """300 cases of each of 5 variants; the control is that variants differ by more than allowed."""
    cases = drifting(300)
    traces = log_of(cases)
    made = timed_anew(traces)
    found, wanted = (
        {
            variant: (spans_of(log)[rows].mean(), log.starts[rows].mean() / DAY)
            for variant in ("AB", "CBA", "A", "BBA", "CC")
            for rows in [rows_of(cases, variant)]
        }
        for log in (made, traces)
    )
    for variant, (span, start) in wanted.items():
        assert found[variant][0] == pytest.approx(span, rel=0.15), variant
        assert found[variant][1] == pytest.approx(start, abs=20), variant
    assert wanted["AB"][0] < 3 < 40 < wanted["BBA"][0] < 100 < 300 < wanted["CBA"][0]
    assert wanted["AB"][1] < 60 < 150 < wanted["A"][1] < 210 < 240 < wanted["CBA"][1]


def check_chances(found: dict[str, Any], n_classes: int, n_periods: int, k: int) -> None:
    times = found["case times"]
    assert times.periods.shape == (2 * n_classes, n_periods)
    assert times.spans.shape == (n_classes, n_periods, k)
    for reached in (times.periods, times.spans):
        assert (reached[..., -1] == 1).all() and (np.diff(reached, prepend=0) >= -1e-12).all()
    assert found["pair factors"].logs.shape == (len(WORDS) ** 2,)
    assert np.isfinite(found["pair factors"].logs).all()


def test_the_share_that_the_clip_keeps_is_that_of_the_made_cases():
    """Steps A B and B A of one hour and one of three days, clipped to a norm of a day."""
    cases: list[Case] = [("ABA", i * HOUR, [HOUR, HOUR]) for i in range(300)]
    cases += [("CB", i * HOUR, [72 * HOUR]) for i in range(300)]
    known = decided_on(log_of(cases), LOG_TIME, N_PERIODS)
    known["pair times"] = replace(known["pair times"], clip=24 * 3600)
    noting = MeasureRecorder()
    fitted_times.fitted(known, WORDS, randomness(3).with_noise(noting))
    kept = {row.of: (row.value, row.deviation) for row in noting.measures.rows(TIME_KEPT)}
    assert kept.keys() == {("A", "B"), ("B", "A"), ("C", "B"), ()}
    assert {deviation for _, deviation in kept.values()} == {0.0}
    assert kept["A", "B"][0] == pytest.approx(1, abs=0.02)
    assert kept["B", "A"][0] == pytest.approx(1, abs=0.02)
    assert kept["C", "B"][0] == pytest.approx(1 / 3, rel=0.25)  # its bin is so wide
    assert kept[()][0] == pytest.approx((2 + 24) / (2 + 72), rel=0.25)


@pytest.mark.parametrize("n_cases", [0, 20])
def test_without_a_variant_there_is_nothing_to_tie(n_cases):
    """Such as where noise has left none, whatever the log has."""
    empty = variants_of(log_of([]))
    known = decided_on(log_of(drifting(n_cases)), LOG_TIME, N_PERIODS, empty)
    found = fitted_times.fitted(known, WORDS, randomness())
    check_chances(found, len(WORDS), known["periods"].size, known["spans"].n_wide)
    n_groups = len(WORDS) + known["spans"].n_wide
    assert found["step sums"].offsets.tolist() == [0] * (n_groups + 1)
    timing = timing_from(known | found, LOG_TIME, WORDS)
    assert fitted_times.timed(log_of([]), np.arange(0), *timing, randomness()).n_events == 0
    # A case of whatever class has times all the same.
    more = fitted_times.timed(log_of(drifting(9)), np.arange(45), *timing, randomness())
    assert ((more.times >= 0) & (more.times < N_DAYS * DAY)).all()


def times_by_pair(traces: TraceBatch) -> np.ndarray:
    """Share of all waiting time, by pair."""
    later = np.flatnonzero(~traces.is_first)
    pairs = traces.activities[later - 1].astype(np.int64) * len(WORDS) + traces.activities[later]
    sums = np.bincount(pairs, traces.durations[later], len(WORDS) ** 2)
    return sums / sums.sum()


def uneven(n: int) -> list[Case]:
    """Cases A B C A: from A to B goes no time, from B to C minutes, from C to A days or weeks."""
    rng = np.random.default_rng(12)
    cases: list[Case] = []
    for _ in range(n):
        steps = [0, int(rng.integers(1, 9)) * MINUTE, int(rng.exponential(9 * DAY)) + HOUR]
        cases.append(("ABCA", int(rng.integers(0, 200 * DAY)), steps))
    return cases


def test_a_pair_that_takes_no_time_takes_none_and_time_goes_by_where_it_did():
    """The control is drawn steps that nobody has fitted, with factors the wrong way round."""
    traces = log_of(uneven(300))
    known = decided_on(traces, LOG_TIME, N_PERIODS)
    known |= fitted_times.fitted(known, WORDS, randomness(3))
    made = fitted_times.timed(
        traces, np.arange(300), *timing_from(known, LOG_TIME, WORDS), randomness()
    )
    first = np.diff(made.times.reshape(-1, 4))[:, 0]
    assert (first == 0).all()
    assert np.abs(times_by_pair(made) - times_by_pair(traces)).sum() / 2 < 0.02
    wrong = np.zeros(len(WORDS) ** 2)
    wrong[1 * 3 + 2] = 10.0
    timing = timing_from(
        known | {"pair factors": fitted_times.PairFactors(wrong, wrong < 0)}, LOG_TIME, WORDS
    )
    made = fitted_times.timed(traces, np.arange(300), *timing, randomness())
    assert np.abs(times_by_pair(made) - times_by_pair(traces)).sum() / 2 > 0.2


def test_noisy_sums_decide_where_time_goes_if_steps_say_something_else():
    """Of A B C A the sums say that half of the time is from B to C: factors bring it there."""
    traces = log_of(uneven(300))
    known = decided_on(traces, LOG_TIME, N_PERIODS)
    own = known["pair times"]
    sums = np.zeros_like(own.sums)
    sums[[1 * 3 + 2, 2 * 3 + 0]] = own.sums.sum() / 2
    known["pair times"] = replace(own, sums=sums, deviation=1.0)
    known |= fitted_times.fitted(known, WORDS, randomness(3))
    timing = timing_from(known, LOG_TIME, WORDS)
    made = fitted_times.timed(traces, np.arange(300), *timing, randomness())
    assert times_by_pair(made)[1 * 3 + 2] == pytest.approx(0.5, abs=0.15)
    assert times_by_pair(traces)[1 * 3 + 2] < 0.01
