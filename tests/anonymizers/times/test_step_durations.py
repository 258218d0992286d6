"""Durations of steps: vectors by a loop, shares, sums by pair of activities, and ranks."""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import MINUTE, Log, as_released, cases_of, event_logs, trace_batch
from tests.support.timed_logs import EXACT, asked, counting_durations, given_of
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.randomness import cell_numbers, uniform
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.rigorous.bought import LengthDecision, VocabularyDecision
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.rigorous.clips import norm_grid
from tracecloak.anonymizers.rigorous.names import MAX_CELLS, excess_of_names
from tracecloak.anonymizers.times import case_spans, step_durations, time_bins
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, NO_CLASSES, CaseClasses
from tracecloak.anonymizers.times.fitted_times import StepSums, decide_step_sums, ranks_of
from tracecloak.anonymizers.times.step_durations import (
    DurationsDecision,
    Steps,
    cells_of_steps,
    count_norms,
    decide_durations,
    most_names_of_durations,
    n_cells_of,
)
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange, TimeRangeDecision
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import OTHER, ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import CaseNorms, ClippedCells

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 10_000 * DAY))
N_TICKS = 10_000 * 86_400
WORDS = ActivityVocabulary.public("AB")
NO_CLIP = 10**9

Cell = tuple[str | None, str, int]


def released(variants: list[str]) -> dict[str, Any]:
    """What was decided of variants: these, of A, B and X, which stands for what is not declared."""
    named = (tuple(OTHER if name == "X" else name for name in variant) for variant in variants)
    return {"variants": as_released(dict.fromkeys(named, 1))}


NONE = released([])
OF = (ALWAYS, BY_ACTIVITY)


def bins(n: int) -> dict[str, Any]:
    """What was decided of bins: so many of steps."""
    return {"bins": time_bins.TimeBins(n, 9)}


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def cell_names(n_bins: int) -> list[Cell]:
    names = WORDS.names.to_pylist()
    return [(a, b, d) for a in (*names, None) for b in names for d in range(n_bins)]


def borders_of(n_bins: int, n_ticks: int = N_TICKS) -> list[int]:
    return [int(x) for x in time_bins.time_borders(n_bins, n_ticks)]


