"""How fine stamps are: counts by a loop, sensitivity by enumeration, and what is chosen."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import Event, trace_batch
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.noise.sums import SumNoise
from tracecloak.anonymizers.times.case_spans import (
    count_granularities,
    decide_granularity,
)
from tracecloak.anonymizers.times.time_range import grid_clock
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.local_time import DAY_US, HOUR_US
from tracecloak.schemas.calendar.working_time import GRANULARITIES
from tracecloak.schemas.statistics.clipped_flows import ClippedCells

SECOND, MINUTE = 1_000_000, 60_000_000
MILLISECOND = 1_000
GRIDS = (1, MILLISECOND, SECOND, MINUTE, HOUR_US, DAY_US)
LITTLE = SumNoise((1, 10**6), 1, True)  # so narrow that 0 is drawn


def counts_of(log: list[Event], time_zone: str = "UTC") -> list[int]:
    counter = Counted(ClippedCells, count_granularities, (time_zone,))
    counted = counter.count(trace_batch(log), {}, randomness())
    return [int(x) for x in counted.dense(np.arange(6))]


def finest(times: list[int]) -> int:
    """The coarsest grid that has all of a case's stamps, by a loop."""
    return max(i for i, step in enumerate(GRIDS) if all(time % step == 0 for time in times))


stamps = st.tuples(st.sampled_from(GRIDS), st.integers(0, 10_000)).map(lambda x: x[0] * x[1])


@given(st.lists(st.lists(stamps, min_size=1, max_size=4), max_size=6), st.integers(1, 3))
def test_cases_are_counted_by_their_finest_stamp(cases, n_pieces):
    log = [(f"c{i}", "A", time) for i, times in enumerate(cases) for time in times]
    expected = [0] * 6
    for times in cases:
        expected[finest(times)] += 1
    assert counts_of(log) == expected
    traces, counter = trace_batch(log), Counted(ClippedCells, count_granularities, ("UTC",))
    parts = [traces.take(np.arange(i, traces.n_cases, n_pieces)) for i in range(n_pieces)]
    pieces = [counter.count(part, {}, randomness()) for part in parts]
    merged = ClippedCells.merge(pieces[::-1])
    assert merged == counter.count(traces, {}, randomness()) == decode(encode(merged))


@pytest.mark.parametrize("zone", ["Europe/Amsterdam", "America/Sao_Paulo", "Asia/Kolkata"])
def test_dates_are_those_of_the_local_clock(zone):
    """Also where the clock is put forward at midnight, as it was in Sao Paulo; UTC sees hours."""
    day = datetime.datetime(2018, 10, 1, tzinfo=datetime.UTC)
    log = []
    for i in range(60):
        local = (day + datetime.timedelta(days=i)).date()
        begin = datetime.datetime.combine(local, datetime.time(), ZoneInfo(zone)).timestamp()
        log.append((f"c{i}", "A", int(begin) * SECOND))
    assert counts_of(log, zone) == [0, 0, 0, 0, 0, 60]
    assert counts_of(log)[5] == 0


@pytest.mark.parametrize("zone", ["Africa/Cairo", "America/Sao_Paulo", "Pacific/Apia"])
def test_around_changes_of_the_clock_each_stamp_is_asked_for_its_grids(zone):
    clock = grid_clock(zone)
    steps = np.array([-DAY_US, -HOUR_US, -1, 0, 1, MINUTE, HOUR_US, 5 * HOUR_US, DAY_US])
    times = np.unique(clock.since_us[1:, None] + steps)
    local, expected = clock.local_us(times), np.zeros(len(times), np.int64)
    for i, step in enumerate(GRIDS):
        over = local % step
        expected[(over == 0) | (clock.first_us(local - over) == times)] = i
    log = [(f"c{i}", "A", time) for i, time in enumerate(times.tolist())]
    assert counts_of(log, zone) == np.bincount(expected, minlength=6).tolist()


def chosen(counts: list[int], noise: SumNoise = LITTLE, number: int = 0) -> str:
    used = np.flatnonzero(counts)
    counted = ClippedCells(used, np.array(counts, np.int64)[used])
    return decide_granularity(counted, noise, randomness(number)).granularity


def test_the_coarsest_grid_that_nearly_all_cases_are_on_is_chosen():
    for place, name in enumerate(GRANULARITIES):
        assert chosen([100 * (i == place) for i in range(6)]) == name
    # A fiftieth may be off.
    assert chosen([0, 0, 1, 1, 0, 98]) == "day"
    assert chosen([0, 1, 0, 2, 0, 97]) == "minute"
    assert chosen([0, 0, 0, 0, 3, 97]) == "hour"
    assert chosen([0, 0, 50, 0, 0, 50]) == "second"
    assert chosen([0, 50, 0, 0, 0, 50]) == "millisecond"
    assert chosen([2, 98, 0, 0, 0, 0]) == "millisecond"
    assert chosen([3, 0, 0, 0, 0, 97]) == "microsecond"
    assert chosen([1, 1, 98, 0, 0, 0]) == "second"


def test_a_log_that_noise_hides_keeps_its_seconds():
    """By hand: of deviation 10, those on a grid must be 2.5 * 10 * 2.4 = 61 more than those off."""
    wide = SumNoise((10, 1), 1, False)

    def found(counts: list[int]) -> list[str]:
        return [chosen(counts, wide, number) for number in range(400)]

    assert found([0, 0, 20, 0, 0, 0]).count("second") > 380
    assert found([0, 0, 0, 0, 0, 0]).count("second") > 380
    assert found([0, 0, 0, 0, 0, 120]).count("day") > 380
    # By hand: 20 finer ones are no 2.5 * 10, and as many as 60 are that for sure.
    assert found([20, 0, 0, 0, 0, 0]).count("second") > 100
    assert found([60, 0, 0, 0, 0, 0]).count("microsecond") > 380
