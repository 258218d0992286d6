"""What one case moves of each statistic of times, and the noise for it: one table for all of them.

Every case of up to three events is added to a log. What that moves of the sums as noise is added to
them is compared with the sensitivity that the noise is made for, which must also be attained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.support.keys import randomness, release_key
from tests.support.logs import MINUTE, Event, Log, trace_batch
from tests.support.rounds import Recording
from tests.support.silence import MeasureRecorder
from tests.support.tiers import at_night
from tests.support.timed_logs import asked, counting_durations, given_of, variants_of
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_clipped, of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowance
from tracecloak.anonymizers.rigorous.clips import ClipDecision
from tracecloak.anonymizers.times import case_spans, case_starts, step_durations
from tracecloak.anonymizers.times.case_classes import BY_ACTIVITY, CaseClasses, Detail
from tracecloak.anonymizers.times.case_spans import (
    changed_times,
    clip_of,
    count_pair_times,
    decide_pair_times,
)
from tracecloak.anonymizers.times.case_times import changed_tables, count_tables, decide_tables
from tracecloak.anonymizers.times.time_bins import TimeBins, time_borders
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
N_TICKS, N_BINS = 1000 * 86_400, 6
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 1000 * DAY), "second")
WORDS = ActivityVocabulary.public("AB")
OF_ALL = Detail("case")
BORDERS = time_borders(N_BINS, N_TICKS)
# All cases take from a minute to an hour, and so long is a clip of times.
SPANS = case_spans.SpansDecision(
    BORDERS, np.array([0.0, 0, 1, 1, 1, 1]), N_TICKS,
    np.array([0.0, 0, 100, 0, 0, 0]), 1.0, np.arange(N_BINS),
)  # fmt: skip
GAPS = (0, SECOND, 3 * MINUTE, 400 * DAY)
OTHERS: list[Event] = [("o", "A", 0), ("o", "B", 5), ("p", "B", 0), ("q", "X", 0), ("q", "X", DAY)]


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def small_cases(first: int, gaps_of_three: Sequence[int]) -> list[list[tuple[str, int]]]:
    """Every case of up to three activities with all gaps, those of three with some, a long one."""
    cases = [[("A", first + MINUTE * i) for i in range(40)]]
    for n in (1, 2, 3):
        for names in itertools.product("ABX", repeat=n):
            for gaps in itertools.product(GAPS if n < 3 else gaps_of_three, repeat=n - 1):
                times = itertools.accumulate((first, *gaps))
                cases.append(list(zip(names, times, strict=True)))
    return cases


# Every case of up to three events is of a class of its own.
EVERY = variants_of(
    public({"".join(v): " ".join(v) for n in (1, 2, 3) for v in itertools.product("ABX", repeat=n)})
)
CLASSES = CaseClasses.of(EVERY, WORDS)


@dataclass(frozen=True)
class Statistic:
    """One statistic, with what is decided on it."""

    counter: contract.Counter
    decide: Callable[[Any, SumNoise, Randomness], Any]
    changed: Callable[[int], Sensitivity]
    n_cells: int
    units: int = 1
    attained: tuple[str, ...] = ("l1", "l2_squared", "linf")
    decisions: dict[str, Any] = field(default_factory=dict)

    @property
    def noises(self) -> list[SumNoise]:
        """Of counts on any lattice, of all else on that of what is stated."""
        own = SumNoise((9, 1), self.units, self.units == 1)
        is_count = len(self.attained) == 3
        return [own, SumNoise((9000, 1), UNITS, False)] if is_count else [own]

    def sums(self, log: Log, noise: SumNoise) -> tuple[np.ndarray, MeasureRecorder]:
        """The exact sums as noise is added to them, in what is stated."""
        noting = MeasureRecorder()
        counted = self.counter.count(public(log), self.decisions, randomness())
        self.decide(counted, noise, randomness().with_noise(noting))
        factor = noise.units // self.units
        return np.concatenate([told[1] for told in noting.told]) // factor, noting


def starts(n_cases: float) -> Statistic:
    known = {"sizes": n_cases}
    return Statistic(
        Counted(ClippedCells, case_starts.count_starts, (ALWAYS,)),
        lambda counted, noise, own: case_starts.decide_starts(
            given_of("starts", counted, known, own), noise, ALWAYS
        ),
        case_starts.changed_starts,
        0,
    )


def pair_times(detail: Detail, *, is_pure: bool) -> Statistic:
    n, known = len(detail.names(WORDS)), {"spans": SPANS, "variants": EVERY}
    params = asked(delta=1 - is_pure, detail=detail, words=WORDS, log_time=ALWAYS)
    return Statistic(
        Counted(ClippedCells, count_pair_times, (ALWAYS, is_pure, detail)),
        lambda counted, noise, own: decide_pair_times(
            given_of("pair times", counted, known, own), noise, params
        ),
        partial(changed_times, is_pure=is_pure),
        n * n,
        UNITS,
        ("l1",) if is_pure else ("l2_squared",),
        known,
    )


def durations(clip: int, units: int, detail: Detail = BY_ACTIVITY, *, buys: bool) -> Statistic:
    names, classes = detail.names(WORDS), detail.classes(EVERY, WORDS)
    known = {"variants": EVERY, "clip": ClipDecision(clip), "bins": TimeBins(4, N_BINS)}
    params = asked(detail=detail, words=WORDS, log_time=ALWAYS)
    return Statistic(
        counting_durations(ALWAYS, None if buys else clip, units, detail),
        lambda counted, noise, own: step_durations.decide_durations(
            given_of("durations", counted, known, own), noise, params
        ),
        lambda max_units: of_clipped(clip, max_units, is_pure=units == 1),
        step_durations.n_cells_of(len(names), 4, classes.n_places),
        units,
        ("l1",) if units == 1 else ("l2_squared",),
        known,
    )


SIZES = CLASSES.size, 3, N_BINS + 1
BINS = TimeBins(4, N_BINS)
PERIODS = case_starts.Periods(np.array([10 * DAY, 50 * DAY]), np.array([0, 0.5, 0.75, 1]))
OF_TABLES = {"spans": SPANS, "variants": EVERY, "periods": PERIODS, "bins": BINS}
STATISTICS = {
    "fine starts": starts(10**6),
    "coarse starts": starts(-5),
    "spans": Statistic(
        Counted(ClippedCells, case_spans.count_spans, (ALWAYS,)),
        lambda counted, noise, own: case_spans.decide_spans(
            given_of("spans", counted, {"bins": BINS}, own), noise, ALWAYS
        ),
        of_one_cell,
        N_BINS,
        decisions={"bins": BINS},
    ),
    "tables": Statistic(
        Counted(ClippedCells, count_tables, (ALWAYS,)),
        lambda counted, noise, own: decide_tables(
            given_of("tables", counted, OF_TABLES, own), noise, asked(words=WORDS)
        ),
        changed_tables,
        sum(a * b for a, b in itertools.combinations(SIZES, 2)),
        decisions=OF_TABLES,
    ),
    "granularity": Statistic(
        Counted(ClippedCells, case_spans.count_granularities, ("UTC",)),
        lambda counted, noise, own: case_spans.decide_granularity(
            given_of("granularity", counted, {}, own), noise
        ),
        of_one_cell,
        6,
    ),
    "pair times": pair_times(BY_ACTIVITY, is_pure=False),
    "pure pair times": pair_times(BY_ACTIVITY, is_pure=True),
    "times of all": pair_times(OF_ALL, is_pure=False),
    "durations": durations(1024, UNITS, buys=False),
    "bought durations": durations(2500, UNITS, buys=True),
    "pure durations": durations(step_durations.whole_norm(3), 1, buys=False),
    "durations of all": durations(3 * UNITS, UNITS, OF_ALL, buys=False),
}


def changes(statistic: Statistic, is_whole: bool) -> Iterator[np.ndarray]:
    """What each case moves, of any begin, beside no other case and beside some; or a part of it."""
    noise, is_pure = statistic.noises[0], statistic.changed(1).l1 == step_durations.whole_norm(3)
    beside = itertools.product(([], OTHERS), (0, 20 * DAY + 1))
    for others, first in beside if is_whole else (([], 0), (OTHERS, 20 * DAY + 1)):
        before, _ = statistic.sums(others, noise)
        for case in small_cases(first, GAPS if is_whole else GAPS[::3]):
            if len(case) <= 3 or not is_pure:  # without delta cases have that many events at most
                log = [*others, *(("new", *event) for event in case)]
                yield statistic.sums(log, noise)[0] - before


@pytest.mark.parametrize("is_whole", [False, at_night(True)])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_case_moves_a_statistic_further_than_is_stated_and_some_case_as_far(
    name: str, is_whole: bool
) -> None:
    stated, largest = STATISTICS[name].changed(1), dict.fromkeys(("l1", "l2_squared", "linf"), 0)
    for change in changes(STATISTICS[name], is_whole):
        assert (change >= 0).all()  # so cases of a unit add up
        norms = {"l1": change.sum(), "l2_squared": (change**2).sum(), "linf": change.max()}
        largest = {norm: max(largest[norm], int(norms[norm])) for norm in norms}
    for norm, most in largest.items():
        assert most <= getattr(stated, norm), norm
        if norm in STATISTICS[name].attained:
            assert most >= 0.99 * getattr(stated, norm), norm


def test_the_noise_is_made_for_all_cases_of_a_unit() -> None:
    for name in STATISTICS:
        statistic = STATISTICS[name]
        one, three = statistic.changed(1), statistic.changed(3)
        assert (three.l1, three.linf) == (3 * one.l1, 3 * one.linf)
        assert three.l2_squared == 9 * one.l2_squared
        noise = Allowance(Fraction(1, 7)).noise(three, statistic.units)
        assert noise == SumNoise((int(21 * one.l1), 1), statistic.units, True)


def test_every_cell_has_noise_of_its_own_whatever_the_log() -> None:
    for name in STATISTICS:
        statistic, asked = STATISTICS[name], []
        for log in ({}, {"c": "A B@9 X A", "d": "B"}):
            noting = Recording(release_key(), "release", "input", "configuration")
            counted = statistic.counter.count(public(log), statistic.decisions, noting)
            statistic.decide(counted, statistic.noises[0], noting)
            asked.append(
                [{cell for cell, _, n in cells if n == 0} for cells in noting.asked.values()]
            )
        assert asked[0] == asked[1]
        if statistic.n_cells:
            assert asked[0] == [set(range(statistic.n_cells))]


def test_the_sums_get_the_noise_that_is_given_on_its_lattice() -> None:
    for name in STATISTICS:
        statistic, log = STATISTICS[name], {"c": "A B@9 X A", "d": "B A"}
        counted: Any = statistic.counter.count(public(log), statistic.decisions, randomness())
        for noise in statistic.noises:
            sums, noting = statistic.sums(log, noise)
            assert {told[2] for told in noting.told} == {noise}
            assert {scale for _, _, scale in noting.draws} == {Fraction(*noise.scale)}
            if statistic.n_cells:
                assert sums.tolist() == counted.dense(np.arange(statistic.n_cells)).tolist()
            decided = statistic.decide(counted, noise, randomness())
            if hasattr(decided, "deviation"):
                assert decided.deviation == pytest.approx(math.sqrt(variance_of(noise)))


def test_a_counter_that_does_not_clip_is_found_out() -> None:
    """The control: the clip of times of all cases is exceeded by what cases take."""
    clip, unclipped = (
        clip_of(SPANS, 1),
        Counted(ClippedCells, count_pair_times, (ALWAYS, False, OF_ALL)),
    )
    long = [("c", "A", 0), ("c", "B", 400 * DAY)]
    [value] = unclipped.count(public(long), {"spans": SPANS}, randomness()).values
    assert value == UNITS < 400 * 86_400 * UNITS // clip
