"""Times of steps: vectors by a loop, sensitivity by enumeration, estimates, the law of the draws.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import bisect
import itertools
import math
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
from tracecloak.anonymizers.accounting.calibration import gaussian_scale, laplace_scale
from tracecloak.anonymizers.accounting.sensitivity import of_count
from tracecloak.anonymizers.logs.step_durations import (
    UNITS,
    DurationsDecision,
    StepDurations,
    StepNorms,
    cells_of_steps,
    decide_durations,
    durations_noise,
    excess_of_durations,
    most_names_of_durations,
    n_cells_of,
    sample_durations,
    whole_norm,
)
from tracecloak.anonymizers.logs.time_bins import step_borders
from tracecloak.anonymizers.logs.time_range import LogTime, TimeRange
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import VocabularyDecision, norm_grid
from tracecloak.anonymizers.rigorous.cells import MAX_CELLS
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.events.working_time import WorkingCalendar
from tracecloak.schemas.statistics.clipped_cells import ClippedCells

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 10_000 * DAY))
WORDS = ActivityVocabulary.public("AB")
EXACT = SumNoise((1, 2**40), UNITS, False)  # so narrow that 0 is drawn
NO_CLIP = 10**9

Cell = tuple[str | None, str, int]


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def cell_names(n_bins: int) -> list[Cell]:
    names = WORDS.names.to_pylist()
    return [(a, b, d) for a in (*names, None) for b in names for d in range(n_bins)]


def naive(log: Log, borders: list[int]) -> dict[str, Counter[Cell]]:
    """Each case's vector, by a loop."""
    vectors = {}
    for case, steps in cases_of(log).items():
        cells: Counter[Cell] = Counter()
        names = [name if name in "AB" else OTHER for name, _ in steps]
        for i in range(1, len(steps)):
            taken = bisect.bisect_right(borders, steps[i][1] - steps[i - 1][1])
            cells[names[i - 1], names[i], taken] += 1
            cells[None, names[i], taken] += 1
        vectors[case] = cells
    return vectors


# --- the vectors ----------------------------------------------------------------------------------


@given(event_logs(max_events=25, activities="ABX"), st.sampled_from([[1], [1, MINUTE + 1]]))
def test_vectors_are_those_of_a_loop(log, borders):
    traces = public(log)
    cells = cells_of_steps(traces, ALWAYS.working_time({}), np.array(borders))
    names = cell_names(len(borders) + 1)
    assert cells.n_keys == len(names) == n_cells_of(3, len(borders) + 1)
    ids = traces.case_ids.to_pylist()
    found: dict[str, Counter[Cell]] = {case: Counter() for case in ids}
    for case, key, count in zip(cells.cases, cells.keys, cells.counts, strict=True):
        found[ids[case]][names[key]] = int(count)
    vectors = naive(log, borders)
    assert found == vectors
    assert cells.squares.tolist() == [sum(x * x for x in vectors[case].values()) for case in ids]


def test_times_are_working_times_within_the_range():
    calendar = WorkingCalendar("UTC", (0, 1, 2, 3, 4), 9, 17)
    friday = TimeRange.of_dates("2024-06-07", "2024-06-10", "UTC")  # to Monday
    time = LogTime(calendar, friday).working_time({})
    hour = 60 * MINUTE

    def took(begin: int, end: int) -> int:
        log = [("c", "A", friday.first_us + begin), ("c", "B", friday.first_us + end)]
        borders = np.arange(1, 24 * 60) * MINUTE  # the bin is the minutes
        cells = cells_of_steps(public(log), time, borders)
        assert len(cells.keys) == 2
        return int(cells.keys[0]) % (len(borders) + 1)

    assert took(10 * hour, 11 * hour) == 60
    assert took(16 * hour, (3 * 24 + 10) * hour) == 2 * 60  # over the weekend
    assert took(17 * hour, (2 * 24 + 12) * hour) == 0  # in it
    assert took(-40 * hour, 10 * hour) == 60  # clipped at the begin
    assert took((3 * 24 + 16) * hour, 4000 * hour) == 60  # and at the end


