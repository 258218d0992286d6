"""What is drawn together: the numbers of an indicator, in the shape that its groups ask for.

Groups are texts, and say themselves what they are: 2026-01 is a month, 0.5 a quantile, and what
goes from `0 seconds to 6 days` a column of a histogram whose next one begins where it ends. Several
of these in one indicator stand behind a comma: `Triage, 0.5`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from tracecloak.schemas.published.indicators import IndicatorRow

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
    if all(map(_is_quantile, tails)):
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


def _is_quantile(text: str) -> bool:
    return _QUANTILE.fullmatch(text) is not None


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
