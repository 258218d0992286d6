"""`tracecloak stream` on one machine with real services, killed at any moment; takes minutes."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from tests.engines.fetching import or_skip
from tests.engines.kafka import KafkaBroker, kafka_broker
from tests.support.killed_streams import PERIOD_SECONDS, Runs, body, flags, n_cases, steps, until
from tests.support.pubsub import VARIABLE, Service
from tests.support.pubsub_double import PubSubDouble
from tests.support.releasing import counting_charges

# Seconds that a horizon goes on behind what was sent.
AFTER_SECONDS = 60


@pytest.fixture
def service() -> Iterator[Service]:
    with PubSubDouble() as double:
        made = Service(double.address)
        yield made
        made.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with or_skip(kafka_broker(tmp_path_factory.mktemp("kafka"))) as made:
        yield made


def begin_now() -> float:
    return time.time() // PERIOD_SECONDS * PERIOD_SECONDS


def horizon_of(begin: float, until_seconds: float) -> int:
    return int((until_seconds - begin) / PERIOD_SECONDS) + 1


def assert_both_count_all(folder: Path, runs: Runs, other: Runs, n: int) -> None:
    """Runs both to their end: the steps are the same, and were paid once."""
    for one in (runs, other):
        one.start()
        assert one.stop(None, 200) == 0, one.said()
    assert abs(n_cases(folder / "killed") - n) <= 5
    assert steps(folder / "killed") == steps(folder / "whole")
    assert len(counting_charges(folder / "killed" / "keys")) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
def test_kills_at_any_moment_change_nothing_with_pubsub(
    service: Service, tmp_path: Path, seed: int
) -> None:
    begin, n, seconds = begin_now(), 3_000, 60.0
    again = service.subscribe(service.topic)
    sending = threading.Thread(
        target=lambda: _send(lambda data: service.publish(*data), n, seconds), daemon=True
    )
    horizon = horizon_of(begin, begin + seconds + AFTER_SECONDS)
    runs, other = (
        Runs(
            tmp_path, [*flags(tmp_path / name, begin, horizon), f"--input_subscription={source}"],
            **{VARIABLE: service.address},
        )
        for name, source in (("killed", service.subscription), ("whole", again))
    )  # fmt: skip
    sending.start()
    assert runs.disturb(4, 20, random.Random(seed)) >= 3
    before = len(steps(tmp_path / "killed"))
    runs.start()
    until(lambda: len(steps(tmp_path / "killed")) > before, 120, runs)
    assert runs.stop(signal.SIGTERM) == 0, runs.said()
    sending.join()
    assert_both_count_all(tmp_path, runs, other, n)


@pytest.mark.engines
@pytest.mark.timeout(900)
def test_kills_at_any_moment_change_nothing_with_kafka(broker: KafkaBroker, tmp_path: Path) -> None:
    """And a broker that is away for half a minute delays it, and a new partition is read."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic, brokers = "events", f"kafka://{broker.servers}"
    broker.new_topic(topic, 2)
    for name in ("killed", "whole"):
        broker.new_topic(name, 1)
    begin, n, seconds = begin_now(), 3_000, 60.0
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})

    def send(messages: list[bytes]) -> None:
        for data in messages:
            producer.produce(topic, data)
        producer.flush()

    sending = threading.Thread(target=lambda: _send(send, n, seconds), daemon=True)
    horizon = horizon_of(begin, begin + seconds + AFTER_SECONDS)
    runs, other = (
        Runs(tmp_path, flags(
            tmp_path / name, begin, horizon, input_topic=f"{brokers}/{topic}",
            output_topic=f"{brokers}/{name}",
        ))
        for name in ("killed", "whole")
    )  # fmt: skip
    sending.start()
    assert runs.disturb(4, 6, random.Random(3)) >= 3
    runs.start()
    until(lambda: len(steps(tmp_path / "killed")) >= 2, 120, runs)
    client = AdminClient({"bootstrap.servers": broker.servers})
    client.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    before = len(steps(tmp_path / "killed"))  # those that are decided by now are there soon
    until(lambda: len(steps(tmp_path / "killed")) > before + 6, 120, runs)
    broker.process.kill_9()
    until(lambda: "the stream waits, and goes on when that is over" in runs.said(), 60, runs)
    broker.process.start()
    before = len(steps(tmp_path / "killed"))
    until(lambda: len(steps(tmp_path / "killed")) > before, 120, runs)
    assert runs.stop(signal.SIGINT) == 0, runs.said()
    sending.join()
    assert_both_count_all(tmp_path, runs, other, n)


def _send(publish: object, n: int, seconds: float) -> None:
    """Sends the cases over a time, each event of one some seconds after the other."""
    n_parts = 20
    for part in range(n_parts + 4):
        messages = [
            body(case, number)
            for number in (0, 1, 2)
            for case in range(n)
            if case * n_parts // n + 2 * number == part
        ]
        if messages:
            publish(messages)  # type: ignore[operator]
        time.sleep(seconds / (n_parts + 4))