# --- sensitivity ----------------------------------------------------------------------------------

# Times apart such that steps fall into each of the four bins of `step_borders(4)`.
GAPS = (0, 1000, MINUTE, 4000 * DAY)


def small_cases(max_length: int) -> list[list[tuple[str, int]]]:
    """All cases over three activities with all gaps between their events."""
    cases = []
    for n in range(1, max_length + 1):
        for names in itertools.product("ABX", repeat=n):
            for gaps in itertools.product(GAPS, repeat=n - 1):
                cases.append(list(zip(names, itertools.accumulate((0, *gaps)), strict=True)))
    return cases


OTHERS = [("o", "A", 0), ("o", "B", 5), ("p", "B", 0), ("p", "B", 0), ("p", "X", MINUTE)]
LONG = [("A", MINUTE * i) for i in range(40)]


@dataclass(frozen=True)
class Clip(contract.Decision):
    clip_units: int


def moved(counter: StepDurations, decisions: dict[str, Any], case: list[tuple[str, int]]) -> Any:
    """What a case adds to the sums beside two others."""
    domain = np.arange(n_cells_of(3, counter.n_bins))

    def sums(log: list[Event]) -> np.ndarray:
        return counter.count(public(log), decisions, randomness()).dense(domain)

    log = [*OTHERS, *(("new", name, time) for name, time in case)]
    return sums(log) - sums(OTHERS)


@pytest.mark.parametrize("clip", [1024, 1448, 2500, 5000])
def test_one_case_moves_the_sums_by_at_most_the_clip(clip):
    """Every case of up to 3 events and a long one; the bound is nearly attained."""
    time = LogTime(WorkingCalendar(), TimeRange(0, 10**8 * DAY))
    counter = StepDurations(time, 4, clip, UNITS)
    bought = StepDurations(time, 4, "clip", UNITS)
    largest = 0
    for case in [*small_cases(3), LONG]:
        change = [int(x) for x in moved(counter, {}, case)]
        assert min(change) >= 0
        square = sum(x * x for x in change)
        assert square <= clip**2
        largest = max(largest, square)
    assert math.sqrt(largest) > clip - 3
    assert np.array_equal(moved(bought, {"clip": Clip(clip)}, LONG), moved(counter, {}, LONG))


@pytest.mark.parametrize("max_length", [1, 2, 3])
def test_without_delta_one_case_moves_them_by_twice_its_steps(max_length):
    time = LogTime(WorkingCalendar(), TimeRange(0, 10**8 * DAY))
    counter = StepDurations(time, 4, whole_norm(max_length), 1)
    changes = {int(moved(counter, {}, case).sum()) for case in small_cases(max_length)}
    assert changes == {2 * n for n in range(max_length)}
    assert whole_norm(max_length) == max(max(changes), 1)


def test_no_long_case_is_scaled_without_delta():
    """Also one whose steps are all in one cell, whose L2 norm is the largest."""
    counter = StepDurations(ALWAYS, 4, whole_norm(len(LONG)), 1)
    assert moved(counter, {}, LONG).sum() == whole_norm(len(LONG)) == 2 * 39


def test_the_noise_is_calibrated_to_the_clip_and_the_unit():
    epsilon, delta = Fraction(38, 100), Fraction(1, 10**6)
    for units in (1, 3):
        noise = durations_noise(epsilon, delta, 5000, units)
        assert noise == SumNoise(
            gaussian_scale(epsilon, delta, of_count(5000 * units)), UNITS, False
        )
        noise = durations_noise(epsilon, Fraction(0), whole_norm(20), units)
        assert noise == SumNoise(laplace_scale(epsilon, of_count(38 * units)), 1, True)
    with pytest.raises(UsageError, match="raise epsilon"):
        durations_noise(Fraction(1, 10**9), delta, 10**9, 1)


# --- the counters ---------------------------------------------------------------------------------


