"""What the attacks share: the flag of the report, what is shown of it, and a window's release."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracecloak.pipelines.screen.results import Form, Result, show

if TYPE_CHECKING:
    from tracecloak.examination.measure.report_files import Report
    from tracecloak.pipelines.configuration.config import ReleaseConfig


def add_report_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag that names the report."""
    parser.add_argument(
        "--report",
        required=True,
        help="JSON file to write; FILE.md and FILE.html are written beside it",
    )


def show_report(
    report: Report,
    path: Path,
    form: Form,
    verdict: str | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """Writes a report, and shows its summary and its files; the exit code tells what failed."""
    from tracecloak.examination.measure.report_files import INTERNAL, write_all

    parts = report.to_json(), report.markdown_lines(), report.charts()
    paths = list(map(str, write_all(path, *parts)))
    lines = [*remarks, INTERNAL, *report.summary_lines()]
    said = {} if verdict is None else {"verdict": verdict}
    below = [f"report     {' and '.join(paths)}"]
    show(Result((), {**said, "report": paths}, above=lines, below=below), form)


def of_one_window(config: ReleaseConfig) -> tuple[ReleaseConfig, list[str]]:
    """Returns a configuration without its schedule, and what to say of that.

    A window's release is one of the window's cases, so it is attacked as a release by itself. The
    book of counted units, which keeps a case from two windows, is neither asked nor written.
    """
    if config.schedule is None:
        return config, []
    alone = {"schedule": None, "window": None, "book": None, "book_key": None}
    return config.model_copy(update=alone), [
        "schedule   left aside: this is about the release of one window; that a case counts in one "
        "window only is kept by the book of counted units",
        "",
    ]
