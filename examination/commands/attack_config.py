"""`tracecloak attack config`: audits what a configuration promises, by many releases of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.examination.commands.attack_reports import (
    add_report_flag,
    of_one_window,
    show_report,
)
from tracecloak.pipelines.commands.flags import add_release_flags, file_to_write
from tracecloak.pipelines.commands.table import Given
from tracecloak.schemas.errors import GuaranteeError


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of a release and of the audit."""
    parser.usage = "tracecloak attack config [CONFIG] --report FILE.json [FLAG ...]"
    add_report_flag(parser)
    parser.add_argument(
        "--releases",
        type=int,
        help="releases of each log of a pair (default 20,000; fewer where they take long)",
    )
    add_release_flags(parser, argv, config, {"output": "Not looked at: nothing is released."})


def run(given: Given) -> int:
    """Audits the configuration, and writes the report.

    Raises:
        GuaranteeError: Its claim is refuted.
    """
    from tracecloak.examination.attack.run import DEFAULT_RELEASES, attack_configuration
    from tracecloak.pipelines.configuration.config import load
    from tracecloak.pipelines.screen.progress import showing_progress

    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    n_releases = flags.pop("releases", DEFAULT_RELEASES)
    # Nothing is released, so it does not matter where to.
    config, remarks = of_one_window(load(given.config, {**flags, "output": "nowhere"}))
    with showing_progress(given.form):
        report = attack_configuration(config, n_releases)
    show_report(report, path, given.form, report.verdict, remarks)
    if report.is_refuted:
        raise GuaranteeError(report.verdict)
    return 0