@given(event_logs(max_events=25, activities="ABX"), st.integers(1, 4))
def test_pieces_add_up(log, n_pieces):
    traces = public(log)
    parts = [traces.take(np.arange(i, traces.n_cases, n_pieces)) for i in range(n_pieces)]
    for counter in (StepDurations(ALWAYS, 5, 1500, UNITS), StepNorms(ALWAYS, 5)):
        counter = pickle.loads(pickle.dumps(counter))  # noqa: S301
        pieces = [counter.count(part, {}, randomness()) for part in parts]
        merged: Any = counter.kind.merge(pieces)
        assert merged == counter.count(traces, {}, randomness())
        assert decode(encode(merged)) == merged


@given(event_logs(max_events=25, activities="ABX"))
def test_norms_are_those_of_a_loop(log):
    found = StepNorms(ALWAYS, 5).count(public(log), {}, randomness()).histogram(len(norm_grid()))
    expected = np.zeros(len(norm_grid()) + 1)
    for vector in naive(log, step_borders(5).tolist()).values():
        square = sum(x * x for x in vector.values())
        expected[bisect.bisect_left(norm_grid().tolist(), square)] += 1
    assert found.tolist() == expected.tolist()


def test_counters_see_the_bought_vocabulary_length_and_range():
    @dataclass(frozen=True)
    class Length(contract.Decision):
        max_trace_length: int

    @dataclass(frozen=True)
    class Range(contract.Decision):
        time_range: TimeRange

    decisions = {
        "vocabulary": VocabularyDecision(WORDS),
        "length": Length(2),
        "time_range": Range(TimeRange(0, DAY)),
    }
    counter = StepDurations(LogTime(WorkingCalendar(), None), 4, NO_CLIP, 1)
    log = {"c": "A@0 X@2000 B@2001"}
    found = counter.count(trace_batch(log), decisions, randomness())
    names = cell_names(4)
    assert {names[key] for key in found.keys} == {("A", OTHER, 2), (None, OTHER, 2)}


# --- the decision ---------------------------------------------------------------------------------


def shares_of(decided: DurationsDecision) -> np.ndarray:
    return np.diff(decided.reached, prepend=0.0, axis=2)


def decided_on(log: Log, n_bins: int = 6, noise: SumNoise = EXACT, number: int = 0) -> Any:
    counter = StepDurations(ALWAYS, n_bins, NO_CLIP, UNITS)
    counted = counter.count(public(log), {}, randomness())
    longest = ALWAYS.working_time({}).total_us
    return decide_durations(counted, WORDS, n_bins, longest, noise, randomness(number))


def test_without_noise_the_shares_are_those_of_the_log_and_unseen_pairs_take_their_target_s():
    log = {"c": "A@0 B@0 A@10 B@5000 A@5001", "d": "B@0 B@10"}
    shares = shares_of(decided_on(log))
    a, b, other = 0, 1, 2
    borders = step_borders(6).tolist()
    zero, minutes, days = (bisect.bisect_right(borders, x * MINUTE) for x in (0, 10, 4990))
    assert len({zero, minutes, days}) == 3
    assert shares[a, b, [zero, days]] == pytest.approx([0.5, 0.5])
    assert shares[b, b, minutes] == pytest.approx(1)
    one = bisect.bisect_right(borders, MINUTE)
    of_a: Counter[int] = Counter([minutes, one])
    for bin_, count in of_a.items():
        assert shares[b, a, bin_] == pytest.approx(count / 2)
    # To B: zero, days, minutes; to A: as above; in all five steps.
    assert shares[other, b, [zero, minutes, days]] == pytest.approx([1 / 3] * 3)
    of_log = Counter([zero, minutes, days, minutes, one])
    for bin_, count in of_log.items():
        assert shares[a, other, bin_] == pytest.approx(count / 5)
    assert shares.sum(axis=2) == pytest.approx(1)


