"""Numbers in words, and the axes that they stand on."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.schemas.published.figures import IndicatorRow
from tracecloak.transforms.pages.charts import Axis, interval_words, time_words, value_words

HOUR, DAY = 3_600.0, 86_400.0
UNITS = ("share", "s", "cases", "")


def row(value: float, low: float, high: float, unit: str = "cases") -> IndicatorRow:
    return IndicatorRow("figure", None, value, low, high, unit, "measured")


def test_a_time_is_told_in_the_units_that_people_use() -> None:
    for seconds, words in [
        (0, "0 s"),
        (0.123, "0.12 s"),
        (45, "45 s"),
        (59.7, "1 min"),
        (614.2, "10 min 14 s"),
        (3_599.6, "1 h"),
        (3 * HOUR + 20 * 60, "3 h 20 min"),
        (47.999 * HOUR, "48 h"),
        (2.1 * DAY, "2.1 days"),
        (3 * DAY, "3 days"),
        (1_234.5 * DAY, "1,234 days"),
        (-90, "\u22121 min 30 s"),
        (float("inf"), "unknown"),
    ]:
        assert time_words(seconds) == words


def test_a_number_and_its_interval_in_words() -> None:
    for number, value, interval in [
        (row(4982, 4953.9, 5010.3), "4,982 cases", "4,954\u20135,010"),
        (row(1, 0, 3), "1 case", "0\u20133"),
        (row(0.9433, 0.9393, 0.9474, "share"), "94.3 %", "93.9\u201394.7 %"),
        (row(0.0012, 0, 0.004, "share"), "0.12 %", "0.0\u20130.4 %"),
        (row(2.1 * DAY, 1.8 * DAY, 2.4 * DAY, "s"), "2.1 days", "1.8 days to 2.4 days"),
        (row(2 * HOUR, HOUR, 3 * DAY, "s"), "2 h", "1 h to 3 days"),
        (row(12.3456, 11, 13.5, ""), "12.35", "11\u201313.5"),
        (row(123456.7, 1e5, 2e5, ""), "123,457", "100,000\u2013200,000"),
    ]:
        assert (value_words(number), interval_words(number)) == (value, interval)


def test_an_axis_has_a_few_round_numbers_from_nought_on() -> None:
    for rows, ticks in [
        ([row(174, 144, 204), row(108, 78, 137)], ["0", "50", "100", "150", "200", "250"]),
        ([row(0.94, 0.9, 0.98, "share")], ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        ([row(0.02, 0.015, 0.024, "share")], ["0 %", "0.5 %", "1 %", "1.5 %", "2 %", "2.5 %"]),
        ([row(20 * HOUR, 18 * HOUR, 22 * HOUR, "s")], ["0", "6 h", "12 h", "18 h", "24 h"]),
        ([row(6.8 * DAY, 5 * DAY, 9 * DAY, "s")], ["0", "2 d", "4 d", "6 d", "8 d", "10 d"]),
        # Steps of days are for times: a count as large has those of numbers.
        (
            [row(6.8 * DAY, 5 * DAY, 9 * DAY)],
            [f"{n},000" if n else "0" for n in range(0, 801, 200)],
        ),
        (
            [row(250 * DAY, 2 * DAY, 450 * DAY, "s")],
            ["0", "100 d", "200 d", "300 d", "400 d"],
        ),
        (
            [row(900 * DAY, 9 * DAY, 990 * DAY, "s")],
            ["0", "200 d", "400 d", "600 d", "800 d", "1,000 d"],
        ),
        ([row(0, 0, 0)], ["0", "1"]),
        ([row(-3, -4, -2, "")], ["-4", "-3", "-2", "-1", "0"]),
    ]:
        assert [text for _, text in Axis.of(rows).ticks] == ticks


def test_an_interval_that_says_nothing_makes_no_other_small() -> None:
    """What is noise is cut at the end, and nothing else ever is."""
    sure, unsure = row(100, 90, 110), row(20, 0, 90_000)
    axis = Axis.of([sure, unsure])
    assert unsure.grade == "noise"
    assert axis.most <= 200 and axis.is_beyond(unsure.high) and axis.share(unsure.high) == 1
    assert not axis.is_beyond(sure.high)
    alone = Axis.of([unsure])
    assert alone.most < 100 and alone.share(20) > 0.4


def ends_of(unit: str) -> st.SearchStrategy[list[float]]:
    """Low, value and high; of shares between 0 and 1, and of all others as large as a census."""
    numbers = st.floats(0, 1) if unit == "share" else st.floats(-1e10, 1e10)
    return st.lists(numbers, min_size=3, max_size=3).map(sorted)


ROWS = st.sampled_from(UNITS).flatmap(
    lambda unit: st.lists(
        ends_of(unit).map(lambda ends: row(ends[1], ends[0], ends[2], unit)), min_size=1, max_size=8
    )
)


@given(ROWS)
def test_all_numbers_lie_on_an_axis_and_the_clear_intervals_whole(
    rows: list[IndicatorRow],
) -> None:
    axis = Axis.of(rows)
    assert axis.least <= 0 <= axis.most and axis.least < axis.most
    assert len(axis.ticks) <= 8
    places = [tick for tick, _ in axis.ticks]
    assert (places[0], places[-1]) == pytest.approx((axis.least, axis.most))
    assert all(a < b for a, b in pairwise(places))
    assert len({text for _, text in axis.ticks}) == len(places)
    for number in rows:
        assert not axis.is_beyond(number.value)
        if number.grade != "noise":
            assert not axis.is_beyond(number.low) and not axis.is_beyond(number.high)


def test_numbers_that_nobody_counts_break_no_axis() -> None:
    for value in [float("nan"), float("inf"), 1e308]:
        axis = Axis.of([row(value, -value, value), row(3, 1, 4)])
        assert 0 <= axis.share(value) <= 1 and len(axis.ticks) <= 8
