"""The operator's side of a stream: health and metrics while it runs, and its end if it is stuck.

Alive is a stream whose loop goes round. Ready is one that reaches its source, its ledger and where
its steps go, has loaded its state, and is not behind what is due; no number of the data is in the
reasons why it is not. Each part has a thread of its own, as any of them may hang: a disk, a ledger,
a collector. None of them changes a byte of what is published, and none ends the stream but
`stuck_after`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.keys.key_store import STREAM_STATE, KeyStore
from tracecloak.pipelines.keys.notes import note_attempt
from tracecloak.pipelines.outcomes.lineage import (
    Kind,
    LineageRun,
    event_of,
    events_sent,
    now_us,
    send,
)
from tracecloak.pipelines.outcomes.metrics import (
    Readings,
    Value,
    account_values,
    check_metrics,
    note_metrics,
    registry_of,
    run_values,
)
from tracecloak.pipelines.runners.failures import reason_of
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import Epoch
from tracecloak.pipelines.stream.plan import StreamPlan
from tracecloak.pipelines.stream.stuck import background_task, stop_if_stuck
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import require_folder_of, write_private
from tracecloak.transforms.stream.stream_status import StreamStatus

# --- Health: whether a stream is alive and ready, and its metrics, of one moment. -----------------
# Alive is a stream whose loop goes round. Ready is one that reaches its source, its ledger and
# where its steps go, has loaded its state, and is not behind what is due. The reasons why it is
# not are sentences of services and clocks; no number of the data is in them.


# A turn of the loop takes about a second. It takes longer where a step of a whole log is drawn, and
# who is not alive is killed: so this is long.
ALIVE_SECONDS = 600.0
# How long after it is due a step may be published by a stream that is ready: the clock of the
# service is asked every few seconds, and files are written.
BEHIND_SECONDS = 30.0
# An answer of the ledger that is older says nothing.
LEDGER_SECONDS = 60.0
_US = 1_000_000


@dataclass
class Health:
    """What the loop says of itself, beside what is due.

    Attributes:
        plan: Of the stream.
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

    plan: StreamPlan
    standing: StreamStatus
    state_path: Path | None = None
    account: Mapping[str, Value] = field(default_factory=dict)
    ledger_away: str | None = None
    ledger_seconds: float | None = None
    file_away: str | None = None
    ended: Mapping[str, Value] | None = None
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    # What is written last is the newest.
    _writing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def write_file(self) -> None:
        """Writes the file of health, if there is to be one."""
        if (path := self.plan.keys.health_file) is None:
            return
        with self._writing:
            text = json.dumps(self.told()) + "\n"
            try:
                write_private(Path(path).absolute(), text.encode(), mode=0o644)
                self.file_away = None
            except OSError as error:
                self.file_away = f"health_file cannot be written: {error.strerror}"

    def write_metrics(self) -> None:
        """Writes the file of metrics, if there is to be one."""
        if (path := self.plan.keys.metrics) is not None:
            with self._writing:
                note_metrics(path, self.readings(), self.plan.keys.metrics_for)

    def told(self) -> dict[str, Any]:
        """Returns how the stream stands now, as probes read it; none of it is a number of the data.

        It is `alive` if its loop goes round, and `ready` if there are no `reasons` why it is not.
        `step` is the first one that is not published, and `steps_due` how many are not whose time
        of release is over; None: the state is not loaded yet. `at` is ISO 8601, UTC, to the second.
        """
        now, step, keys = self.now(), self.standing.step, self.plan.keys
        is_alive = self.ended is None and (
            self.monotonic() - self.standing.turned_seconds <= ALIVE_SECONDS
        )
        n_due = None
        if step is not None:
            since_us = int(now * _US) - self.plan.rule.release_time(0)
            n_due = max(0, min(since_us // keys.period + 1, keys.horizon) - step)
        reasons = self._reasons(is_alive, step, now)
        return {
            "alive": is_alive,
            "ready": not reasons,
            "reasons": reasons,
            "step": step,
            "steps_due": n_due,
            "at": datetime.datetime.fromtimestamp(int(now), datetime.UTC).isoformat(),
        }

    def readings(self) -> Readings:
        """Returns the metrics of now; `outcomes.metric_table` says whom each is for."""
        told, standing, horizon = self.told(), self.standing, self.plan.keys.horizon
        values: dict[str, Value] = {
            "stream_alive": told["alive"],
            "stream_ready": told["ready"],
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
        path = self.state_path
        if (step := told["step"]) is not None:
            values["steps_released"] = step
            values["steps_due"] = told["steps_due"]
            values["steps_remaining"] = horizon - step
            values["stream_open_cases"] = standing.n_open_cases
            files = () if path is None else (path, Path(f"{path}-wal"))
            sizes = [one.stat().st_size for one in files if one.exists()]
            values["stream_state_bytes"] = sum(sizes) if sizes else None
            if step < horizon:
                values["steps_next_timestamp_seconds"] = self.plan.rule.release_time(step) / _US
        keys = self.plan.keys
        return Readings(self.plan.name.both, keys.dataset or "", keys.account, values)

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
        if step is not None and step < self.plan.keys.horizon:
            behind = now - self.plan.rule.release_time(step) / _US
            if behind > BEHIND_SECONDS:
                reasons.append(f"step {step} should have been published {behind:.0f} s ago")
        return reasons


_FILE_SECONDS = 5.0
_METRICS_SECONDS = 15.0
_LEDGER_SECONDS = 20.0
_STEPS_SECONDS = 15.0
_LINEAGE_SECONDS = 3600.0
_JOIN_SECONDS = 5.0


@contextlib.contextmanager
def operator_side(
    plan: StreamPlan, standing: StreamStatus, stop: threading.Event
) -> Iterator[Callable[[Epoch], contextlib.AbstractContextManager[None]]]:
    """Tells what the configuration asks for while the block runs, and how it ended.

    Args:
        plan: Of the stream.
        standing: What its loop says.
        stop: Set when the stream is to end.

    Raises:
        UsageError: A file or a port cannot be had, or stuck_after is too short.
        StaysStuck: See `stuck`.
        Stuck: Likewise.
    """
    config = plan.keys
    check_operators_files(config)
    store = open_store(config)
    folder = Path(store.operator_folder(*plan.place))
    health = Health(plan, standing, folder / STREAM_STATE)
    began_seconds = time.monotonic()

    def ended(exit_code: int) -> None:
        health.ended = run_values(exit_code, health.now(), time.monotonic() - began_seconds)
        health.write_file()
        health.write_metrics()

    def last_words(error: TracecloakError) -> None:
        sys.stderr.write(f"tracecloak: {error}\n")
        sys.stderr.flush()
        note_attempt(store, *plan.place, error.exit_code, str(error))
        ended(error.exit_code)

    with contextlib.ExitStack() as parts:
        if config.operator_port is not None:
            from tracecloak.pipelines.stream.operator_port import serving

            place = config.operator_address, config.operator_port
            registry = registry_of(health.readings, config.metrics_for)
            parts.enter_context(serving(*place, health.told, registry, config.operator_names))
        parts.enter_context(_every(_LEDGER_SECONDS, lambda: ask_ledger(health, store)))
        if config.health_file is not None:
            parts.enter_context(_every(_FILE_SECONDS, health.write_file))
        if config.metrics is not None:
            parts.enter_context(_every(_METRICS_SECONDS, health.write_metrics))
        exit_code = TracecloakError.exit_code
        try:
            with (
                contextlib.nullcontext()
                if config.stuck_after is None
                else stop_if_stuck(plan, standing, stop, last_words)
            ):
                yield partial(following, standing=standing)
            exit_code = 0
        except TracecloakError as error:
            exit_code = error.exit_code
            raise
        finally:
            ended(exit_code)


@contextlib.contextmanager
def following(epoch: Epoch, standing: StreamStatus) -> Iterator[None]:
    """Says which step a job of Beam is at while the block runs, by the files of its steps.

    The launching process sees no message of the job, and so nothing of its source.
    """

    def look() -> None:
        try:
            last = epoch.last_published
        except Exception as error:  # of file systems elsewhere, too
            standing.sink_away = f"the files of the steps cannot be listed: {reason_of(error)}"
        else:
            standing.step, standing.sink_away = last + 1, None
        standing.turn()

    try:
        with _every(_STEPS_SECONDS, look):
            yield
    finally:
        look()


@contextlib.contextmanager
def lineage_sent(plan: StreamPlan, to: str) -> Iterator[Callable[[Kind, str | None], None]]:
    """Sends the events of one process of a stream; see `events_sent`.

    RUNNING comes by the clock, once an hour: a number of the data moves none of it.

    Args:
        plan: Of the stream.
        to: Where they go.
    """
    config = plan.keys
    run = LineageRun(
        dataset=config.dataset or "",
        release_id=plan.name.both,
        output=plan.place[0],
        inputs=tuple(
            _topic_address(one.keys.input_topic or one.subscription) for one in plan.inputs
        ),
        method=plan.method_name,
        guarantee=plan.guarantee,
        began_us=now_us(),
        begin_us=config.start,
        end_us=config.start + config.horizon * config.period,
        outputs=(
            *filter(None, (plan.folder, config.output_table)),
            *map(_topic_address, filter(None, [config.output_topic])),
        ),
        is_stream=True,
    )
    with events_sent(run, to) as note:
        with _every(_LINEAGE_SECONDS, lambda: send(event_of(run, "RUNNING", now_us()), to)):
            yield note


def _topic_address(name: str | None) -> str:
    """Returns the address of a topic of Kafka as it is, and that of a name of Pub/Sub."""
    assert name is not None
    return name if "://" in name else f"pubsub:///{name.removeprefix('projects/')}"


def ask_ledger(health: Health, store: KeyStore) -> None:
    """Notes whether the ledger answers, and what the account has left, once an epoch is paid."""
    if health.standing.step is None:
        return
    config = health.plan.keys.model_copy(update={"new_ledger": False})
    try:
        balance = open_ledger(config, store).balance(config.account)
    except TracecloakError as error:
        health.ledger_away = str(error)
        return
    health.account, health.ledger_away = account_values(balance), None
    health.ledger_seconds = health.monotonic()


def check_operators_files(config: StreamConfig) -> None:
    """Makes sure that metrics and health can be told where the configuration says.

    Raises:
        UsageError: A folder is not there, or a library is not installed.
    """
    if config.metrics is not None:
        check_metrics(config.metrics)
    if config.health_file is not None:
        require_folder_of("health_file", config.health_file)


@contextlib.contextmanager
def _every(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Calls a function every so many seconds while the block runs; it may hang."""

    def again(is_over: threading.Event) -> None:
        while True:
            do()
            if is_over.wait(seconds):
                return

    with background_task(again, _JOIN_SECONDS):
        yield
