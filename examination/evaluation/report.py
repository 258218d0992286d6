"""The report of `tracecloak evaluate` for people: a summary on the screen, and a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracecloak.examination.evaluation.indicators import figure_rows, furthest_line
from tracecloak.examination.measure.registry import INTERNAL, MEASURES
from tracecloak.pipelines.planning.utility import percent
from tracecloak.transforms.pages.page import from_template

_HERE = "tracecloak.examination.evaluation"
_NOTHING = "-"
_HEADER = ("measure", "verdict", "release", "bootstrap", "log itself", "better")
_BOUNDS = (
    "A use is good where the release is off by at most {good}, or by no more than the "
    "bootstrap, and rough up to {rough}."
)
_SHORT = {"less": "less", "more": "more", "log": "as the log", "none": ""}


def summary_lines(report: dict[str, Any]) -> list[str]:
    """Returns the most important measures as a table for a screen, and what its columns are."""
    names = (name for name, one in MEASURES.items() if one.is_summarized)
    rows = [_HEADER, *(row_of(report, name) for name in names if report.get(name) is not None)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = [f"{{:{side}{width}}}" for side, width in zip("<<>>><", widths, strict=True)]
    lines = ["  ".join(forms).format(*row).rstrip() for row in rows]
    given = {"rows": lines, "notes": notes_of(report), "bounds": _bounds(report)}
    return from_template(_HERE, "summary.txt.j2", report=report, **given)


def _bounds(report: dict[str, Any]) -> str:
    return _BOUNDS.format(**{n: percent(most) for n, most in report["verdict"]["bounds"].items()})


def notes_of(report: dict[str, Any]) -> Iterator[str]:
    """Which cases are compared; what was not computed, and why; and what is furthest off."""
    if report.get("population_note"):
        yield f"{report['population_note']}."
    if report.get("variant_emd_note"):
        yield f"{MEASURES['variant_emd'].title} was {report['variant_emd_note']}."
    if report.get("tree_note"):
        yield f"{report['tree_note']}."
    yield from furthest_line(report.get("indicators", ()))


def markdown_lines(report: dict[str, Any]) -> list[str]:
    """Returns a page with all measures and what they are, line by line."""
    names = [name for name in report["legend"] if report.get(name) is not None]
    return from_template(
        _HERE,
        "report.md.j2",
        report=report,
        internal=INTERNAL,
        header=_HEADER,
        bounds=_bounds(report),
        rows=[row_of(report, name) for name in names],
        notes=notes_of(report),
        figures=figure_rows(report.get("indicators", ())),
        legend=[MEASURES[name] for name in names],
    )


def row_of(report: dict[str, Any], name: str) -> tuple[str, ...]:
    """Returns the cells of a measure: its title, verdict, three numbers, and what is better."""
    measure = MEASURES[name]
    grades = {use["measure"]: use["grade"] for use in report["verdict"]["uses"]}
    lines = (report, report.get("bootstrap", {}), report.get("of_the_log", {}))
    values = (_number(line.get(measure.name)) for line in lines)
    return (measure.title, grades.get(name, ""), *values, _SHORT[measure.better])


def _number(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:.3f}" if abs(value) < 10 and value != int(value) else f"{value:,.4g}"
