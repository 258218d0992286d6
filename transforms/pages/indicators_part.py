"""What a page shows of released indicators: a table of figures, and a chart of each with groups.

Pure functions of published values. Names are what others wrote, and are shown in one line. Groups
are texts, and say themselves what they are: 2026-01 is a month, 0.5 a quantile, and what goes from
`0 seconds to 6 days` a column of a histogram whose next one begins where it ends. Several of these
in one indicator stand behind a comma: `Triage, 0.5`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Literal

from tracecloak.schemas.published.figures import LEGEND, SHARE, IndicatorRow, ReleasedIndicators
from tracecloak.transforms.models.dfg_svg import plain_name
from tracecloak.transforms.pages.charts import (
    MANY,
    Axis,
    Drawing,
    box,
    columns_chart,
    interval_words,
    line,
    rows_chart,
    value_words,
)
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


Form = Literal["rows", "time", "histogram", "quantiles"]

_PERIOD = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?|-Q[1-4]|-W[0-9]{2})?", re.ASCII)
_QUANTILE = re.compile(r"0\.[0-9]{1,30}", re.ASCII)
_FEW = 2  # digits of a number after which a smaller unit says little
_UNITS = re.compile(r" (?:day|hour|minute|second)s?\b")


@dataclass(frozen=True)
class Panel:
    """Numbers of one unit that one chart shows.

    Attributes:
        indicator: What they say.
        of: Which of its groups they are of; empty: all.
        form: How they are drawn.
        rows: The numbers, in the order of the release.
        labels: Of each.
    """

    indicator: str
    of: str
    form: Form
    rows: tuple[IndicatorRow, ...]
    labels: tuple[str, ...]

    @property
    def edges(self) -> tuple[str, ...]:
        """Where the columns of a histogram begin, and the last one ends, in few letters."""
        if self.form != "histogram":
            return ()
        ends = [pair for pair in map(_ends, self.labels) if pair is not None]
        return tuple(map(_short, [first for first, _ in ends] + [ends[-1][1]]))


def split(rows: Sequence[IndicatorRow]) -> tuple[list[IndicatorRow], list[Panel]]:
    """Returns the figures that stand alone, and the panels of all others, each in their order."""
    alone: list[IndicatorRow] = []
    panels: list[Panel] = []
    for _, of_one in groupby(rows, lambda row: (row.indicator, row.unit)):
        numbers = list(of_one)
        alone += [row for row in numbers if row.group is None]
        grouped = [row for row in numbers if row.group is not None]
        if grouped:
            panels += _panels_of(grouped)
    return alone, panels


def _panels_of(rows: list[IndicatorRow]) -> list[Panel]:
    """The panels of one indicator that has groups."""
    parts = [_parted(row.group or "") for row in rows]
    tails = [tail for _, tail in parts]
    if all(map(_QUANTILE.fullmatch, tails)):
        if not any(head for head, _ in parts):
            return [_panel(rows, "", tails, "quantiles")]
        # Each quantile of all groups is comparable, and no two quantiles of one group are.
        return _by(rows, parts, lambda head_tail: head_tail[1], lambda head_tail: head_tail[0])
    if all(map(_ends, tails)) and rows[0].unit == "cases":
        by_head = _by(rows, parts, lambda head_tail: head_tail[0], lambda head_tail: head_tail[1])
        if all(_is_histogram(panel.labels) for panel in by_head):
            return [_panel(panel.rows, panel.of, panel.labels, "histogram") for panel in by_head]
    labels = [row.group or "" for row in rows]
    return [_panel(rows, "", labels, _form_of(labels))]


def _by(
    rows: Sequence[IndicatorRow],
    parts: Sequence[tuple[str, str]],
    key: Callable[[tuple[str, str]], str],
    label: Callable[[tuple[str, str]], str],
) -> list[Panel]:
    """A panel for each key of the parts of the groups, in the order in which they come first."""
    places: dict[str, list[int]] = {}
    for place, part in enumerate(parts):
        places.setdefault(key(part), []).append(place)
    panels = []
    for name, of_name in places.items():
        labels = [label(parts[place]) for place in of_name]
        of_rows = [rows[place] for place in of_name]
        panels.append(_panel(of_rows, name, labels, _form_of(labels)))
    return panels


def _panel(rows: Sequence[IndicatorRow], of: str, labels: Sequence[str], form: Form) -> Panel:
    return Panel(rows[0].indicator, of, form, tuple(rows), tuple(labels))


def _form_of(labels: Sequence[str]) -> Form:
    is_time = all(_PERIOD.fullmatch(label) for label in labels)
    return "time" if is_time and all(a < b for a, b in pairwise(labels)) else "rows"


def _parted(group: str) -> tuple[str, str]:
    head, _, tail = group.rpartition(", ")
    return head, tail


def _ends(label: str) -> tuple[str, str] | None:
    """From where to where a column of a histogram goes, in words."""
    first, to, last = label.partition(" to ")
    return (first, last) if to and first and last else None


def _short(text: str) -> str:
    """A duration in words with letters as units, of which one or two are enough: `6 d 12 h`."""
    if text == "0 seconds":
        return "0"
    letters = _UNITS.sub(lambda unit: " min" if unit[0][1] == "m" else f" {unit[0][1]}", text)
    parts = letters.split(" ")
    return text if letters == text else " ".join(parts[: 2 if len(parts[0]) > _FEW else 4])


def _is_histogram(labels: Sequence[str]) -> bool:
    ends = [pair for pair in map(_ends, labels) if pair is not None]
    return len(labels) > 1 and all(a[1] == b[0] for a, b in pairwise(ends))
