"""Of which cases an indicator speaks, and in which group each is, case by case in plain Python."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.indicator_logs import KIND, Case, Event, case_lists, log_of
from tracecloak.anonymizers.indicators.declared import PERIODS, Filter
from tracecloak.anonymizers.indicators.summands import (
    Groups,
    Population,
    cases_where,
    periods_of,
    value_places,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.events import OTHER

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def us(text: str, zone: str = "UTC") -> int:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    return (moment - EPOCH) // MICROSECOND


@given(case_lists(), st.booleans())
def test_a_case_is_in_the_group_of_its_value_if_its_filter_holds(
    cases: list[Case], is_plain: bool
) -> None:
    traces = log_of(cases, is_plain=is_plain)
    values = ("k2", "k1", "k1 ", "nobody's")
    for where in (
        None, Filter(occurs="A"), Filter(attribute=KIND, equals="k1"), Filter(occurs="Z"),
        Filter(occurs="B", attribute=KIND, equals="k2"), Filter(occurs=OTHER),
    ):  # fmt: skip

        def holds(case: Case, where: Filter | None = where) -> bool:
            if where is None:
                return True
            occurs = where.occurs is None or where.occurs in case.names
            return occurs and (where.attribute is None or case.kind == where.equals)

        population = Population(where, KIND, values)
        places = population.places(traces, Groups(values, KIND))
        assert places.dtype == np.int64
        assert places.tolist() == [
            values.index(case.kind) if case.kind in values and holds(case) else -1
            for case in cases
        ]  # fmt: skip
        whole = Population(where).places(traces, Groups())
        assert whole.tolist() == [0 if holds(case) else -1 for case in cases]
        if where is not None:
            assert cases_where(traces, where).tolist() == [holds(case) for case in cases]


def test_a_value_is_found_as_it_is_written_in_plain_texts_and_in_dictionaries() -> None:
    texts = ["a", None, "b", "A", "a ", "", "a"]
    plain = pa.array(texts, pa.string())
    # A dictionary may hold a missing value, too, and values that nothing has.
    hostile = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 2, 3, 4, 5, 1], pa.int32()),
        pa.array([None, "a", "b", "A", "a ", "", "c"], pa.string()),
    )
    for values in (plain, plain.dictionary_encode(), hostile):
        assert value_places(values, ["b", "a"]).tolist() == [1, -1, 0, -1, -1, -1, 1]
        assert value_places(values, []).tolist() == [-1] * 7
    assert value_places(plain[:0], ["a"]).tolist() == []


@pytest.mark.parametrize(
    ("period", "first", "last", "labels"),
    [
        ("day", "2024-02-28", "2024-03-02", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("week", "2024-12-30", "2025-01-13", ["2025-W01", "2025-W02"]),
        ("week", "2020-12-28", "2021-01-11", ["2020-W53", "2021-W01"]),
        ("week", "2023-01-01", "2023-01-02", ["2022-W52"]),
        ("month", "2023-12-31", "2024-01-02", ["2023-12", "2024-01"]),
        ("quarter", "2023-09-30", "2024-01-01", ["2023-Q3", "2023-Q4"]),
        ("year", "1969-12-31", "1970-01-02", ["1969", "1970"]),
    ],
)
def test_periods_by_hand(period: str, first: str, last: str, labels: list[str]) -> None:
    """The last date is exclusive; periods are whole, so the first one may begin before."""
    groups = periods_of(period, us(first), us(last), "UTC")
    assert list(groups.labels) == labels
    assert groups.borders_us is not None
    assert len(groups.borders_us) == len(labels) + 1
    assert groups.borders_us[0] <= us(first) < groups.borders_us[1]
    assert groups.borders_us[-2] < us(last) <= groups.borders_us[-1]


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
    groups = periods_of(period, first_us, last_us, zone)
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
        periods_of("month", us("2024-01-01"), us("2023-12-31"), "UTC")
