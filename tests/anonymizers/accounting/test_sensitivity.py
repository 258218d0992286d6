"""Sensitivities by enumeration: the largest distance of all small neighbours is the stated one.

Logs are bounded and counted by the kernels that the methods use, and what is stated is what their
scales of noise are made for. For random larger logs nothing exceeds it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import as_released, event_logs, trace_batch
from tests.support.tiers import at_night
from tests.support.timed_logs import counting_durations
from tracecloak.anonymizers.accounting import sensitivity
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.contract.bounding import ContributionBounds, distinct_activities
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.contract.method import Counter as StatisticCounter
from tracecloak.anonymizers.logs.attributes import (
    cells_of_cases,
    cells_of_events,
    cells_of_handovers,
)
from tracecloak.anonymizers.rigorous.clips import sums_sensitivity, whole_sums_sensitivity
from tracecloak.anonymizers.times.step_durations import clipped_sums, whole_norm
from tracecloak.anonymizers.times.time_bins import TimeBins
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.anonymizers.trees.cuts import PAIR_UNITS, cases_by_ends, clipped_pairs
from tracecloak.anonymizers.trees.fitness import UNITS, fitness_sum
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.declarations import Attribute, Declaration
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.models import parse_tree
from tracecloak.schemas.published.variants import ReleasedVariants
from tracecloak.schemas.statistics.clipped_flows import (
    CaseNorms,
    ClippedCells,
    ClippedFlows,
    cells_of_flows,
)
from tracecloak.schemas.statistics.durations import DurationTable
from tracecloak.schemas.statistics.relations import ActivityRelations
from tracecloak.schemas.statistics.variant_flows import FlowCells, VariantFlows
from tracecloak.schemas.statistics.variants import DirectlyFollows, VariantHistogram

Cells = Mapping[Hashable, int]
Kernel = Callable[[TraceBatch], Cells]
Sequence = str  # an activity a letter
Owner = str


def cells_by(keys: Iterable[Any], values: np.ndarray) -> Cells:
    return dict(zip(keys, values.tolist(), strict=True))


def of_pairs(graph: DirectlyFollows) -> Cells:
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return cells_by(pairs, graph.counts)


def variants(traces: TraceBatch) -> Cells:
    found = VariantHistogram.from_traces(traces)
    return cells_by(found.sequences.to_pylist(), found.counts)


def directly_follows(traces: TraceBatch) -> Cells:
    return of_pairs(DirectlyFollows.from_traces(traces))


def pair_presence(traces: TraceBatch) -> Cells:
    """How many cases have each pair at all: every case alone, its counts cut off at 1."""
    present: Counter[Any] = Counter()
    for case in range(traces.n_cases):
        present.update(dict.fromkeys(directly_follows(traces.take(np.array([case]))), 1))
    return dict(present)


def clipped_flows(clip: int, units: int, edges: np.ndarray | None = None) -> Kernel:
    def count(traces: TraceBatch) -> Cells:
        flows = ClippedFlows.from_traces(traces, clip, units, edges)
        return cells_by(flows.keys.tolist(), flows.values)

    return count


def trace_lengths(traces: TraceBatch) -> Cells:
    table = DurationTable.from_events(np.zeros(traces.n_cases, np.int32), traces.lengths)
    return cells_by(table.values.tolist(), table.counts)


def norms(traces: TraceBatch) -> Cells:
    found = CaseNorms.from_squares(cells_of_flows(traces, None).squares, np.array([2, 3, 4, 6]))
    return cells_by(found.buckets.tolist(), found.counts)


def activities(most: int) -> Kernel:
    def count(traces: TraceBatch) -> Cells:
        _, codes = distinct_activities(traces, most, randomness())
        return Counter(codes.tolist())

    return count


ALWAYS = LogTime(
    WorkingCalendar("UTC", tuple(range(7)), 0, 24, ()),
    TimeRange.from_dates("1970-01-01", "1970-01-10", "UTC"),
)
OF_EVENT, OF_CASE = (Attribute(name, Declaration(values=["x"])) for name in ("role", "case:kind"))


def numbered(values: np.ndarray) -> Cells:
    return dict(enumerate(values.ravel().tolist()))


def every_variant(names: list[str]) -> ReleasedVariants:
    """All of up to three events."""
    return as_released({v: 1 for n in (1, 2, 3) for v in itertools.product(names, repeat=n)})


def counted_by(counter: StatisticCounter) -> Kernel:
    """What a method's own counter counts in clipped cells; short cases' variants are classes."""

    def count(traces: TraceBatch) -> Cells:
        variants = every_variant(traces.vocabulary.names.to_pylist())
        known = {"variants": variants, "bins": TimeBins(4, 4)}
        found: Any = counter.count(traces, known, randomness())
        return cells_by(found.keys.tolist(), found.values)

    return count


def vectors(cells_of: Any, attribute: Attribute, clip: int, units: int = 1) -> Kernel:
    return counted_by(Counted(ClippedCells, clipped_sums, (cells_of, attribute, clip, units)))


def order(traces: TraceBatch) -> Cells:
    return numbered(ActivityRelations.from_traces(traces).table(traces.vocabulary).ravel())


def ends_of_parts(traces: TraceBatch) -> Cells:
    found = VariantHistogram.from_traces(traces)
    return numbered(np.concatenate(cases_by_ends(found, 3, [(0, 1), (2,)])))


def scaled_pairs(max_pairs: int, norm: Any) -> Kernel:
    def count(traces: TraceBatch) -> Cells:
        return numbered(clipped_pairs(VariantHistogram.from_traces(traces), 3, max_pairs, norm))

    return count


def fitting(traces: TraceBatch) -> Cells:
    found = VariantHistogram.from_traces(traces)
    fits = fitness_sum(parse_tree("->('A', 'B')"), ["A", "B", "C"], found)
    return {"fits": fits, "rest": found.n_cases * UNITS - fits}


def flows_and_cases(traces: TraceBatch) -> Cells:
    cells = FlowCells.without_positions(3, 3)
    return numbered(
        VariantFlows.from_variants(VariantHistogram.from_traces(traces), cells).unclipped_sums(
            cells
        )
    )


def clipped_flows_and_cases(clip_squared: int, units: int) -> Kernel:
    cells = FlowCells.of(3, 3, 1000)

    def count(traces: TraceBatch) -> Cells:
        flows = VariantFlows.from_variants(VariantHistogram.from_traces(traces), cells)
        return numbered(flows.sums(cells, math.isqrt(clip_squared * units**2), units))

    return count


def sequences(letters: str, max_length: int) -> list[Sequence]:
    """All activity sequences up to a length."""
    lengths = range(1, max_length + 1)
    return ["".join(s) for n in lengths for s in itertools.product(letters, repeat=n)]


def batch_of(log: Iterable[tuple[Owner | None, Sequence]]) -> TraceBatch:
    """Cases of individuals, or, where the owner is None, of nobody."""
    copies: Counter[tuple[Owner | None, Sequence]] = Counter()
    cases = {}
    for owner, sequence in log:
        copies[owner, sequence] += 1
        cases[f"{owner} {sequence} {copies[owner, sequence]}"] = owner, " ".join(sequence)
    owners = {case: owner for case, (owner, _) in cases.items() if owner is not None}
    text = {case: sequence for case, (_, sequence) in cases.items()}
    return trace_batch(text, "ABC", owners or None)


def distance(one: Cells, two: Cells) -> Sensitivity:
    """How far two statistics are apart in each norm."""
    moved = [abs(one.get(cell, 0) - two.get(cell, 0)) for cell in {*one, *two}]
    return Sensitivity(
        sum(d > 0 for d in moved), sum(moved), sum(d**2 for d in moved), max(moved, default=0)
    )


def norms_of(found: Sensitivity) -> tuple[int | Fraction, ...]:
    return found.l0, found.l1, found.l2_squared, found.linf


def largest(distances: Iterable[Sensitivity]) -> Sensitivity:
    return Sensitivity(*(max(column) for column in zip(*map(norms_of, distances), strict=True)))


def by_cases(
    kernel: Kernel, bounds: ContributionBounds, every: list[Sequence], n_cases: int
) -> Sensitivity:
    """The largest distance over all logs of up to so many cases, with and without each case."""
    found: dict[tuple[Sequence, ...], Cells] = {}
    for n in range(n_cases + 1):
        for log in itertools.combinations_with_replacement(every, n):
            batch = batch_of((None, sequence) for sequence in log)
            found[log] = kernel(bounds.bound(batch, randomness()))
    return largest(
        distance(cells, found[log[:i] + log[i + 1 :]])
        for log, cells in found.items()
        for i in range(len(log))
    )


def by_individuals(
    kernel: Kernel, bounds: ContributionBounds, every: list[Sequence], n_cases: int
) -> Sensitivity:
    """The same for one individual of up to so many cases, beside another one with two."""
    other = [("other", "AB"), ("other", "A")]
    rest = kernel(bounds.bound(batch_of(other), randomness()))
    found = []
    for n in range(1, n_cases + 1):
        for log in itertools.combinations_with_replacement(every, n):
            batch = batch_of([*other, *(("one", sequence) for sequence in log)])
            found.append(distance(kernel(bounds.bound(batch, randomness())), rest))
    return largest(found)


LENGTHS = pytest.mark.parametrize("length", [1, 2, 3])


@LENGTHS
def test_a_case_moves_directly_follows_counts_so_far_and_no_farther(length):
    # Logs have longer cases than the bound, so that it has something to cut off.
    bounds = ContributionBounds(max_trace_length=length)
    every = sequences("AB", length + 1)
    stated = sensitivity.of_directly_follows(length)
    assert by_cases(directly_follows, bounds, every, 3 if length < 3 else 2) == stated
    every = sequences("ABC", length + 1)
    assert by_cases(directly_follows, bounds, every, 2 if length < 2 else 1) == stated


def test_the_squares_of_repeated_arcs_are_counted():
    # n + 1 distinct arcs would have n + 1; three events of one activity have 2^2 + 1 + 1.
    assert sensitivity.of_directly_follows(3) == Sensitivity(4, 4, 6, 2)
    assert sensitivity.of_directly_follows(1) == Sensitivity(2, 2, 2, 1)
    assert sensitivity.of_directly_follows(30, 2) == Sensitivity(62, 62, 4 * (29**2 + 2), 58)
    # Without the cap a longer case goes farther: the control of the enumeration.
    every = sequences("AB", 4)
    uncapped = by_cases(directly_follows, ContributionBounds(), every, 1)
    assert uncapped == sensitivity.of_directly_follows(4)
    assert uncapped != sensitivity.of_directly_follows(3)


def test_steps_count_a_third_time_where_the_variant_is_a_class():
    # Five events of one activity: 4 of a pair, 4 of a target, and 4 places of 1.
    assert sensitivity.of_steps(5) == Sensitivity(12, 12, 4**2 + 4**2 + 4, 4)
    assert sensitivity.of_steps(5, 3) == Sensitivity(36, 36, 9 * 36, 12)
    assert sensitivity.of_steps(1, 2) == sensitivity.of_one_cell(2)
    # A variant of four events is no class here, so its steps count twice. Its case nonetheless
    # goes farther than is stated of three events: the control of the enumeration.
    counted = counted_by(counting_durations(ALWAYS, whole_norm(4), 1))
    found = by_cases(counted, ContributionBounds(), ["AAAA", "ABCA"], 1)
    assert found == Sensitivity(6, 6, 18, 3) and found.linf > sensitivity.of_steps(3).linf


@pytest.mark.by_day(6)
@pytest.mark.parametrize(
    ("kernel", "stated"),
    [
        (variants, sensitivity.of_one_cell()),
        (trace_lengths, sensitivity.of_one_cell()),
        (norms, sensitivity.of_one_cell()),
        (pair_presence, sensitivity.of_distinct_cells(4)),
        (activities(1), sensitivity.of_distinct_cells(1)),
        at_night(activities(2), sensitivity.of_distinct_cells(2)),
        (activities(3), sensitivity.of_distinct_cells(3)),
        (
            counted_by(counting_durations(ALWAYS, whole_norm(3), 1)),
            sensitivity.of_steps(3),
        ),
        (vectors(cells_of_events, OF_EVENT, 3), Sensitivity(3, 3, 9, 3)),
        (vectors(cells_of_cases, OF_CASE, 1), sensitivity.of_one_cell()),
        (vectors(cells_of_events, OF_EVENT, 1, 1024), sensitivity.of_clipped_cells(1)),
        (vectors(cells_of_handovers, OF_EVENT, 2), Sensitivity(2, 2, 4, 2)),
        (vectors(cells_of_handovers, OF_EVENT, 1, 1024), sensitivity.of_clipped_cells(1)),
        (order, sensitivity.of_order(3, 3)),
        (ends_of_parts, sensitivity.of_distinct_cells(4)),
        (fitting, sensitivity.of_shares(UNITS)),
        (flows_and_cases, whole_sums_sensitivity(3, 1)),
    ],
)
def test_a_case_moves_counts_of_cases_so_far_and_no_farther(kernel, stated):
    bounds = ContributionBounds(max_trace_length=3)
    assert by_cases(kernel, bounds, sequences("ABC", 3), 2) == stated
    if stated.l0 < 3:
        assert by_cases(kernel, bounds, sequences("AB", 3), 3) == stated


# A clip of C needs C^2 distinct arcs, a case of C^2 - 1 events; and a repetition long enough.
@pytest.mark.parametrize(
    ("clip", "units", "length", "letters"),
    [
        (2, 1, 3, "ABC"),
        (2, 1, 4, "AB"),
        (2, 64, 4, "AB"),
        at_night(3, 1, 8, "ABC"),
        at_night(3, 1000, 8, "ABC"),
    ],
)
def test_a_case_moves_clipped_flows_so_far_and_no_farther(clip, units, length, letters):
    kernel, every = clipped_flows(clip, units), sequences(letters, length)
    found = by_cases(kernel, ContributionBounds(), every, 1)
    assert found == sensitivity.of_clipped_flows(clip)
    # The order of the logs' cases and other cases are no help.
    if len(every) < 50:
        assert by_cases(kernel, ContributionBounds(), every, 2) == found


@pytest.mark.by_day(6)
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "letters", "length", "of"),
    [
        (variants, "AB", 2, sensitivity.of_one_cell),
        (trace_lengths, "AB", 2, sensitivity.of_one_cell),
        (norms, "AB", 2, sensitivity.of_one_cell),
        (directly_follows, "AB", 1, lambda m: sensitivity.of_directly_follows(1, m)),
        (directly_follows, "AB", 2, lambda m: sensitivity.of_directly_follows(2, m)),
        (directly_follows, "AB", 3, lambda m: sensitivity.of_directly_follows(3, m)),
        (pair_presence, "AB", 2, lambda m: sensitivity.of_distinct_cells(3, m)),
        (pair_presence, "AB", 3, lambda m: sensitivity.of_distinct_cells(4, m)),
        (clipped_flows(2, 1), "AB", 4, lambda m: sensitivity.of_clipped_flows(2, m)),
        (activities(1), "ABC", 2, lambda m: sensitivity.of_distinct_cells(1, m)),
        (
            counted_by(counting_durations(ALWAYS, whole_norm(2), 1)),
            "AB",
            2,
            lambda m: sensitivity.of_steps(2, m),
        ),
    ],
)
def test_an_individual_moves_counts_so_far_and_no_farther(kernel, letters, length, of, most):
    # Individuals have up to three cases, of which the bound lets through one or two.
    bounds = ContributionBounds(max_trace_length=length, max_cases_per_individual=most)
    every = sequences(letters, length)
    n_cases = 3 if len(every) < 10 else 2
    assert by_individuals(kernel, bounds, every, n_cases) == of(most)


# What no small log attains, as it takes 1,024 pairs or more, or is rounded up.
@pytest.mark.parametrize(
    ("kernel", "stated", "attained"),
    [
        (scaled_pairs(2, 1), sensitivity.of_scaled_pairs(2, PAIR_UNITS, 1), "l1 l2_squared linf"),
        (scaled_pairs(2, 2), sensitivity.of_scaled_pairs(2, PAIR_UNITS, 2), "l2_squared linf"),
        (
            vectors(cells_of_events, OF_EVENT, 2, 1024),
            sensitivity.of_clipped_cells(2),
            "l2_squared linf",
        ),
        (clipped_flows_and_cases(3, 64), sums_sensitivity(3, 64, 1), ""),
    ],
)
def test_a_case_moves_no_farther_than_is_stated(kernel, stated, attained):
    found = by_cases(kernel, ContributionBounds(max_trace_length=3), sequences("ABC", 3), 1)
    assert not exceeds(found, stated)
    for norm in attained.split():
        assert getattr(found, norm) == getattr(stated, norm)
    assert found.l2_squared > 0.9 * stated.l2_squared


def test_roots_are_rounded_up_before_they_are_multiplied():
    three = sensitivity.of_distinct_cells(3, 1)
    assert three.l2**2 > 3 > (three.l2 - Fraction(1, 2**20)) ** 2
    assert sensitivity.of_distinct_cells(3, 7).l2 == 7 * three.l2
    assert three.times(1024).l2 == 1024 * three.l2 and three.times(1024).l2_whole == 1774
    assert sensitivity.of_clipped_cells(5, 3).l2 == 15
    assert sensitivity.of_count(Fraction(7, 3)).l2 == Fraction(7, 3)


def exceeds(found: Sensitivity, stated: Sensitivity) -> bool:
    return any(f > s for f, s in zip(norms_of(found), norms_of(stated), strict=True))


@given(
    event_logs(max_events=40, n_cases=8),
    st.lists(st.sampled_from("ijk"), min_size=8, max_size=8),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(2, 30),
    st.integers(0, 3),
)
def test_no_individual_of_a_random_log_exceeds_what_is_stated(log, owners, length, most, clip, key):
    bounds = ContributionBounds(("A", "B"), length, most)
    edges = np.array([1])
    kernels: list[tuple[Kernel, Sensitivity]] = [
        (variants, sensitivity.of_one_cell(most)),
        (directly_follows, sensitivity.of_directly_follows(length, most)),
        (pair_presence, sensitivity.of_distinct_cells(length + 1, most)),
        (clipped_flows(clip, 10), sensitivity.of_clipped_flows(clip, most)),
        (clipped_flows(clip, 10, edges), sensitivity.of_clipped_flows(clip, most)),
        (trace_lengths, sensitivity.of_one_cell(most)),
        (norms, sensitivity.of_one_cell(most)),
        (activities(2), sensitivity.of_distinct_cells(2, most)),
    ]
    whose = {f"c{i}": owner for i, owner in enumerate(owners, 1)}
    whole = bounds.bound(trace_batch(log, "ABC", whose), randomness(key))
    for gone in "ijk":
        fewer = [event for event in log if whose[event[0]] != gone]
        without = bounds.bound(trace_batch(fewer, "ABC", whose), randomness(key))
        for kernel, stated in kernels:
            assert not exceeds(distance(kernel(whole), kernel(without)), stated)
