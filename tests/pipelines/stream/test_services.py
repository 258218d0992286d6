"""Services of streams: what is waited for, and what runners of Beam do with topics of Kafka."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from tests.support.releasing import counting_charges
from tests.support.stream_runs import in_time, random_messages, run, stream_config
from tracecloak.pipelines.stream import local_run
from tracecloak.pipelines.stream import run as stream
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.plan import StreamPlan, resolve, step_sinks
from tracecloak.pipelines.stream.run import run_stream, stream_options
from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.services import kafka_identity
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.read_kafka import ReadKafka
from tracecloak.transforms.stream.step_sinks import SendSteps, StepSink

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


# --- Topics of Kafka on Beam ----------------------------------------------------------------------


CHECKPOINTS = "--checkpointing_interval=1000"
NAMES_OF_STATE = {
    "ref_AppliedPTransform_AssembleCases-Assemble_25",
    "ref_AppliedPTransform_PublishSteps-Release_42",
}


KAFKA = {"input_subscription": None, "input_topic": "kafka://b:1/events"}


def of_topics(folder: Path, **changes: Any) -> StreamConfig:
    return stream_config(folder, **KAFKA, **changes)


def test_the_topics_that_a_stream_writes_to_are_looked_for_before_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    monkeypatch.setattr(KafkaTopic, "check", lambda one, is_read: seen.append((one.name, is_read)))
    kafka, pubsub = "kafka://b:1", "projects/hospital/topics/steps"
    [sink] = step_sinks(of_topics(tmp_path, output_topic=f"{kafka}/steps"))
    others = {"output_topic": pubsub, "reject_topic": f"{kafka}/unread"}
    [other] = step_sinks(of_topics(tmp_path, **others))
    assert isinstance(sink, StepSink) and isinstance(other, StepSink)
    assert seen == [("steps", False), ("unread", False)]
    assert step_sinks(of_topics(tmp_path)) == []
    with pytest.raises(UsageError, match="projects/PROJECT/topics/NAME, got"):
        step_sinks(of_topics(tmp_path, reject_topic="unread"))


@pytest.mark.parametrize(
    ("changes", "flags", "said"),
    [
        ({"runner": "PrismRunner"}, [], "no other runs a stream"),
        ({"runner": "FlinkRunner"}, [CHECKPOINTS], "FlinkRunner reads no Pub/Sub: use Local or Da"),
        ({"runner": "DataflowRunner", **KAFKA}, [], "reads no Kafka: use Local or FlinkRunner"),
        (
            {"runner": "FlinkRunner", **KAFKA},
            [],
            "keeps no state without checkpoints: .*--checkpointing_interval 60000",
        ),
        ({}, ["--streaming"], "takes nothing of Beam, got --streaming"),
        ({"runner": "BundleBasedDirectRunner"}, [], "Use Local, which reads the same"),
        ({"worker_keys": "keys"}, [], "worker_keys are for workers elsewhere"),
    ],
)
def test_what_a_runner_does_not_do_is_told_before_anything_is_paid(
    tmp_path: Path, changes: dict[str, Any], flags: list[str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        run_stream(stream_config(tmp_path, **changes), flags)
    assert counting_charges(tmp_path / "keys") == []


def test_a_stream_that_begins_anew_beside_published_steps_is_told_what_becomes_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = stream_config(tmp_path)
    anew = stream_options("FlinkRunner", [CHECKPOINTS])
    restored = stream_options("FlinkRunner", [CHECKPOINTS, "--savepoint_path=file:///chk-7"])
    with paid_epoch(resolve(config)) as epoch:
        in_kafka = replace(epoch, plan=epoch.plan.with_keys(runner="FlinkRunner"))
        stream.warn_without_state(anew, in_kafka)
        assert "without their state" not in caplog.text
        Path(epoch.steps.folder).mkdir(parents=True)
        Path(epoch.steps.folder, "step-000000.decision").write_bytes(b"kept")
        with caplog.at_level(logging.WARNING, logger="tracecloak"):
            stream.warn_without_state(restored, in_kafka)
            assert "without their state" not in caplog.text
            stream.warn_without_state(anew, in_kafka)
    assert "--savepoint_path" in caplog.text


def test_a_failure_after_a_start_with_state_says_whose_the_state_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that the runner says, which can hold data."""
    foreign = RuntimeError("No receiver found for timer of case-7")

    def fails(*_: Any) -> None:
        raise foreign

    monkeypatch.setattr(stream, "_run", fails)
    for is_restored in (True, False):
        folder = tmp_path / str(is_restored)
        folder.mkdir()
        monkeypatch.setattr(stream, "is_restored", lambda _, given=is_restored: given)
        with pytest.raises(TracecloakError) as caught:
            run(stream_config(folder), [])
        assert ("to the version and configuration that left it" in str(caught.value)) == (
            is_restored
        )
        assert "case-7" not in str(caught.value)


def test_state_has_the_names_by_which_flink_finds_it_in_savepoints_of_older_builds(
    tmp_path: Path,
) -> None:
    """A change of them is said in the docs of streams on Flink: no savepoint is taken over."""
    pipeline = beam.Pipeline("BundleBasedDirectRunner")
    topic = KafkaTopic("broker:9092", "events", None)
    with paid_epoch(resolve(stream_config(tmp_path))) as epoch:
        source = ReadKafka(topic, "group", "clock", 0, 1)
        stream.build_stream(pipeline, source, epoch, [beam.ParDo(SendSteps(StepSink(topic)))])
    transforms = pipeline.to_runner_api().components.transforms
    stateful = {
        name
        for name, transform in transforms.items()
        if transform.spec.urn == common_urns.primitives.PAR_DO.urn
        and beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload).timer_family_specs
    }
    assert stateful == NAMES_OF_STATE


def test_a_drain_publishes_the_steps_that_are_left_only_if_it_was_asked_for(tmp_path: Path) -> None:
    """The watermark leaps to the end of time while the horizon lies ahead."""
    ahead = {"start": "2100-01-01"}
    with pytest.raises(Exception, match="is over only in"):
        run(stream_config(tmp_path, **ahead), in_time(random_messages(5), 20))
    assert list(tmp_path.rglob("step-*")) == []
    config = stream_config(tmp_path, **ahead, publish_on_drain="true")
    assert run(config, in_time(random_messages(5), 20)).is_spent
    assert len(list(tmp_path.rglob("step-*.json"))) == 6
