"""`tracecloak release`: makes one release of a log."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tracecloak.pipelines.commands.flags import (
    add_flag,
    add_lineage,
    add_release_flags,
)
from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.release_text import release_data, release_rows
from tracecloak.pipelines.screen.results import Result, show
from tracecloak.schemas.errors import TracecloakError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.config import ReleaseConfig


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the flags of the configuration and of the method, and where metrics and events go."""
    parser.usage = "tracecloak release [CONFIG] [FLAG ...] [FLAG OF BEAM ...]"
    add_release_flags(parser, argv, config)
    parser.add_argument(
        "--metrics",
        help="file ending in .prom that the run writes at its end, for the textfile collector of "
        "Prometheus's node exporter: one file for each configuration; by default none",
    )
    parser.add_argument(
        "--metrics_for",
        choices=("public", "operator"),
        help="operator: also tell how long the run took, which follows the data, in a file that "
        "only its owner can read; by default public",
    )
    add_lineage(parser)
    text = "release without a question what can hardly be read; by default a terminal asks"
    add_flag(parser, "yes", text, is_switch=True)


def run(given: Given) -> int:
    """Makes the release, or those of windows, unless they are there already."""
    from tracecloak.pipelines.configuration.config import load

    began = time.monotonic()
    flags = dict(given.flags)
    metrics = flags.pop("metrics", None)
    audience = flags.pop("metrics_for", "public")
    if metrics is not None:
        from tracecloak.pipelines.outcomes.metrics import check_metrics

        check_metrics(metrics)
    lineage = flags.pop("lineage", None)
    asks = flags.pop("yes", "false") != "true"
    config, code = None, TracecloakError.exit_code
    try:
        config = load(given.config, flags)
        code = _released(config, given, lineage, asks)
    except TracecloakError as error:
        code = error.exit_code
        raise
    finally:
        if metrics is not None:
            from tracecloak.pipelines.windows.watched import note_standing

            elapsed_s = time.monotonic() - began
            note_standing(config, given.config or "", metrics, code, elapsed_s, audience)
    return code


def _released(config: ReleaseConfig, given: Given, lineage: str | None, asks: bool) -> int:
    """Makes what a configuration asks for, shows what came of it, and returns the exit code."""
    # With all of Beam, which a wrong configuration should not wait for.
    from tracecloak.pipelines.release.run import run_release
    from tracecloak.pipelines.runners.memory import keep_freed_memory
    from tracecloak.pipelines.screen.progress import is_of_operator, showing_progress

    began = time.monotonic()
    keep_freed_memory()
    if config.schedule is not None:
        from tracecloak.pipelines.commands.release_windows import run_windows

        return run_windows(config, given, lineage)
    with (
        showing_progress(given.form, with_runner=given.wants_traceback) as ask,
        _lineage(config, lineage) as send_complete,
    ):
        outcome = run_release(config, given.of_beam, ask if asks else None)
        send_complete(outcome.folder.final)
    elapsed_s = time.monotonic() - began
    is_private = is_of_operator(given.form)
    is_table = given.form == "table"
    rows = list(release_rows(config, outcome, elapsed_s, is_private)) if is_table else []
    show(Result(rows, release_data(config, outcome, elapsed_s)), given.form)
    return 0


def _lineage(
    config: ReleaseConfig, to: str | None
) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    """Returns what sends the events of a release, if they go anywhere; see `lineage_sent`."""
    if to is None:
        return contextlib.nullcontext(lambda folder: None)
    from tracecloak.pipelines.windows.watched import lineage_sent

    return lineage_sent(config, to)
