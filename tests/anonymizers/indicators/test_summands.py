"""What a case adds to each indicator, of which cases it speaks, and rules, by plain Python."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.indicator_logs import Case, Event, log_of
from tests.support.logs import trace_batch
from tracecloak.anonymizers.indicators import summands
from tracecloak.anonymizers.indicators.declare_rules import OF_ONE, OF_TWO, cases_that_keep
from tracecloak.anonymizers.indicators.declared import PERIODS, OneIndicator
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.traces import TraceBatch

READ = pydantic.TypeAdapter(OneIndicator)


@lru_cache
def read(text: str) -> Any:
    return READ.validate_python(text)


def test_bounds_however_far_apart_keep_a_case_between_0_and_the_range() -> None:
    for low, high in [(0.0, 1e-300), (-1e300, 1e300), (1e15, 1e15 + 1)]:
        summand = summands.Summand(low, high)
        values = np.array([low, high, (low + high) / 2, -1e308, 1e308, 0.0])
        places = summand.places(values)
        assert ((places >= 0) & (places <= summands.RANGE)).all()
        assert places[:2].tolist() == [0, summands.RANGE]


def test_an_attribute_that_the_log_does_not_have_is_of_no_case() -> None:
    traces = log_of([Case((Event("A", 0),), amount="5")])
    other = read("amount attribute=case:other bounds=0|1")
    numbers = summands.numbers_added(other, (), traces)
    assert numbers.is_there.tolist() == [[False]]


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def us(text: str, zone: str = "UTC") -> int:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return (moment - EPOCH) // MICROSECOND


def test_a_value_is_found_as_it_is_written_in_plain_texts_and_in_dictionaries() -> None:
    texts = ["a", None, "b", "A", "a ", "", "a"]
    plain = pa.array(texts, pa.string())
    # A dictionary may hold a missing value, too, and values that nothing has.
    hostile = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 2, 3, 4, 5, 1], pa.int32()),
        pa.array([None, "a", "b", "A", "a ", "", "c"], pa.string()),
    )
    for values in (plain, plain.dictionary_encode(), hostile):
        assert summands.value_places(values, ["b", "a"]).tolist() == [1, -1, 0, -1, -1, -1, 1]
        assert summands.value_places(values, []).tolist() == [-1] * 7
    assert summands.value_places(plain[:0], ["a"]).tolist() == []


def naive_label(period: str, moment_us: int, zone: str) -> str:
    local = (EPOCH + moment_us * MICROSECOND).astimezone(ZoneInfo(zone))
    year, week, _ = local.isocalendar()
    return {
        "day": f"{local:%Y-%m-%d}",
        "week": f"{year}-W{week:02}",
        "month": f"{local:%Y-%m}",
        "quarter": f"{local.year}-Q{(local.month - 1) // 3 + 1}",
        "year": f"{local.year}",
    }[period]


# Clocks of half an hour, of a day that a place left out, and of changes by night and at midnight.
ZONES = ("UTC", "Europe/Amsterdam", "Asia/Kolkata", "America/Santiago", "Africa/Cairo", "Asia/Gaza")
SPAN = us("2020-01-01"), us("2025-12-31")


@given(
    st.sampled_from(PERIODS), st.sampled_from(ZONES), st.integers(*SPAN), st.integers(0, 500),
    st.data(),
)  # fmt: skip
def test_a_case_is_in_the_period_of_the_clock_of_the_place(
    period: str, zone: str, first_us: int, n_days: int, data: st.DataObject
) -> None:
    last_us = first_us + 86_400_000_000 * n_days + 1
    groups = summands.periods_of(period, first_us, last_us, zone)
    assert groups.borders_us is not None and (np.diff(groups.borders_us) > 0).all()
    assert len(set(groups.labels)) == len(groups.labels)
    near = [int(border) + d for border in groups.borders_us for d in (-1, 0, 1)]
    starts = [first_us, last_us - 1, *data.draw(st.lists(st.sampled_from(near), max_size=9))]
    traces = log_of([Case((Event("A", start), Event("B", start + 1))) for start in starts])
    places = groups.places(traces).tolist()
    for start, place in zip(starts, places, strict=True):
        if place < 0:
            assert not groups.borders_us[0] <= start < groups.borders_us[-1]
        else:
            assert groups.labels[place] == naive_label(period, start, zone)
    assert places[0] == 0
    assert places[1] == len(groups.labels) - 1


def test_a_range_of_no_time_has_no_period() -> None:
    with pytest.raises(UsageError, match="there is no month between the dates"):
        summands.periods_of("month", us("2024-01-01"), us("2023-12-31"), "UTC")


RuleCase = list[tuple[str, int]]


def batch(cases: list[RuleCase]) -> TraceBatch:
    """Cases of activities and times in microseconds."""
    return trace_batch(
        [(f"c{number}", name, time) for number, case in enumerate(cases) for name, time in case]
    )


def keeps(case: RuleCase, template: str, n: int, within: int | None) -> bool:
    """The same of one case, as one would say it; A is the first activity, B the second."""
    begin = case[0][1]

    def near(earlier: int, later: int) -> bool:
        return within is None or case[later][1] - case[earlier][1] <= within

    places = range(len(case))
    a = [i for i in places if case[i][0] == "A"]
    b = [i for i in places if case[i][0] == "B"]
    soon = [i for i in a if within is None or case[i][1] - begin <= within]
    response = all(any(j > i and near(i, j) for j in b) for i in a)
    precedence = all(any(i < j and near(i, j) for i in a) for j in b)
    chain_response = all(i + 1 in b and near(i, i + 1) for i in a)
    chain_precedence = all(j - 1 in a and near(j - 1, j) for j in b)
    return {
        "existence": len(soon) >= n,
        "absence": len(soon) < n,
        "first": case[0][0] == "A",
        "last": len(case) - 1 in soon,
        "response": response,
        "precedence": precedence,
        "succession": response and precedence,
        "chain_response": chain_response,
        "chain_precedence": chain_precedence,
        "chain_succession": chain_response and chain_precedence,
        "not_coexistence": not any(near(min(i, j), max(i, j)) for i in a for j in b),
    }[template]


def timed(case: RuleCase) -> RuleCase:
    """The same events, each as much later than the one before as its number says."""
    times = np.cumsum([since for _, since in case]).tolist()
    return [(name, time) for (name, _), time in zip(case, times, strict=True)]


steps = st.tuples(st.sampled_from("ABC"), st.integers(0, 3))
cases = st.lists(st.lists(steps, min_size=1, max_size=6).map(timed), min_size=1, max_size=6)


@pytest.mark.parametrize("template", [*OF_ONE, *OF_TWO])
@given(log=cases, n=st.integers(1, 3), within=st.none() | st.integers(0, 5))
def test_what_is_found_is_what_plain_loops_find(
    template: str, log: list[RuleCase], n: int, within: int | None
) -> None:
    found = cases_that_keep(batch(log), template, "A", "B", n, within)
    assert found.tolist() == [keeps(case, template, n, within) for case in log]


def test_an_activity_that_never_occurs_breaks_no_rule_that_needs_it_to() -> None:
    traces = batch([[("A", 0)], [("C", 0)]])
    assert cases_that_keep(traces, "precedence", "nowhere", "A").tolist() == [False, True]
    assert cases_that_keep(traces, "existence", "nowhere").tolist() == [False, False]
