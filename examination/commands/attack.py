"""`tracecloak attack`: audits a configuration by attacks, checks it, or links finished releases.

For the operator only: what it prints and writes was computed on raw data, but for the checks, which
look at none.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.flags import (
    add_reading_flags,
    add_release_flags,
    file_to_write,
    listed,
)
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Form, Result, show
from tracecloak.schemas.errors import GuaranteeError, UsageError

if TYPE_CHECKING:
    from tracecloak.examination.linkage.knowledge import Settings
    from tracecloak.pipelines.configuration.config import ReleaseConfig


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of a release and of the audit or the checks, or those of the linkage attack."""
    if "--linkage" in argv:
        parser.usage = (
            "tracecloak attack --linkage --original LOG [LOG ...] --released RELEASE "
            "[RELEASE ...] --report FILE.json [FLAG ...]"
        )
        _add_linkage_flags(parser)
        return
    if "--checks" in argv:
        parser.usage = "tracecloak attack [CONFIG.yaml] --checks --report FILE.json [FLAG ...]"
        _add_check_flags(parser, argv, config)
        return
    parser.usage = "tracecloak attack [CONFIG.yaml] [FLAG ...]"
    parser.add_argument(
        "--linkage",
        action="store_true",
        default=None,
        help="attack finished releases by what somebody may know of a case instead; see "
        "attack --linkage --help",
    )
    parser.add_argument(
        "--checks",
        action="store_true",
        default=None,
        help="try ways round the budget on copies of the configuration instead, without any data; "
        "see attack --checks --help",
    )
    parser.add_argument(
        "--releases",
        type=int,
        help="releases of each log of a pair (default 20,000; fewer where they take long)",
    )
    parser.add_argument(
        "--report",
        required=True,
        help="JSON file to write; FILE.md and FILE.html are written beside it",
    )
    add_release_flags(
        parser,
        argv,
        config,
        {"output": "Not looked at: nothing is released."},
    )


def _add_check_flags(
    parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None
) -> None:
    parser.add_argument(
        "--checks", action="store_true", required=True, help="try ways round the budget"
    )
    parser.add_argument(
        "--declared",
        action="store_true",
        default=None,
        help="read from the configuration's ledger, which stays as it is, what the officer "
        "declared, and try to get round that; by default nothing of it is read",
    )
    parser.add_argument(
        "--report",
        required=True,
        help="JSON file to write; FILE.md and FILE.html are written beside it",
    )
    nothing = "Not looked at: copies have their own."
    told = {
        "input": "Paths or globs of the input files (required). Nothing of them is read; the "
        "ending of the first name tells the format of the logs that are made up.",
        "runner": "Beam runner of the copies, one of this machine; by default InMemory, whatever "
        "the configuration says.",
        "key_store": "Folder of keys and receipts, in which --declared finds the ledger; by "
        "default TRACECLOAK_KEY_STORE or one in the home folder.",
        **dict.fromkeys(("output", "release_id", "accounts"), nothing),
    }
    add_release_flags(parser, argv, config, told)


