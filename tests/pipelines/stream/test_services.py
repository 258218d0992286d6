"""A stream whose services are away when it starts: it waits, and nothing is paid meanwhile."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import counting_charges
from tests.support.stream_runs import stream_config
from tracecloak.pipelines.stream import local_run
from tracecloak.pipelines.stream import run as stream
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.plan import StreamPlan
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.services import kafka_identity
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.services.kafka_topic import KafkaTopic

INPUT, OUTPUT = "kafka://b:1/events", "kafka://b:1/steps"
LOCAL_AND_FLINK = pytest.mark.parametrize(
    ("runner", "flags"),
    [("Local", []), ("FlinkRunner", ["--checkpointing_interval=1000"])],
    ids=["Local", "Flink"],
)


class PaidError(Exception):
    """That the stream came as far as to pay."""


class Away:
    """Topics and clocks that are away for some questions each."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.n_refusals: dict[str, int] = {}
        self.error: Callable[[str], Exception] = lambda name: RetryLater(f"{name} is away")

    def ask(self, name: str) -> None:
        self.asked.append(name)
        self.n_refusals[name] = self.n_refusals.get(name, 0) - 1
        if self.n_refusals[name] >= 0:
            raise self.error(name)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Away:
    made = Away()

    def pay(plan: StreamPlan) -> Any:
        raise PaidError

    monkeypatch.setattr(local_run, "_AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(KafkaTopic, "check", lambda self, is_read=True, **_: made.ask(self.name))
    monkeypatch.setattr(KafkaClock, "passed_us", lambda _: made.ask("clock"))
    monkeypatch.setattr(kafka_identity, "check_history", lambda *_: made.ask("history"))
    monkeypatch.setattr(stream, "check_ready", lambda _: None)
    for module in (local_run, stream):
        monkeypatch.setattr(module, "paid_epoch", pay)
    return made


def of_kafka(folder: Path, runner: str) -> StreamConfig:
    return stream_config(
        folder, input_subscription=None, input_topic=INPUT, output_topic=OUTPUT, runner=runner
    )


@LOCAL_AND_FLINK
@pytest.mark.parametrize("name", ["events", "clock", "history", "steps"])
def test_it_waits_before_it_pays(
    tmp_path: Path, away: Away, caplog: pytest.LogCaptureFixture, runner: str, flags: list[str],
    name: str,
) -> None:  # fmt: skip
    away.n_refusals[name] = 3
    with caplog.at_level(logging.WARNING, logger="tracecloak"), pytest.raises(PaidError):
        run_stream(of_kafka(tmp_path, runner), flags)
    assert away.asked.count(name) == 4
    assert away.asked[-4:] == ["events", "clock", "history", "steps"]
    said = f"{name} is away; the stream waits, and goes on when that is over"
    assert caplog.text.count(said) == 1


@LOCAL_AND_FLINK
def test_what_waiting_does_not_mend_ends_it_at_once(
    tmp_path: Path, away: Away, runner: str, flags: list[str]
) -> None:
    away.n_refusals["steps"] = 9
    away.error = lambda name: UsageError(f"no topic {name!r}")
    with pytest.raises(UsageError, match="no topic 'steps'"):
        run_stream(of_kafka(tmp_path, runner), flags)
    assert away.asked == ["events", "clock", "history", "steps"]


@LOCAL_AND_FLINK
def test_a_stream_that_is_stopped_while_it_waits_has_paid_nothing(
    tmp_path: Path, away: Away, runner: str, flags: list[str]
) -> None:
    away.n_refusals["events"] = 1_000
    ask = away.ask

    def interrupted(name: str) -> None:
        if len(away.asked) == 2:
            signal.raise_signal(signal.SIGTERM)  # a shell may have others ignore SIGINT
        ask(name)

    away.ask = interrupted  # type: ignore[method-assign]
    outcome = run_stream(of_kafka(tmp_path, runner), flags)
    assert not outcome.is_spent
    assert outcome.folder.endswith("run_id=ward/epoch=1")
    assert away.asked == ["events"] * 3
    assert counting_charges(tmp_path / "keys") == []


def test_an_epoch_that_was_begun_may_have_read_what_is_deleted(
    tmp_path: Path, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a restart that is refused since the topic does not keep messages for a year."""
    config = of_kafka(tmp_path, "Local")
    with pytest.MonkeyPatch.context() as patch:
        from tracecloak.pipelines.stream.epoch import paid_epoch

        patch.setattr(local_run, "paid_epoch", paid_epoch)
        patch.setattr(local_run, "run_epoch", lambda *_, **__: None)
        patch.setattr(local_run, "step_sinks", lambda _: [])
        run_stream(config)
    assert away.asked == ["events", "clock", "history"]
    away.asked.clear()
    with pytest.raises(PaidError):
        run_stream(config)
    assert away.asked == ["events", "clock", "steps"]


def test_what_was_deleted_is_told_to_the_operator_alone(
    tmp_path: Path, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no terminal is, the folder keeps it, whether the epoch begins or is refused."""

    def refuse(topic: KafkaTopic, start_us: int, tell: Callable[[str], object]) -> None:
        tell("17 partitions")
        raise UsageError("set start to another moment")

    monkeypatch.setattr(kafka_identity, "check_history", refuse)
    with pytest.raises(UsageError, match="another moment"):
        run_stream(of_kafka(tmp_path, "Local"))
    (kept,) = (tmp_path / "keys" / "operator").rglob("operator.log")
    assert "WARNING 17 partitions" in kept.read_text()
    assert counting_charges(tmp_path / "keys") == []


@pytest.mark.parametrize("is_mended", [True, False])
def test_a_subscription_is_waited_for_as_well(
    tmp_path: Path, away: Away, monkeypatch: pytest.MonkeyPatch, is_mended: bool
) -> None:
    class Source:
        def __init__(self, subscription: str, *_: Any, **__: Any) -> None:
            away.ask(subscription)

        def close(self) -> None:
            away.asked.append("closed")

    monkeypatch.setattr(local_run, "PubSubSource", Source)
    monkeypatch.setattr(local_run, "PubSubClock", lambda *_: None)
    name = "projects/p/subscriptions/s"
    away.n_refusals[name] = 2
    if not is_mended:
        away.error = lambda _: UsageError("no subscription")
    with pytest.raises(PaidError if is_mended else UsageError):
        run_stream(stream_config(tmp_path))
    assert away.asked == ([name] * 3 + ["closed"] if is_mended else [name])
