"""What a page shows of released indicators: a table of figures, and a chart of each with groups.

Pure functions of published values. Names are what others wrote, and are shown in one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracecloak.schemas.published.figure import LEGEND
from tracecloak.schemas.published.indicators import SHARE, IndicatorRow, ReleasedIndicators
from tracecloak.transforms.charts.axes import Axis, interval_words, value_words
from tracecloak.transforms.charts.charts import MANY, columns_chart, rows_chart
from tracecloak.transforms.charts.drawing import Drawing, box, line
from tracecloak.transforms.charts.panels import Panel, split
from tracecloak.transforms.models.dfg_labels import plain_name
from tracecloak.transforms.pages.page import PagePart

MAX_NUMBERS = 3_000
"""Numbers in all charts of a page; further ones are in the files."""

_MAX_ROWS = 40  # of a chart with a label on each
_MAX_COLUMNS = 1_000
_BAR_WIDTH, _BAR_HEIGHT = 150.0, 16.0
_OF_A_SHARE = Axis(0.0, 1.0, ())


@dataclass(frozen=True)
class ShownNumber:
    """A number as a page prints it.

    Attributes:
        name: What it is of.
        value: It, with its unit.
        interval: Its interval of 95 %.
        grade: How sure it is.
        bar: A small drawing of a share; None: it is no share.
    """

    name: str
    value: str
    interval: str
    grade: str
    bar: Drawing | None = None


@dataclass(frozen=True)
class ShownPanel:
    """A chart with the table under it.

    Attributes:
        drawing: The chart.
        notes: What must be known to read it, in sentences.
        numbers: What is drawn, as a table.
        is_wide: Whether it takes the whole width of the page.
    """

    drawing: Drawing
    notes: str
    numbers: tuple[ShownNumber, ...]
    is_wide: bool


def indicators_part(indicators: ReleasedIndicators, params: Mapping[str, Any]) -> PagePart:
    """Returns the part of the page of a release that shows its indicators.

    Args:
        indicators: What was released.
        params: What was asked for, as in the manifest: `indicators` with their bounds, and
            `calendar_time_zone`; what is not there is not said.
    """
    rows = indicators.rows()
    alone, panels = split(rows)
    shown: list[ShownPanel] = []
    n_shown = 0
    for panel in panels:
        n_shown += min(len(panel.rows), _most(panel))
        if n_shown > MAX_NUMBERS:
            break
        shown.append(_shown_panel(panel))
    n_drawn = len(alone[:MAX_NUMBERS]) + sum(len(panel.numbers) for panel in shown)
    context = {
        "numbers": [_shown(row, row.indicator) for row in alone[:MAX_NUMBERS]],
        "panels": shown,
        "legend": LEGEND,
        "n_left_out": len(rows) - n_drawn,
        "has_arrows": any(
            shape.attributes["class"].startswith("beyond")
            for panel in shown
            for shape in panel.drawing.shapes
        ),
        "asked": _asked(params),
        "time_zone": _time_zone(panels, params),
    }
    sections = (("indicators", "Figures"),)
    return PagePart("indicators.html.j2", sections, context, ("figures.css", "indicators.css"))


def _asked(params: Mapping[str, Any]) -> list[str]:
    """What was asked for, each in a line; what is no text there is a mapping of keys."""
    asked = params.get("indicators")
    listed = asked if isinstance(asked, list | tuple) else []
    return [
        plain_name(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False))
        for one in listed
    ]


def _time_zone(panels: Sequence[Panel], params: Mapping[str, Any]) -> str:
    """By whose clock periods are, if there are some and it is known."""
    has_periods = any(panel.form == "time" for panel in panels)
    return plain_name(str(params.get("calendar_time_zone") or "")) if has_periods else ""


def _most(panel: Panel) -> int:
    """How many numbers of a panel are shown at most."""
    return _MAX_ROWS if panel.form in ("rows", "quantiles") else _MAX_COLUMNS


def _shown(row: IndicatorRow, name: str) -> ShownNumber:
    plain = plain_name(name)
    bar = _share_bar(row, plain) if row.unit == SHARE else None
    return ShownNumber(plain, value_words(row), interval_words(row), row.grade, bar)


def _share_bar(row: IndicatorRow, name: str) -> Drawing:
    """A share of the whole, with its interval."""
    quiet = f" {row.grade}"
    value, low, high = (
        _BAR_WIDTH * _OF_A_SHARE.share(number) for number in (row.value, row.low, row.high)
    )
    middle = _BAR_HEIGHT / 2
    shapes = (
        box("track", 0, 3, _BAR_WIDTH, _BAR_HEIGHT - 6),
        box(f"extent{quiet}", 0, 3, value, _BAR_HEIGHT - 6),
        line(f"whisker{quiet}", low, middle, high, middle),
        *(line(f"whisker{quiet}", x, middle - 4, x, middle + 4) for x in (low, high)),
    )
    description = f"{value_words(row)}, the interval goes from {interval_words(row)}"
    return Drawing(_BAR_WIDTH, _BAR_HEIGHT, name, description, shapes)


def _shown_panel(panel: Panel) -> ShownPanel:
    n = min(len(panel.rows), _most(panel))
    rows, labels = panel.rows[:n], tuple(map(plain_name, panel.labels[:n]))
    title = plain_name(panel.indicator) + (f": {plain_name(panel.of)}" if panel.of else "")
    description = _description(panel, rows)
    if panel.form in ("rows", "quantiles"):
        drawing = rows_chart(title, rows, labels, description, is_dotted=panel.form == "quantiles")
    else:
        edges = panel.edges[: n + 1]
        drawing = columns_chart(title, rows, labels, description, edges=edges)
    numbers = tuple(
        ShownNumber(label, value_words(row), interval_words(row), row.grade)
        for row, label in zip(rows, labels, strict=True)
    )
    is_wide = panel.form in ("time", "histogram") and n > MANY
    return ShownPanel(drawing, _notes(panel, n), numbers, is_wide)


_DRAWN = {
    "rows": "bars, in the order of the release",
    "time": "columns, in the order of time",
    "histogram": "columns, from the smallest to the largest",
    "quantiles": "points, from the lowest quantile to the highest",
}


def _description(panel: Panel, rows: Sequence[IndicatorRow]) -> str:
    least, most = min(rows, key=lambda row: row.value), max(rows, key=lambda row: row.value)
    n_noise = sum(row.grade == "noise" for row in rows)
    noise = f" {n_noise:,} of them are noise, and grey." if n_noise else ""
    return (
        f"{len(rows):,} {_DRAWN[panel.form]}, from {value_words(least)} to {value_words(most)}, "
        f"each with its interval. The table below has the same numbers.{noise}"
    )


def _notes(panel: Panel, n_shown: int) -> str:
    notes = []
    if panel.form == "histogram":
        notes.append("What lies beyond the first or the last edge counts in the column next to it.")
    if panel.form == "quantiles":
        notes.append("At 0.9, nine of ten cases have so much or less.")
    if n_shown < len(panel.rows):
        notes.append(f"{len(panel.rows) - n_shown:,} more are in the files.")
    return " ".join(notes)
