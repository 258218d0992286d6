"""All measures by name, and their reports as files."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from tracecloak.transforms.files import write_private
from tracecloak.transforms.pages.page import Chart, document

# ---
# Reports for the operator: one JSON file, and beside it a page to read as Markdown and as HTML.


INTERNAL = "INTERNAL: computed on raw data, not for publication"
_ENDINGS = (".json", ".md", ".html")


def write_all(
    path: Path, body: Mapping[str, Any], lines: Iterable[str], charts: Sequence[Chart] = ()
) -> list[Path]:
    """Writes FILE.json, FILE.md and FILE.html, for their owner only; returns their paths.

    Args:
        path: FILE, with or without one of these endings.
        body: What the first says, as JSON values.
        lines: What the others say, in Markdown.
        charts: What stands above it in the last.
    """
    stem = path.with_suffix("") if path.suffix in _ENDINGS else path
    numbers, text, page = (stem.parent / f"{stem.name}{ending}" for ending in _ENDINGS)
    text_lines = list(lines)
    write_private(numbers, f"{json.dumps(body, indent=2)}\n".encode())
    write_private(text, ("\n".join(text_lines) + "\n").encode())
    write_private(page, document(text_lines, charts))
    return [numbers, text, page]


# ---
# Every measure by its name: what it is, whence, from where to where it goes, and what is better.
# `evaluate`, `compare` and their reports take names and legends from here, and every value passes
# `checked`: one outside of the range of its measure is a mistake of ours, and never printed.


# What of a release a measure looks at.
Need = Literal["variants", "times", "graph", "intervals", "tree", "indicators"]
# Whether less or more is better; `log`: the nearer to the value of the original itself the better;
# `none`: neither.
Better = Literal["less", "more", "log", "none"]

# Measures of one release by their names; None where one does not apply.
Figures = dict[str, float | None]

# What sums of rounded numbers may miss.
_SLACK = 1e-9

_WORDS: Mapping[Better, str] = {
    "less": "less is better",
    "more": "more is better",
    "log": "the nearer to the log's own the better",
    "none": "neither is better",
}


@dataclass(frozen=True)
class Measure:
    """One number that a release gets.

    Attributes:
        name: As in reports and rows.
        title: In tables.
        formula: What is computed, as text.
        source: The paper that it is from, or after; `own` where it is in none.
        range: Its smallest possible value and its largest; infinity if there is none.
        better: See `Better`.
        needs: What of a release it looks at.
        is_summarized: Whether the summary of an evaluation has it, of what a user does with a log.
        use: The use of a log that it judges, if it is one that a verdict names.
    """

    name: str
    title: str
    formula: str
    source: str
    range: list[float]
    better: Better
    needs: list[Need]
    is_summarized: bool = False
    use: str | None = None

    @property
    def extent(self) -> str:
        """From where to where, in words."""
        low, high = self.range
        return f"from {low:g} {'upwards' if high == math.inf else f'to {high:g}'}"

    @property
    def direction(self) -> str:
        """What is better, in words."""
        return _WORDS[self.better]

    @property
    def line(self) -> str:
        """Its line of a legend in Markdown."""
        return (
            f"- **{self.title}** (`{self.name}`): {self.formula}. It goes {self.extent}; "
            f"{self.direction}. Source: {self.source}."
        )

    def checked(self, value: float | None) -> float | None:
        """Returns a value of the measure, without what rounding put outside of its range.

        Raises:
            ArithmeticError: It is out of range by more than that, or no number.
        """
        if value is None:
            return None
        low, high = self.range
        if not low - _SLACK <= value <= high + _SLACK:
            raise ArithmeticError(f"{self.name} goes {self.extent}, and came out elsewhere")
        return min(max(float(value), low), high)

    def to_json(self) -> dict[str, Any]:
        """Returns its line of a legend as JSON values; no upper end is null."""
        shown = ("title", "formula", "source", "range", "better", "needs")
        finite = [end if math.isfinite(end) else None for end in self.range]
        return {name: getattr(self, name) for name in shown} | {"range": finite}


_SPECS = tomllib.loads((resources.files(__package__) / "measures.toml").read_text(encoding="utf-8"))
MEASURES: Mapping[str, Measure] = {name: Measure(name, **spec) for name, spec in _SPECS.items()}


def checked(values: Mapping[str, float | None]) -> Figures:
    """Returns values by the names of their measures, each checked.

    Raises:
        KeyError: There is no such measure.
        ArithmeticError: A value is out of its range.
    """
    return {name: MEASURES[name].checked(value) for name, value in values.items()}


def legend(names: Iterable[str]) -> dict[str, Any]:
    """Returns the legend of some measures as JSON values, in the order of the registry."""
    wanted = set(names)
    return {name: measure.to_json() for name, measure in MEASURES.items() if name in wanted}
