"""The report of `tracecloak evaluate` for people: a summary on the screen, and a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracecloak.examination.measure.registry import INTERNAL, MEASURES, legend_lines
from tracecloak.pipelines.planning.utility import percent
from tracecloak.transforms.pages.page import from_template

_NOTHING = "-"
_HEADER = ("measure", "verdict", "release", "bootstrap", "log itself", "better")
_BOUNDS = (
    "A use is good where the release is off by at most {good}, or by no more than the "
    "bootstrap, and rough up to {rough}."
)
_SHORT = {"less": "less", "more": "more", "log": "as the log", "none": ""}


def summary_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yields the most important measures as a table for a screen, and what its columns are."""
    yield report["verdict"]["sentence"]
    rows = [
        row_of(report, name)
        for name, one in MEASURES.items()
        if one.is_summarized and report.get(name) is not None
    ]
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    for row in (_HEADER, *rows):
        first, *others = (
            cell.ljust(width) if number in (0, 1, 5) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()
    if report.get("bootstrap"):
        yield (
            "A bootstrap draws as many of the log's own cases, with replacement: a release that is "
            "nearer than it repeats accidents of the log."
        )
    yield from notes_of(report)
    yield _bounds(report)
    yield f"Origin: {report['origin']}."
    yield f"Judged by the manifest with SHA-256 {report['manifest_sha256']}."


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
    if report.get("indicators"):
        from tracecloak.examination.evaluation.indicators import furthest_line

        yield from furthest_line(report["indicators"])


def markdown_lines(report: dict[str, Any]) -> list[str]:
    """Returns a page with all measures and what they are, line by line."""
    names = [name for name in report["legend"] if report.get(name) is not None]
    figures: list[list[str]] = []
    if report.get("indicators"):
        from tracecloak.examination.evaluation.indicators import figure_rows

        figures = figure_rows(report["indicators"])
    return from_template(
        "tracecloak.examination.evaluation",
        "report.md.j2",
        report=report,
        internal=INTERNAL,
        header=_HEADER,
        bounds=_bounds(report),
        rows=[row_of(report, name) for name in names],
        notes=notes_of(report),
        figures=figures,
        legend=legend_lines(names),
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