def naive(log: Log, borders: list[int]) -> dict[str, Counter[Cell]]:
    """Each case's vector, by a loop."""
    vectors = {}
    for case, steps in cases_of(log).items():
        cells: Counter[Cell] = Counter()
        names = [name if name in "AB" else OTHER for name, _ in steps]
        for i in range(1, len(steps)):
            taken = bisect.bisect_right(borders, steps[i][1] // SECOND - steps[i - 1][1] // SECOND)
            cells[names[i - 1], names[i], taken] += 1
            cells[None, names[i], taken] += 1
        vectors[case] = cells
    return vectors


@given(event_logs(max_events=25, activities="ABX"), st.sampled_from([[1], [1, 61]]))
def test_vectors_are_those_of_a_loop(log, borders):
    traces = public(log)
    cells = cells_of_steps(traces, ALWAYS.grid({}), np.array(borders), NO_CLASSES)
    names = cell_names(len(borders) + 1)
    assert cells.n_keys == len(names) == n_cells_of(3, len(borders) + 1)
    ids = traces.case_ids.to_pylist()
    found: dict[str, Counter[Cell]] = {case: Counter() for case in ids}
    for case, key, count in zip(cells.rows, cells.keys, cells.counts, strict=True):
        found[ids[case]][names[key]] = int(count)
    vectors = naive(log, borders)
    assert found == vectors
    assert cells.squares.tolist() == [sum(x * x for x in vectors[case].values()) for case in ids]


@given(event_logs(max_events=25, activities="ABX"))
def test_steps_of_classes_count_once_more_by_their_place(log):
    variants, borders, traces = ["AB", "X", "BAB"], [1, 61], public(log)
    classes = CaseClasses.of(released(variants)["variants"], traces.vocabulary)
    cells = cells_of_steps(traces, ALWAYS.grid({}), np.array(borders), classes)
    first = n_cells_of(3, 3)
    assert cells.n_keys == n_cells_of(3, 3, 6) == first + 6 * 3
    found = Counter(
        {
            (traces.case_ids[int(case)].as_py(), int(key) - first): int(count)
            for case, key, count in zip(cells.rows, cells.keys, cells.counts, strict=True)
            if key >= first
        }
    )
    expected: Counter[tuple[str, int]] = Counter()
    for case, steps in cases_of(log).items():
        variant = "".join(name for name, _ in steps)
        if variant in variants:
            begin = sum(len(other) for other in variants[: variants.index(variant)])
            for i in range(1, len(steps)):
                taken = steps[i][1] // SECOND - steps[i - 1][1] // SECOND
                expected[case, (begin + i) * 3 + bisect.bisect_right(borders, taken)] += 1
    assert found == expected


@given(event_logs(max_events=25, activities="ABX"))
def test_norms_are_those_of_a_loop(log):
    found = (
        Counted(CaseNorms, count_norms, OF)
        .count(public(log), bins(5), randomness())
        .histogram(len(norm_grid()))
    )
    expected = np.zeros(len(norm_grid()) + 1)
    for vector in naive(log, borders_of(5)).values():
        square = sum(x * x for x in vector.values()) + vector.total() // 2
        expected[bisect.bisect_left(norm_grid().tolist(), square)] += 1
    assert found.tolist() == expected.tolist()


@given(
    event_logs(max_events=25, activities="ABX"),
    st.sets(st.text("ABX", min_size=1, max_size=4), max_size=4),
)
def test_a_clip_at_the_norm_of_a_case_leaves_it_whole_whatever_the_classes(log, variants):
    """But for what is lost by rounding the clip and the cell; so the bought norm is not too low."""
    own = {"".join(name for name, _ in steps) for steps in cases_of(log).values()}
    traces = public(log)
    decisions = released(sorted(variants | set(sorted(own)[::2]))) | bins(5)  # every other one
    n_places = len(decisions["variants"].codes)
    for case in range(traces.n_cases):
        one = traces.take(np.array([case]))
        norms = Counted(CaseNorms, count_norms, OF).count(one, decisions, randomness())
        [bucket] = np.flatnonzero(norms.histogram(len(norm_grid())))
        clip = math.isqrt(int(norm_grid()[bucket]) * UNITS**2)
        clipped, whole = (
            counting_durations(ALWAYS, norm, UNITS)
            .count(one, decisions, randomness())
            .dense(np.arange(n_cells_of(3, 5, n_places)))
            for norm in (clip, NO_CLIP)
        )
        assert (whole - clipped).max() <= 2


def test_counters_see_the_bought_vocabulary_length_and_range():
    decisions = {
        "vocabulary": VocabularyDecision(WORDS),
        "length": LengthDecision(2),
        "time_range": TimeRangeDecision(TimeRange(0, DAY)),
        "granularity": case_spans.GranularityDecision("hour"),
        "bins": time_bins.TimeBins(4, 9),
        **NONE,
    }
    counter = counting_durations(LogTime(WorkingCalendar(), None, None), NO_CLIP, 1)
    log = {"c": "A@30 X@2000 B@2001"}
    found = counter.count(trace_batch(log), decisions, randomness())
    names = cell_names(4)
    assert borders_of(4, 24) == [1, 3, 8]  # and the range ends after 23 hours
    assert {names[key] for key in found.keys} == {("A", OTHER, 3), (None, OTHER, 3)}


def shares_of(decided: DurationsDecision) -> np.ndarray:
    """By source, target and bin."""
    n = decided.n_names
    return np.diff(decided.reached, prepend=0.0, axis=1)[: n * n].reshape(n, n, -1)


def decided_on(log: Log, n_bins: int = 6, noise: SumNoise = EXACT, number: int = 0) -> Any:
    known = NONE | bins(n_bins)
    counted = counting_durations(ALWAYS, NO_CLIP, UNITS).count(public(log), known, randomness())
    params = asked(words=WORDS, detail=BY_ACTIVITY, log_time=ALWAYS)
    given = given_of("durations", counted, known, randomness(number))
    return decide_durations(given, noise, params)


def test_without_noise_the_shares_are_those_of_the_log_and_unseen_pairs_take_their_target_s():
    log = {"c": "A@0 B@0 A@10 B@5000 A@5001", "d": "B@0 B@10"}
    shares = shares_of(decided_on(log))
    a, b, other = 0, 1, 2
    borders = borders_of(6)
    zero, minutes, days = (bisect.bisect_right(borders, x * 60) for x in (0, 10, 4990))
    assert len({zero, minutes, days}) == 3
    assert shares[a, b, [zero, days]] == pytest.approx([0.5, 0.5])
    assert shares[b, b, minutes] == pytest.approx(1)
    one = bisect.bisect_right(borders, 60)
    of_a: Counter[int] = Counter([minutes, one])
    for bin_, count in of_a.items():
        assert shares[b, a, bin_] == pytest.approx(count / 2)
    # To B: zero, days, minutes; to A: as above; in all five steps.
    assert shares[other, b, [zero, minutes, days]] == pytest.approx([1 / 3] * 3)
    of_log = Counter([zero, minutes, days, minutes, one])
    for bin_, count in of_log.items():
        assert shares[a, other, bin_] == pytest.approx(count / 5)
    assert shares.sum(axis=2) == pytest.approx(1)


def test_a_vocabulary_with_too_many_cells_is_refused_before_anything_is_drawn():
    assert excess_of_names(1000, most_names_of_durations(16), 16) == ""
    assert n_cells_of(1500, 16) > MAX_CELLS
    assert "fewer bins" in excess_of_names(1500, most_names_of_durations(16), 16)
    for n_bins in (4, 5, time_bins.MOST_BINS, 200):
        most = most_names_of_durations(n_bins)
        assert n_cells_of(most, n_bins) <= MAX_CELLS < n_cells_of(most + 1, n_bins)


def test_steps_are_those_of_a_loop():
    log = {"c": "A B A", "d": "B", "e": "A B", "f": "X A B"}
    traces = public(log)
    classes = CaseClasses.of(released(["AB", "ABA"])["variants"], traces.vocabulary)
    numbers = np.array([7, 9, 4, 30])
    found = Steps(traces, numbers, classes, classes.of_cases(traces))
    assert found.events.tolist() == [1, 2, 5, 7, 8]
    assert found.own.tolist() == [0, 0, 2, 3, 3] and found.cases.tolist() == [7, 7, 4, 30, 30]
    assert found.positions.tolist() == [1, 2, 1, 1, 2]
    assert found.pairs.tolist() == [1, 3, 1, 6, 1]
    assert found.places.tolist() == [3, 4, 1, -1, -1]


def test_a_pair_is_idle_if_its_counts_say_so_clearly():
    """By hand, with a deviation of 10: 100 at once are idle, not if 60 others take time, nor 20."""
    of_log = np.array([0.4, 0.3, 0.3])
    pairs = np.array(
        [[100, 3, -4], [100, 30, 30], [20, 0, 0], [0, 0, 0], [0, 50, 50], [100, -20, -5]], float
    )
    found = step_durations._idle_pairs(pairs, 10.0, of_log)
    assert found.tolist() == [True, False, False, False, False, True]
    # Where nothing of the log takes time, there is nothing to compare with.
    assert not step_durations._idle_pairs(pairs, 10.0, np.array([1.0, 0, 0])).any()


PAIR_ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 1000 * DAY), "second")
N = len(WORDS)
PAIR_BORDERS = np.array([1, 60, 600, 86_400])
# All cases take from a minute to ten.
SPANS = case_spans.SpansDecision(
    PAIR_BORDERS, np.array([0.0, 0.0, 1.0, 1.0, 1.0]), 86_400_000,
    np.array([0.0, 0.0, 100.0, 0.0, 0.0]), 1.0, np.arange(5),
)  # fmt: skip
DECISIONS: dict[str, Any] = {"spans": SPANS}
CLIP = case_spans.clip_of(SPANS, N)


