"""`tracecloak attack checks`: tries ways round the budget on copies of a configuration."""

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
    """Adds those of a release and of the checks."""
    parser.usage = "tracecloak attack checks [CONFIG] --report FILE.json [FLAG ...]"
    add_report_flag(parser)
    parser.add_argument(
        "--declared",
        action="store_true",
        default=None,
        help="read from the configuration's ledger, which stays as it is, what the officer "
        "declared, and try to get round that; by default nothing of it is read",
    )
    nothing = "Not looked at: copies have their own."
    helps = {
        "log": "Paths or globs of the input files (required). Nothing of them is read; the "
        "ending of the first name tells the format of the logs that are made up.",
        "runner": "Beam runner of the copies, one of this machine; by default InMemory, whatever "
        "the configuration says.",
        "key_store": "Folder of keys and receipts, in which --declared finds the ledger; by "
        "default TRACECLOAK_KEY_STORE or one in the home folder.",
        **dict.fromkeys(("output", "release_id", "accounts"), nothing),
    }
    add_release_flags(parser, argv, config, helps)


def run(given: Given) -> int:
    """Tries them, and writes the report.

    Raises:
        GuaranteeError: One is open.
    """
    from tracecloak.examination.checks.report import summary_lines, write_report
    from tracecloak.examination.checks.run import check_configuration
    from tracecloak.pipelines.configuration.config import load
    from tracecloak.pipelines.runners.names import IN_MEMORY
    from tracecloak.pipelines.screen.progress import showing_progress

    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    with_declared = flags.pop("declared", False)
    runner = flags.pop("runner", IN_MEMORY)
    config, remarks = of_one_window(load(given.config, {**flags, "output": "nowhere"}))
    with showing_progress(given.form):
        report = check_configuration(config, runner, with_declared)
    written = write_report(report, path)
    show_report([*remarks, *summary_lines(report)], written, given.form, report.verdict)
    if report.is_refuted:
        raise GuaranteeError(report.verdict)
    return 0
