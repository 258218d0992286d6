"""Longest steps: counts by a loop, sensitivity by enumeration, propensities, the law of draws."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness, release_key
from tests.support.logs import MINUTE, Event, Log, cases_of, event_logs, trace_batch
from tests.support.rounds import Recording
from tests.support.silence import Noting
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.times.case_spans import SpansDecision
from tracecloak.anonymizers.times.longest_steps import (
    LongestDecision,
    LongestSteps,
    Propensities,
    changed_longest,
    decide_longest,
    decide_propensities,
    longest_of_cases,
    sample_longest,
)
from tracecloak.anonymizers.times.step_durations import DurationsDecision, Steps
from tracecloak.anonymizers.times.time_bins import TimeBins, time_borders
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary
from tracecloak.schemas.events.working_time import WorkingCalendar

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
N_TICKS = 1000 * 86_400
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 1000 * DAY), "second")
WORDS = ActivityVocabulary.public("AB")
N, N_BINS = len(WORDS), 6
BORDERS = time_borders(N_BINS, N_TICKS)
COUNTER = LongestSteps(ALWAYS)
DECISIONS: dict[str, Any] = {"bins": TimeBins(4, N_BINS)}
N_CELLS = N * N * N_BINS


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def counts_of(log: Log) -> list[int]:
    counted = COUNTER.count(public(log), DECISIONS, randomness())
    return [int(x) for x in counted.dense(np.arange(N_CELLS))]


def naive(log: Log) -> list[int]:
    counts = [0] * N_CELLS
    for steps in cases_of(log).values():
        codes = ["ABX".index(name) for name, _ in steps]
        seconds = [time // SECOND for _, time in steps]
        if len(steps) < 2:
            continue
        taken = [b - a for a, b in itertools.pairwise(seconds)]
        i = taken.index(max(taken))
        bin_ = sum(seconds[-1] - seconds[0] >= border for border in BORDERS.tolist())
        counts[(codes[i] * N + codes[i + 1]) * N_BINS + bin_] += 1
    return counts


# --- the counts -----------------------------------------------------------------------------------


@given(
    event_logs(max_events=25, n_cases=8, activities="ABX", minutes=5),
    st.sampled_from([1_000_000, MINUTE, 9 * DAY]),
)
def test_cases_are_counted_by_their_longest_step(log, unit):
    log = [(case, name, time // MINUTE * unit) for case, name, time in log]
    assert counts_of(log) == naive(log)


@given(event_logs(max_events=25, activities="ABX"), st.integers(1, 4))
def test_pieces_add_up(log, n_pieces):
    traces = public(log)
    counter: LongestSteps = pickle.loads(pickle.dumps(COUNTER))  # noqa: S301
    pieces = [
        counter.count(traces.take(np.arange(i, traces.n_cases, n_pieces)), DECISIONS, randomness())
        for i in range(n_pieces)
    ]
    merged = counter.kind.merge(pieces)
    assert merged == counter.kind.merge([counter.kind.merge([]), *pieces[::-1]])
    assert merged == counter.count(traces, DECISIONS, randomness())
    assert decode(encode(merged)) == merged


OTHERS: list[Event] = [("o", "A", 0), ("o", "B", 5), ("p", "B", 0), ("q", "X", 0), ("q", "X", DAY)]


@pytest.mark.parametrize("others", [[], OTHERS])
def test_one_case_changes_one_count_by_1_and_one_of_one_event_none(others):
    before = counts_of(others)
    for n in (1, 2, 3):
        for names in itertools.product("ABX", repeat=n):
            for gaps in itertools.product((0, SECOND, 300 * DAY), repeat=n - 1):
                times = itertools.accumulate((0, *gaps))
                case = [("new", name, time) for name, time in zip(names, times, strict=True)]
                change = [b - a for a, b in zip(before, counts_of([*others, *case]), strict=True)]
                assert sum(change) == max(change) == int(n > 1) and min(change) == 0


@pytest.mark.parametrize("units", [1, 2, 5])
def test_the_noise_is_made_for_what_a_unit_changes(units):
    changed = changed_longest(units)
    assert (changed.l1, changed.l2_squared, changed.linf) == (units, units**2, units)
    assert Allowance(Fraction(1, 7)).noise(changed) == SumNoise((7 * units, 1), 1, True)


def test_every_cell_has_noise_of_its_own_whatever_the_log():
    for log in ({}, {"c": "A B X A", "d": "B"}):
        noting = Recording(release_key(), "release", "input", "configuration")
        counted = COUNTER.count(public(log), DECISIONS, noting)
        noise = Allowance(Fraction(1, 10)).noise(changed_longest(1))
        decide_longest(counted, N, N_BINS, noise, noting)
        [(purpose, asked)] = noting.asked.items()
        assert purpose == "longest step"
        assert {a for a, _, counter in asked if counter == 0} == set(range(N_CELLS))


@pytest.mark.parametrize("noise", [SumNoise((14, 1), 1, True), SumNoise((9000, 1), 1024, False)])
def test_the_counts_get_the_noise_that_is_given_on_its_lattice(noise):
    log, noting = {"c": "A B@9 X A", "d": "B A"}, Noting()
    counted = COUNTER.count(public(log), DECISIONS, randomness())
    decided = decide_longest(counted, N, N_BINS, noise, randomness().with_noise(noting))
    [(purpose, sums, told)] = noting.told
    assert (purpose, told) == ("longest step", noise)
    assert sums.tolist() == [x * noise.units for x in naive(log)]
    assert decided.counts.ravel().tolist() == naive(log)
    assert decided.deviation == pytest.approx(math.sqrt(variance_of(noise)))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=20))
def test_the_first_of_equally_long_ones_is_the_longest(pairs):
    pairs = sorted(pairs, key=lambda pair: pair[1])
    values, own = (np.array([pair[i] for pair in pairs], np.int64) for i in range(2))
    found = longest_of_cases(values, own).tolist()
    expected = []
    for case in sorted(set(own.tolist())):
        places = [i for i, c in enumerate(own.tolist()) if c == case]
        expected.append(max(places, key=lambda i: (values[i], -i)))
    assert found == expected


# --- propensities ---------------------------------------------------------------------------------


def decided_on(counts: np.ndarray, deviation: float, n_cases: int = 2000) -> Propensities:
    """Half of the cases are A B A, half B A B; half of each take as long as bin 2 says, half 4."""
    k = N_BINS
    own = np.repeat(np.arange(n_cases), 2)
    pairs = np.where(np.arange(2 * n_cases) % 4 % 3 == 0, 1, N)  # A B, B A; then B A, A B
    positions = np.tile([1, 2], n_cases)
    none = np.full(2 * n_cases, -1)
    steps = Steps(np.arange(2 * n_cases), own, own, positions, pairs, none)
    bins = np.where(np.arange(n_cases) // 2 % 2, 2, 4)
    even = np.tile(np.arange(1, k + 1) / k, (N * N, 1))
    durations = DurationsDecision(BORDERS, even, N, N_TICKS)
    spans = SpansDecision(BORDERS, even[0], N_TICKS, even[0], 1.0)
    decision = LongestDecision(counts, deviation)
    return decide_propensities(decision, durations, spans, steps, bins, n_cases)


def test_numbers_that_are_known_are_met():
    counts = np.zeros((N * N, N_BINS))
    counts[1, 2], counts[N, 2] = 900, 100
    counts[1, 4], counts[N, 4] = 300, 700
    found = decided_on(counts, 1.0).logs
    for bin_, share in ((2, 0.9), (4, 0.3)):
        chance = 1 / (1 + np.exp(found[N, bin_] - found[1, bin_]))
        assert chance == pytest.approx(share, abs=0.02)


def test_noise_alone_leaves_what_the_steps_say():
    counts = np.random.default_rng(1).normal(0, 1e6, (N * N, N_BINS))
    found = decided_on(counts, 1e6).logs
    for bin_ in (2, 4):
        assert found[1, bin_] == pytest.approx(found[N, bin_], abs=0.2)
    assert np.isfinite(found).all()
    empty = decided_on(np.zeros((N * N, N_BINS)), 1.0, 0).logs
    assert np.isfinite(empty).all() and empty.shape == (N * N, N_BINS)


def prior_of(shares: np.ndarray, begins: list[int], borders: list[int]) -> list[list[float]]:
    """How much steps of each pair take about as long as cases do, by a loop.

    Args:
        shares: Of the bins of steps, for each pair.
        begins: Where these bins begin.
        borders: Of the bins of cases.
    """
    k = len(borders) + 1
    found = []
    for row in shares:
        in_bins = [0.0] * k
        for begin, share in zip(begins, row, strict=True):
            in_bins[sum(begin >= border for border in borders)] += share
        padded = [0.0, 0.0, *in_bins]
        found.append([padded[i + 2] + padded[i + 1] + padded[i] / 2 for i in range(k)])
    return found


@pytest.mark.parametrize("borders", [BORDERS, BORDERS[1::2], BORDERS[:2]])
def test_before_they_are_counted_steps_that_take_about_as_long_are_the_longest(borders):
    """Where there is no case, and where there are cases but noise alone is known of them."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(N_BINS, 0.4), N * N)
    shares[1], shares[N] = np.eye(N_BINS)[[0, 3]]
    k = len(borders) + 1
    durations = DurationsDecision(BORDERS, np.cumsum(shares, axis=1), N, N_TICKS)
    even = np.arange(1, k + 1) / k
    spans = SpansDecision(borders, even, N_TICKS, even, 1.0)
    expected = np.array(prior_of(shares, [0, *BORDERS.tolist()], borders.tolist())) + 1e-3
    n = 50
    own, bins = np.repeat(np.arange(n), 3), np.arange(n) % k
    pairs = rng.integers(0, N * N, 3 * n)
    steps = Steps(own, own, own, np.tile([1, 2, 3], n), pairs, np.full(3 * n, -1))
    nothing = steps.take(np.zeros(0, np.int64))
    for deviation, some, n_cases in ((1.0, nothing, n), (1.0, steps, 0), (1e9, steps, n)):
        counts = rng.normal(0, deviation, (N * N, k))
        decision = LongestDecision(counts, deviation)
        found = decide_propensities(decision, durations, spans, some, bins, n_cases)
        assert found.logs == pytest.approx(np.log(expected), abs=1e-3)


