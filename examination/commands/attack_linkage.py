"""`tracecloak attack linkage`: attacks finished releases by what somebody may know of a case.

The linkage attacks that `tracecloak attack linkage` makes: logs and releases read, and attacked.

The command loads this file once its flags are read, as what it imports takes long.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.examination.commands.attack_reports import add_report_flag, show_report
from tracecloak.examination.evaluation.as_released import as_released
from tracecloak.examination.linkage import logs as linkage_logs
from tracecloak.examination.linkage.growing import attack_pairs
from tracecloak.examination.linkage.knowledge import Settings
from tracecloak.examination.linkage.logs import Making, making_of
from tracecloak.examination.linkage.pair_of_releases import pairs_of
from tracecloak.examination.linkage.report import GrowingReport, LinkageReport
from tracecloak.examination.linkage.run import link
from tracecloak.examination.measure.perspectives import RESOURCE
from tracecloak.pipelines.budget.opening import store_at
from tracecloak.pipelines.commands.flags import add_log_flags, file_to_write, listed
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.source import source_of
from tracecloak.pipelines.screen.progress import showing_progress
from tracecloak.pipelines.screen.results import Form
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.sources import EventSource

if TYPE_CHECKING:
    from tracecloak.examination.measure.report_files import Report


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the releases, of their log and of what is known."""
    from tracecloak.examination.linkage import knowledge as linkage_knowledge
    from tracecloak.examination.linkage import logs as linkage_supposed
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
        report = across(*of_logs, growing, flags, given.form)
    else:
        for name, value in growing.items():
            if value is not None:
                raise UsageError(f"{name} is about releases of a growing log: it needs --growing")
        report = each_alone(*of_logs, flags, given.form)
    show_report(report, path, given.form)
    return 0


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"sizes must be whole numbers, got {text!r}") from None


def each_alone(
    paths: Sequence[str],
    originals: Sequence[str],
    settings: Settings,
    sensitive: Mapping[str, str],
    flags: dict[str, Any],
    form: Form,
) -> LinkageReport:
    """Attacks each release by itself.

    Args:
        paths: The releases.
        originals: The files of their log.
        settings: How the attacks are made.
        sensitive: Names in a release to the original's columns.
        flags: What is said of the log.
        form: How progress is shown.

    Raises:
        UsageError: There are as many logs as releases.
    """
    if len(originals) == len(paths) > 1:
        raise UsageError(
            f"log has {len(originals)} paths, as many as there are releases; give --growing if "
            "each is the log of one release, or name the files of one log by a folder or a glob"
        )
    released = paths[0] if len(paths) == 1 and linkage_logs.is_release(paths[0]) else None
    source = _source(flags, None if released is None else Received.at(released))
    with showing_progress(form):
        releases = [linkage_logs.read_released(path, [RESOURCE, *sensitive]) for path in paths]
        original = linkage_logs.read_original(source, sensitive)
        logs = linkage_logs.linked(original, releases, list(sensitive))
        attacks = tuple(link(*logs, _randomness(), settings))
    return LinkageReport(*logs, tuple(sensitive), settings, attacks)


def across(
    paths: Sequence[str],
    originals: Sequence[str],
    settings: Settings,
    sensitive: Mapping[str, str],
    growing: Mapping[str, Any],
    flags: dict[str, Any],
    form: Form,
) -> GrowingReport:
    """Attacks every two releases of a growing log.

    Args:
        paths: The releases, in the order of their publication.
        originals: The log of each, or one of which all of them were made.
        settings: As in `each_alone`.
        sensitive: Likewise.
        growing: The flags closed, suppressed and k.
        flags: As in `each_alone`.
        form: Likewise.

    Raises:
        UsageError: Releases and logs do not fit each other, or k is below 1.
    """
    if len(paths) < 2:
        raise UsageError("RELEASE has one release, and --growing needs two or more")
    if len(originals) not in (0, 1, len(paths)):
        raise UsageError(
            f"log has {len(originals)} logs for {len(paths)} releases; give one for each "
            "release, or one of which all of them were made"
        )
    k = growing["k"]
    if k is not None and k < 1:
        raise UsageError(f"k must be at least 1, got {k}")
    files = Making(growing["suppressed"] or "elements", sensitive=dict.fromkeys(sensitive, ""))
    makings = [making_of(path, files) for path in paths]
    names = sorted({RESOURCE, *(name for making in makings for name in making.sensitive)})
    each = [{**flags, "log": original} for original in originals] or [flags]
    sources = [_source(one, None) for one in each]
    with showing_progress(form):
        releases = [linkage_logs.read_released(path, names) for path in paths]
        logs = [linkage_logs.read_original(source, {}) for source in sources]
        logs *= len(paths) if len(logs) == 1 else 1
        pairs = pairs_of(releases, logs, makings, not growing["closed"])
        attacks = tuple(attack_pairs(pairs, _randomness(), settings, k))
    cases = [
        (release.path, release.traces.n_cases, log.n_cases)
        for release, log in zip(releases, logs, strict=True)
    ]
    return GrowingReport(cases, settings, attacks)


def _source(flags: dict[str, Any], release: Received | None) -> EventSource:
    return source_of(as_released(load_log(flags), release, store_at(None)))


def _randomness() -> Randomness:
    return Randomness(ReleaseKey.generate(), "linkage", "", "")
