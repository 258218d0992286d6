"""Durations and moments as texts: what is read, what is refused, and durations in words."""

from __future__ import annotations

import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.calendar.time_texts import duration_text, duration_us, moment_us


@pytest.mark.parametrize(
    ("text", "micros"),
    [("5ms", 5_000), ("1.5s", 1_500_000), ("30m", 18 * 10**8), ("6h", 216 * 10**8),
     ("90d", 7_776 * 10**9), (" 2 w ", 12_096 * 10**8), ("0s", 0)],
)  # fmt: skip
def test_a_duration_is_a_number_with_a_unit(text: str, micros: int) -> None:
    assert duration_us(text) == micros


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1y", "1 month", "0.0001ms", 90, None])
def test_what_is_no_duration_is_told_what_one_is(text: object) -> None:
    with pytest.raises(ValueError, match=r"such as 90s|whole number of milliseconds"):
        duration_us(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("0s", "0 seconds"), ("1s", "1 second"), ("1500ms", "1.5 seconds"),
     ("90m", "1 hour 30 minutes"),
     ("2w", "14 days"), ("25h", "1 day 1 hour"), ("900d", "900 days"), ("1ms", "0.001 seconds")],
)  # fmt: skip
def test_a_duration_is_said_in_words(text: str, words: str) -> None:
    assert duration_text(duration_us(text)) == words


@given(st.integers(0, 10**9).map(lambda seconds: seconds * 10**6))
def test_the_words_add_up_to_the_duration(micros: int) -> None:
    units = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
    said = re.findall(r"(\d+) (day|hour|minute|second)s?", duration_text(micros))
    assert sum(int(n) * units[unit] for n, unit in said) * 10**6 == micros
    assert [unit for _, unit in said] == [u for u in units if u in {unit for _, unit in said}]


@pytest.mark.parametrize(
    ("value", "micros"),
    [("1970-01-02", 864 * 10**8), ("1970-01-01T01:00", 36 * 10**8),
     ("1970-01-01T01:00+01:00", 0), (datetime.date(1970, 1, 2), 864 * 10**8),
     (datetime.datetime(1970, 1, 1, 1), 36 * 10**8)],
)  # fmt: skip
def test_a_moment_without_an_offset_is_in_utc(value: object, micros: int) -> None:
    assert moment_us(value) == micros


@pytest.mark.parametrize("value", ["", "January", "1970-13-01", "1970-01-01T00:00:00.0001"])
def test_what_is_no_moment_is_told_what_one_is(value: str) -> None:
    with pytest.raises(ValueError, match=r"such as 2026-12-01|whole number of milliseconds"):
        moment_us(value)
