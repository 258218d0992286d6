"""What a release says of the window that it is of: public numbers alone."""

from __future__ import annotations

import datetime
from typing import Any

from tracecloak.schemas.windows.schedule import Schedule, Window

# How many, which and why is for the operator, and neither is computed from what is released.
_LEFT_OUT = (
    "Files that could not be read were left out by decision, before its cases were counted. The "
    "promise compares logs after this decision: it does not cover that there were such files, or "
    "what was in them."
)


def moment(time_us: int) -> str:
    """Returns a time in UTC, such as 2026-11-23 14:00:00Z."""
    time = datetime.datetime.fromtimestamp(time_us // 1_000_000, datetime.UTC)
    return f"{time:%Y-%m-%d %H:%M:%S}Z"


def window_facts(
    schedule: Schedule,
    window: Window,
    composition: str,
    costs: str,
    leaves_files_out: bool = False,
) -> dict[str, Any]:
    """Returns what the manifest says of the window that a release is of.

    Args:
        schedule: The windows.
        window: The one.
        composition: `largest`, `sum` or `none`, where no finite epsilon holds.
        costs: What several windows cost together, as a sentence; empty: nothing to say.
        leaves_files_out: Whether a person decided that some files are not read.
    """
    belongs = "ends" if schedule.by == "close" else "begins"
    sentence = (
        f"This is window {window.label} of {schedule.dataset}, from {moment(window.begin_us)} "
        f"to before {moment(window.end_us)}. A case belongs to the window in which it {belongs}, "
        f"and counts in one window only. {costs}"
    ).rstrip()
    if leaves_files_out:
        sentence += f" {_LEFT_OUT}"
    return {
        "label": window.label,
        "begin": moment(window.begin_us),
        "end": moment(window.end_us),
        "dataset": schedule.dataset,
        "period": schedule.period,
        "time_zone": schedule.time_zone,
        "by": schedule.by,
        "composition": composition,
        "sentence": sentence,
    }
