"""The loop of a stream on one machine by a clock of the test: a wait only moves the clock."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.local_streams import NAME, Script, Topic
from tests.support.stream_runs import (
    Happening,
    Sent,
    in_time,
    script,
    stream_config,
    ticking,
)
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.local_run import run_epoch
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.stream import local_stream
from tracecloak.transforms.stream.local_stream import Sink
from tracecloak.transforms.stream.sources import Source

PAUSE = local_stream._AGAIN_SECONDS
TURN_SECONDS = 0.25  # of the clock, between two pulls
END_SECONDS = float(1 << 40)
MOST_TURNS = 2_000  # a loop that goes round so often stands still


class Loop(threading.Event):
    """Runs streams; as their `stop` it is asked for in each turn, and waits by moving the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.n_turns = 0.0, 0
        self.waits: list[float] = []

    def is_set(self) -> bool:
        self.n_turns += 1
        assert self.n_turns < MOST_TURNS, "it goes round without a pause"
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.now += timeout
        return False

    def run(
        self,
        config: StreamConfig,
        happenings: Sequence[Happening],
        sinks: Sequence[Sink] = (),
        away: Sequence[int] = (),
        n_unopened: int = 0,
    ) -> None:
        refusals = [RetryLater("not yet")] * n_unopened

        class Slow(Script):
            def pull(slow, *given: Any) -> Any:  # noqa: N805
                self.now += TURN_SECONDS
                return super().pull(*given)

        def opening(positions: Mapping[str, Any], _: bytes) -> Source:
            if refusals:
                raise refusals.pop()
            return Slow(happenings, positions, self, away=away)

        with paid_epoch(resolve(config)) as epoch:
            run_epoch(epoch, opening, NAME, sinks, self, lambda: END_SECONDS)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop()
    clock = SimpleNamespace(monotonic=lambda: made.now, time=lambda: END_SECONDS)
    monkeypatch.setattr(local_stream, "time", clock)
    return made


def test_a_topic_that_is_away_is_asked_at_a_pace(tmp_path: Path, loop: Loop) -> None:
    """While messages are read, and behind them; one that has a step does not get it again."""
    refused: list[float] = []

    def is_away(_: int) -> bool:
        if loop.now < 60:
            refused.append(loop.now)
        return loop.now < 60

    first, second = Topic(), Topic(is_away)
    in_between: list[Happening] = [20.0] * 120
    loop.run(stream_config(tmp_path), [*script()[:8], *in_between, *script()[8:]], [first, second])
    pauses = [after - before for before, after in itertools.pairwise(refused)]
    assert len(pauses) > 20 and set(pauses) <= {PAUSE, PAUSE + TURN_SECONDS}
    assert [step for step, _ in first.sent] == [step for step, _ in second.sent] == [*range(6)]


def test_a_source_that_is_away_or_cannot_be_opened_is_asked_at_a_pace(
    tmp_path: Path, loop: Loop
) -> None:
    loop.run(stream_config(tmp_path), script(), away=[1, 3, 8], n_unopened=4)
    assert loop.waits[4:] == [PAUSE] * 3 and min(loop.waits) >= PAUSE


@pytest.mark.parametrize(("publish", "is_late"), [(2.0, True), (27.0, False)])
def test_cases_are_said_to_be_late_where_some_are(
    tmp_path: Path, loop: Loop, caplog: pytest.LogCaptureFixture, publish: float, is_late: bool
) -> None:
    """Steps 0 and 1 are published when the last message comes."""
    last: list[Happening] = [[Sent(publish, "last", "END", "1")], *ticking(30, 90)]
    with caplog.at_level(logging.WARNING, logger="tracecloak"):
        loop.run(stream_config(tmp_path, release_delay="0s"), [*in_time([], 30), 30.0, *last])
    said = [record.name for record in caplog.records if "too late" in record.message]
    assert said == ["tracecloak.operator"] * is_late
