"""`tracecloak append`: a finished release as rows of a table."""

from __future__ import annotations

from dataclasses import asdict

from tracecloak.pipelines.commands.table import Given
from tracecloak.pipelines.screen.results import Result, show


def run(given: Given) -> int:
    """Shows whether the table has the release now or had it before."""
    from tracecloak.pipelines.outcomes.metrics import append_release

    appended = append_release(given.flags["release"].rstrip("/"), given.flags["table"])
    state = "was there" if appended.was_there else "appended"
    rows = [(state, f"release {appended.release_id}"), ("table", appended.table)]
    show(Result(rows, asdict(appended)), given.form)
    return 0
