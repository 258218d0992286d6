"""Progress: honest estimates, one line on a terminal, few lines in a log, none if quiet."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import pytest

from tests.support.terminal import shown_on_a_terminal
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.pipelines.screen import results
from tracecloak.pipelines.screen.results import showing_progress
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

LOG = logging.getLogger("tracecloak")


@pytest.mark.parametrize(
    ("name", "is_told"), [("log.csv", True), ("log.csv.gz", True), ("log.parquet", False)]
)
def test_a_long_file_says_how_far_it_is(
    name: str,
    is_told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_sample(2000, str(tmp_path / name))
    monkeypatch.setattr("tracecloak.transforms.sources._REPORTED_APART_S", 0.0)
    monkeypatch.setattr("tracecloak.transforms.sources._BATCH_ROWS", 1000)
    monkeypatch.setattr(LOG, "propagate", True)
    source = EventSource(
        tuple(match_files([str(tmp_path / name)])), SourceFormat(), ColumnMapping()
    )
    with caplog.at_level(logging.INFO, "tracecloak"):
        n_rows = sum(events.num_rows for events, _ in source.read(source.files[0]))
    assert n_rows > 2000
    done = [record.done for record in caplog.records if hasattr(record, "stage")]
    assert bool(done) == is_told
    assert done == sorted(done) and all(0 <= n <= source.files[0].n_bytes for n in done)


def test_a_log_has_one_line_a_minute_of_a_stage_its_first_and_its_last(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(results.time, "monotonic", lambda: now[0])
    with showing_progress():
        LOG.info("before")
        for number in range(200):
            LOG.info("cell %d", number, extra={"stage": "s", "done": number, "total": 200})
            now[0] += 1.0
        LOG.warning("mind this")
        LOG.info("after")
    lines = [line.split(" ", 3)[3] for line in capfd.readouterr().err.splitlines()]
    assert lines == [
        "before", "cell 0", "cell 60", "cell 120", "cell 180", "cell 199", "mind this", "after",
    ]  # fmt: skip


_RUN = """
import logging, time
from tracecloak.pipelines.screen.results import showing_progress
log = logging.getLogger("tracecloak")
with showing_progress():
    for done in range(8):
        extra = {"stage": "s", "done": done // 2, "total": 8, "part": done % 2}
        log.info("stage %d of [8]", done + 1, extra=extra)
        time.sleep(0.4)
    log.warning("a [bold]warning[/bold]")
    time.sleep(0.4)
    log.info("last")
    time.sleep(1.2)
"""


@pytest.mark.slow
def test_a_terminal_shows_the_stage_what_went_by_and_what_is_left() -> None:
    """Two workers do 8 pieces; what is left follows from the pieces of both."""
    given = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    shown = re.sub(r"\x1b\[[\d;?]*\w", "", shown_on_a_terminal(_RUN, "stderr", given))
    assert re.search(r"0:00:02 .*0:00:0[1-3] .*stage 7 of \[8\]", shown)
    assert re.search(r"(━+ ) *(-:--:--)? stage 1 of \[8\]", shown)
    assert re.search(r"━ +(-:--:--)? *last", shown)
    assert "a [bold]warning[/bold]" in shown
