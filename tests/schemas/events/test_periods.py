"""What partitions are named by: years, months, days and hours as spans of time."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.transforms.inputs.source_files import span_of_period

HOUR = 3_600_000_000


def us(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text)
    return round((moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds()) * (
        1_000_000
    )


@pytest.mark.parametrize(
    ("values", "begin", "end"),
    [
        (("2026",), "2026-01-01T00:00Z", "2027-01-01T00:00Z"),
        (("2026-11",), "2026-11-01T00:00Z", "2026-12-01T00:00Z"),
        (("2026-12",), "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        (("2026", "12"), "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        (("2026-11-30",), "2026-11-30T00:00Z", "2026-12-01T00:00Z"),
        (("20261130",), "2026-11-30T00:00Z", "2026-12-01T00:00Z"),
        (("2026", "11", "3"), "2026-11-03T00:00Z", "2026-11-04T00:00Z"),
        (("2026-11-30-23",), "2026-11-30T23:00Z", "2026-12-01T00:00Z"),
        (("2026-11-30T23",), "2026-11-30T23:00Z", "2026-12-01T00:00Z"),
        (("2026-11-30T23Z",), "2026-11-30T23:00Z", "2026-12-01T00:00Z"),
        (("20261130", "07"), "2026-11-30T07:00Z", "2026-11-30T08:00Z"),
        (("2026", "11", "30", "7"), "2026-11-30T07:00Z", "2026-11-30T08:00Z"),
    ],
)
def test_a_period_begins_and_ends_with_its_name(
    values: tuple[str, ...], begin: str, end: str
) -> None:
    assert span_of_period(values, "UTC") == (us(begin), us(end))


@pytest.mark.parametrize(
    "values",
    [
        (), ("",), ("soon",), ("26-11-01",), ("2026-13",), ("2026-02-30",), ("2026-11-01-24",),
        ("2026-11-01 13:00:00",), ("2026-11-01T00:00:00Z",), ("202611",), ("2026", "x"),
        ("2026", "11", "1", "1", "1"), ("2026-11-01-13", "1"), ("9999",), ("0000",), ("\uff12026",),
        ("2026", "-1"), ("2026-11-01\n",),
    ],
)  # fmt: skip
def test_what_is_no_period_is_none(values: tuple[str, ...]) -> None:
    assert span_of_period(values, "UTC") is None


def test_days_and_hours_are_those_of_the_zone_where_its_clock_is_put() -> None:
    berlin = "Europe/Berlin"
    for values, begin, n_hours in (
        (("2026-03-29",), "2026-03-28T23:00Z", 23),
        (("2026-10-25",), "2026-10-24T22:00Z", 25),
        (("2026-10-25-02",), "2026-10-25T00:00Z", 2),  # shown twice
        (("2026-03-29-02",), "2026-03-29T01:00Z", 1),  # never shown
        (("2026-10-25T02Z",), "2026-10-25T02:00Z", 1),
    ):
        assert span_of_period(values, berlin) == (us(begin), us(begin) + n_hours * HOUR)


_NAMES = st.from_regex(r"[0-9]{4}(-[0-9]{2}){0,3}")


@given(values=st.lists(st.one_of(st.text(max_size=9), _NAMES), max_size=4))
def test_any_text_is_a_period_or_none(values: list[str]) -> None:
    """Fuzz: folders are named by whoever writes into the lake."""
    found = span_of_period(tuple(values), "Pacific/Apia")
    assert found is None or found[1] - found[0] >= HOUR