def _add_linkage_flags(parser: argparse.ArgumentParser) -> None:
    from tracecloak.examination.linkage import knowledge as linkage_knowledge
    from tracecloak.examination.linkage import supposed as linkage_supposed
    from tracecloak.schemas.statistics.background_knowledge import UNIT_US

    parser.add_argument(
        "--linkage", action="store_true", required=True, help="attack finished releases"
    )
    parser.add_argument(
        "--original",
        required=True,
        nargs="+",
        help="path or glob of the original log; with --growing the log of each release, or one of "
        "which all of them were made",
    )
    parser.add_argument(
        "--released",
        required=True,
        nargs="+",
        help="folders of releases, or paths or globs of released logs, one for each release",
    )
    parser.add_argument(
        "--report",
        required=True,
        help="JSON file to write; FILE.md and FILE.html are written beside it",
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
    add_reading_flags(parser)


def run(given: Given) -> int:
    """Attacks, and writes the report.

    Raises:
        GuaranteeError: The claim of the configuration is refuted, or a check does not hold.
    """
    flags = dict(given.flags)
    if flags.pop("checks", False):
        return _check(given.config, flags, given.form)
    if not flags.pop("linkage", False):
        return _audit(given.config, flags, given.form)
    if given.config is not None:
        raise UsageError(f"unknown argument {given.config!r}; attack --linkage has only flags")
    return _link(flags, given.form)


def _audit(config_path: str | None, flags: dict[str, Any], form: Form) -> int:
    """Audits a release's configuration; raises GuaranteeError where its claim is refuted."""
    from tracecloak.examination.attack.report import summary_lines, write_report
    from tracecloak.examination.attack.run import DEFAULT_RELEASES, attack_configuration
    from tracecloak.pipelines.configuration.config import load
    from tracecloak.pipelines.screen.progress import showing_progress

    path = file_to_write("report", flags.pop("report"))
    n_releases = flags.pop("releases", DEFAULT_RELEASES)
    # Nothing is released, so it does not matter where to.
    config, told = _of_one_window(load(config_path, {**flags, "output": "nowhere"}))
    with showing_progress(form):
        report = attack_configuration(config, n_releases)
    written = write_report(report, path)
    _show([*told, *summary_lines(report)], written, form, report.verdict)
    if report.is_refuted:
        raise GuaranteeError(report.verdict)
    return 0


def _check(config_path: str | None, flags: dict[str, Any], form: Form) -> int:
    """Tries ways round the budget; raises GuaranteeError where one is open."""
    from tracecloak.examination.checks.report import summary_lines, write_report
    from tracecloak.examination.checks.run import check_configuration
    from tracecloak.pipelines.configuration.config import load
    from tracecloak.pipelines.runners.names import IN_MEMORY
    from tracecloak.pipelines.screen.progress import showing_progress

    path = file_to_write("report", flags.pop("report"))
    with_declared = flags.pop("declared", False)
    runner = flags.pop("runner", IN_MEMORY)
    config, told = _of_one_window(load(config_path, {**flags, "output": "nowhere"}))
    with showing_progress(form):
        report = check_configuration(config, runner, with_declared)
    written = write_report(report, path)
    _show([*told, *summary_lines(report)], written, form, report.verdict)
    if report.is_refuted:
        raise GuaranteeError(report.verdict)
    return 0


def _of_one_window(config: ReleaseConfig) -> tuple[ReleaseConfig, list[str]]:
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


def _link(flags: dict[str, Any], form: Form) -> int:
    """Attacks finished releases by what somebody may know of a case."""
    from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
    from tracecloak.examination.linkage import logs as linkage_logs
    from tracecloak.examination.linkage import report as linkage_report
    from tracecloak.examination.linkage import run as linkage
    from tracecloak.examination.linkage.knowledge import Settings
    from tracecloak.examination.measure.perspectives import RESOURCE
    from tracecloak.pipelines.configuration.config import load_source
    from tracecloak.pipelines.configuration.source import source_of
    from tracecloak.pipelines.screen.progress import showing_progress

    path = file_to_write("report", flags.pop("report"))
    given: dict[str, Any] = {}
    if (unit := flags.pop("time_unit", None)) is not None:
        given["unit"] = unit
    if (samples := flags.pop("samples", None)) is not None:
        given["n_samples"] = samples
    if (sizes := flags.pop("sizes", None)) is not None:
        given["sizes"] = tuple(map(_whole_number, listed(sizes)))
    settings = Settings(**given)
    sensitive = linkage_logs.sensitive_columns(flags.pop("sensitive", ""))
    paths, originals = flags.pop("released"), flags.pop("original")
    growing = {name: flags.pop(name, None) for name in ("growing", "closed", "suppressed", "k")}
    if growing.pop("growing"):
        return _link_growing(
            paths, originals, settings, list(sensitive), growing, path, flags, form
        )
    for name, value in growing.items():
        if value is not None:
            raise UsageError(f"{name} is about releases of a growing log: it needs --growing")
    if len(originals) > 1:
        raise UsageError(
            f"original has {len(originals)} logs, and without --growing all releases are of one"
        )
    source = source_of(load_source({"input": originals[0], **flags}))
    with showing_progress(form):
        names = [RESOURCE, *sensitive]
        releases = [linkage_logs.read_released(released, names) for released in paths]
        original = linkage_logs.read_original(source, sensitive)
        logs = linkage_logs.linked(original, releases, list(sensitive))
        randomness = Randomness(ReleaseKey.generate(), "linkage", "", "")
        found = tuple(linkage.link(*logs, randomness, settings))
    report = linkage_report.LinkageReport(*logs, tuple(sensitive), settings, found)
    written = linkage_report.write_report(report, path)
    _show(linkage_report.summary_lines(report), written, form)
    return 0


def _link_growing(
    paths: Sequence[str],
    originals: Sequence[str],
    settings: Settings,
    sensitive: Sequence[str],
    growing: dict[str, Any],
    report_path: Path,
    flags: dict[str, Any],
    form: Form,
) -> int:
    """Attacks every two releases of a growing log."""
    from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
    from tracecloak.examination.linkage import growing_report
    from tracecloak.examination.linkage import logs as linkage_logs
    from tracecloak.examination.linkage.growing import attack_pairs
    from tracecloak.examination.linkage.pair_of_releases import pairs_of
    from tracecloak.examination.linkage.supposed import Making, making_of
    from tracecloak.examination.measure.perspectives import RESOURCE
    from tracecloak.pipelines.configuration.config import load_source
    from tracecloak.pipelines.configuration.source import source_of
    from tracecloak.pipelines.screen.progress import showing_progress

    if len(paths) < 2:
        raise UsageError("released has one release, and --growing needs two or more")
    if len(originals) not in (1, len(paths)):
        raise UsageError(
            f"original has {len(originals)} logs for {len(paths)} releases; give one for each "
            "release, or one of which all of them were made"
        )
    k = growing["k"]
    if k is not None and k < 1:
        raise UsageError(f"k must be at least 1, got {k}")
    files = Making(growing["suppressed"] or "elements", sensitive=dict.fromkeys(sensitive, ""))
    makings = [making_of(path, files) for path in paths]
    names = sorted({RESOURCE, *(name for making in makings for name in making.sensitive)})
    sources = [source_of(load_source({"input": original, **flags})) for original in originals]
    with showing_progress(form):
        releases = [linkage_logs.read_released(path, names) for path in paths]
        logs = [linkage_logs.read_original(source, {}) for source in sources]
        logs *= len(paths) if len(logs) == 1 else 1
        pairs = pairs_of(releases, logs, makings, not growing["closed"])
        randomness = Randomness(ReleaseKey.generate(), "linkage", "", "")
        found = tuple(attack_pairs(pairs, randomness, settings, k))
    cases = [
        (release.path, release.traces.n_cases, log.n_cases)
        for release, log in zip(releases, logs, strict=True)
    ]
    report = growing_report.GrowingReport(cases, settings, found)
    written = growing_report.write_growing_report(report, report_path)
    _show(growing_report.summary_lines(report), written, form)
    return 0


def _show(
    lines: Iterable[str], written: Iterable[Path], form: Form, verdict: str | None = None
) -> None:
    """Shows what a report says in short, and where it is; what failed is told by the exit code."""
    paths = list(map(str, written))
    said = {} if verdict is None else {"verdict": verdict}
    below = [f"report     {' and '.join(paths)}"]
    show(Result((), {**said, "report": paths}, above=list(lines), below=below), form)


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"sizes must be whole numbers, got {text!r}") from None