def test_a_target_is_what_both_of_its_levels_say_by_their_variances():
    """Sums that no log has: the cells of B say bin 0, those of A to B bin 1, each 40 times.

    The sum over the three sources has three times the variance, so it counts a quarter.
    """
    names = cell_names(6)
    cells = sorted([names.index((None, "B", 0)), names.index(("A", "B", 1))])
    counted = ClippedCells(np.array(cells), np.array([40 * UNITS] * 2))
    decided = decide_durations(counted, WORDS, 6, DAY, EXACT, randomness())
    assert shares_of(decided)[1, 1, :3] == pytest.approx([0.75, 0.25, 0])
    assert shares_of(decided)[0, 1, :3] == pytest.approx([0, 1, 0])


@pytest.mark.parametrize("noise", [EXACT, SumNoise((10**6, 1), 1, True)])
def test_an_empty_log_gives_possible_durations(noise):
    for number in range(10):
        decided = decided_on({}, 8, noise, number)
        assert decided.reached.shape == (3, 3, 8)
        assert (decided.reached[:, :, -1] == 1).all()
        assert (np.diff(decided.reached, axis=2) >= 0).all() and (decided.reached >= 0).all()
        # A step cannot take longer than the range.
        is_possible = np.array([0, *step_borders(8)]) <= ALWAYS.working_time({}).total_us
        assert is_possible.all()
        counted = ClippedCells.merge([])
        short = decide_durations(counted, WORDS, 8, MINUTE, noise, randomness(number))
        possible = 1 + bisect.bisect_right(step_borders(8).tolist(), MINUTE)
        assert (short.reached[:, :, possible - 1] == 1).all()


def test_every_cell_has_noise_of_its_own_whatever_the_log():
    for log in ({}, {"c": "A B X A"}):
        noting = Recording(release_key(), "release", "input", "configuration")
        counted = StepDurations(ALWAYS, 5, 1500, UNITS).count(public(log), {}, noting)
        noise = SumNoise((3000, 1), UNITS, False)
        decided = decide_durations(counted, WORDS, 5, DAY, noise, noting)
        [(_, asked)] = noting.asked.items()
        assert {a for a, _, counter in asked if counter == 0} == set(range(n_cells_of(3, 5)))
        few = np.zeros(3, np.int64)
        sample_durations(decided, few, few, few, np.arange(3), noting)
        assert len(noting.asked) == 2  # what is drawn has a purpose of its own


def large_log(n: int) -> list[Event]:
    """A to B in minutes, B to A in days, each a little spread."""
    rng = np.random.default_rng(2)
    events = []
    for i in range(n):
        first, second = int(rng.integers(1, 5)) * MINUTE, int(rng.integers(2, 9)) * DAY
        events += [(f"c{i}", "A", 0), (f"c{i}", "B", first), (f"c{i}", "A", first + second)]
    return events


def test_noise_leaves_no_stray_mass_and_more_of_it_errs_more():
    """Ten releases at epsilon 1: next to nothing in bins of years, where nothing is.

    The control is noise a hundred times as wide, with which the shares are lost.
    """
    log, bins = large_log(1500), 16
    truth = shares_of(decided_on(log, bins))
    clip = math.isqrt(4 * UNITS**2)
    counted = StepDurations(ALWAYS, bins, clip, UNITS).count(public(log), {}, randomness())
    longest = ALWAYS.working_time({}).total_us

    def errors(epsilon: Fraction) -> tuple[float, float]:
        noise = durations_noise(epsilon, Fraction(1, 10**6), clip, 1)
        far, distance = [], []
        for number in range(10):
            decided = decide_durations(counted, WORDS, bins, longest, noise, randomness(number))
            shares = shares_of(decided)[[0, 1], [1, 0]]
            far.append(shares[:, step_borders(bins).searchsorted(400 * DAY) + 1 :].sum() / 2)
            distance.append(np.abs(shares - truth[[0, 1], [1, 0]]).sum() / 4)
        return float(np.mean(far)), float(np.mean(distance))

    far, distance = errors(Fraction(1))
    assert far < 0.01 and distance < 0.1
    lost = errors(Fraction(1, 100))
    assert lost[1] > 0.3


