"""Progress: honest estimates, one line on a terminal, few lines in a log, none if quiet."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import shown_on_a_terminal
from tracecloak.examination.demo.hospital import write_sample
from tracecloak.pipelines.screen import results
from tracecloak.pipelines.screen.results import Estimate, showing_progress
from tracecloak.schemas.events.columns import ColumnMapping
from tracecloak.transforms.formats.registry import SourceFormat
from tracecloak.transforms.inputs.source_files import match_files
from tracecloak.transforms.sources import EventSource

LOG = logging.getLogger("tracecloak")


def record(**told: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": "x", "levelno": logging.INFO, **told})


def noted(*records: tuple[float, dict[str, Any]]) -> Estimate:
    estimate = Estimate()
    for now, told in records:
        estimate.note(record(**told), now)
    return estimate


def test_what_is_left_follows_from_what_is_done() -> None:
    estimate = noted(
        (100, {"stage": "s", "done": 0, "total": 10}), (110, {"stage": "s", "done": 4, "total": 10})
    )
    assert estimate.left(110) == pytest.approx(15)  # 6 more at 2.5 seconds each
    assert estimate.left(113) == pytest.approx(12)
    assert estimate.left(126) is None  # it takes longer than it did


def test_bytes_of_several_at_work_add_up() -> None:
    told = [
        (now, {"stage": "reading", "part": part, "done": done, "total": 400})
        for now, part, done in ((0, 0, 50), (10, 1, 100), (10, 0, 100), (20, 2, 50))
    ]
    # The first record tells no pace, as nobody knows when its file was begun.
    assert noted(told[0]).left(0) is None
    assert noted(*told).left(20) == pytest.approx(15)  # 150 more, at 200 in 20 seconds


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


def of_stage(done: int, total: int = 10, stage: str = "s") -> dict[str, Any]:
    return {"stage": stage, "done": done, "total": total}


@pytest.mark.parametrize(
    "told",
    [
        [],
        [(0, {})],
        [(0, of_stage(0)), (50, of_stage(0))],
        [(0, of_stage(0)), (1, of_stage(5))],
        [(0, of_stage(0)), (9, of_stage(5)), (9, {})],
        [(0, of_stage(0)), (9, of_stage(5, stage="t"))],
        [(0, of_stage(5, 0)), (9, of_stage(9, 0))],
    ],
    ids=["nothing", "no stage", "nothing done", "too early", "ended", "another", "nothing to do"],
)
def test_nothing_is_foretold_of_what_nobody_knows(
    told: list[tuple[float, dict[str, Any]]],
) -> None:
    assert noted(*told).left(10) is None


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
from tracecloak.pipelines.screen import results
results._SHORTEST_S = 0.2
log = logging.getLogger("tracecloak")
with results.showing_progress():
    for done in range(4):
        log.info("stage %d of 4", done + 1, extra={"stage": "s", "done": done, "total": 4})
        time.sleep(0.4)
    log.warning("a [bold]warning[/bold]")
    time.sleep(0.4)
"""


def on_a_terminal(**environment: str) -> str:
    given = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    return shown_on_a_terminal(_RUN, "stderr", given)


def test_a_terminal_shows_the_stage_what_went_by_and_what_is_left() -> None:
    shown = on_a_terminal()
    assert "seconds so far · stage 1 of 4" in shown
    assert "seconds left of this stage · stage 3 of 4" in shown
    assert "left of this stage · stage 1 of 4" not in shown
    assert "a [bold]warning[/bold]" in shown
