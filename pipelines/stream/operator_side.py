"""The operator's side of a stream: health and metrics while it runs, and its end if it is stuck.

Each part has a thread of its own, as any of them may hang: a disk, a ledger, a collector. None of
them changes a byte of what is published, and none ends the stream but `stuck_after`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

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
    account_values,
    check_metrics,
    note_metrics,
    registry_of,
    write_in_place,
)
from tracecloak.pipelines.runners.failures import reason_of
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import Epoch
from tracecloak.pipelines.stream.health import Health
from tracecloak.pipelines.stream.stuck import ending_if_stuck, meanwhile
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.files import absolute
from tracecloak.transforms.stream.standing import Standing

_FILE_SECONDS = 5.0
_METRICS_SECONDS = 15.0
_LEDGER_SECONDS = 20.0
_STEPS_SECONDS = 15.0
_LINEAGE_SECONDS = 3600.0
_JOIN_SECONDS = 5.0


@contextlib.contextmanager
def operator_side(
    config: StreamConfig, standing: Standing, stop: threading.Event
) -> Iterator[None]:
    """Tells what the configuration asks for while the block runs, and how it ended.

    Args:
        config: Of the stream.
        standing: What its loop says.
        stop: Set when the stream is to end.

    Raises:
        UsageError: A file or a port cannot be had, or stuck_after is too short.
        StaysStuck: See `stuck`.
        Stuck: Likewise.
    """
    check_operators_files(config)
    store = open_store(config)
    folder = Path(store.operator_folder(*config.place))
    health = Health(config, standing, folder / STREAM_STATE)
    began_seconds = time.monotonic()
    writes = {
        _FILE_SECONDS: _one_after_the_other(lambda: _write_health(health)),
        _METRICS_SECONDS: _one_after_the_other(lambda: _write_metrics(health)),
    }

    def ended(exit_code: int) -> None:
        at = health.now()
        health.ended = {
            "release_last_attempt_timestamp_seconds": at,
            "release_last_exit_code": exit_code,
            "release_last_duration_seconds": time.monotonic() - began_seconds,
            **({} if exit_code else {"release_last_success_timestamp_seconds": at}),
        }
        for write in writes.values():
            write()

    def last_words(error: TracecloakError) -> None:
        sys.stderr.write(f"tracecloak: {error}\n")
        sys.stderr.flush()
        note_attempt(store, *config.place, error.exit_code, str(error))
        ended(error.exit_code)

    with contextlib.ExitStack() as parts:
        if config.operator_port is not None:
            from tracecloak.pipelines.stream.operator_port import serving

            place = config.operator_address, config.operator_port
            registry = registry_of(health.readings, config.metrics_for)
            parts.enter_context(serving(*place, health.told, registry, config.operator_names))
        parts.enter_context(_every(_LEDGER_SECONDS, lambda: ask_ledger(health, store)))
        for seconds, write in writes.items():
            parts.enter_context(_every(seconds, write))
        exit_code = TracecloakError.exit_code
        try:
            with (
                contextlib.nullcontext()
                if config.stuck_after is None
                else ending_if_stuck(config, standing, stop, last_words)
            ):
                yield
            exit_code = 0
        except TracecloakError as error:
            exit_code = error.exit_code
            raise
        finally:
            ended(exit_code)


@contextlib.contextmanager
def following(epoch: Epoch, standing: Standing) -> Iterator[None]:
    """Says which step a job of Beam is at while the block runs, by the files of its steps.

    The launching process sees no message of the job, and so nothing of its source.
    """

    def look() -> None:
        try:
            last = epoch.last_published
        except Exception as error:  # of file systems elsewhere, too
            standing.sink_away = f"the files of the steps cannot be listed: {reason_of(error)}"
        else:
            standing.step, standing.sink_away = 0 if last is None else last + 1, None
        standing.turn()

    try:
        with _every(_STEPS_SECONDS, look):
            yield
    finally:
        look()


@contextlib.contextmanager
def lineage_sent(config: StreamConfig, to: str) -> Iterator[Callable[[Kind, str | None], None]]:
    """Sends the events of one process of a stream; see `events_sent`.

    RUNNING comes by the clock, once an hour: a number of the data moves none of it.

    Args:
        config: Of the stream.
        to: Where they go.
    """
    run = LineageRun(
        dataset=config.dataset or "",
        release_id=config.name.both,
        output=absolute(config.output),
        inputs=tuple(
            _topic_address(one.input_topic or one.input_subscription) for one in config.sources
        ),
        method=f"stream of {config.product}",
        guarantee=config.made_product().guarantee(),
        began_us=now_us(),
        begin_us=config.start,
        end_us=config.start + config.horizon * config.period,
        outputs=(
            *filter(None, (config.folder, config.output_table)),
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
    config = health.config.model_copy(update={"new_ledger": False})
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
    if config.health_file is not None and not Path(config.health_file).absolute().parent.is_dir():
        raise UsageError(f"health_file: the folder of {config.health_file!r} is not there; make it")


def _write_health(health: Health) -> None:
    path = health.config.health_file
    if path is None:
        return
    text = json.dumps(health.told().to_json()) + "\n"
    try:
        write_in_place(Path(path), text.encode(), 0o644)
        health.file_away = None
    except OSError as error:
        health.file_away = f"health_file cannot be written: {error.strerror}"


def _write_metrics(health: Health) -> None:
    if health.config.metrics is not None:
        note_metrics(health.config.metrics, health.readings(), health.config.metrics_for)


def _one_after_the_other(write: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that several threads may call: what is written last is the newest."""
    lock = threading.Lock()

    def locked() -> None:
        with lock:
            write()

    return locked


@contextlib.contextmanager
def _every(seconds: float, do: Callable[[], None]) -> Iterator[None]:
    """Calls a function every so many seconds while the block runs; it may hang."""

    def again(is_over: threading.Event) -> None:
        while True:
            do()
            if is_over.wait(seconds):
                return

    with meanwhile(again, _JOIN_SECONDS):
        yield