def sums_of(log: Log, *, is_pure: bool) -> list[int]:
    counted = Counted(ClippedCells, case_spans.count_pair_times, (PAIR_ALWAYS, is_pure)).count(
        public(log), DECISIONS, randomness()
    )
    return [int(x) for x in counted.dense(np.arange(N * N))]


def pair_naive(log: Log, *, is_pure: bool) -> list[int]:
    """By a loop, in whole numbers of any size."""
    sums = [0] * (N * N)
    for events in cases_of(log).values():
        times: dict[int, int] = defaultdict(int)
        for (a, begin), (b, end) in itertools.pairwise(events):
            times["ABX".index(a) * N + "ABX".index(b)] += end // SECOND - begin // SECOND
        steps = {pair: min(x, CLIP << 10) * UNITS // CLIP for pair, x in times.items()}
        total = sum(steps.values())
        square = sum(x * x for x in steps.values())
        for pair, x in steps.items():
            if is_pure:
                sums[pair] += x * UNITS // max(total, UNITS)
            elif square <= UNITS**2:
                sums[pair] += x
            else:
                sums[pair] += math.isqrt(UNITS**2 * x * x // square)
    return sums


@pytest.mark.parametrize("is_pure", [False, True])
@given(
    event_logs(max_events=25, n_cases=8, activities="ABX", minutes=5),
    st.sampled_from([1_000_000, MINUTE, 9 * DAY]),
)
def test_sums_are_those_of_a_loop(is_pure, log, unit):
    log = [(case, name, time // MINUTE * unit) for case, name, time in log]
    assert sums_of(log, is_pure=is_pure) == pair_naive(log, is_pure=is_pure)


def test_the_clip_rises_as_noise_falls_and_few_cases_exceed_it():
    """From a quarter of the cases, where there is much noise, to none."""
    borders = np.array([1, 10, 100, 1000, 10_000])
    reached = np.array([0, 0.25, 0.5, 0.75, 0.95, 1])
    counts = np.diff(reached, prepend=0) * 1000
    clips = [
        case_spans.clip_of(
            case_spans.SpansDecision(borders, reached, 10**5, counts, x, np.arange(6)), N
        )
        for x in (500.0, 3.0, 0.3, 0.003)
    ]
    assert clips == sorted(clips) and clips[0] == pytest.approx(1000, rel=0.01)
    assert clips[-1] > 50_000
    none = case_spans.SpansDecision(borders, np.ones(6), 10**5, np.zeros(6), 1.0, np.arange(6))
    assert case_spans.clip_of(none, N) == 1


some_classes = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40)


def sum_decided_on(sums: np.ndarray | list[int], classes: list[int] | None = None) -> StepSums:
    """Of one class, or of four."""
    own = np.zeros(len(sums), np.int64) if classes is None else np.array(classes, np.int64)
    return decide_step_sums(np.array(sums, np.int64), own, 1 if classes is None else 4)


@given(some_classes)
def test_few_sums_are_all_kept_in_order_class_by_class(pairs):
    decided = sum_decided_on([x for x, _ in pairs], [c for _, c in pairs])
    for own in (decided, decode(encode(decided))):
        for number in range(4):
            kept = own.sums[own.offsets[number] : own.offsets[number + 1]]
            assert kept.tolist() == sorted(x for x, c in pairs if c == number)


def test_of_many_sums_evenly_chosen_ones_are_kept():
    for n in [255, 256, 5000, 10**6]:
        sums = np.random.default_rng(1).permutation(n)
        few = np.array([7, 5])
        classes = np.append(np.full(n, 1), [3, 3])
        decided = decide_step_sums(np.append(sums, few), classes, 4)
        assert decided.offsets.tolist() == [0, 0, 255, 255, 257]
        assert np.abs(decided.sums[:255] - (np.arange(255) + 0.5) * n / 255).max() <= 1
        assert decided.sums[255:].tolist() == [5, 7]


@given(some_classes, some_classes)
def test_ranks_are_those_of_a_loop(kept, asked):
    decided = sum_decided_on([x for x, _ in kept], [c for _, c in kept])
    numbers = np.arange(len(asked)) + 7
    sums, classes = (np.array([pair[i] for pair in asked], np.int64) for i in range(2))
    found = ranks_of(decided, sums, classes, numbers, randomness())
    chances = uniform(randomness().words("span of a case", cell_numbers(numbers))[:, 0])
    assert ((found >= 0) & (found < 1)).all()
    for rank, chance, (own, number) in zip(found, chances, asked, strict=True):
        beside = sorted(x for x, c in kept if c == number)
        below = bisect.bisect_left(beside, own)
        expected = (below + chance * (beside.count(own) + 1)) / (len(beside) + 1)
        assert rank == pytest.approx(expected)
