"""LocalStream: the loop of a stream on one machine, from a source to published steps.

Each turn of the loop pulls messages, keeps them with the positions behind them, and lets the
service forget them. Then it ends the steps that are over, keeps the state together with their
releases, and publishes these. So the process may die at any point: messages that were kept are not
asked for again, and a step that was decided is published as it was decided, a second time if it may
have been seen already.

A service that does not answer is asked again until it does. A step waits for its messages: if these
are read more slowly than they come, steps come later, and a warning says so.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tracecloak.anonymizers.streams.steps import DecidedStep, RunningStream, StreamState
from tracecloak.schemas.errors import RetryLater
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.formats.messages import MessageFormat
from tracecloak.transforms.stream.local_state import Kept, LocalState
from tracecloak.transforms.stream.now_and_then import NowAndThen
from tracecloak.transforms.stream.sources import Pulled, Source
from tracecloak.transforms.stream.standing import Standing
from tracecloak.transforms.stream.times_ahead import warn_of_times_ahead

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")

_BATCH_MESSAGES = 1 << 14
_PULL_SECONDS = 1.0
# How long to wait before a service that did not answer is asked again.
_AGAIN_SECONDS = 2.0
_LEAST_BEHIND_US = 30_000_000


class Sink(Protocol):
    """Where steps are published; the same step may come twice."""

    def send(self, released: Step) -> None:
        """Publishes a step; it is there when this returns.

        Raises:
            RetryLater: The service takes nothing now.
        """
        ...


@dataclass(eq=False, repr=False)
class LocalStream:
    """A stream that runs in this process; its whole state is in `Kept` and on the disk.

    Attributes:
        stream: Changes the state.
        layouts: Which part of a message has which value, by the place of its input.
        store: The open store of the state.
        sinks: Where steps are published, in this order.
        reject: Takes batches of messages that cannot be read.
        release_delay_us: How long a step waits; a step that is later causes a warning.
        clock: Seconds since 1970 UTC.
        standing: Where the loop says how it stands.
    """

    stream: RunningStream
    layouts: Sequence[MessageFormat]
    store: LocalState
    sinks: Sequence[Sink]
    reject: Callable[[pa.RecordBatch], object]
    release_delay_us: int
    clock: Callable[[], float]
    standing: Standing

    def __post_init__(self) -> None:
        """Begins with nothing read and nothing to publish."""
        self._behind_us = max(self.release_delay_us, _LEAST_BEHIND_US)
        self._away, self._late, self._behind = NowAndThen(), NowAndThen(), NowAndThen()
        self._state: StreamState
        self._positions: dict[str, Any] = {}
        self._unsent: deque[DecidedStep] = deque()
        self._pulled: Pulled | None = None
        # For the first unsent step: how many sinks have it, and when the next one is asked again.
        self._n_sinks_done = 0
        self._send_again = -math.inf

    def run(self, source: Source, start: Kept, stop: threading.Event) -> bool:
        """Reads and publishes until all steps are published, or `stop` is set.

        Args:
            source: Where messages come from, from the kept positions on.
            start: The state to go on from.
            stop: Set when the stream is to end; messages that were pulled are kept then.

        Returns:
            Whether all steps of the horizon are published everywhere.

        Raises:
            TracecloakError: It cannot go on.
        """
        self._state, self._positions = start.state, dict(start.positions)
        self._unsent = deque(start.unsent)
        while True:
            self._note_turn()
            self._send()
            self._note_turn()
            is_over = self._state.next_step >= self.stream.horizon
            if stop.is_set() or (is_over and not self._unsent):
                return is_over and not self._unsent
            if is_over:  # a sink does not take the last steps yet
                stop.wait(_AGAIN_SECONDS)
                continue
            try:
                self._read(source)
                self._end_steps(source)
                self.standing.source_away = None
            except RetryLater as error:
                self.standing.source_away = str(error)
                self._say_away(error)
                stop.wait(_AGAIN_SECONDS)

    def _note_turn(self) -> None:
        """Says that the loop goes round, and at which step it is."""
        oldest = self._unsent[0].step if self._unsent else self._state.next_step
        self.standing.step = oldest
        self.standing.n_open_cases = self._state.opened.n_cases
        self.standing.turn()

    def _read(self, source: Source) -> None:
        """Pulls messages, keeps them, and lets the service forget them."""
        # The source is behind what it gave, also where that could not be kept yet.
        pulled = self._pulled or source.pull(_BATCH_MESSAGES, _PULL_SECONDS)
        if not pulled.messages and source.positions == self._positions:
            return
        self._pulled = pulled
        layout = self.layouts[pulled.place]
        events, rejects = layout.decode(pulled.messages, pulled.publish)
        if rejects.num_rows:
            self.reject(rejects)
            self.standing.n_rejects.update(rejects["reason"].to_pylist())
        self.standing.n_messages += len(pulled.messages)
        if pulled.messages:
            newest_us = int(np.max(pulled.publish))
            self.standing.newest_us = max(newest_us, self.standing.newest_us or newest_us)
        keyed = self.stream.keyed(events)
        warn_of_times_ahead(keyed.ahead_us)
        after = self.stream.take(self._state, keyed)
        positions = dict(source.positions)
        n_pending = self._state.n_pending + keyed.n_events
        if after.opened is self._state.opened and after.n_pending == n_pending:
            self.store.append(keyed, positions)
        else:
            self.store.replace(after, positions, ())
        self._state, self._positions, self._pulled = after, positions, None
        source.let_go(pulled)

    def _end_steps(self, source: Source) -> None:
        """Decides and keeps the steps that are over and whose messages are all there."""
        now_us = int(self.clock() * 1e6)
        try:
            complete_us = min(source.watermark_us(), now_us)
        finally:  # also where the clocks differ by too much
            self.standing.clock_offset_us = source.clock_offset_us
        self.standing.complete_us = None if complete_us < 0 else complete_us
        after, decided = self.stream.advance(self._state, complete_us)
        if after is not self._state:
            self.store.replace(after, self._positions, decided)
            if after.n_late > self._state.n_late and self._late.is_due():
                _OPERATOR.warning("cases were complete too late for their step, and do not count")
            self._state = after
            self._unsent.extend(decided)
        self._say_behind(now_us, complete_us)

    def _send(self) -> None:
        """Publishes decided steps in their order, as far as the sinks take them."""
        while self._unsent and time.monotonic() >= self._send_again:
            oldest = self._unsent[0]
            try:
                while self._n_sinks_done < len(self.sinks):
                    self.sinks[self._n_sinks_done].send(oldest.released)
                    self._n_sinks_done += 1
            except RetryLater as error:
                self.standing.sink_away = str(error)
                self._say_away(error)
                self._send_again = time.monotonic() + _AGAIN_SECONDS
                return
            self.store.sent(oldest.step)
            self._unsent.popleft()
            self._n_sinks_done = 0
            self.standing.sink_away = None

    def _say_away(self, error: RetryLater) -> None:
        if self._away.is_due():
            _LOG.warning("%s; the stream waits, and goes on when that is over", error)

    def _say_behind(self, now_us: int, complete_us: int) -> None:
        step = self._state.next_step
        since_us = now_us - self.stream.release_us(step)
        if step >= self.stream.horizon or since_us < self._behind_us or not self._behind.is_due():
            return
        if complete_us < 0:
            how = "it is not known yet whether all messages are there"
        else:
            how = f"messages are read up to {(now_us - complete_us) / 1e6:,.0f} s before now"
        _LOG.warning(
            "step %d should have been published %.0f s ago and waits for its messages",
            step,
            since_us / 1e6,
        )
        _OPERATOR.warning("step %d waits: %s", step, how)
