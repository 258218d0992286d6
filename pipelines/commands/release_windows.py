"""`tracecloak release` of a configuration with a schedule: makes its windows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.release_text import (
    left_out_text,
    release_data,
    release_rows,
    spent,
)
from tracecloak.pipelines.screen.results import Result, duration, show
from tracecloak.schemas.errors import InputSchemaError, OtherFormat

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.config import ReleaseConfig
    from tracecloak.pipelines.windows.several import Ended

_LOG = logging.getLogger("tracecloak")


def run_windows(config: ReleaseConfig, given: Given, lineage: str | None) -> int:
    """Releases the windows that are asked for; the exit code is that of the first that failed."""
    from tracecloak.pipelines.screen.progress import is_of_operator, showing_progress
    from tracecloak.pipelines.windows.several import (
        exit_code_of,
        over_text,
        release_windows,
        windows_asked,
    )

    windows = windows_asked(config)
    ended: list[Ended] = []
    with showing_progress(given.form, with_runner=given.wants_traceback):
        try:
            for one in release_windows(config, windows, given.of_beam, lineage):
                ended.append(one)
        finally:
            for line in _causes(ended):
                _LOG.error("%s", line)
    if given.form == "json":
        data = {
            "windows": [_data_of_window(one) for one in ended],
            "schedule_is_over": bool(over_text(config, windows)),
        }
        show(Result((), data), given.form)
        return exit_code_of(ended)
    is_private = is_of_operator(given.form)
    if len(ended) == 1 and ended[0].outcome is not None:
        one = ended[0]
        rows = list(release_rows(one.config, ended[0].outcome, one.elapsed_s, is_private))
        show(Result(rows), given.form)
    else:
        rows = [(one.window.label, _window_text(one, is_private)) for one in ended]
        over = [("schedule", text)] if (text := over_text(config, windows)) else []
        show(Result([*(rows or [("windows", "none is due yet")]), *over]), given.form)
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
            "a file that is damaged and cannot be mended is left out by a person: `tracecloak "
            "windows CONFIG --window WINDOWS --quarantine FILE --by NAME --reason TEXT`"
        )


def _window_text(one: Ended, is_private: bool) -> str:
    """Returns what became of a window, of several; see `release_rows`."""
    text = one.status.replace("_", " ")
    if one.status == "released" and one.outcome is not None:
        epsilon, _ = spent(one.config)
        cost = "no finite epsilon" if epsilon is None else f"epsilon {epsilon}"
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
    of_release: dict[str, Any] = {}
    if one.outcome is not None:
        of_release = release_data(one.config, one.outcome, one.elapsed_s)
    elif one.status == "already_released":
        of_release = {"folder": one.folder}
    return {
        **of_release,
        "window": one.window.label,
        "status": one.status,
        "exit_code": one.exit_code,
        "reason": one.reason,
        "release_id": one.config.release_id,
    }
