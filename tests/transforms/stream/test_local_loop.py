"""The loop of a stream on one machine by a clock of the test: a wait only moves the clock."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.local_streams import NAME, Script, Topic
from tests.support.stream_runs import (
    Happening,
    Sent,
    in_time,
    random_messages,
    stream_config,
    ticking,
)
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.local_run import run_epoch
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.stream import local_stream
from tracecloak.transforms.stream.local_stream import Sink
from tracecloak.transforms.stream.sources import Source

PAUSE = local_stream._AGAIN_SECONDS
# Of the clock, between two pulls.
TURN_SECONDS = 0.25
END_SECONDS = float(1 << 40)
# No test here goes round so often: it would stand still.
MOST_TURNS = 2_000


class Stop(threading.Event):
    """Is asked for in each turn of the loop, and waits by moving the clock."""

    def __init__(self, time: Time) -> None:
        super().__init__()
        self._time = time
        self._n_turns = 0
        self.waits: list[float] = []

    def is_set(self) -> bool:
        self._n_turns += 1
        assert self._n_turns < MOST_TURNS, "it goes round without a pause"
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self._time.now += timeout
        return False


@dataclass
class Time:
    now: float = 0.0


class Slow(Script):
    """A script of which every pull takes a while."""

    def __init__(self, time: Time, *given: Any, **further: Any) -> None:
        super().__init__(*given, **further)
        self._time = time

    def pull(self, max_messages: int, timeout_seconds: float) -> Any:
        self._time.now += TURN_SECONDS
        return super().pull(max_messages, timeout_seconds)


@dataclass
class Loop:
    """Runs streams by a clock of its own."""

    time: Time = field(default_factory=Time)

    def run(
        self,
        config: StreamConfig,
        happenings: Sequence[Happening],
        sinks: Sequence[Sink] = (),
        away: Sequence[int] = (),
        n_unopened: int = 0,
    ) -> Stop:
        stop = Stop(self.time)
        refusals = [RetryLater("not yet")] * n_unopened

        def opening(positions: Mapping[str, Any], _: bytes) -> Source:
            if refusals:
                raise refusals.pop()
            return Slow(self.time, happenings, positions, stop, away=away)

        with paid_epoch(config) as epoch:
            run_epoch(epoch, opening, NAME, sinks, stop, lambda: END_SECONDS)
        return stop


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    made = Loop()
    clock = SimpleNamespace(monotonic=lambda: made.time.now, time=lambda: END_SECONDS)
    monkeypatch.setattr(local_stream, "time", clock)
    yield made


class AwayUntil(Topic):
    """A topic that takes nothing before a moment, and remembers when it was asked until then."""

    def __init__(self, loop: Loop, moment: float) -> None:
        self.refused: list[float] = []

        def fails(step: int) -> bool:
            if is_away := loop.time.now < moment:
                self.refused.append(loop.time.now)
            return is_away

        super().__init__(fails)


def script() -> list[Happening]:
    return [*in_time(random_messages(30, 30), 60), *ticking(60, 90)]


def test_a_topic_that_is_away_is_asked_at_a_pace_while_messages_are_read(
    tmp_path: Path, loop: Loop
) -> None:
    """Catches a stream that fills its log, and a service that comes back with questions."""
    topic = AwayUntil(loop, 20.0)
    in_between: list[Happening] = [20.0] * 120
    loop.run(stream_config(tmp_path), [*script()[:8], *in_between, *script()[8:]], [topic])
    pauses = [after - before for before, after in itertools.pairwise(topic.refused)]
    assert len(pauses) > 5 and set(pauses) == {PAUSE}
    assert [step for step, _ in topic.sent] == list(range(6))


def test_who_has_a_step_does_not_get_it_again_where_another_is_away(
    tmp_path: Path, loop: Loop
) -> None:
    first, second = Topic(), AwayUntil(loop, 20.0)
    loop.run(stream_config(tmp_path, horizon=2), [100.0], [first, second])
    assert len(second.refused) > 5
    assert [step for step, _ in first.sent] == [step for step, _ in second.sent] == [0, 1]


def test_a_source_that_is_away_is_asked_at_a_pace(tmp_path: Path, loop: Loop) -> None:
    stop = loop.run(stream_config(tmp_path), script(), away=[1, 3, 8])
    assert stop.waits == [PAUSE] * 3


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
