"""KafkaClock without a broker: whose clock moves the watermark, and what holds it."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, admin

from tests.support.kafka_double import TopicDouble
from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.services import kafka_clock
from tracecloak.transforms.services.kafka_clock import KafkaClock, StampedProbe, check_clocks
from tracecloak.transforms.services.kafka_identity import check_history
from tracecloak.transforms.services.kafka_topic import KafkaTopic

TOPIC = KafkaTopic("broker:9092", "events")
S = 1_000_000


class Cluster:
    """Brokers, each with a clock, and a topic `events` of which nothing is unread."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.ahead = 0.0
        self.brokers = [0.0]
        self.made: list[Any] = []
        self.refusal: int | None = None
        self.is_stamping = True
        self.n_asked = 0

    def clock(self) -> float:
        return self.now + self.ahead

    def refused(self) -> Any:
        return None if self.refusal is None else KafkaError(self.refusal)


class FakeAdmin:
    """What `AdminClient` is asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_topics(self, timeout: float) -> Any:
        replicas = {0: SimpleNamespace(replicas=[0, 1])}
        topics = {"events": SimpleNamespace(partitions=replicas, error=None)}
        for made in self._cluster.made:
            partitions = dict.fromkeys(range(made.num_partitions))
            topics[made.topic] = SimpleNamespace(partitions=partitions, error=None)
        brokers = dict.fromkeys(range(len(self._cluster.brokers)))
        return SimpleNamespace(brokers=brokers, topics=topics)

    def create_topics(self, topics: list[Any]) -> Any:
        self._cluster.made += topics
        answer: Future[None] = Future()
        if (error := self._cluster.refused()) is not None:
            answer.set_exception(KafkaException(error))
        else:
            answer.set_result(None)
        return {topic.topic: answer for topic in topics}


class FakeProducer:
    """A producer whose message n is stamped by broker n."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sent: list[tuple[int, Callable[[Any, Any], None]]] = []

    def produce(self, name: str, data: bytes, partition: int, on_delivery: Any) -> None:
        self._sent.append((partition, on_delivery))

    def flush(self, seconds: float) -> int:
        cluster = self._cluster
        cluster.n_asked += 1
        kind = confluent_kafka.TIMESTAMP_LOG_APPEND_TIME if cluster.is_stamping else 1
        for partition, report in self._sent:
            stamp = kind, int((cluster.now + cluster.brokers[partition]) * 1e3)
            report(cluster.refused(), SimpleNamespace(timestamp=lambda stamp=stamp: stamp))
        self._sent.clear()
        return 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(kafka_clock, "_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(admin, "AdminClient", lambda _: FakeAdmin(made))
    monkeypatch.setattr(confluent_kafka, "Producer", lambda _: FakeProducer(made))
    return made


def clock_of(cluster: Cluster) -> KafkaClock:
    return KafkaClock(TOPIC, "tracecloak-clock", cluster.clock)


# --- The clock --------------------------------------------------------------------------------


def test_the_brokers_tell_the_time_by_a_topic_that_is_made_once(cluster: Cluster) -> None:
    cluster.brokers = [0.5, -0.5, 0.0]
    clock = clock_of(cluster)
    assert clock.passed_us() == 999_500_000  # by the clock that is furthest behind
    cluster.now += 1
    assert clock.passed_us() == 1_000_500_000
    [made] = cluster.made
    assert (made.topic, made.num_partitions, made.replication_factor) == ("tracecloak-clock", 3, 2)
    assert made.config["message.timestamp.type"] == "LogAppendTime"
    assert int(made.config["retention.ms"]) <= 86_400_000


def test_they_are_not_asked_more_often_than_every_few_seconds(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_clock, "_EVERY_SECONDS", 3_600.0)
    clock = clock_of(cluster)
    told = clock.passed_us()
    cluster.now += 9
    assert clock.passed_us() == told
    assert cluster.n_asked == 1


@pytest.mark.parametrize(("ahead", "said"), [(90.0, "90.0 s ahead"), (-90.0, "90.0 s behind")])
def test_no_time_is_told_while_clocks_differ(cluster: Cluster, ahead: float, said: str) -> None:
    clock = clock_of(cluster)
    clock.passed_us()
    cluster.ahead = ahead
    for _ in range(2):
        with pytest.raises(RetryLater, match=said):
            clock.passed_us()
    cluster.ahead = 1.9
    assert clock.passed_us() == 1_000 * S


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, UsageError),
        (KafkaError.POLICY_VIOLATION, UsageError),
        (KafkaError._MSG_TIMED_OUT, RetryLater),
        (KafkaError.TOPIC_ALREADY_EXISTS, RetryLater),
    ],
)
@pytest.mark.parametrize("is_made", [True, False])
def test_a_topic_that_can_neither_be_made_nor_written_is_told_with_the_remedy(
    cluster: Cluster, code: int, kind: type[TracecloakError], is_made: bool
) -> None:
    clock = clock_of(cluster)
    if is_made:
        clock.passed_us()
    cluster.refusal = code
    with pytest.raises(kind) as refused:
        clock.passed_us()
    if kind is UsageError:
        assert "Make it with message.timestamp.type" in str(refused.value)
    cluster.refusal = None
    assert clock.passed_us() == 1_000 * S


