"""`tracecloak attack linkage`: attacks finished releases by what somebody may know of a case."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracecloak.examination.commands.attack_reports import add_report_flag, show_report
from tracecloak.pipelines.commands.flags import add_log_flags, file_to_write, listed
from tracecloak.pipelines.commands.table import Given
from tracecloak.schemas.errors import UsageError

if TYPE_CHECKING:
    from tracecloak.examination.measure.report_files import Report


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the releases, of their log and of what is known."""
    from tracecloak.examination.linkage import knowledge as linkage_knowledge
    from tracecloak.examination.linkage import supposed as linkage_supposed
    from tracecloak.schemas.statistics.background_knowledge import UNIT_US

    parser.add_argument(
        "release",
        metavar="RELEASE",
        help="folders of releases, or paths or globs of released logs, separated by commas",
    )
    add_report_flag(parser)
    add_log_flags(
        parser,
        "paths or globs of the original log, separated by commas; with --growing the log of each "
        "release, or one of which all of them were made; by default that of --config",
    )
    parser.add_argument(
        "--sensitive",
        help="attributes of the case as they are released, separated by commas: case:NAME, or "
        "case:NAME=COLUMN where the original's column is called otherwise; by default none",
    )
    parser.add_argument(
        "--time_unit", choices=list(UNIT_US), help="how exactly times are known (default hours)"
    )
    parser.add_argument(
        "--sizes",
        help="how many elements are known, separated by commas, from 0 to "
        f"{linkage_knowledge.LARGEST_SIZE} (default all)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        help="attacks to draw where not all are gone through; the error of a share falls with its "
        f"square root (default {linkage_knowledge.DEFAULT_SAMPLES:,})",
    )
    parser.add_argument(
        "--growing",
        action="store_true",
        default=None,
        help="the releases are of one growing log, in the order of their publication: look for a "
        "case in every two of them at once; by default in each alone",
    )
    parser.add_argument(
        "--closed",
        action="store_true",
        default=None,
        help="with --growing: no case goes on after a release that has it, so both show the same "
        "of it; by default it may go on",
    )
    parser.add_argument(
        "--suppressed",
        choices=linkage_supposed.SUPPRESSED,
        help="with --growing, how files that are no folder of a release were made: elements were "
        "left out in the whole log or nowhere, or second and later repetitions of them were, or "
        "whole cases, or anything; by default elements",
    )
    parser.add_argument(
        "--k",
        type=int,
        help="with --growing: how many cases are to be left; by default the k of each release, or "
        f"{linkage_supposed.DEFAULT_K}",
    )


def run(given: Given) -> int:
    """Attacks, and writes the report."""
    from tracecloak.examination.commands import linked_releases
    from tracecloak.examination.linkage.knowledge import Settings
    from tracecloak.examination.linkage.logs import sensitive_columns

    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    names = {"time_unit": "unit", "samples": "n_samples", "sizes": "sizes"}
    known = {names[name]: flags.pop(name) for name in names.keys() & flags.keys()}
    if "sizes" in known:
        known["sizes"] = tuple(map(_whole_number, listed(known["sizes"])))
    settings = Settings(**known)
    sensitive = sensitive_columns(flags.pop("sensitive", ""))
    paths, originals = listed(flags.pop("release")), listed(flags.get("log", ""))
    growing = {name: flags.pop(name, None) for name in ("growing", "closed", "suppressed", "k")}
    of_logs = paths, originals, settings, sensitive
    report: Report
    if growing.pop("growing"):
        report = linked_releases.across(*of_logs, growing, flags, given.form)
    else:
        for name, value in growing.items():
            if value is not None:
                raise UsageError(f"{name} is about releases of a growing log: it needs --growing")
        report = linked_releases.each_alone(*of_logs, flags, given.form)
    show_report(report, path, given.form)
    return 0


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"sizes must be whole numbers, got {text!r}") from None
