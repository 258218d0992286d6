"""The report of the checks, for people and as JSON. It tells of the configuration, of no data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracecloak.examination.checks.finding import ChecksReport
from tracecloak.examination.measure.report_files import write_all
from tracecloak.transforms.pages.text_templates import from_template

_ABOUT = "Checks on copies of a configuration and made-up logs: no data of the operator was read"


def write_report(report: ChecksReport, path: Path) -> list[Path]:
    """Writes FILE.json, FILE.md and FILE.html; see `report_files.write_all`."""
    return write_all(path, to_json(report), markdown_lines(report))


def to_json(report: ChecksReport) -> dict[str, Any]:
    """Returns the report as JSON values."""
    return {
        "about": _ABOUT,
        "verdict": report.verdict,
        "is_refuted": report.is_refuted,
        "method": report.method,
        "guarantee": report.guarantee,
        "copy": dict(report.copy),
        "checks": [asdict(finding) for finding in report.findings],
    }


def summary_lines(report: ChecksReport) -> Iterator[str]:
    """Yields the outcome in a line a check, and what was seen where it did not hold."""
    yield _ABOUT
    width = max(len(finding.name) for finding in report.findings)
    for finding in report.findings:
        yield f"{finding.outcome:<15} {finding.name:<{width}}  {finding.seen}"
    yield f"verdict    {report.verdict}"


def markdown_lines(report: ChecksReport) -> list[str]:
    """Returns the report as Markdown, line by line."""
    room = "tracecloak.examination.checks"
    return from_template(room, "report.md.j2", report=report, about=_ABOUT)