def test_expected_numbers_are_the_counts_where_some_cases_stand_for_many():
    """60 cases of two kinds stand for 6,000, whose counts follow given propensities.

    Counts as the steps' times alone lead one to expect change nothing.
    """
    rng = np.random.default_rng(5)
    n, n_cases, k = 60, 6000, N_BINS
    kinds = [[0, 4], [4, 8, 8]]
    cases = [kinds[i // 2 % 2] for i in range(n)]
    lengths = np.array([len(case) for case in cases])
    own, pairs = np.repeat(np.arange(n), lengths), np.concatenate(cases)
    bins = np.where(np.arange(n) % 2, 1, 5)
    steps = Steps(own, own, own, np.zeros(len(own), np.int64), pairs, np.full(len(own), -1))
    shares = rng.dirichlet(np.ones(k), N * N)
    durations = DurationsDecision(BORDERS, np.cumsum(shares, axis=1), N, N_TICKS)
    even = np.arange(1, k + 1) / k
    spans = SpansDecision(BORDERS, even, N_TICKS, even, 1.0)

    def numbers(weights: np.ndarray) -> np.ndarray:
        """Of longest steps, by pair and bin, in a loop."""
        found = np.zeros((N * N, k))
        for case, bin_ in zip(cases, bins.tolist(), strict=True):
            for pair in case:
                found[pair, bin_] += weights[pair, bin_] / weights[case, bin_].sum()
        return found * (n_cases / n)

    def decided(counts: np.ndarray, deviation: float) -> np.ndarray:
        decision = LongestDecision(counts, deviation)
        return decide_propensities(decision, durations, spans, steps, bins, n_cases).logs

    prior = np.array(prior_of(shares, [0, *BORDERS.tolist()], BORDERS.tolist())) + 1e-3
    counts = numbers(np.exp(rng.normal(0, 1, (N * N, k))))
    assert numbers(np.exp(decided(counts, 1.0))) == pytest.approx(counts, rel=0.01, abs=1)
    assert np.abs(numbers(prior) - counts).max() > 300
    for deviation in (1.0, 30.0):
        assert decided(numbers(prior), deviation) == pytest.approx(np.log(prior), abs=1e-6)


def test_a_uniform_of_0_is_none_to_fail_at(monkeypatch):
    n = 4
    own = np.repeat(np.arange(n), 2)
    steps = Steps(own, own, own, np.tile([1, 2], n), np.tile([0, 1], n), np.full(2 * n, -1))
    monkeypatch.setattr(Steps, "uniforms", lambda *_: np.tile([0.0, 0.5], n))
    found = sample_longest(
        Propensities(np.zeros((4, 1))), steps, np.zeros(n, np.int64), randomness()
    )
    assert found.tolist() == [1, 3, 5, 7]


def test_steps_are_drawn_by_their_propensities():
    logs = np.zeros((4, 2))
    logs[:, 1] = np.log([1, 2, 3, 4])
    n = 20_000
    own = np.repeat(np.arange(n), 3)
    positions, pairs = np.tile([1, 2, 3], n), np.tile([0, 1, 3], n)
    steps = Steps(np.arange(3 * n), own, own + 5, positions, pairs, np.full(3 * n, -1))
    for bin_, expected in ((0, [1, 1, 1]), (1, [1, 2, 4])):
        bins = np.full(n, bin_)
        found = sample_longest(Propensities(logs), steps, bins, randomness())
        assert (found // 3 == np.arange(n)).all()
        chances = np.array(expected) / sum(expected)
        assert p_value(np.bincount(found % 3, minlength=3), n * chances) > ALPHA
    # The numbers of case and position decide, and nothing else.
    few = np.arange(30, 60)
    part = sample_longest(Propensities(logs), steps.take(few), np.ones(n, np.int64), randomness())
    whole = sample_longest(Propensities(logs), steps, np.ones(n, np.int64), randomness())
    assert (part + 30).tolist() == whole[10:20].tolist()
