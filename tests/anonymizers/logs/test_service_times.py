"""Service times: counts by a loop, sensitivity by enumeration, fitted weights, and draws."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schemas.statistics.test_service_times import intervals
from tests.support.keys import randomness, release_key
from tests.support.logs import MINUTE
from tracecloak.anonymizers.accounting.sensitivity import of_clipped
from tracecloak.anonymizers.contract.counters import Counted
from tracecloak.anonymizers.contract.in_memory import anonymise
from tracecloak.anonymizers.logs import service_times
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.anonymizers.times.step_durations import clipped_sums
from tracecloak.anonymizers.times.time_range import LogTime, TimeRange
from tracecloak.schemas.arrays.columnar import decode, encode
from tracecloak.schemas.calendar.working_time import WorkingCalendar
from tracecloak.schemas.events.traces import TraceBatch
from tracecloak.schemas.statistics.clipped_flows import ClippedCells
from tracecloak.schemas.statistics.log_times import IntervalTimes

DAY = 1440 * MINUTE
RANGE = TimeRange(0, 30 * DAY)
TIME = LogTime(WorkingCalendar("UTC"), RANGE, "minute")
GRID = TIME.grid({})
BORDERS = service_times.borders_of(GRID)
K = len(BORDERS) + 1
WIDTH = 3 * K + 2
Event = tuple[str, int | None, int]


def in_minutes(cases: Sequence[Sequence[Event]]) -> TraceBatch:
    return intervals(
        [
            [(name, None if start is None else start * MINUTE, end * MINUTE)
             for name, start, end in case]
            for case in cases
        ]
    )  # fmt: skip


def naive_cells(case: Sequence[Event], n_names: int = 3) -> dict[int, int]:
    """Sixteenths in each cell, by a loop; minutes are ticks."""
    cells: dict[int, int] = {}
    ends = [0, *BORDERS.tolist(), GRID.n_ticks]

    def bin_of(ticks: int) -> int:
        return max(i for i in range(K) if ends[i] <= ticks)

    def add(key: int, weight: int) -> None:
        if weight:
            cells[key] = cells.get(key, 0) + weight

    before: int | None = None
    for name, start, end in case:
        base = "ABC".index(name) * WIDTH
        if start is None:
            add(base, 16)
        elif before is not None and end == before:
            add(base + 1, 16)
        else:
            begun = max(start, -1 if before is None else before)
            service = end - max(begun, 0)
            place = bin_of(service)
            add(base + 2 + place, 16)
            gap = K - 1 if before is None else bin_of(end - before)
            add(base + 2 + K + gap, 16)
            low, high = ends[place], ends[place + 1]
            add(base + 2 + 2 * K + place, (service - low) * 16 // (high - low) if place else 0)
        before = end
    return cells


def counter_of(clip: int, units: int) -> Counted:
    return Counted(ClippedCells, clipped_sums, (service_times.cells_of_service, TIME, clip, units))


steps = st.tuples(st.sampled_from("ABC"), st.none() | st.integers(0, 4000), st.integers(0, 3000))


def made(drawn: Sequence[tuple[str, int | None, int]]) -> list[Event]:
    """Events from gaps and service times."""
    case, now = [], 0
    for name, service, gap in drawn:
        now += gap
        case.append((name, None if service is None else max(now - service, 0), now))
    return case


@settings(max_examples=60)
@given(st.lists(st.lists(steps, min_size=1, max_size=4).map(made), min_size=1, max_size=4))
def test_cells_are_those_of_a_loop(cases):
    traces = in_minutes(cases)
    cells = service_times.cells_of_service(traces, {}, TIME)
    found: list[dict[int, int]] = [{} for _ in cases]
    for case, key, count in zip(cells.rows, cells.keys, cells.counts, strict=True):
        found[int(case)][int(key)] = int(count)
    assert found == [naive_cells(case) for case in cases]
    squares = [sum(x * x for x in one.values()) for one in found]
    assert cells.squares.tolist() == squares
    counter = counter_of(2048, 64)
    whole = counter.count(traces, {}, randomness())
    pieces = [
        counter.count(traces.take(np.array([i])), {}, randomness()) for i in range(len(cases))
    ]
    assert ClippedCells.merge(pieces[::-1]) == whole == decode(encode(whole))


OTHERS: list[list[Event]] = [[("A", 0, 5), ("B", 6, 90)], [("C", None, 7)]]


def units() -> Iterator[list[Event]]:
    """Cases of up to three events, some of which fill one cell."""
    kinds = [("A", None, 5), ("A", 0, 5), ("A", 700, 700), ("B", 0, 0), ("A", 1, 700)]
    for n in (1, 2, 3):
        yield from (made(case) for case in itertools.product(kinds, repeat=n))
    yield [("A", 900 * i, 900 * i + 899) for i in range(3)]  # long places, in one cell


def sums_of(counter: Counted, cases: list[list[Event]]) -> np.ndarray:
    return counter.count(in_minutes(cases), {}, randomness()).dense(np.arange(3 * WIDTH))


@pytest.mark.parametrize("is_pure", [False, True])
def test_a_case_moves_the_sums_no_further_than_is_stated(is_pure):
    """In L2 up to the clip, or in L1 up to three occurrences an event; and nearly that far."""
    clip = 3 * 16 * 3 if is_pure else 1500
    counter = counter_of(clip, 1 if is_pure else 64)
    stated = of_clipped(clip, 1, is_pure=is_pure)
    before = sums_of(counter, OTHERS)
    moves = []
    for unit in units():
        moved = np.abs(sums_of(counter, [*OTHERS, unit]) - before)
        moves.append(int(moved.sum() if is_pure else (moved**2).sum()))
    most = stated.l1 if is_pure else stated.l2_squared
    assert 0.85 * most < max(moves) <= most
    # The control: had places no bound of 1, or gaps not been reckoned with, this would be broken.
    assert max(moves) > (most * 2 // 3 if is_pure else 0)


def law_of_draws(weights: np.ndarray, of_gaps: np.ndarray) -> np.ndarray:
    """What drawing comes to: for each gap, bins up to its own in proportion to their weights."""
    law = np.zeros(len(weights))
    for gap, share in enumerate(of_gaps):
        room = weights[: gap + 1].sum()
        if room > 0:
            law[: gap + 1] += share * weights[: gap + 1] / room
    return law


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.data())
def test_draws_by_weights_agree_with_a_law_that_gaps_have_room_for(pairs, data):
    """The law and the gaps are those of some pairs of a service time and a longer gap."""
    k = 10
    counts = np.zeros((k, k))
    for one, other in pairs:
        counts[min(one, other), max(one, other)] += data.draw(st.integers(1, 5))
    counts /= counts.sum()
    law, gaps = counts.sum(axis=1), counts.sum(axis=0)
    weights = service_times.weights_of(law[None], gaps[None])[0]
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    assert ((weights > 0) == (law > 0)).all()
    # Where times fill their gaps to the brim it comes near slowly.
    assert np.abs(law_of_draws(weights, gaps) - law).sum() < 0.2
    plain = np.abs(law_of_draws(law, gaps) - law).sum()
    assert np.abs(law_of_draws(weights, gaps) - law).sum() <= plain + 1e-6


def busy(n: int) -> list[list[Event]]:
    """A takes 10 to 30 minutes of an hour, B nothing, and the start of half of all C is unknown."""
    rng = np.random.default_rng(3)
    cases = []
    for i in range(n):
        long = int(rng.integers(10, 31))
        begin = int(rng.integers(0, 20 * 1440))
        cases.append(
            [("B", begin, begin), ("A", begin + 60 - long, begin + 60),
             ("C", begin + 100 if i % 2 else None, begin + 200)]
        )  # fmt: skip
    return cases


METHOD = PrivateLog()


def params_of(**others: Any) -> Any:
    given: dict[str, Any] = {
        "epsilon": "20", "vocabulary": ("A", "B", "C"), "first_date": "1970-01-01",
        "last_date": "1970-01-30", "service_times": True, "granularity": "minute",
    }  # fmt: skip
    return METHOD.Params(**{**given, **others})


def test_a_release_has_starts_and_does_not_depend_on_pieces():
    params = params_of()
    result = anonymise([in_minutes(busy(300))], METHOD, params, release_key(), "r", "0" * 64)
    [released] = result.traces
    assert list(released.attributes) == ["start_timestamp"] == list(METHOD.carried(params))
    assert released.attribute_types == METHOD.carried(params)
    times = IntervalTimes.of(released)
    name = released.vocabulary.names.to_pylist().index("A")
    service = times.service_us[released.activities == name] / MINUTE
    assert service.mean() == pytest.approx(20, rel=0.4)
