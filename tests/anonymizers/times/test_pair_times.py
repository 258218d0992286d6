"""Time by pair of activities: sums by a loop, sensitivity by enumeration, noise, the clip."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import MINUTE, Log, cases_of, event_logs, trace_batch
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.rigorous.budget import UNITS
from tracecloak.anonymizers.times.case_spans import (
    SpansDecision,
    clip_of,
    count_pair_times,
)
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

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
    counted = Counted(ClippedCells, count_pair_times, (ALWAYS, is_pure)).count(
        public(log), DECISIONS, randomness()
    )
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
