"""Health: whether a stream is alive and ready, and its metrics, of one moment.

Alive is a stream whose loop goes round. Ready is one that reaches its source, its ledger and where
its steps go, has loaded its state, and is not behind what is due. The reasons why it is not are
sentences of services and clocks; no number of the data is in them.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tracecloak.pipelines.outcomes.metrics import Readings, Value
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.transforms.stream.standing import Standing

# A turn of the loop takes about a second. It takes longer where a step of a whole log is drawn, and
# who is not alive is killed: so this is long.
ALIVE_SECONDS = 600.0
# How long after it is due a step may be published by a stream that is ready: the clock of the
# service is asked every few seconds, and files are written.
BEHIND_SECONDS = 30.0
# An answer of the ledger that is older says nothing.
LEDGER_SECONDS = 60.0
_US = 1_000_000


@dataclass(frozen=True)
class Told:
    """What is told of a stream at one moment; none of it is a number of the data.

    Attributes:
        is_alive: Whether its loop goes round.
        reasons: Why it is not ready; none: it is.
        step: The first step that is not published; None: the state is not loaded yet.
        n_due: Steps whose time of release is over and that are not published; None: likewise.
        at: ISO 8601, UTC, to the second.
    """

    is_alive: bool
    reasons: tuple[str, ...]
    step: int | None
    n_due: int | None
    at: str

    def to_json(self) -> dict[str, object]:
        """Returns it as probes read it."""
        return {
            "alive": self.is_alive,
            "ready": not self.reasons,
            "reasons": list(self.reasons),
            "step": self.step,
            "steps_due": self.n_due,
            "at": self.at,
        }


@dataclass
class Health:
    """What the loop says of itself, beside what is due.

    Attributes:
        config: Of the stream.
        standing: What the loop says.
        state_path: Of the state, whose size is told to the operator; None: it is not known yet.
        account: Metrics of the account, as the ledger told them last.
        ledger_away: Why the ledger does not answer; None: it does, or was not asked yet.
        ledger_seconds: When the ledger was asked last, and answered; None: it was not asked yet.
        file_away: Why the file of health cannot be written; None: it can.
        ended: The metrics of a stream that has ended; None: it runs.
        now: Seconds since 1970 UTC.
        monotonic: Seconds of a clock that only goes forward.
    """

    config: StreamConfig
    standing: Standing
    state_path: Path | None = None
    account: Mapping[str, Value] = field(default_factory=dict)
    ledger_away: str | None = None
    ledger_seconds: float | None = None
    file_away: str | None = None
    ended: Mapping[str, Value] | None = None
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Keeps what is computed once."""
        self._rule = self.config.rule

    def told(self) -> Told:
        """Returns how the stream stands now."""
        now, step = self.now(), self.standing.step
        is_alive = self.ended is None and (
            self.monotonic() - self.standing.turned_seconds <= ALIVE_SECONDS
        )
        at = datetime.datetime.fromtimestamp(int(now), datetime.UTC).isoformat()
        n_due = None if step is None else self._n_due(step, now)
        return Told(is_alive, tuple(self._reasons(is_alive, step, now)), step, n_due, at)

    def readings(self) -> Readings:
        """Returns the metrics of now; `outcomes.metric_table` says whom each is for."""
        told, standing, horizon = self.told(), self.standing, self.config.horizon
        values: dict[str, Value] = {
            "stream_alive": told.is_alive,
            "stream_ready": not told.reasons,
            "stream_messages_total": standing.n_messages,
            "stream_rejects_total": dict(standing.n_rejects),
            **self.account,
            **(self.ended or {}),
        }
        if standing.clock_offset_us is not None:
            values["stream_clock_offset_seconds"] = standing.clock_offset_us / _US
        if standing.complete_us is not None:
            values["stream_lag_seconds"] = max(0.0, self.now() - standing.complete_us / _US)
        if standing.newest_us is not None:
            values["stream_newest_message_timestamp_seconds"] = standing.newest_us / _US
        if (step := told.step) is not None:
            values["steps_released"] = step
            values["steps_due"] = told.n_due
            values["steps_remaining"] = horizon - step
            values["stream_open_cases"] = standing.n_open_cases
            values["stream_state_bytes"] = self._state_bytes()
            if step < horizon:
                values["steps_next_timestamp_seconds"] = self._rule.release_time(step) / _US
        config = self.config
        return Readings(config.name.both, config.dataset or "", config.account, values)

    def _n_due(self, step: int, now: float) -> int:
        since_us = int(now * _US) - self._rule.release_time(0)
        return max(0, min(since_us // self.config.period + 1, self.config.horizon) - step)

    def _reasons(self, is_alive: bool, step: int | None, now: float) -> list[str]:
        if self.ended is not None:
            return ["the stream has ended"]
        standing = self.standing
        reasons = []
        if not is_alive:
            reasons.append(f"the loop has not gone round for {ALIVE_SECONDS:.0f} s")
        away = (standing.source_away, standing.sink_away, self.ledger_away, self.file_away)
        reasons += [reason for reason in away if reason is not None]
        if step is None:
            reasons.append("the state of the epoch is not loaded yet")
        if self.ledger_seconds is not None and self.ledger_away is None:
            if self.monotonic() - self.ledger_seconds > LEDGER_SECONDS:
                reasons.append("the ledger does not answer")
        if step is not None and step < self.config.horizon:
            behind = now - self._rule.release_time(step) / _US
            if behind > BEHIND_SECONDS:
                reasons.append(f"step {step} should have been published {behind:.0f} s ago")
        return reasons

    def _state_bytes(self) -> int | None:
        if self.state_path is None or not self.state_path.exists():
            return None
        files = (self.state_path, Path(f"{self.state_path}-wal"))
        return sum(path.stat().st_size for path in files if path.exists())
