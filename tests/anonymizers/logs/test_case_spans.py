"""Times of whole cases: counts by a loop, sensitivity by enumeration, shares, the law of the draws.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import bisect
import itertools
import pickle
from collections import Counter
from dataclasses import dataclass, replace
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
from tracecloak.anonymizers import contract
from tracecloak.anonymizers.accounting.calibration import laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.logs import case_spans
from tracecloak.anonymizers.logs.case_spans import (
    N_SPAN_BINS,
    CaseSpans,
    SpansDecision,
    decide_spans,
    sample_spans,
    spans_noise,
)
from tracecloak.anonymizers.logs.time_bins import step_borders
from tracecloak.anonymizers.logs.time_range import LogTime, TimeRange
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import LengthDecision, VocabularyDecision
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.events.working_time import WorkingCalendar
from tracecloak.schemas.statistics.clipped_cells import ClippedCells

DAY = 24 * 60 * MINUTE
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 10_000 * DAY))
WORDS = ActivityVocabulary.public("AB")
N_CELLS = 4 * N_SPAN_BINS
BORDERS = step_borders(N_SPAN_BINS).tolist()
LARGE = Fraction(10**6)  # an epsilon at which there is no noise

Cell = tuple[str | None, int]
CELLS: list[Cell] = [(name, d) for name in (None, "A", "B", OTHER) for d in range(N_SPAN_BINS)]


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def counts_of(log: Log, decisions: contract.Decisions | None = None) -> np.ndarray:
    """int64[N_CELLS], what is counted of a log."""
    counted = CaseSpans(ALWAYS).count(public(log), decisions or {}, randomness())
    return counted.dense(np.arange(N_CELLS))


def named(counts: np.ndarray) -> Counter[Cell]:
    return Counter({CELLS[i]: int(counts[i]) for i in np.flatnonzero(counts)})


def naive(log: Log) -> Counter[Cell]:
    """The counts by a loop."""
    cells: Counter[Cell] = Counter()
    for steps in cases_of(log).values():
        if len(steps) > 1:
            name = steps[-1][0] if steps[-1][0] in "AB" else OTHER
            taken = bisect.bisect_right(BORDERS, steps[-1][1] - steps[0][1])
            cells[None, taken] += 1
            cells[name, taken] += 1
    return cells


# --- the counts -----------------------------------------------------------------------------------


def test_the_vocabulary_has_the_rows_that_are_named_here():
    assert WORDS.names.to_pylist() == ["A", "B", OTHER]


@given(
    event_logs(max_events=25, n_cases=8, activities="ABX", minutes=5),
    st.sampled_from([1, 1000, MINUTE, 60 * MINUTE, 700 * DAY]),
)
def test_cases_are_counted_by_last_activity_and_time(log, unit):
    log = [(case, name, time // MINUTE * unit) for case, name, time in log]
    assert named(counts_of(log)) == naive(log)


def test_counts_by_hand():
    log = {"one": "A", "tie": "A@0 B@0", "hour": "A@0 B@7 X@60", "also": "B@3 A@63"}
    hour = bisect.bisect_right(BORDERS, 60 * MINUTE)
    found = {(None, 0): 1, ("B", 0): 1, (None, hour): 2, (OTHER, hour): 1, ("A", hour): 1}
    assert named(counts_of(log)) == found


def test_times_are_working_times_within_the_range():
    calendar = WorkingCalendar("UTC", (0, 1, 2, 3, 4), 9, 17)
    friday = TimeRange.of_dates("2024-06-07", "2024-06-10", "UTC")  # to Monday
    hour = 60 * MINUTE

    def bin_of(begin: int, middle: int, end: int) -> int:
        log = [("c", "A", friday.first_us + time * hour) for time in (begin, middle, end)]
        counted = CaseSpans(LogTime(calendar, friday)).count(public(log), {}, randomness())
        assert counted.keys.tolist() == [counted.keys[0], counted.keys[0] + N_SPAN_BINS]
        return int(counted.keys[0])

    def of_hours(n: int) -> int:
        return bisect.bisect_right(BORDERS, n * hour)

    assert len({of_hours(1), of_hours(8), of_hours(65), 0}) == 4
    assert bin_of(16, 50, 3 * 24 + 9) == of_hours(1)  # 65 hours by the clock
    assert bin_of(9, 17, 3 * 24 + 9) == of_hours(8)
    assert bin_of(17, 18, 2 * 24 + 12) == 0  # over the weekend
    assert bin_of(-4000, 0, 10) == of_hours(1)  # clipped at the begin
    assert bin_of(3 * 24 + 16, 4000, 8000) == of_hours(1)  # and at the end


@given(event_logs(max_events=25, activities="ABX"), st.integers(1, 4))
def test_pieces_add_up(log, n_pieces):
    traces = public(log)
    counter: CaseSpans = pickle.loads(pickle.dumps(CaseSpans(ALWAYS)))  # noqa: S301
    pieces = [
        counter.count(traces.take(np.arange(i, traces.n_cases, n_pieces)), {}, randomness())
        for i in range(n_pieces)
    ]
    merged = counter.kind.merge(pieces)
    assert merged == counter.count(traces, {}, randomness())
    assert decode(encode(merged)) == merged


def test_what_was_bought_is_counted_in():
    @dataclass(frozen=True)
    class Range(contract.Decision):
        time_range: TimeRange

    decisions: dict[str, Any] = {
        "vocabulary": VocabularyDecision(WORDS),
        "length": LengthDecision(2),
        "time_range": Range(TimeRange(0, 30 * DAY)),
    }
    log = trace_batch({"c": "A@0 X@90 B@5000", "d": "X@9", "e": "B@100 B@1000000"})
    found = CaseSpans(LogTime(WorkingCalendar(), None)).count(log, decisions, randomness())
    cut = bisect.bisect_right(BORDERS, 90 * MINUTE)
    clipped = bisect.bisect_right(BORDERS, 30 * DAY - 100 * MINUTE)
    assert clipped != bisect.bisect_right(BORDERS, 10**6 * MINUTE)
    assert named(found.dense(np.arange(N_CELLS))) == {
        (None, cut): 1,
        (OTHER, cut): 1,
        (None, clipped): 1,
        ("B", clipped): 1,
    }
    decisions["length"] = LengthDecision(1)
    nothing = CaseSpans(LogTime(WorkingCalendar(), None)).count(log, decisions, randomness())
    assert nothing == ClippedCells.merge([])


# --- sensitivity ----------------------------------------------------------------------------------

# Times apart such that cases fall into many bins, the first and the last too.
GAPS = (0, 1000, MINUTE, 4000 * DAY)


def small_cases(max_length: int, gaps: tuple[int, ...]) -> list[list[tuple[str, int]]]:
    """All cases over three activities with all gaps between their events."""
    cases = []
    for n in range(1, max_length + 1):
        for names in itertools.product("ABX", repeat=n):
            for apart in itertools.product(gaps, repeat=n - 1):
                cases.append(list(zip(names, itertools.accumulate((0, *apart)), strict=True)))
    return cases


def with_cases(log: list[Event], *cases: list[tuple[str, int]]) -> list[Event]:
    return [*log, *((f"new {i}", *event) for i, case in enumerate(cases) for event in case)]


OTHERS: list[Event] = [("o", "A", 0), ("o", "B", 5), ("p", "B", 0), ("q", "X", 0), ("q", "X", DAY)]


@pytest.mark.parametrize("others", [[], OTHERS])
@pytest.mark.parametrize("length", [None, 1, 2])
def test_one_case_changes_the_counts_by_2_in_total(others, length):
    """Every case of up to 3 events beside another log; one of one event changes nothing."""
    decisions = {} if length is None else {"length": LengthDecision(length)}
    before = counts_of(others, decisions)
    for case in small_cases(3, GAPS):
        change = counts_of(with_cases(others, case), decisions) - before
        assert change.min() >= 0
        n_kept = min(len(case), length or len(case))
        assert change.sum() == (2 if n_kept > 1 else 0)


def test_two_cases_of_a_unit_change_them_by_4_in_total():
    """Every pair of cases of up to 2 events is added to a log; equal cells add up."""
    before = counts_of(OTHERS)
    changes = set()
    for pair in itertools.product(small_cases(2, (0, MINUTE)), repeat=2):
        change = counts_of(with_cases(OTHERS, *pair)) - before
        changes.add((int(change.sum()), int(change.max())))
    assert changes == {(0, 0), (2, 1), (4, 1), (4, 2)}
    assert max(changes)[0] == 2 * 2


@pytest.mark.parametrize("units", [1, 2, 5])
def test_the_noise_has_the_scale_of_the_sensitivity(monkeypatch, units):
    epsilon = Fraction(1, 7)
    assert (
        spans_noise(epsilon, units).scale
        == laplace_scale(epsilon, of_count(2 * units))
        == (14 * units, 1)
    )
    used = []
    real = case_spans.noisy_counts

    def noted(counted, n_cells, noise, purpose, keyed):
        used.append((n_cells, noise, purpose))
        return real(counted, n_cells, noise, purpose, keyed)

    monkeypatch.setattr(case_spans, "noisy_counts", noted)
    decide_spans(ClippedCells.merge([]), WORDS, DAY, epsilon, units, randomness())
    assert used == [(N_CELLS, SumNoise((14 * units, 1), 1, True), "case span")]


def test_noise_that_cannot_be_drawn_is_refused():
    with pytest.raises(UsageError, match="raise epsilon"):
        spans_noise(Fraction(1, 2**45), 1)


def test_every_cell_has_noise_of_its_own_whatever_the_log():
    for log in ({}, {"c": "A B X A", "d": "B"}):
        noting = Recording(release_key(), "release", "input", "configuration")
        counted = CaseSpans(ALWAYS).count(public(log), {}, noting)
        decided = decide_spans(counted, WORDS, DAY, Fraction(1, 10), 1, noting)
        [(purpose, asked)] = noting.asked.items()
        assert purpose == "case span"
        assert {a for a, _, counter in asked if counter == 0} == set(range(N_CELLS))
        sample_spans(decided, np.array([0, 2]), np.array([7, 9]), noting)
        assert set(noting.asked) == {purpose, "span of a case"}
        assert noting.asked["span of a case"] == [(7, 0, 0), (9, 0, 0)]


# --- the decision ---------------------------------------------------------------------------------


def decided_on(
    log: Log, epsilon: Fraction = LARGE, longest_us: int = 10_000 * DAY, number: int = 0
) -> SpansDecision:
    counted = CaseSpans(ALWAYS).count(public(log), {}, randomness())
    return decide_spans(counted, WORDS, longest_us, epsilon, 1, randomness(number))


def shares_of(decided: SpansDecision) -> np.ndarray:
    return np.diff(decided.reached, prepend=0.0, axis=1)


def test_without_noise_the_shares_are_those_of_the_log():
    log = {"c": "A@0 B@60", "d": "B@3 B@63", "e": "A@0 X@9 B@9000", "f": "A B X A@3", "g": "X"}
    shares = shares_of(decided_on(log))
    minutes, hour, days = (bisect.bisect_right(BORDERS, x * MINUTE) for x in (3, 60, 9000))
    assert len({minutes, hour, days}) == 3
    a, b, other = range(3)
    assert shares[b, [hour, days]] == pytest.approx([2 / 3, 1 / 3])
    assert shares[a, minutes] == pytest.approx(1)
    # No case of two events ends otherwise, so all cases say it.
    assert shares[other, [minutes, hour, days]] == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    assert shares.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", [LARGE, Fraction(1), Fraction(1, 10**6)])
@pytest.mark.parametrize("longest", [1, MINUTE, 10 * DAY, 10_000 * DAY])
@pytest.mark.parametrize("log", [{}, {f"c{i}": f"A@0 B@{i * 9}" for i in range(40)}])
def test_shares_sum_to_1_and_nothing_is_beyond_the_range(log, longest, epsilon):
    possible = 1 + bisect.bisect_right(BORDERS, longest)
    for number in range(10):
        decided = decided_on(log, epsilon, longest, number)
        assert decided.reached.shape == (3, N_SPAN_BINS)
        assert decided.borders_us.tolist() == BORDERS and decided.longest_us == longest
        assert (np.diff(decided.reached, axis=1, prepend=0.0) >= 0).all()
        assert (decided.reached[:, possible - 1 :] == 1).all()


def test_an_empty_log_without_noise_gives_every_possible_time_alike():
    shares = shares_of(decided_on({}, longest_us=DAY))
    possible = 1 + bisect.bisect_right(BORDERS, DAY)
    assert shares[:, :possible] == pytest.approx(1 / possible)
    assert possible < N_SPAN_BINS


def test_bins_of_few_cases_do_not_gain(monkeypatch):
    """100 releases of 1,000 cases over 10 activities, of which 5 in 100 take 200 days.

    The mean share of these has a deviation of 3 % of what it is; 30 % too many are allowed, 8 of
    them from where it is. The control is what the activities' own rows say before they are brought
    to what all cases say: half as many more.
    """
    names, rng = "ABCDEFGHIJ", np.random.default_rng(8)
    words = ActivityVocabulary.public(names)
    is_long = np.arange(1000) % 20 == 0
    minutes = np.where(is_long, 200 * 1440, rng.integers(20, 3000, 1000))
    log = {f"c{i}": f"A@0 {names[i // 2 % 10]}@{end}" for i, end in enumerate(minutes)}
    counted = CaseSpans(ALWAYS).count(trace_batch(log).recode_public(words), {}, randomness())
    long = bisect.bisect_right(BORDERS, 200 * DAY)
    own = []
    real = case_spans.estimated_shares

    def noted(*parts):
        own.append(real(*parts)[:10, long].mean())
        return real(*parts)

    monkeypatch.setattr(case_spans, "estimated_shares", noted)
    found = [
        shares_of(decide_spans(counted, words, 10_000 * DAY, Fraction(1, 3), 1, randomness(i)))
        for i in range(100)
    ]
    together = np.mean([shares[:10, long].mean() for shares in found])
    assert together == pytest.approx(is_long.mean(), rel=0.3)
    assert np.mean(own) > 1.4 * is_long.mean()


def test_decisions_travel():
    decided = decided_on({"c": "A@0 B@60"})
    back = decode(encode(decided))
    codes, few = np.arange(50) % 3, np.arange(50)
    drawn = sample_spans(decided, codes, few, randomness())
    assert np.array_equal(sample_spans(back, codes, few, randomness()), drawn)


def test_noise_leaves_most_of_the_shares_and_more_of_it_errs_more():
    """Ten releases at epsilon 0.1 of 1500 cases; the control is noise a hundred times as wide."""
    rng = np.random.default_rng(3)
    log = {
        f"c{i}": f"A@0 A@{rng.integers(1, 5)}" if i % 3 else f"A@0 B@{rng.integers(9, 20) * 1440}"
        for i in range(1500)
    }
    truth = shares_of(decided_on(log))[:2]

    def error(epsilon: Fraction) -> float:
        found = [shares_of(decided_on(log, epsilon, number=i))[:2] for i in range(10)]
        return float(np.mean([np.abs(shares - truth).sum() / 4 for shares in found]))

    assert error(Fraction(1, 10)) < 0.1
    assert error(Fraction(1, 1000)) > 0.3


# --- what is drawn --------------------------------------------------------------------------------


def of_shares(*rows: list[float]) -> SpansDecision:
    reached = np.cumsum(np.array(rows), axis=1)
    return SpansDecision(np.array(BORDERS), reached / reached[:, -1:], 10**17)


def in_bins(**shares: float) -> list[float]:
    """A row by `b3=0.5`: half of it in bin 3."""
    row = [0.0] * N_SPAN_BINS
    for name, share in shares.items():
        row[int(name[1:])] = share
    return row


ROWS = of_shares(
    in_bins(b0=0.2, b1=0.1, b5=0.35, b9=0.35),
    in_bins(b5=0.5, b6=0.1, b9=0.4),
    in_bins(b0=0.1, b15=0.9),
)


def test_drawn_times_have_the_law_of_their_last_activity():
    """100,000 draws each; the control is the same law with its bins exchanged."""
    n = 100_000
    last = np.repeat(np.arange(3, dtype=np.int32), n)
    drawn = sample_spans(ROWS, last, np.random.default_rng(1).permutation(3 * n), randomness())
    assert drawn.dtype == np.int64 and drawn.shape == (3 * n,)
    bins = np.searchsorted(BORDERS, drawn, side="right")
    for row, shares in enumerate(shares_of(ROWS)):
        observed = np.bincount(bins[last == row], minlength=N_SPAN_BINS)
        held = np.flatnonzero(shares)
        assert set(np.flatnonzero(observed)) == set(held)
        assert p_value(observed[held], n * shares[held]) > ALPHA
        assert p_value(observed[held], n * np.roll(shares[held], 1)) < ALPHA
    assert (drawn[bins == 0] == 0).all()
    # Within a bin evenly in the logarithm.
    low, high = BORDERS[4], BORDERS[5]
    place = np.log(drawn[bins == 5] / low) / np.log(high / low)
    tenths = np.bincount((place * 10).astype(int), minlength=10)
    assert p_value(tenths, np.full(10, len(place) / 10)) > ALPHA
    even = np.diff(np.exp(np.linspace(0, 1, 11) * np.log(high / low))) / (high / low - 1)
    assert p_value(tenths, len(place) * even) < ALPHA


def test_no_time_is_longer_than_the_range():
    codes = np.full(2000, 2)
    decided = replace(ROWS, longest_us=BORDERS[-1] * 11 // 10)
    drawn = sample_spans(decided, codes, np.arange(2000), randomness())
    long = drawn[drawn > 0]
    assert BORDERS[-1] <= long.min() and long.max() <= decided.longest_us
    assert long.max() > 0.999 * decided.longest_us


def test_the_number_of_the_case_decides_and_nothing_else():
    n = 5000
    codes, numbers = np.arange(n) % 3, np.arange(n) * 7 + 10**9
    whole = sample_spans(ROWS, codes, numbers, randomness())
    few = np.random.default_rng(0).permutation(n)[:500]
    assert np.array_equal(sample_spans(ROWS, codes[few], numbers[few], randomness()), whole[few])
    assert not np.array_equal(sample_spans(ROWS, codes, numbers + 1, randomness()), whole)
    assert len(np.unique(whole[whole > MINUTE])) > 0.9 * (whole > MINUTE).sum()
    none = np.zeros(0, np.int64)
    assert sample_spans(ROWS, none, none, randomness()).tolist() == []


class Fixed:
    """Gives the same word for everything."""

    def __init__(self, word: int) -> None:
        self.word = word

    def words(self, purpose: str, cells: np.ndarray) -> np.ndarray:
        return np.full((len(cells), 2), self.word, np.uint64)


@pytest.mark.parametrize("n", [1, 3, 100_000])
def test_the_least_and_the_largest_chance_fall_into_bins_that_have_some(n):
    """Also of the last of many activities, where a float has fewer places left."""
    row = in_bins(b3=0.3, b7=0.1, b12=0.6)
    reached = np.broadcast_to(np.cumsum(row) / sum(row), (n, N_SPAN_BINS)).copy()
    reached[:, 12:] = 1
    decided = SpansDecision(np.array(BORDERS), reached, 10**17)
    codes = np.arange(n, dtype=np.int32)
    for word, expected in ((0, 3), (2**64 - 1, 12), (int(0.35 * 2**64), 7)):
        drawn = sample_spans(decided, codes, codes.astype(np.int64), Fixed(word))
        assert (np.searchsorted(BORDERS, drawn, side="right") == expected).all()