def test_a_vocabulary_with_too_many_cells_is_refused_before_anything_is_drawn():
    assert excess_of_durations(1000, 16) == ""
    assert n_cells_of(1500, 16) > MAX_CELLS
    assert "fewer bins" in excess_of_durations(1500, 16)
    for n_bins in (4, 5, 16, 200):
        most = most_names_of_durations(n_bins)
        assert n_cells_of(most, n_bins) <= MAX_CELLS < n_cells_of(most + 1, n_bins)


# --- what is drawn --------------------------------------------------------------------------------


def one_pair(shares: list[float]) -> DurationsDecision:
    """Borders that double, from 1; the pair (0, 0) has the shares, (0, 1) has the last bin."""
    reached = np.zeros((1, 2, len(shares)))
    reached[0, 0] = np.cumsum(shares)
    reached[0, :, -1] = 1
    borders = np.array([1, SECOND, 10 * SECOND, 10 * MINUTE])[: len(shares) - 1]
    return DurationsDecision(borders, reached, 10**15)


def test_drawn_times_have_the_law_of_the_bins_and_are_log_uniform_within():
    """100,000 draws; the control is the law with two bins exchanged, and uniform within the bin."""
    shares = np.array([0.2, 0.1, 0.35, 0, 0.35])
    decided, n = one_pair(shares.tolist()), 100_000
    zeros = np.zeros(n, np.int64)
    drawn = sample_durations(decided, zeros, zeros, np.arange(n), zeros + 3, randomness())
    assert drawn.dtype == np.int64
    bins = np.searchsorted(decided.borders_us, drawn, side="right")
    observed = np.bincount(bins, minlength=5)
    assert observed[3] == 0 and (drawn[bins == 0] == 0).all()
    held = shares > 0
    assert p_value(observed[held], n * shares[held]) > ALPHA
    assert p_value(observed[held], n * shares[[2, 1, 0, 4]]) < ALPHA
    low, high = SECOND, 10 * SECOND
    within = drawn[bins == 2]
    tenths = np.bincount((np.log10(within / low) * 10).astype(int), minlength=10)
    assert len(tenths) == 10
    assert p_value(tenths, np.full(10, len(within) / 10)) > ALPHA
    even = np.diff(low * 10 ** np.linspace(0, 1, 11)) / (high - low)
    assert p_value(tenths, len(within) * even) < ALPHA
    last = drawn[bins == 4]
    assert last.max() < 2 * 10 * MINUTE and last.min() >= 10 * MINUTE
    assert last.max() > 1.99 * 10 * MINUTE


def test_no_time_is_longer_than_the_range():
    few = np.arange(2000)
    decided = replace(one_pair([0, 0, 0, 0, 1]), longest_us=11 * MINUTE)
    drawn = sample_durations(decided, 0 * few, 0 * few, few, few, randomness())
    assert 10 * MINUTE <= drawn.min() and 10.99 * MINUTE < drawn.max() <= 11 * MINUTE


@given(st.integers(0, 4), st.integers(0, 10**12), st.integers(0, 10**6))
def test_every_time_is_in_its_bin(bin_, case, position):
    decided = one_pair([float(i == bin_) for i in range(5)])
    one = np.array([0])
    drawn = sample_durations(
        decided, one, one, np.array([case]), np.array([position]), randomness()
    )
    assert np.searchsorted(decided.borders_us, drawn, side="right") == bin_
    [last] = sample_durations(
        decided, one, one + 1, np.array([case]), np.array([position]), randomness()
    )
    assert 10 * MINUTE <= last < 20 * MINUTE


def test_case_and_position_decide_and_nothing_else():
    decided = one_pair([0.2, 0.2, 0.2, 0.2, 0.2])
    n = 70_000  # more than are gathered at a time
    case, position = np.arange(n) // 7, np.arange(n) % 7
    zeros = np.zeros(n, np.int64)
    whole = sample_durations(decided, zeros, zeros, case, position, randomness())
    order = np.random.default_rng(0).permutation(n)
    few = order[:500]
    part = sample_durations(decided, zeros[few], zeros[few], case[few], position[few], randomness())
    assert np.array_equal(part, whole[few])
    assert len(np.unique(whole[whole > 10 * SECOND])) > 0.9 * (whole > 10 * SECOND).sum()
