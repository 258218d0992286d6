"""`tracecloak release`: makes one release of a log, or those of the windows of a schedule."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.release_text import (
    left_out_text,
    release_data,
    release_rows,
)
from tracecloak.pipelines.screen.results import Result, duration, show
from tracecloak.schemas.errors import InputSchemaError, OtherFormat, TracecloakError

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.plan import ReleasePlan
    from tracecloak.pipelines.windows.batch import Ended


# --- `tracecloak release` of a configuration with a schedule: makes its windows. ------------------


_LOG = logging.getLogger("tracecloak")


def run_windows(plan: ReleasePlan, given: Given, lineage: str | None) -> int:
    """Releases the windows that are asked for; the exit code is that of the first that failed."""
    from tracecloak.pipelines.screen.results import is_of_operator, showing_progress
    from tracecloak.pipelines.windows.batch import (
        exit_code_of,
        over_text,
        release_windows,
        windows_asked,
    )

    windows = windows_asked(plan)
    ended: list[Ended] = []
    with showing_progress(given.form, with_runner=given.wants_traceback):
        try:
            for one in release_windows(plan, windows, given.of_beam, lineage):
                ended.append(one)
        finally:
            for line in _causes(ended):
                _LOG.error("%s", line)
    is_private, over = is_of_operator(given.form), over_text(plan, windows)
    rows = [(one.window.label, _window_text(one, is_private)) for one in ended]
    rows = [*(rows or [("windows", "none is due yet")]), *[("schedule", over)] * bool(over)]
    if len(ended) == 1 and (outcome := ended[0].outcome) is not None:
        one = ended[0]
        rows = list(release_rows(one.plan, outcome, one.elapsed_s, is_private))
    data = {"windows": [_data_of_window(one) for one in ended], "schedule_is_over": bool(over)}
    show(Result(rows, data), given.form)
    return exit_code_of(ended)


def _causes(ended: Sequence[Ended]) -> Iterator[str]:
    """Yields one line for each cause by which windows failed, and not one for each window."""
    labels: dict[str, list[str]] = {}
    for one in ended:
        if one.reason:
            labels.setdefault(one.reason, []).append(one.window.label)
    for reason, failed in labels.items():
        several = f"{failed[0]} and {len(failed) - 1} more up to {failed[-1]}"
        yield f"window {failed[0] if len(failed) == 1 else several}: {reason}"
    unread = tuple(f"[{kind.section}]" for kind in (InputSchemaError, OtherFormat))
    if any(one.reason.endswith(unread) for one in ended):
        yield (
            "a file that is damaged and cannot be repaired is left out by a person: `tracecloak "
            "windows CONFIG --window WINDOWS --quarantine FILE --by NAME --reason TEXT`"
        )


def _window_text(one: Ended, is_private: bool) -> str:
    """Returns what became of a window, of several; see `release_rows`."""
    text = one.status.replace("_", " ")
    if one.status == "released" and one.outcome is not None:
        from tracecloak.anonymizers.accounting.composition import decimal_text

        epsilon = one.plan.epsilon
        cost = "no finite epsilon" if epsilon is None else f"epsilon {decimal_text(epsilon)}"
        text += f", {cost}, {duration(one.elapsed_s)}, {one.outcome.folder.final}"
        if is_private and one.outcome.n_left_out:
            text += f"; left out {left_out_text(one.outcome.n_left_out)}"
        if is_private and one.outcome.warnings:
            text += f"; watch out: {' and '.join(one.outcome.warnings)}"
    elif one.reason:
        text += f" with exit code {one.exit_code}"
    return text


def _data_of_window(one: Ended) -> dict[str, Any]:
    """Returns the JSON of a window, with the keys of a release where there is one."""
    given_keys: dict[str, Any] = {}
    if one.outcome is not None:
        given_keys = release_data(one.plan, one.outcome, one.elapsed_s)
    elif one.status == "already_released":
        given_keys = {"folder": one.folder}
    return {
        **given_keys,
        "window": one.window.label,
        "status": one.status,
        "exit_code": one.exit_code,
        "reason": one.reason,
        "release_id": one.plan.keys.release_id,
    }


# --- `tracecloak release`: makes one release of a log. --------------------------------------------


def run(given: Given) -> int:
    """Makes the release, or those of windows, unless they are there already."""
    from tracecloak.pipelines.configuration.plan import read_plan

    began = time.monotonic()
    flags = dict(given.flags)
    metrics = flags.pop("metrics", None)
    audience = flags.pop("metrics_for", "public")
    if metrics is not None:
        from tracecloak.pipelines.outcomes.metrics import check_metrics

        check_metrics(metrics)
    lineage = flags.pop("lineage", None)
    asks = flags.pop("yes", "false") != "true"
    plan, code = None, TracecloakError.exit_code
    try:
        plan = read_plan(given.config, flags)
        code = _released(plan, given, lineage, asks)
    except TracecloakError as error:
        code = error.exit_code
        raise
    finally:
        if metrics is not None:
            from tracecloak.pipelines.windows.batch import note_standing

            elapsed_s = time.monotonic() - began
            note_standing(plan, given.config or "", metrics, code, elapsed_s, audience)
    return code


def _released(plan: ReleasePlan, given: Given, lineage: str | None, asks: bool) -> int:
    """Makes what a plan asks for, shows what came of it, and returns the exit code."""
    from tracecloak.pipelines.configuration.plan import files_here

    listed = files_here(plan)
    # What a run needs, which a wrong configuration and a wrong path should not wait for.
    from tracecloak.pipelines.release.run import run_plan
    from tracecloak.pipelines.release.values import require_confirmation
    from tracecloak.pipelines.screen.results import is_of_operator, showing_progress

    began = time.monotonic()
    if plan.schedule is not None:
        return run_windows(plan, given, lineage)
    sent: Any = contextlib.nullcontext(lambda folder: None)
    if lineage is not None:
        from tracecloak.pipelines.windows.batch import lineage_sent

        sent = lineage_sent(plan, lineage)
    shown = showing_progress(given.form, with_runner=given.wants_traceback)
    with shown as ask, sent as send_complete:
        before = partial(require_confirmation, confirm=ask if asks else None)
        outcome = run_plan(plan, given.of_beam, before, listed)
        send_complete(outcome.folder.final)
    elapsed_s = time.monotonic() - began
    is_private = is_of_operator(given.form)
    is_table = given.form == "table"
    rows = list(release_rows(plan, outcome, elapsed_s, is_private)) if is_table else []
    show(Result(rows, release_data(plan, outcome, elapsed_s)), given.form)
    return 0
