"""Indicators on a page: every number and its interval, in places that its value says.

Which numbers are drawn together, and as what; numbers in words, and the axes that they stand on.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pages import Read
from tests.transforms.publish.test_report import made_up
from tracecloak.schemas.published.figures import IndicatorRow, ReleasedIndicators
from tracecloak.transforms.pages import indicators_part as part_module
from tracecloak.transforms.pages.charts import (
    LETTER,
    MANY,
    Axis,
    interval_words,
    time_words,
    value_words,
)
from tracecloak.transforms.pages.indicators_part import indicators_part, split
from tracecloak.transforms.pages.page import PagePart
from tracecloak.transforms.publish.report import report_html

NASTY = "</svg></title><script>alert(1)</script> \" ' & \u202e\x00"


def row(
    indicator: str, group: str | None, value: float, low: float, high: float, unit: str = "cases"
) -> IndicatorRow:
    return IndicatorRow(indicator, group, value, low, high, unit, "measured")


EVERY_FORM = [
    row("cases", None, 100, 90, 110),
    row("in time", None, 0.5, 0.45, 0.55, "share"),
    row("on time", None, 0.5, 0.1, 0.9, "share"),
    row("with", "Admission", 40, 30, 50),
    row("with", "CRP", 80, 70, 90),
    row("by month", "2026-01", 60, 50, 70),
    row("by month", "2026-02", 0, 0, 10),
    row("histogram", "0 seconds to 1 hour", 30, 20, 40),
    row("histogram", "1 hour to 2 hours", 60, 50, 70),
    row("quantiles", "0.5", 3600, 3000, 4000, "s"),
    row("quantiles", "0.9", 7200, 7000, 7500, "s"),
]


def part_of(rows: list[IndicatorRow]) -> PagePart:
    return indicators_part(ReleasedIndicators.of(rows), {})


def page(rows: list[IndicatorRow], **params: object) -> str:
    manifest = made_up(params=params)
    return report_html(manifest, (), [ReleasedIndicators.of(rows)], None).decode()


def pictures(text: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def shapes(drawing: ET.Element, kind: str) -> list[ET.Element]:
    return [shape for shape in drawing if shape.get("class", "").partition(" ")[0] == kind]


def number_in(shape: ET.Element, name: str) -> float:
    return float(shape.attrib[name])


def test_every_picture_says_what_it_is_to_those_who_do_not_see_it() -> None:
    drawn = pictures(page(EVERY_FORM))
    assert len(drawn) == 2 + 4
    ids = [node.get("id") for svg in drawn for node in svg.iter() if node.get("id")]
    assert len(set(ids)) == len(ids)
    for svg in drawn:
        title, description = svg.find("title"), svg.find("desc")
        assert title is not None and description is not None and title.text and description.text
        assert svg.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert svg.get("role") == "img"
    assert drawn[2].findtext("desc") == (
        "2 bars, in the order of the release, from 40 cases to 80 cases, each with its interval. "
        "The table below has the same numbers."
    )


def test_bars_are_as_long_as_their_numbers_and_whiskers_as_their_intervals() -> None:
    panels = pictures(page(EVERY_FORM))[2:]
    widths = [number_in(bar, "width") for bar in shapes(panels[0], "extent")]
    assert widths[1] == pytest.approx(2 * widths[0], rel=1e-3)
    whisker = shapes(panels[0], "whisker")[0]
    length = number_in(whisker, "x2") - number_in(whisker, "x1")
    assert length == pytest.approx(widths[0] / 2, rel=1e-3)  # 30 to 50 of 40
    heights = [number_in(column, "height") for column in shapes(panels[2], "extent")]
    assert heights[1] == pytest.approx(2 * heights[0], rel=1e-3)
    dots = [number_in(dot, "cx") for dot in shapes(panels[3], "dot")]
    assert dots[1] - 14 == pytest.approx(2 * (dots[0] - 14), rel=1e-3)


def test_the_page_says_what_was_asked_for_and_by_whose_clock() -> None:
    asked = ["throughput at_most=60d", {"indicator": "cases", "name": NASTY}]
    text = page(EVERY_FORM, indicators=asked, calendar_time_zone="Europe/Berlin")
    assert "<li><code>throughput at_most=60d</code></li>" in text
    assert "<script>alert" not in text and "Periods are by the clock of Europe/Berlin." in text
    without = page(EVERY_FORM[:2], calendar_time_zone="UTC")
    assert "with its bounds" not in without and "by the clock" not in without


def test_names_do_no_harm_on_the_page() -> None:
    """Catches a name that becomes markup, in a title, a label, a table or a picture."""
    rows = [
        row(NASTY, None, 0.5, 0.45, 0.55, "share"),
        *(row(f"by {NASTY}", f"{NASTY}{i}", 5, 4, 6) for i in range(2)),
        *(row(f"at {NASTY}", f"{NASTY}, 0.{i}", 5, 4, 6, "s") for i in (5, 9)),
        *(row(f"of {NASTY}", f"{NASTY}, {b}", 5, 4, 6) for b in ("0 to 1", "1 to 2")),
    ]
    text = page(rows)
    assert "<script>alert" not in text and "\u202e" not in text and "\x00" not in text
    scripts = re.findall(r"<script", page(EVERY_FORM))
    assert len(re.findall(r"<script", text)) == len(scripts)
    said = {"".join(svg.findtext("title") or "") for svg in pictures(text)}
    assert any("<script>alert(1)</script>" in title for title in said)  # as a text, in full

    elements = Read(text.partition('<h2 id="promise">')[0]).elements
    assert not any(name.startswith("on") for _, attributes in elements for name in attributes)
    assert {"svg", "script"} & {tag for tag, _ in elements} == {"svg"}


def test_long_lists_are_cut_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("with", f"name {i}", 5, 4, 6) for i in range(45)]
    panel = part_of(rows).context["panels"][0]
    assert len(panel.numbers) == 40 and panel.n_more == 5
    assert not panel.is_wide
    days = [row("by day", f"2026-{m:02}-{d:02}", 5, 4, 6) for m in (1, 2) for d in range(1, 29)]
    wide = part_of(days).context["panels"][0]
    assert wide.is_wide and len(days) > MANY
    monkeypatch.setattr(part_module, "MAX_NUMBERS", 50)
    both = part_of([*rows, *days]).context
    assert [len(panel.numbers) for panel in both["panels"]] == [40]
    assert both["n_left_out"] == 5 + 56
    assert "61 more are in <code>indicators.parquet</code>" in page([*rows, *days])


def test_no_text_below_columns_lies_on_another() -> None:
    edges = [f"{923 * n} days 15 hours" for n in range(13)]
    rows = [row("histogram", f"{a} to {b}", 5, 4, 6) for a, b in pairwise(edges)]
    [panel] = pictures(page(rows))
    below = [text for text in shapes(panel, "tick") if number_in(text, "y") > 190]
    spans = [(number_in(text, "x"), LETTER * len(text.text or "") / 2) for text in below]
    assert len(spans) >= 3
    for (x, half), (next_x, next_half) in pairwise(spans):
        assert x + half <= next_x - next_half
    assert spans[-1][0] + spans[-1][1] <= number_in(panel, "width")


def test_none_came_out_and_the_page_is_there() -> None:
    text = page([])
    assert 'id="indicators"' in text and "<svg" not in text


# --- Which numbers are drawn together, by their groups alone --------------------------------------


def of_groups(indicator: str, *groups: str | None, unit: str = "s") -> list[IndicatorRow]:
    return [row(indicator, group, 2.0, 1.0, 3.0, unit) for group in groups]


BINS = ("0 seconds to 6 days", "6 days to 12 days", "12 days to 18 days")


def test_groups_say_how_they_are_drawn() -> None:
    for groups, unit, shown in [
        (("2026-01", "2026-02"), "cases", [("time", "", ("2026-01", "2026-02"))]),
        (("2026-Q1", "2026-Q2"), "s", [("time", "", ("2026-Q1", "2026-Q2"))]),
        (("2025-W52", "2026-W01"), "s", [("time", "", ("2025-W52", "2026-W01"))]),
        # In no order of time.
        (("2026-02", "2026-01"), "s", [("rows", "", ("2026-02", "2026-01"))]),
        (("Admission", "CRP"), "s", [("rows", "", ("Admission", "CRP"))]),
        (("0.25", "0.5"), "s", [("quantiles", "", ("0.25", "0.5"))]),
        (("2026-01, 0.25", "2026-01, 0.5", "2026-02, 0.25", "2026-02, 0.5"), "s",
         [("time", of, ("2026-01", "2026-02")) for of in ("0.25", "0.5")]),
        (("a, b, 0.5", "c, 0.5"), "", [("rows", "0.5", ("a, b", "c"))]),
        (BINS, "cases", [("histogram", "", BINS)]),
        (("0 to 2.5", "2.5 to 5"), "cases", [("histogram", "", ("0 to 2.5", "2.5 to 5"))]),
        (tuple(f"{name}, {bin_}" for name in "AB" for bin_ in BINS), "cases",
         [("histogram", "A", BINS), ("histogram", "B", BINS)]),
        # Names that only look like it: what follows does not begin where the one before ends.
        (("A to B", "C to D"), "cases", [("rows", "", ("A to B", "C to D"))]),
        (BINS[:1], "cases", [("rows", "", BINS[:1])]),
    ]:  # fmt: skip
        alone, panels = split(of_groups("figure", *groups, unit=unit))
        assert not alone
        assert [(panel.form, panel.of, tuple(panel.labels)) for panel in panels] == shown


def test_figures_without_groups_stand_alone_and_nothing_is_lost() -> None:
    released = [
        *of_groups("cases", None, unit="cases"),
        *of_groups("by month", "2026-01", "2026-02"),
        *of_groups("rework", None, unit="share"),
        *of_groups("quantiles", "A, 0.5", "A, 0.9", "B, 0.5", "B, 0.9"),
    ]
    alone, panels = split(released)
    assert [row.indicator for row in alone] == ["cases", "rework"]
    drawn = [row for panel in panels for row in panel.rows]
    assert sorted(map(id, [*alone, *drawn])) == sorted(map(id, released))


def test_the_edges_of_a_histogram_are_short() -> None:
    groups = ("0 seconds to 2 days 9 hours 36 minutes", "2 days 9 hours 36 minutes to 1 minute")
    [panel] = split(of_groups("figure", *groups, unit="cases"))[1]
    assert panel.edges == ("0", "2 d 9 h", "1 min")
    days = "923 days 15 hours 2 minutes"
    [panel] = split(
        of_groups("figure", f"0 seconds to {days}", f"{days} to 10 seconds", unit="cases")
    )[1]
    assert panel.edges == ("0", "923 d", "10 s")
    assert split(of_groups("figure", "A", "B"))[1][0].edges == ()


# --- Numbers in words, and axes -------------------------------------------------------------------


HOUR, DAY = 3_600.0, 86_400.0
UNITS = ("share", "s", "cases", "")


def number(value: float, low: float, high: float, unit: str = "cases") -> IndicatorRow:
    return row("figure", None, value, low, high, unit)


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
    for one, value, interval in [
        (number(4982, 4953.9, 5010.3), "4,982 cases", "4,954\u20135,010"),
        (number(1, 0, 3), "1 case", "0\u20133"),
        (number(0.9433, 0.9393, 0.9474, "share"), "94.3 %", "93.9\u201394.7 %"),
        (number(0.0012, 0, 0.004, "share"), "0.12 %", "0.0\u20130.4 %"),
        (number(2.1 * DAY, 1.8 * DAY, 2.4 * DAY, "s"), "2.1 days", "1.8 days to 2.4 days"),
        (number(2 * HOUR, HOUR, 3 * DAY, "s"), "2 h", "1 h to 3 days"),
        (number(12.3456, 11, 13.5, ""), "12.35", "11\u201313.5"),
        (number(123456.7, 1e5, 2e5, ""), "123,457", "100,000\u2013200,000"),
    ]:
        assert (value_words(one), interval_words(one)) == (value, interval)


def test_an_axis_has_a_few_round_numbers_from_nought_on() -> None:
    for rows, ticks in [
        ([number(174, 144, 204), number(108, 78, 137)], ["0", "50", "100", "150", "200", "250"]),
        ([number(0.94, 0.9, 0.98, "share")], ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        ([number(0.02, 0.015, 0.024, "share")], ["0 %", "0.5 %", "1 %", "1.5 %", "2 %", "2.5 %"]),
        ([number(20 * HOUR, 18 * HOUR, 22 * HOUR, "s")], ["0", "6 h", "12 h", "18 h", "24 h"]),
        ([number(6.8 * DAY, 5 * DAY, 9 * DAY, "s")], ["0", "2 d", "4 d", "6 d", "8 d", "10 d"]),
        # Steps of days are for times: a count as large has those of numbers.
        ([number(6.8 * DAY, 5 * DAY, 9 * DAY)], ["0", *(f"{n},000" for n in range(200, 801, 200))]),
        ([number(250 * DAY, 2 * DAY, 450 * DAY, "s")], ["0", "100 d", "200 d", "300 d", "400 d"]),
        ([number(900 * DAY, 9 * DAY, 990 * DAY, "s")],
         ["0", "200 d", "400 d", "600 d", "800 d", "1,000 d"]),
        ([number(0, 0, 0)], ["0", "1"]),
        ([number(-3, -4, -2, "")], ["-4", "-3", "-2", "-1", "0"]),
    ]:  # fmt: skip
        assert [text for _, text in Axis.of(rows).ticks] == ticks


def test_an_interval_that_says_nothing_makes_no_other_small() -> None:
    """What is noise is cut at the end, and nothing else ever is."""
    sure, unsure = number(100, 90, 110), number(20, 0, 90_000)
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
        ends_of(unit).map(lambda ends: number(ends[1], ends[0], ends[2], unit)),
        min_size=1,
        max_size=8,
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
    for one in rows:
        assert not axis.is_beyond(one.value)
        if one.grade != "noise":
            assert not axis.is_beyond(one.low) and not axis.is_beyond(one.high)


def test_numbers_that_nobody_counts_break_no_axis() -> None:
    for value in [float("nan"), float("inf"), 1e308]:
        axis = Axis.of([number(value, -value, value), number(3, 1, 4)])
        assert 0 <= axis.share(value) <= 1 and len(axis.ticks) <= 8
