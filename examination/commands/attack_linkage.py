"""`tracecloak attack linkage`: attacks finished releases by what somebody may know of a case.

The command loads this file once its flags are read, as what it imports takes long.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tracecloak.anonymizers.noise.randomness import Randomness, ReleaseKey
from tracecloak.examination.commands.attack_config import show_report
from tracecloak.examination.evaluation.origin import as_released
from tracecloak.examination.linkage import logs as linkage_logs
from tracecloak.examination.linkage.knowledge import DEFAULT_SAMPLES, LARGEST_SIZE, Settings
from tracecloak.examination.linkage.run import LinkageReport, link
from tracecloak.examination.measure.behaviour_measures import RESOURCE
from tracecloak.pipelines.budget.opening import store_at
from tracecloak.pipelines.commands.flags import (
    ORIGINAL_HELP,
    add_log_flags,
    add_table_flags,
    file_to_write,
    listed,
)
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.configuration.config import load_log
from tracecloak.pipelines.configuration.plan import source_of
from tracecloak.pipelines.screen.results import showing_progress
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds those of the releases, of their log and of what is known."""
    words = {"largest_size": LARGEST_SIZE, "samples": DEFAULT_SAMPLES}
    add_table_flags(parser, __package__, "attack", "attack_linkage", **words)
    add_log_flags(parser, ORIGINAL_HELP)


def run(given: Given) -> int:
    """Attacks each release by itself, and writes the report."""
    flags = dict(given.flags)
    flags.pop("action")
    path = file_to_write("report", flags.pop("report"))
    names = {"time_unit": "unit", "samples": "n_samples", "sizes": "sizes"}
    known = {names[name]: flags.pop(name) for name in names.keys() & flags.keys()}
    if "sizes" in known:
        known["sizes"] = tuple(map(_whole_number, listed(known["sizes"])))
    settings = Settings(**known)
    sensitive = linkage_logs.sensitive_columns(flags.pop("sensitive", ""))
    paths = listed(flags.pop("release"))
    if len(listed(flags.get("log", ""))) == len(paths) > 1:
        raise UsageError(
            f"log has {len(paths)} paths, as many as there are releases; attack releases of "
            "different logs one by one, or name the files of one log by a folder or a glob"
        )
    is_one_release = len(paths) == 1 and linkage_logs.is_release(paths[0])
    release = Received.at(paths[0]) if is_one_release else None
    source = source_of(as_released(load_log(flags), release, store_at(None)))
    randomness = Randomness(ReleaseKey.generate(), "linkage", "", "")
    with showing_progress(given.form):
        releases = [linkage_logs.read_released(path, [RESOURCE, *sensitive]) for path in paths]
        original = linkage_logs.read_original(source, sensitive)
        logs = linkage_logs.linked(original, releases, list(sensitive))
        attacks = tuple(link(*logs, randomness, settings))
    show_report(LinkageReport(*logs, tuple(sensitive), settings, attacks), path, given.form)
    return 0


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"sizes must be whole numbers, got {text!r}") from None
