"""`tracecloak doctor` of a stream: its source, its epoch, its budget, and who is on call for it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from tests.support.doctor import cut_off, faults
from tests.support.pubsub import VARIABLE, Service
from tests.support.pubsub_double import PubSubDouble
from tests.support.stream_runs import stream_config
from tracecloak.examination.doctor.run import Line, run_checks
from tracecloak.examination.doctor.setting import Setting
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.pipelines.stream.stuck import StuckNote
from tracecloak.schemas.errors import SourceChanged
from tracecloak.transforms.services import kafka_topic


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    with PubSubDouble() as double:
        monkeypatch.setenv(VARIABLE, double.address)
        opened = Service(double.address)
        yield opened
        opened.close()


def lines(config: StreamConfig) -> list[Line]:
    """All lines but of a stream that nothing ends, which is most of these, and of its last run."""
    left_out = "nothing ends", "last run"
    lines = run_checks(Setting(resolve(config)))
    return [line for line in lines if not any(text in line.text for text in left_out)]


def test_nothing_is_wrong_with_a_stream_that_can_begin_and_go_on(
    service: Service, tmp_path: Path
) -> None:
    config = stream_config(tmp_path, input_subscription=service.subscription)
    first = lines(config)
    assert faults(first) == {}
    assert not (tmp_path / "keys").exists() and not (tmp_path / "out").exists()
    with paid_epoch(resolve(config)):
        pass
    texts = {line.check: line.text for line in reversed(lines(config))}
    assert texts["state"] == "the epoch goes on with what it has"
    assert texts["budget"] == "what comes next is paid already"
    assert "step 0 is next" in texts["calendar"]


def test_a_subscription_that_is_gone_is_told(service: Service, tmp_path: Path) -> None:
    gone = service.subscription + "-gone"
    line = faults(lines(stream_config(tmp_path, input_subscription=gone)))["input"]
    assert line.exit_code == 2 and gone in line.text


@pytest.mark.parametrize(
    ("change", "of_topic", "why"),
    [
        ("made anew", False, "its label tracecloak-read-by differs"),
        ("deleted", True, "no subscription"),
        ("detached", False, "it is detached from its topic"),
    ],
)
def test_a_subscription_that_a_start_would_refuse_is_told(
    service: Service, tmp_path: Path, of_topic: bool, change: str, why: str
) -> None:
    """What the run ends with, `doctor` reports before; no run makes a lost subscription anew."""
    own = {"input_topic": service.topic, "input_subscription": None}
    given = own if of_topic else {"input_subscription": service.subscription}
    config = stream_config(tmp_path, **given)
    name = resolve(config).inputs[0].subscription

    cut_off(config)
    assert faults(lines(config)) == {}
    client = service.subscriber
    retention = {"name": name, "message_retention_duration": {"seconds": 3600}}
    mask = {"paths": ["message_retention_duration"]}
    client.update_subscription(request={"subscription": retention, "update_mask": mask})
    assert "unread messages for 1.0 hours" in faults(lines(config))["state"].text
    if change == "detached":
        service.publisher.detach_subscription(request={"subscription": name})
    else:
        client.delete_subscription(subscription=name)
    if change == "made anew":
        client.create_subscription(name=name, topic=service.topic)
    line = faults(lines(config))["state"]
    assert line.exit_code == 6 and why in line.text
    with pytest.raises(SourceChanged, match=why):
        run_stream(config)
    assert faults(lines(config))["state"].text == line.text


def test_a_broker_that_is_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr(kafka_topic, "ASK_SECONDS", 0.5)
    config = stream_config(
        tmp_path, input_subscription=None, input_topic="kafka://127.0.0.1:9/events"
    )
    line = faults(lines(config))["input"]
    assert line.exit_code == 75 and "kafka://127.0.0.1:9" in line.text


def test_what_is_on_call_is_looked_at(service: Service, tmp_path: Path) -> None:
    config = stream_config(
        tmp_path, input_subscription=service.subscription, stuck_after="1h",
        health_file=str(tmp_path / "health.json"),
    )  # fmt: skip
    assert faults(lines(config)) == {}
    for _ in range(3):
        StuckNote(resolve(config)).add(0, "a disk that hangs")
    line = faults(lines(config))["on call"]
    assert line.exit_code == 11 and "a disk that hangs" in line.text


def test_a_port_in_use_and_a_folder_that_is_not_there_are_told(
    service: Service, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = stream_config(
            tmp_path, input_subscription=service.subscription, operator_port=port
        )
        line = faults(lines(config))["on call"]
    assert line.status == "warning" and str(port) in line.text
    config = stream_config(
        tmp_path, input_subscription=service.subscription, health_file=str(tmp_path / "no" / "h"),
    )  # fmt: skip
    assert faults(lines(config))["on call"].exit_code == 2
