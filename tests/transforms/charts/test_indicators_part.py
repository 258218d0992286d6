"""Indicators on a page: every number and its interval, in places that its value says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from tests.transforms.publish.test_report import made_up
from tracecloak.schemas.published.figures import IndicatorRow, ReleasedIndicators
from tracecloak.transforms.pages import indicators_part as part_module
from tracecloak.transforms.pages.charts import LETTER, MANY, Drawing
from tracecloak.transforms.pages.indicators_part import indicators_part
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


def shapes(drawing: Drawing, kind: str) -> list[dict[str, str]]:
    return [
        dict(shape.attributes)
        for shape in drawing.shapes
        if shape.attributes["class"].split()[0] == kind
    ]


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
    panels = part_of(EVERY_FORM).context["panels"]
    bars = shapes(panels[0].drawing, "extent")
    widths = [float(bar["width"]) for bar in bars]
    assert widths[1] == pytest.approx(2 * widths[0], rel=1e-3)
    whisker = shapes(panels[0].drawing, "whisker")[0]
    length = float(whisker["x2"]) - float(whisker["x1"])
    assert length == pytest.approx(widths[0] / 2, rel=1e-3)  # 30 to 50 of 40
    columns = shapes(panels[2].drawing, "extent")
    heights = [float(column["height"]) for column in columns]
    assert heights[1] == pytest.approx(2 * heights[0], rel=1e-3)
    dots = [float(dot["cx"]) for dot in shapes(panels[3].drawing, "dot")]
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

    tags = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.add(tag)
            assert not any(name.startswith("on") for name, _ in attrs)

    Tags().feed(text.partition('<h2 id="promise">')[0])
    assert "svg" in tags and "script" not in tags


def test_long_lists_are_cut_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("with", f"name {i}", 5, 4, 6) for i in range(45)]
    panel = part_of(rows).context["panels"][0]
    assert len(panel.numbers) == 40 and panel.notes == "5 more are in the files."
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
    [panel] = part_of(rows).context["panels"]
    texts = [s for s in panel.drawing.shapes if s.attributes.get("class") == "tick"]
    below = [s for s in texts if float(s.attributes["y"]) > 190]
    spans = [(float(s.attributes["x"]), LETTER * len(s.text) / 2) for s in below]
    assert len(spans) >= 3
    for (x, half), (next_x, next_half) in pairwise(spans):
        assert x + half <= next_x - next_half
    assert spans[-1][0] + spans[-1][1] <= panel.drawing.width


def test_none_came_out_and_the_page_is_there() -> None:
    text = page([])
    assert 'id="indicators"' in text and "<svg" not in text
