"""`tracecloak attack config`: audits what a configuration promises, by many releases of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tracecloak.pipelines.commands.flags import add_release_flags, add_table_flags, file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Form, Result, show
from tracecloak.schemas.errors import GuaranteeError

if TYPE_CHECKING:
    from tracecloak.examination.attack.run import AttackReport
    from tracecloak.examination.linkage.run import LinkageReport
    from tracecloak.pipelines.configuration.config import ReleaseConfig


# --- What the attacks share: what is shown of a report, and a window's release. -------------------


def show_report(
    report: AttackReport | LinkageReport,
    path: Path,
    form: Form,
    verdict: str | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """Writes a report, and shows its summary and its files; the exit code tells what failed."""
    from tracecloak.examination.measure.registry import INTERNAL, write_all

    parts = report.to_json(), report.markdown_lines(), report.charts()
    paths = list(map(str, write_all(path, *parts)))
    lines = [*remarks, INTERNAL, *report.summary_lines()]
    said = {} if verdict is None else {"verdict": verdict}
    below = [f"report     {' and '.join(paths)}"]
    show(Result((), {**said, "report": paths}, above=lines, below=below), form)


def one_window_config(config: ReleaseConfig) -> tuple[ReleaseConfig, list[str]]:
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


# --- `tracecloak attack config`: audits what a configuration promises, by many releases of it. ----


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of a release and of the audit."""
    parser.usage = "tracecloak attack config [CONFIG] --report FILE.json [FLAG ...]"
    add_table_flags(parser, __package__, "attack", "attack_config")
    add_release_flags(parser, argv, config, {"output": "Not looked at: nothing is released."})


def run(given: Given) -> int:
    """Audits the configuration, and writes the report.

    Raises:
        GuaranteeError: Its claim is refuted.
    """
    from tracecloak.examination.attack.run import DEFAULT_RELEASES, attack_configuration
    from tracecloak.pipelines.configuration.plan import load
    from tracecloak.pipelines.screen.results import showing_progress

    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    n_releases = flags.pop("releases", DEFAULT_RELEASES)
    # Nothing is released, so it does not matter where to.
    config, remarks = one_window_config(load(given.config, {**flags, "output": "nowhere"}))
    with showing_progress(given.form):
        report = attack_configuration(config, n_releases)
    show_report(report, path, given.form, report.verdict, remarks)
    if report.is_refuted:
        raise GuaranteeError(report.verdict)
    return 0
