"""Time by pair of activities: sums by a loop, sensitivity by enumeration, noise, the clip."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness, release_key
from tests.support.logs import MINUTE, Event, Log, cases_of, event_logs, trace_batch
from tests.support.rounds import Recording
from tests.support.silence import Noting
from tracecloak.anonymizers.noise.sums import SumNoise, variance_of
from tracecloak.anonymizers.rigorous.budget import UNITS, Allowance
from tracecloak.anonymizers.times.case_spans import SpansDecision
from tracecloak.anonymizers.times.pair_times import (
    PairTimes,
    changed_times,
    clip_of,
    decide_pair_times,
)
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

DAY = 24 * 60 * MINUTE
SECOND = MINUTE // 60
ALWAYS = LogTime(WorkingCalendar(), TimeRange(0, 1000 * DAY), "second")
WORDS = ActivityVocabulary.public("AB")
N = len(WORDS)
BORDERS = np.array([1, 60, 600, 86_400])
# All cases take from a minute to ten.
SPANS = SpansDecision(
    BORDERS, np.array([0.0, 0.0, 1.0, 1.0, 1.0]), 86_400_000,
    np.array([0.0, 0.0, 100.0, 0.0, 0.0]), 1.0, np.arange(5),
)  # fmt: skip
DECISIONS: dict[str, Any] = {"spans": SPANS}
CLIP = clip_of(SPANS, N)


def public(log: Log) -> TraceBatch:
    return trace_batch(log).recode_public(WORDS)


def sums_of(log: Log, *, is_pure: bool) -> list[int]:
    counted = PairTimes(ALWAYS, is_pure).count(public(log), DECISIONS, randomness())
    return [int(x) for x in counted.dense(np.arange(N * N))]


def naive(log: Log, *, is_pure: bool) -> list[int]:
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
    assert sums_of(log, is_pure=is_pure) == naive(log, is_pure=is_pure)


OTHERS: list[Event] = [("o", "A", 0), ("o", "B", 5), ("p", "B", 0), ("q", "X", 0), ("q", "X", DAY)]


def changes(*, is_pure: bool, clips: bool = True) -> list[list[int]]:
    """What any one more case changes, without clipping as a control."""
    before, found = sums_of(OTHERS, is_pure=is_pure), []
    for names in itertools.product("ABX", repeat=3):
        for gaps in itertools.product((0, SECOND, 3 * MINUTE, 300 * DAY), repeat=2):
            times = itertools.accumulate((0, *gaps))
            case = [("new", name, time) for name, time in zip(names, times, strict=True)]
            after = sums_of([*OTHERS, *case], is_pure=is_pure)
            if not clips:
                gap = sum(gaps) // SECOND * UNITS // CLIP
                found.append([gap])
            else:
                found.append([b - a for a, b in zip(before, after, strict=True)])
    return found


@pytest.mark.parametrize("is_pure", [False, True])
def test_one_case_changes_the_sums_by_at_most_the_clip_and_can_change_them_by_all_of_it(is_pure):
    changed = changed_times(1, is_pure=is_pure)
    l1 = max(sum(map(abs, change)) for change in changes(is_pure=is_pure))
    square = max(sum(x * x for x in change) for change in changes(is_pure=is_pure))
    assert square == UNITS**2 == changed.l2_squared
    assert l1 == UNITS == changed.l1 if is_pure else UNITS < l1 <= changed.l1
    # The control: a counter that does not clip is beyond that.
    assert max(x for [x] in changes(is_pure=is_pure, clips=False)) > UNITS


@pytest.mark.parametrize("units", [1, 2, 5])
def test_the_noise_is_made_for_what_a_unit_changes(units):
    pure, joint = (changed_times(units, is_pure=is_pure) for is_pure in (True, False))
    assert pure.l1 == units * UNITS and joint.l2_squared == (units * UNITS) ** 2
    noise = Allowance(Fraction(1, 7)).noise(pure, UNITS)
    assert noise == SumNoise((7 * units * UNITS, 1), UNITS, True)


def test_every_sum_has_noise_of_its_own_whatever_the_log():
    for log in ({}, {"c": "A B@9 X A", "d": "B"}):
        noting = Recording(release_key(), "release", "input", "configuration")
        counted = PairTimes(ALWAYS, False).count(public(log), DECISIONS, noting)
        decide_pair_times(counted, N, CLIP, SumNoise((999, 1), UNITS, False), noting, is_pure=False)
        [(purpose, asked)] = noting.asked.items()
        assert purpose == "time of a pair"
        assert {a for a, _, counter in asked if counter == 0} == set(range(N * N))


def test_the_sums_get_the_noise_that_is_given_on_its_lattice():
    noise, noting = SumNoise((9000, 1), UNITS, False), Noting()
    log = {"c": "A B@9 X A", "d": "B A"}
    counted = PairTimes(ALWAYS, False).count(public(log), DECISIONS, randomness())
    drawing = randomness().with_noise(noting)
    decided = decide_pair_times(counted, N, CLIP, noise, drawing, is_pure=False)
    [(purpose, sums, given_noise)] = noting.told
    assert (purpose, given_noise) == ("time of a pair", noise)
    assert sums.tolist() == naive(log, is_pure=False)
    assert decided.deviation == pytest.approx(math.sqrt(variance_of(noise)))
    assert decode(encode(decided)).sums.tolist() == decided.sums.tolist()


def test_the_clip_rises_as_noise_falls_and_few_cases_exceed_it():
    """From a quarter of the cases, where there is much noise, to none."""
    borders = np.array([1, 10, 100, 1000, 10_000])
    reached = np.array([0, 0.25, 0.5, 0.75, 0.95, 1])
    counts = np.diff(reached, prepend=0) * 1000
    clips = [
        clip_of(SpansDecision(borders, reached, 10**5, counts, x, np.arange(6)), N)
        for x in (500.0, 3.0, 0.3, 0.003)
    ]
    assert clips == sorted(clips) and clips[0] == pytest.approx(1000, rel=0.01)
    assert clips[-1] > 50_000
    none = SpansDecision(borders, np.ones(6), 10**5, np.zeros(6), 1.0, np.arange(6))
    assert clip_of(none, N) == 1
