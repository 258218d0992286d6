"""Released indicators beside the truth, for people: a table, and the one that is furthest off."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracecloak.schemas.published.indicators import IndicatorRow
from tracecloak.transforms.charts.charts import in_words, interval_words, value_words
from tracecloak.transforms.models.plain_names import plain_name

_MAX_ROWS = 1_000
_NOTHING = "-"
_HOLDS = {True: "yes", False: "no", None: _NOTHING}
_ACTIVE = re.compile(r"[\\`*_\[\]<>|~#&]")


def furthest_line(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields which row that is not noise is furthest off, in a sentence, where one can be judged.

    Args:
        rows: `JudgedRow.to_json` of each.
    """
    judged = [row for row in rows if row["usable"] and row["relative_error"] is not None]
    if not judged:
        return
    worst = max(judged, key=lambda row: row["relative_error"])
    name = ", ".join(plain_name(worst[key]) for key in ("indicator", "group") if worst[key])
    yield (
        f"Of the figures that are not noise, this one is furthest off: {name}, "
        f"{value_words(_row(worst))} where the log has {in_words(worst['truth'], worst['unit'])}."
    )


def figure_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields a section of Markdown with each row beside the truth.

    Args:
        rows: `JudgedRow.to_json` of each.
    """
    yield "## Each figure"
    yield ""
    yield (
        "The log's numbers are of all cases that count, with no bound: what a release cuts off at "
        "one lies beyond its interval. The grade is what the release says of its own number."
    )
    yield ""
    yield "| figure | group | log | release | 95 % interval | holds | error | grade |"
    yield "|---|---|---:|---:|---:|---|---:|---|"
    for row in rows[:_MAX_ROWS]:
        yield f"| {' | '.join(_cells(row))} |"
    yield ""
    if len(rows) > _MAX_ROWS:
        yield f"{len(rows) - _MAX_ROWS:,} more are in the file of numbers."
        yield ""


def _cells(row: Mapping[str, Any]) -> list[str]:
    released, truth, error = _row(row), row["truth"], row["relative_error"]
    return [
        _quoted(row["indicator"]),
        _quoted(row["group"] or ""),
        _NOTHING if truth is None else in_words(truth, row["unit"]),
        in_words(row["value"], row["unit"]),
        interval_words(released),
        _HOLDS[row["is_covered"]],
        _NOTHING if error is None else f"{error:.1%}",
        row["grade"],
    ]


def _row(row: Mapping[str, Any]) -> IndicatorRow:
    return IndicatorRow(*(row[name] for name in IndicatorRow.__dataclass_fields__))


def _quoted(name: str) -> str:
    """A name in a table of Markdown, whatever marks are in it."""
    return _ACTIVE.sub(r"\\\g<0>", plain_name(name))