@pytest.mark.parametrize(
    ("probes", "said"),
    [
        ([(102, 100, 103)], ""), ([(100, 102, 100)], ""),
        ([(100, 130, 160)], ""),  # the answer took a minute: the stamp may be right
        ([(100, 101, 101), (100, 99, 100)], ""),
        ([(190, 100, 191)], "is 90.0 s ahead of that of the service"),
        ([(100, 190, 101)], "is 89.0 s behind that of the service"),
        ([(100, 102.1, 100)], "is 2.1 s behind"),
        # Each is near this machine's, and one is not near the other.
        ([(100, 101.5, 100), (100, 98.5, 100)], "is 1.5 s ahead of and 1.5 s behind"),
        ([(100, 100, 100), (100, 97, 100)], "is 3.0 s ahead of"),
    ],
)  # fmt: skip
def test_clocks_that_are_certain_to_differ_are_waited_for(
    probes: list[tuple[float, float, float]], said: str
) -> None:
    made = [StampedProbe(*(int(S * n) for n in probe)) for probe in probes]
    with pytest.raises(RetryLater, match=said) if said else nullcontext():
        check_clocks("the service", made)


def test_a_topic_that_senders_stamp_tells_no_time(cluster: Cluster) -> None:
    cluster.is_stamping = False
    with pytest.raises(UsageError, match=r"message\.timestamp\.type=LogAppendTime"):
        clock_of(cluster).passed_us()


def test_brokers_that_do_not_answer_tell_no_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeProducer, "flush", lambda *_: 1)
    with pytest.raises(RetryLater, match="does not tell its time"):
        clock_of(cluster).passed_us()

    def fail(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(FakeAdmin, "list_topics", fail)
    with pytest.raises(RetryLater, match="cannot be asked for 'events'"):
        clock_of(cluster).passed_us()


# --- The source -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "told", "kind"),
    [
        (KafkaError._TRANSPORT, [], RetryLater),
        (KafkaError._TIMED_OUT, [KafkaError._ALL_BROKERS_DOWN], RetryLater),
        (KafkaError._TRANSPORT, [KafkaError._AUTHENTICATION], UsageError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, [], UsageError),
    ],
)
def test_brokers_that_refuse_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, raised: int, told: list[int], kind: type[TracecloakError]
) -> None:
    class Client:
        def __init__(self, settings: dict[str, Any]) -> None:
            self._say = settings["error_cb"]

        def list_topics(self, timeout: float) -> None:
            raise KafkaException(KafkaError(raised))

        def poll(self, timeout: float) -> None:
            for code in told:
                self._say(KafkaError(code))

    monkeypatch.setattr(admin, "AdminClient", Client)
    with pytest.raises(kind, match="'events'"):
        TOPIC.check()


# --- What was deleted before the start --------------------------------------------------------


@pytest.mark.parametrize(
    ("partitions", "is_refused", "said"),
    [
        ({0: (0, [7_000]), 1: (0, [])}, False, None),
        ({0: (5, [6_999, 7_000]), 1: (0, [7_000])}, False, "1 partitions of topic .* were deleted"),
        ({0: (5, [6_999]), 1: (6, [])}, False, "2 partitions .* 1 of these partitions are empty"),
        ({0: (5, [6_999]), 1: (6, [7_000])}, True, "1 have no message from before the start"),
    ],
)
def test_what_was_deleted_before_an_epoch_began_is_told(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    partitions: dict[int, tuple[int, list[int]]],
    is_refused: bool,
    said: str | None,
) -> None:
    topic = TopicDouble()
    for number, (first, stamps) in partitions.items():
        topic.firsts[number] = topic.ends[number] = first
        for millis in stamps:
            topic.add(number, b"", millis=millis)
    topic.used_by(monkeypatch)
    told: list[str] = []
    for tell in (told.append, None):
        if is_refused:
            with pytest.raises(UsageError, match="set start to behind") as refused:
                check_history(TOPIC, 7 * S, tell)
            assert not any(letter.isdigit() for letter in str(refused.value).replace("step 0", ""))
        else:
            check_history(TOPIC, 7 * S, tell)
    assert caplog.text == ""  # numbers of the data are for whom the caller tells
    assert [bool(re.search(said or "nothing", line)) for line in told] == [True] * bool(said)
