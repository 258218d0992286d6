"""What a page shows of released indicators: a table of figures, and a chart of each with groups.

Pure functions of published values. Names are what others wrote, and are shown in one line. Groups
are texts, and say themselves what they are: 2026-01 is a month, 0.5 a quantile, and what goes from
`0 seconds to 6 days` a column of a histogram whose next one begins where it ends. Several of these
in one indicator stand behind a comma: `Triage, 0.5`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

from tracecloak.schemas.published.figures import LEGEND, IndicatorRow, ReleasedIndicators
from tracecloak.transforms.models.dfg_svg import plain_name
from tracecloak.transforms.pages.charts import Chart, Form, interval_words, value_words
from tracecloak.transforms.pages.page import PagePart

MAX_NUMBERS = 3_000
"""Numbers in all charts of a page; further ones are in the files."""

# How many numbers a chart has at most, by how they are drawn.
_MOST = {"rows": 40, "time": 1_000, "histogram": 1_000, "quantiles": 40}


def indicators_part(indicators: ReleasedIndicators, params: Mapping[str, Any]) -> PagePart:
    """Returns the part of the page of a release that shows its indicators.

    Args:
        indicators: What was released.
        params: What was asked for, as in the manifest: `indicators` with their bounds, and
            `calendar_time_zone`; what is not there is not said.
    """
    rows = indicators.rows()
    alone, panels = split(rows)
    n_so_far = accumulate(min(len(panel.rows), _MOST[panel.form]) for panel in panels)
    shown = [_chart(panel) for panel, n in zip(panels, n_so_far, strict=True) if n <= MAX_NUMBERS]
    numbers = [
        Chart(plain_name(row.indicator), "share", (row,), ("",)) for row in alone[:MAX_NUMBERS]
    ]
    asked = params.get("indicators")
    zone = params.get("calendar_time_zone") or ""
    context = {
        "numbers": numbers,
        "panels": shown,
        "value_words": value_words,
        "interval_words": interval_words,
        "legend": LEGEND,
        "n_left_out": len(rows) - sum(len(chart.numbers) for chart in (*numbers, *shown)),
        "has_arrows": any(
            chart.axis.is_beyond(end)
            for chart in shown
            for _, row in chart.numbers
            for end in (row.low, row.high)
        ),
        # What is no text there is a mapping of keys.
        "asked": [
            plain_name(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False))
            for one in (asked if isinstance(asked, list | tuple) else ())
        ],
        "time_zone": plain_name(str(zone)) if any(p.form == "time" for p in panels) else "",
    }
    sections = (("indicators", "Figures"),)
    return PagePart("indicators.html.j2", sections, context, ("figures.css", "indicators.css"))


def _chart(panel: Panel) -> Chart:
    n = min(len(panel.rows), _MOST[panel.form])
    title = plain_name(panel.rows[0].indicator) + (f": {plain_name(panel.of)}" if panel.of else "")
    labels, n_more = list(map(plain_name, panel.labels[:n])), len(panel.rows) - n
    return Chart(title, panel.form, panel.rows[:n], labels, panel.edges[: n + 1], n_more)


_PERIOD = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?|-Q[1-4]|-W[0-9]{2})?", re.ASCII)
_QUANTILE = re.compile(r"0\.[0-9]{1,30}", re.ASCII)
_FEW = 2  # digits of a number after which a smaller unit says little
_UNITS = re.compile(r" (?:day|hour|minute|second)s?\b")


@dataclass(frozen=True)
class Panel:
    """Numbers of one unit that one chart shows.

    Attributes:
        rows: The numbers, in the order of the release.
        of: Which of the groups of their indicator they are of; empty: all.
        labels: Of each.
        form: How they are drawn.
        edges: Where the columns of a histogram begin, and the last one ends, in few letters.
    """

    rows: list[IndicatorRow]
    of: str
    labels: list[str]
    form: Form
    edges: tuple[str, ...] = ()


def split(rows: Sequence[IndicatorRow]) -> tuple[list[IndicatorRow], list[Panel]]:
    """Returns the figures that stand alone, and the panels of all others, each in their order."""
    alone: list[IndicatorRow] = []
    panels: list[Panel] = []
    for _, group in groupby(rows, lambda row: (row.indicator, row.unit)):
        numbers = list(group)
        alone += [row for row in numbers if row.group is None]
        grouped = [row for row in numbers if row.group is not None]
        if grouped:
            panels += _panels_of(grouped)
    return alone, panels


def _panels_of(rows: list[IndicatorRow]) -> list[Panel]:
    """The panels of one indicator that has groups."""
    labels = [row.group or "" for row in rows]
    parts = [(head, tail) for head, _, tail in (label.rpartition(", ") for label in labels)]
    if all(_QUANTILE.fullmatch(tail) for _, tail in parts):
        if not any(head for head, _ in parts):
            return [Panel(rows, "", labels, "quantiles")]
        # Each quantile of all groups is comparable, and no two quantiles of one group are.
        by_quantile = _by(rows, [(tail, head) for head, tail in parts])
        return [Panel(*panel, _form_of(panel[2])) for panel in by_quantile]
    if rows[0].unit == "cases":
        by_head = [Panel(*panel, "histogram", _edges(panel[2])) for panel in _by(rows, parts)]
        if all(panel.edges for panel in by_head):
            return by_head
    return [Panel(rows, "", labels, _form_of(labels))]


def _by(
    rows: Sequence[IndicatorRow], parts: Sequence[tuple[str, str]]
) -> list[tuple[list[IndicatorRow], str, list[str]]]:
    """Rows, name and labels of each first part of the groups, in the order in which they come."""
    found: dict[str, tuple[list[IndicatorRow], list[str]]] = {}
    for row, (name, label) in zip(rows, parts, strict=True):
        group, labels = found.setdefault(name, ([], []))
        group.append(row)
        labels.append(label)
    return [(group, name, labels) for name, (group, labels) in found.items()]


def _form_of(labels: Sequence[str]) -> Form:
    is_time = all(_PERIOD.fullmatch(label) for label in labels)
    return "time" if is_time and all(a < b for a, b in pairwise(labels)) else "rows"


def _edges(labels: Sequence[str]) -> tuple[str, ...]:
    """Where columns of a histogram begin, and the last one ends, in few letters; empty: of none."""
    ends = [label.partition(" to ")[::2] for label in labels]
    is_chain = len(ends) > 1 and all(a[1] == b[0] for a, b in pairwise(ends))
    if not is_chain or not all(first and last for first, last in ends):
        return ()
    return tuple(map(_short, [*(first for first, _ in ends), ends[-1][1]]))


def _short(text: str) -> str:
    """A duration in words with letters as units, of which one or two are enough: `6 d 12 h`."""
    if text == "0 seconds":
        return "0"
    letters = _UNITS.sub(lambda unit: " min" if unit[0][1] == "m" else f" {unit[0][1]}", text)
    parts = letters.split(" ")
    return text if letters == text else " ".join(parts[: 2 if len(parts[0]) > _FEW else 4])
