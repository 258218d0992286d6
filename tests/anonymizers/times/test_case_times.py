"""Times of cases by class and period: counts by a loop, and tables that agree with noisy sums."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tests.support.logs import MINUTE, Log, as_released, cases_of, event_logs, trace_batch
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.anonymizers.times import case_times
from tracecloak.anonymizers.times.case_classes import LONGEST_VARIANT, MOST_VARIANTS, CaseClasses
from tracecloak.anonymizers.times.case_spans import SpansDecision
from tracecloak.anonymizers.times.case_starts import Periods
from tracecloak.anonymizers.times.case_times import NoisySums, agreeing_table, n_periods_of
from tracecloak.anonymizers.times.time_bins import TimeBins, time_borders
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
N_TICKS = 1000 * 86_400
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 1000 * DAY), "second")
WORDS = ActivityVocabulary.public("AB")
COUNTER = Counted(ClippedCells, case_times.count_tables, (ALWAYS,))
N_BINS = 6
BORDERS = time_borders(N_BINS, N_TICKS).tolist()
PERIODS = Periods(np.array([10 * DAY, 50 * DAY]), np.array([0, 0.5, 0.75, 1]))
RELEASED = as_released({"AB": 50, "A": 30, "ABB": 20})
VARIANTS = ["AB", "A", "ABB"]
WIDE = np.arange(N_BINS)
SPANS = SpansDecision(np.array(BORDERS), np.ones(N_BINS), N_TICKS, np.zeros(N_BINS), 1.0, WIDE)
DECISIONS: dict[str, Any] = {
    "spans": SPANS,
    "variants": RELEASED,
    "periods": PERIODS,
    "bins": TimeBins(4, N_BINS),
}
N_CLASSES, N_PERIODS = len(VARIANTS) + len(WORDS), 3
SHAPES = (N_CLASSES, N_PERIODS), (N_CLASSES, N_BINS + 1), (N_PERIODS, N_BINS + 1)
N_CELLS = sum(a * b for a, b in SHAPES)


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def counts_of(log: Log) -> list[int]:
    counted = COUNTER.count(public(log), DECISIONS, randomness())
    return [int(x) for x in counted.dense(np.arange(N_CELLS))]


def naive(log: Log) -> list[int]:
    """The counts by a loop."""
    tables = [[[0] * b for _ in range(a)] for a, b in SHAPES]
    for steps in cases_of(log).values():
        names = [name if name in "AB" else WORDS.labels[len(WORDS) - 1] for name, _ in steps]
        known = "".join(names) if set(names) <= {"A", "B"} else ""
        last = len(VARIANTS) + list(WORDS.labels).index(names[-1])
        own = VARIANTS.index(known) if known in VARIANTS else last
        begun = sum(steps[0][1] >= border for border in (10 * DAY, 50 * DAY))
        span = steps[-1][1] // SECOND - steps[0][1] // SECOND
        bin_ = sum(span >= border for border in BORDERS) if len(steps) > 1 else N_BINS
        for table, (row, column) in zip(
            tables, ((own, begun), (own, bin_), (begun, bin_)), strict=True
        ):
            table[row][column] += 1
    return [x for table in tables for row in table for x in row]


@given(
    event_logs(max_events=25, n_cases=8, activities="ABX", minutes=5),
    st.sampled_from([1_000_000, MINUTE, 9 * DAY, 70 * DAY]),
)
def test_cases_are_counted_by_class_period_and_time(log, unit):
    log = [(case, name, time // MINUTE * unit) for case, name, time in log]
    assert counts_of(log) == naive(log)


def spans_of(shares: list[float], n_cases: float) -> SpansDecision:
    counts = np.array(shares) * n_cases
    return SpansDecision(np.array(BORDERS), np.cumsum(shares), N_TICKS, counts, 1e-3, WIDE)


def test_periods_are_drawn_by_class_and_by_whether_there_is_one_event():
    rows = np.array([[0.2, 0.5, 0.3], [0, 0, 1], [1, 0, 0], [0.6, 0.4, 0]])
    decided = case_times.CaseTimes(np.cumsum(rows, axis=1), np.ones((2, 3, 1)))
    n = 6000
    for own, is_single in itertools.product((0, 1), (True, False)):
        drawn = case_times.sample_periods(
            decided, np.full(n, own), np.full(n, is_single), np.arange(n), randomness()
        )
        shares = rows[own + 2 * (not is_single)]
        found = np.bincount(drawn, minlength=3)
        assert not found[shares == 0].any()
        if (shares > 0).sum() > 1:
            assert p_value(found[shares > 0], n * shares[shares > 0]) > ALPHA


def test_ranks_in_classes_have_their_bins_and_ranks_in_bins_say_where_in_them():
    of_all = spans_of([0.1, 0.2, 0.3, 0.2, 0.1, 0.1], 100)
    rows = np.array([[0, 0, 1, 0, 0, 0], [0.5, 0, 0, 0, 0.25, 0.25]])
    decided = case_times.CaseTimes(np.ones((4, 1)), np.cumsum(rows, axis=1)[:, None])
    n = 1000
    even = (np.arange(n) + 0.5) / n
    none = np.zeros(n, np.int64)
    in_one = case_times.wide_bins_at(decided, none, none, even)
    assert in_one.tolist() == [2] * n
    assert case_times.ranks_among_all(of_all, in_one, even) == pytest.approx(0.3 + 0.3 * even)
    bins = case_times.wide_bins_at(decided, none + 1, none, even)
    assert np.bincount(bins, minlength=N_BINS).tolist() == [500, 0, 0, 0, 250, 250]
    # Those of one class that take the least of all in a bin are the first of it.
    found = case_times.ranks_among_all(of_all, bins, even / 4)
    assert np.array_equal(np.searchsorted(of_all.reached, found, side="right"), bins)
    assert found[:500].max() < 0.1 / 4 and found[500:].min() >= 0.8


SHAPE = (2, 3, 4)
WORTH = 40.0


def summed(table: np.ndarray, block: NoisySums) -> np.ndarray:
    """What a block is about, by hand."""
    others = tuple(axis for axis in range(table.ndim) if axis not in block.axes)
    sums = table.sum(axis=others)
    return sums[..., : block.sums.shape[-1]] if table.ndim - 1 in block.axes else sums


def cost(table: np.ndarray, prior: np.ndarray, blocks: list[NoisySums]) -> float:
    """What the table shall have the least of."""
    distance = (table * np.log(table / prior) - table + prior).sum() * WORTH / prior.sum()
    rests = (summed(table, block) - block.sums for block in blocks)
    misfits = ((rest / b.deviation) ** 2 for rest, b in zip(rests, blocks, strict=True))
    return float(distance + sum(misfit.sum() for misfit in misfits) / 2)


def some_blocks(generator: np.random.Generator, truth: np.ndarray) -> list[NoisySums]:
    blocks = []
    for axes, most in (((0, 2), 3), ((0, 1), 9), ((1, 2), 4), ((2,), 3), ((1,), 9)):
        exact = summed(truth, NoisySums(axes, np.zeros(most), 1.0))
        deviation = float(generator.uniform(2, 15))
        blocks.append(
            NoisySums(axes, exact + generator.normal(0, deviation, exact.shape), deviation)
        )
    return blocks


@pytest.mark.parametrize(("n_cases", "expected"), [(0, 2), (5_000, 4), (10_000, 8), (10**6, 24)])
def test_larger_logs_have_more_periods(n_cases: int, expected: int) -> None:
    """Forty deviations a period: of Laplace noise of scale 3 / epsilon."""
    allowance = Allowance(Fraction(3) * Fraction(1414214, 10**6) / 30)
    assert n_periods_of(n_cases, allowance, 1) == expected


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_a_solver_of_the_primal_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    prior, truth = (300 * generator.dirichlet(np.ones(24)).reshape(SHAPE) for _ in range(2))
    prior += 0.01
    blocks = some_blocks(generator, truth)
    found = agreeing_table(prior, blocks, WORTH)

    def of_logs(logs: np.ndarray) -> float:
        return cost(np.exp(logs).reshape(SHAPE), prior, blocks)

    other = minimize(of_logs, np.log(prior.ravel()), method="L-BFGS-B")
    assert cost(found, prior, blocks) <= other.fun * (1 + 1e-3)
    for _ in range(50):  # and nowhere nearby is better
        nearby = found * np.exp(generator.normal(0, 0.1, SHAPE))
        assert cost(nearby, prior, blocks) > cost(found, prior, blocks) - 1e-3 * other.fun


def test_what_is_expected_nowhere_stays_so_whatever_the_noise_says() -> None:
    prior = np.array([[0.0, 10.0], [0.0, 30.0]])
    blocks = [
        NoisySums((0,), np.array([-50.0, 500.0]), 5.0),
        NoisySums((1,), np.array([90.0, -3.0]), 5.0),
    ]
    found = agreeing_table(prior, blocks, WORTH)
    assert (found[:, 0] == 0).all() and (found[:, 1] > 0).all() and np.isfinite(found).all()
    assert not agreeing_table(np.zeros((2, 2)), blocks, WORTH).any()


CLASS_WORDS = ActivityVocabulary.public("ABC")


def class_public(variants: list[str]) -> TraceBatch:
    log = {f"c{i:03}": " ".join(variant) for i, variant in enumerate(variants)}
    return trace_batch(log).recode_public(CLASS_WORDS)


some_variants = st.text("ABC", min_size=1, max_size=4)


@given(
    st.dictionaries(some_variants, st.integers(1, 9), max_size=60),
    st.lists(st.text("ABCX", min_size=1, max_size=4), max_size=20),
)
def test_classes_are_those_of_a_loop(variants, cases):
    classes = CaseClasses.of(as_released(variants), CLASS_WORDS)
    own = list(variants)[:MOST_VARIANTS]

    def class_of(case: str) -> int:
        return own.index(case) if case in own else len(own) + "ABCX".index(case[-1])

    assert classes.of_cases(class_public(cases)).tolist() == [class_of(case) for case in cases]
    sizes = [0] * (len(own) + 4)
    for variant, count in variants.items():
        sizes[class_of(variant)] += count
    assert classes.sizes.tolist() == sizes
    assert classes.offsets.tolist() == np.cumsum([0, *map(len, own)]).tolist()
    pairs = [
        "ABCX".index(v[i - 1]) * 4 + "ABC".index(v[i]) if i else 0
        for v in own
        for i in range(len(v))
    ]
    assert classes.pairs(4).tolist() == pairs


def test_codes_of_a_large_vocabulary_are_told_apart():
    """Sequences of codes of more than a byte, which are not as long as their variants."""
    many = ActivityVocabulary.public([f"n{i:03}" for i in range(300)])
    names = pa.array(["n150", "n299"])
    a, b = names.to_pylist()
    classes = CaseClasses.of(as_released({(a, b, a): 5, (b,): 2}), many)
    log = {"c": f"{a} {b} {a}", "d": b, "e": f"{b} {a}"}
    own = many.codes(names).astype(np.int64)
    expected = [0, 1, 2 + own[0]]
    assert classes.of_cases(trace_batch(log).recode_public(many)).tolist() == expected
    n = len(many)
    assert classes.pairs(n).tolist() == [0, own[0] * n + own[1], own[1] * n + own[0], 0]
    assert classes.offsets.tolist() == [0, 3, 4]


def test_long_variants_are_no_classes():
    long = "AB" * (LONGEST_VARIANT // 2) + "C"
    classes = CaseClasses.of(as_released({long: 9, "AB": 5, long[1:]: 3}), CLASS_WORDS)
    assert (classes.n_variants, classes.n_places) == (2, LONGEST_VARIANT + 2)
    assert classes.of_cases(class_public([long, "AB", long[1:]])).tolist() == [2 + 2, 0, 1]
    assert classes.sizes.tolist() == [5, 3, 0, 0, 9, 0]
