"""Local streams in tests: a source that follows a script, and what a run of it publishes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.stream_runs import Happening, Sent
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import StreamOutcome, paid_epoch
from tracecloak.pipelines.stream.local_run import run_epoch
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.stream.local_stream import Sink
from tracecloak.transforms.stream.sources import MessageBatch

S = 1_000_000
_END_US = 1 << 60
NAME = "script"


class Script:
    """A source that gives what happens, in its order, and then the end of time.

    Its position is the number of what has happened: it goes on behind that, as a topic does.

    Attributes:
        let_go_of: The positions behind which messages were let go of.
    """

    def __init__(
        self,
        happenings: Iterable[Happening],
        positions: Mapping[str, Any],
        stop: threading.Event | None = None,
        until: int | None = None,
        away: Sequence[int] = (),
    ) -> None:
        """Keeps the script.

        Args:
            happenings: Messages that come together, or seconds that the watermark moves to.
            positions: Behind which to go on.
            stop: Set when so much has happened; None: never.
            until: How much that is.
            away: Before these the service is away once.
        """
        self._happenings = list(happenings)
        self._place = int(positions.get("place", 0))
        seconds = [h for h in self._happenings[: self._place] if isinstance(h, float | int)]
        self._watermark_us = int(seconds[-1] * S) if seconds else -(1 << 63)
        self._stop, self._until = stop, until
        self._away = set(away)
        self.let_go_of: list[int] = []

    clock_offset_us = 250_000

    @property
    def positions(self) -> Mapping[str, Any]:
        return {"place": self._place}

    def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
        if self._place == self._until and self._stop is not None:
            self._stop.set()
            return MessageBatch()
        if self._place in self._away:
            self._away.remove(self._place)
            raise RetryLater("the script is away")
        if self._place >= len(self._happenings):
            self._watermark_us = _END_US
            return MessageBatch()
        happening = self._happenings[self._place]
        self._place += 1
        if isinstance(happening, float | int):
            self._watermark_us = int(happening * S)
            return MessageBatch()
        stamped = [one.message() if isinstance(one, Sent) else one for one in happening]
        stamps = [one.timestamp.micros for one in stamped]
        return MessageBatch([one.value for one in stamped], stamps, self._place)

    def let_go(self, pulled: MessageBatch) -> None:
        if pulled.receipt is not None:
            self.let_go_of.append(pulled.receipt)

    def watermark_us(self) -> int:
        return self._watermark_us

    def close(self) -> None:
        pass


class Topic:
    """A sink that remembers."""

    def __init__(self, fails: Callable[[int], bool] = lambda step: False) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self._fails = fails

    def send(self, released: Any) -> None:
        step = released.key[-1]
        if self._fails(step):
            raise RetryLater("the topic is away")
        self.sent.append((step, released.to_json()))


def run_script(
    config: StreamConfig,
    happenings: Iterable[Happening],
    sinks: Sequence[Sink] = (),
    until: int | None = None,
    away: Sequence[int] = (),
    clock: Callable[[], float] = lambda: _END_US / S,
) -> StreamOutcome:
    """Runs a local stream of what happens until its steps are published, or so much happened."""
    stop = threading.Event()

    def opening(positions: Mapping[str, Any], _: bytes) -> Script:
        return Script(happenings, positions, stop, until, away)

    with paid_epoch(resolve(config), clock) as epoch:
        run_epoch(epoch, opening, NAME, sinks, stop, clock)
    return StreamOutcome(epoch.plan.folder, epoch.is_spent)


def state_files(keys: Path) -> list[Path]:
    """The files of states in a key store."""
    return sorted(keys.glob("operator/*/state.sqlite*"))
