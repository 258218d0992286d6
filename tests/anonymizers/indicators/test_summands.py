"""What a case adds to each indicator, against one case at a time in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.indicator_logs import AMOUNT, Case, Event, case_lists, log_of
from tracecloak.anonymizers.indicators.declared import OneIndicator
from tracecloak.anonymizers.indicators.summands import (
    RANGE,
    Numbers,
    Summand,
    repeats,
    summand_of,
)
from tracecloak.schemas.events.events import OTHER

HOUR = 3_600_000_000


READ = pydantic.TypeAdapter(OneIndicator)


@lru_cache
def read(text: str) -> Any:
    return READ.validate_python(text)


def table(numbers: Numbers) -> list[list[float | None]]:
    assert numbers.values.shape == numbers.is_there.shape
    rows = zip(numbers.values.tolist(), numbers.is_there.tolist(), strict=True)
    return [[v if t else None for v, t in zip(*row, strict=True)] for row in rows]


Naive = Callable[[Case], Sequence[float | None]]
PAIRS = [("A", "B"), ("B", "A"), ("A", "A"), ("C", "Z"), ("A", OTHER)]
NAMES = ["B", "A", "Z", OTHER]
# By an indicator: its steps, and the numbers of one case.
COUNTED: dict[str, tuple[Sequence[Any], Naive]] = {
    "throughput at_most=2d": ((), lambda case: [case.throughput_us]),
    "within limit=90m": ((), lambda case: [case.throughput_us <= 1.5 * HOUR]),
    "rework": ((), lambda case: [case.repeats]),
    "rework activity=A": (["A"], lambda case: [case.names.count("A") > 1]),
    "rework by=activity": (NAMES, lambda case: [case.names.count(name) > 1 for name in NAMES]),
    "frequency activity=Z": (["Z"], lambda case: [0]),
    "frequency by=activity at_most=2": (
        NAMES, lambda case: [case.names.count(name) for name in NAMES],
    ),
    "rule template=first activity=A": ((), lambda case: [case.names[0] == "A"]),
    "rule template=existence activity=B n=2 within=1h": ((), lambda case: [
        sum(e.activity == "B" and e.time_us <= case.events[0].time_us + HOUR for e in case.events)
        >= 2
    ]),
    "waiting by=pair at_most=1d": (PAIRS, lambda case: [case.wait_us(*pair) for pair in PAIRS]),
    "waiting activity=A then=B": ([("A", "B")], lambda case: [case.wait_us("A", "B")]),
    "working by=activity at_most=1d": (NAMES, lambda case: [case.work_us(name) for name in NAMES]),
    f"amount attribute={AMOUNT} bounds=0|100": ((), lambda case: [case.number]),
}  # fmt: skip


@given(case_lists(), st.booleans(), st.booleans())
def test_the_numbers_of_cases_are_those_of_one_case_at_a_time(
    cases: list[Case], is_plain: bool, has_more_names: bool
) -> None:
    names = ["A", "B", "C", "Y", OTHER] if has_more_names else None
    traces = log_of(cases, names, is_plain)
    for text, (steps, naive) in COUNTED.items():
        summand = summand_of(read(text), steps, 48 * HOUR)
        expected = [list(naive(case)) for case in cases]
        assert table(summand.numbers(traces)) == expected, text


@given(case_lists())
def test_lattice_places_are_within_the_bounds_whatever_a_case_has(cases: list[Case]) -> None:
    traces = log_of(cases)
    for text, (steps, _) in COUNTED.items():
        summand = summand_of(read(text), steps, HOUR)
        numbers = summand.numbers(traces)
        places = summand.places(numbers.values)
        assert places.dtype == np.int64
        assert ((places >= 0) & (places <= RANGE)).all()
        within = np.clip(numbers.values.astype(float), summand.low, summand.high)
        exact = (within - summand.low) / ((summand.high - summand.low) / RANGE)
        assert (np.abs(places - exact)[numbers.is_there] <= 0.5 + 1e-6).all(), text


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e-300), (-1e300, 1e300), (1e15, 1e15 + 1)])
def test_bounds_however_far_apart_keep_a_case_between_0_and_the_range(
    low: float, high: float
) -> None:
    summand = Summand(low, high, lambda traces: Numbers.of_all(np.zeros(0)))
    values = np.array([low, high, (low + high) / 2, -1e308, 1e308, 0.0])
    places = summand.places(values)
    assert ((places >= 0) & (places <= RANGE)).all()
    assert places[:2].tolist() == [0, RANGE]


def test_an_attribute_that_the_log_does_not_have_is_of_no_case() -> None:
    traces = log_of([Case((Event("A", 0),), amount="5")])
    numbers = summand_of(read("amount attribute=case:other bounds=0|1")).numbers(traces)
    assert table(numbers) == [[None]]


def test_an_amount_is_that_of_the_first_event() -> None:
    traces = log_of([Case((Event("A", 0), Event("B", 1)), amount="5")])
    other = log_of([Case((Event("A", 0), Event("B", 1)), amount="7")])
    traces.attributes[AMOUNT] = traces.attributes[AMOUNT].cast("string").take([0, 0])
    assert table(summand_of(read(f"amount attribute={AMOUNT} bounds=0|9")).numbers(traces)) == [[5]]
    assert table(summand_of(read(f"amount attribute={AMOUNT} bounds=0|9")).numbers(other)) == [[7]]


def test_the_first_of_equal_stamps_is_the_one_that_stands_first() -> None:
    """A waits for B no time at first, and an hour the second time."""
    events = [Event(name, time) for name, time in [("A", 0), ("B", 0), ("A", 0), ("B", HOUR)]]
    summand = summand_of(read("waiting activity=A then=B at_most=1d"), [("A", "B")])
    assert table(summand.numbers(log_of([Case(tuple(events))]))) == [[0]]
    assert table(summand.numbers(log_of([Case(tuple(events[2:]))]))) == [[HOUR]]


def test_others_together_are_no_rework() -> None:
    cases = [Case((Event(OTHER, 0), Event(OTHER, 1))), Case((Event("A", 0), Event("A", 0)))]
    assert repeats(log_of(cases)).tolist() == [False, True]
    assert repeats(log_of([])).tolist() == []
