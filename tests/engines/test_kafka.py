"""The client of Kafka's topics against a broker: positions, watermarks, transactions, refusals."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.engines.fetching import or_skip
from tests.engines.kafka import PASSWORD, KafkaBroker, kafka_broker
from tests.engines.processes import free_port, wait_until
from tests.support.certificates import certificate
from tracecloak.schemas.errors import RetryLater, SourceChanged, UsageError
from tracecloak.schemas.plugins import Plugins
from tracecloak.transforms.services import kafka_topic
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US, KafkaClock
from tracecloak.transforms.services.kafka_identity import KnownLog, check_history, log_since
from tracecloak.transforms.services.kafka_reader import KafkaMessage, PartitionReader
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter
from tracecloak.transforms.stream.sources import KafkaSource

pytestmark = pytest.mark.engines
_SECONDS = 30.0


@pytest.fixture
def topic(broker: KafkaBroker, request: pytest.FixtureRequest) -> KafkaTopic:
    """A topic of the test's own, of one partition."""
    name = str(request.node.name).replace("[", ".").replace("]", "")
    broker.new_topic(name)
    return KafkaTopic(broker.servers, name)


def producer(topic: KafkaTopic, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": topic.servers, "log_level": 0, **settings})


def send(made: Producer, topic: KafkaTopic, *texts: str) -> None:
    for text in texts:
        made.produce(topic.name, text.encode())
    assert made.flush(_SECONDS) == 0


def read(reader: PartitionReader, n_messages: int) -> list[KafkaMessage]:
    """Polls until so many messages came."""
    found: list[KafkaMessage] = []

    def came() -> bool:
        found.extend(reader.poll(n_messages - len(found), 0.2))
        return len(found) == n_messages

    wait_until(came, _SECONDS, lambda: f"{len(found)} of {n_messages} messages came")
    return found


def now_us() -> int:
    return time.time_ns() // 1_000


def test_the_watermark_is_of_the_oldest_unread_message_or_of_the_clock(topic: KafkaTopic) -> None:
    made = producer(topic)
    send(made, topic, "a", "b")
    reader = PartitionReader(topic, "g", KnownLog.from_json({0: 0}))
    before = reader.watermark_us(0, now_us())
    [first] = read(reader, 1)
    assert (first.data, first.offset, first.message_id) == (b"a", 0, "0")
    assert before < first.published_us
    assert reader.watermark_us(0, now_us()) == first.published_us - CLOCK_SKEW_US
    [second] = read(reader, 1)
    passed_us = now_us()
    assert reader.watermark_us(0, passed_us) == passed_us - CLOCK_SKEW_US
    send(made, topic, "c")  # a message that was just appended counts
    assert reader.watermark_us(0, now_us()) == second.published_us - CLOCK_SKEW_US
    reader.close()


def test_a_transaction_holds_the_watermark_until_it_is_over(topic: KafkaTopic) -> None:
    """Catches messages of a long transaction that come when their steps are published."""
    made = producer(topic, **{"transactional.id": topic.name})
    made.init_transactions()
    reader = PartitionReader(topic, "g", KnownLog.from_json({0: 0}))
    made.begin_transaction()
    send(made, topic, "a")
    assert not reader.poll(1, 1.0)
    assert reader.watermark_us(0, now_us()) < 0
    made.commit_transaction()
    [first] = read(reader, 1)
    assert first.data == b"a"
    # The mark of its end has an offset and no message: the partition is idle, and says so.
    wait_until(
        lambda: not reader.poll(1, 0.2) and reader.watermark_us(0, now_us()) > first.published_us,
        _SECONDS,
        lambda: "the watermark stands still behind a transaction",
    )
    made.begin_transaction()
    send(made, topic, "taken back")
    made.abort_transaction()
    send(producer(topic), topic, "b")
    assert [message.data for message in read(reader, 1)] == [b"b"]
    reader.close()


def test_only_a_topic_that_brokers_stamp_is_read(broker: KafkaBroker, topic: KafkaTopic) -> None:
    topic.check()
    with pytest.raises(UsageError, match="has no topic 'nowhere'"):
        KafkaTopic(broker.servers, "nowhere").check()
    broker.new_topic("by-senders", message_timestamp_type="CreateTime")
    by_senders = KafkaTopic(broker.servers, "by-senders")
    by_senders.check(is_read=False)
    with pytest.raises(UsageError, match=r"message\.timestamp\.type=LogAppendTime"):
        by_senders.check()
    source = of_log(topic, {})
    source.watermark_us()
    broker.alter(topic.name, "cleanup.policy", "compact")
    with pytest.raises(UsageError, match="is compacted"):
        topic.check()
    with pytest.raises(RetryLater, match="is compacted"):
        for _ in range(70):  # within the minute
            source.watermark_us()
            time.sleep(1)
    source.close()


def test_a_partition_that_is_added_to_a_topic_that_is_well_is_read(topic: KafkaTopic) -> None:
    """Catches a question to a client that knows the topic as it was, and never hears of this."""
    made = producer(topic)
    send(made, topic, "a")
    source = KafkaSource(topic, "g", KafkaClock(topic, "tracecloak-clock"), 0, {})
    found: list[bytes] = []

    def is_read_up_to(moment_us: int) -> bool:
        found.extend(message.data for message in source.pull(10, 0.2).messages)
        try:
            return source.watermark_us() >= moment_us
        except RetryLater:  # a broker may hear of a partition after the one that made it
            return False

    wait_until(lambda: is_read_up_to(now_us() - 20_000_000), _SECONDS, lambda: "nothing is read")
    client = AdminClient({"bootstrap.servers": topic.servers})
    client.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(_SECONDS)
    made = producer(topic)
    made.produce(topic.name, b"b", partition=1)
    assert made.flush(_SECONDS) == 0
    sent_us = now_us()
    wait_until(lambda: is_read_up_to(sent_us), _SECONDS, lambda: "the stream stands still")
    assert found == [b"a", b"b"]
    places = KnownLog.from_json(source.positions).places
    assert {number: place.next for number, place in places.items()} == {0: 1, 1: 1}
    source.close()


def test_the_broker_tells_its_time(broker: KafkaBroker, topic: KafkaTopic) -> None:
    before_us = now_us()
    told_us = KafkaClock(topic, "clock-of-a-test").passed_us()
    assert before_us - 1_000 <= told_us <= now_us()
    ahead = KafkaClock(topic, "clock-of-a-test", lambda: time.time() + 90)
    with pytest.raises(RetryLater, match=r"clock of this machine is (89|90)\.. s ahead of"):
        ahead.passed_us()
    client = AdminClient({"bootstrap.servers": topic.servers})
    (made,) = client.list_topics().topics["clock-of-a-test"].partitions.values()
    assert made.replicas == [1]
    broker.new_topic("clock-of-senders", message_timestamp_type="CreateTime")
    with pytest.raises(UsageError, match=r"set its message\.timestamp\.type=LogAppendTime"):
        KafkaClock(topic, "clock-of-senders").passed_us()


def test_messages_since_the_start_that_are_gone_are_an_error(topic: KafkaTopic) -> None:
    told: list[str] = []
    made = producer(topic)
    moments = []
    for text in "abcd":
        moments.append(now_us())
        send(made, topic, text)
        time.sleep(0.02)  # stamps are of milliseconds
    check_history(topic, moments[1], told.append)
    assert told == []  # nothing is gone
    client = AdminClient({"bootstrap.servers": topic.servers})

    def delete(n_messages: int) -> None:
        gone = client.delete_records([TopicPartition(topic.name, 0, n_messages)])
        for answer in gone.values():
            answer.result(_SECONDS)

    delete(2)
    for at in (0, 1, 2):
        with pytest.raises(UsageError, match="may be deleted"):
            check_history(topic, moments[at])
    check_history(topic, moments[3], told.append)
    assert "messages of 1 partitions" in told[-1]
    check_history(topic, now_us() + 1_000_000)
    delete(4)
    check_history(topic, moments[0], told.append)  # nobody can tell
    assert "1 of these partitions are empty" in told[-1]


# --- The log that is read -----------------------------------------------------------------------

KEY = b"k" * 32


def of_log(topic: KafkaTopic, positions: Mapping[str, Any]) -> KafkaSource:
    clock = KafkaClock(topic, "tracecloak-clock")
    return KafkaSource(topic, "g", clock, 0, positions, KEY)


def pulled(source: KafkaSource, n_messages: int) -> list[bytes]:
    found: list[bytes] = []

    def came() -> bool:
        found.extend(message.data for message in source.pull(100, 0.2).messages)
        return len(found) >= n_messages

    wait_until(came, _SECONDS, lambda: f"{len(found)} of {n_messages} messages came")
    return found


def test_a_topic_that_is_made_anew_is_no_longer_read(
    broker: KafkaBroker, topic: KafkaTopic
) -> None:
    """While the stream runs and while it is stopped, and with more messages than before."""
    send(producer(topic), topic, *"abc")
    source = of_log(topic, {})
    assert pulled(source, 3) == [b"a", b"b", b"c"]
    kept = source.positions
    of_log(topic, kept).close()
    broker.make_anew(topic.name)
    send(producer(topic), topic, *"vwxyz")
    with pytest.raises(SourceChanged, match="deleted and made anew"):
        for _ in range(60):  # the library gives y and z, as if nothing had happened
            assert not source.pull(10, 0.5).messages
    assert source.positions == kept
    with pytest.raises(SourceChanged, match="deleted and made anew"):
        of_log(topic, kept)
    source.close()


def test_a_topic_that_senders_stamp_for_a_while(broker: KafkaBroker, topic: KafkaTopic) -> None:
    """Its message stops the partition, and a person passes it by time."""
    send(producer(topic), topic, "a")
    source = of_log(topic, {})
    broker.alter(topic.name, "message.timestamp.type", "CreateTime")
    made = producer(topic)
    made.produce(topic.name, b"unstamped", timestamp=time.time_ns() // 1_000_000 + 900_000)
    assert made.flush(_SECONDS) == 0
    with pytest.raises(UsageError, match="from its senders"):
        topic.check()
    broker.alter(topic.name, "message.timestamp.type", "LogAppendTime")
    topic.check()
    since_us = now_us()
    send(made, topic, "b")
    assert pulled(source, 1) == [b"a"]
    assert not source.pull(10, 2.0).messages
    with pytest.raises(RetryLater, match="no broker has stamped"):
        source.watermark_us()
    source.close()
    again = of_log(topic, log_since(topic, since_us).to_json())
    assert pulled(again, 1) == [b"b"]
    again.close()


@dataclass(frozen=True)
class Secured:
    """A broker that is secured."""

    broker: KafkaBroker
    servers: str
    folder: Path

    def topic(
        self, token: str | None = None, ca: str = "ca.pem", name: str = "events", **settings: str
    ) -> KafkaTopic:
        """A topic, and how a client says who it is."""
        path = self.folder / f"{len(list(self.folder.iterdir()))}.properties"
        lines = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.folder / ca)}
        lines |= {name.replace("_", "."): value for name, value in settings.items()}
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return KafkaTopic(self.servers, name, str(path), token)


@pytest.fixture(scope="module")
def secured(place: Path) -> Iterator[Secured]:
    folder = place / "secured-kafka"
    folder.mkdir()
    private, public = certificate("broker")
    (folder / "tls.pem").write_text(private + public)
    (folder / "ca.pem").write_text(public)
    (folder / "other.pem").write_text(certificate("somebody else")[1])
    servers = f"localhost:{free_port()}"
    with or_skip(kafka_broker(folder, servers)) as broker:
        broker.new_topic("events")
        client = AdminClient({"bootstrap.servers": broker.servers})
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        user = UserScramCredentialUpsertion("scram", credential, PASSWORD.encode())
        for answer in client.alter_user_scram_credentials([user]).values():
            answer.result(_SECONDS)
        yield Secured(broker, servers, folder)


def unsigned(servers: str, configuration: str) -> tuple[str, float]:
    """A token that a broker takes which is set to trust anybody."""
    ends = time.time() + 3_600
    parts = [{"alg": "none"}, {"sub": configuration, "iat": time.time() - 1, "exp": ends}]
    encoded = [urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, ""]), ends


def read_back(topic: KafkaTopic, text: bytes) -> None:
    """Checks a topic, asks its brokers for the time, sends a message and reads it."""
    topic.check()
    assert abs(KafkaClock(topic, "tracecloak-clock").passed_us() - time.time_ns() // 1_000) < 5e6
    TopicWriter(topic).send([(b"key", text)], {})
    reader = PartitionReader(topic, "g", KnownLog.from_json({0: 0}))
    contents: list[bytes] = []

    def came() -> bool:
        contents.extend(message.data for message in reader.poll(100, 0.2))
        return text in contents

    wait_until(came, _SECONDS, lambda: f"{len(contents)} messages came")
    reader.close()


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "plain"), ("SCRAM-SHA-512", "scram")])
def test_who_is_known_reads_and_writes(secured: Secured, mechanism: str, user: str) -> None:
    known = {"sasl_mechanisms": mechanism, "sasl_username": user, "sasl_password": PASSWORD}
    read_back(secured.topic(**known), mechanism.encode())


def test_a_token_of_an_entry_says_who_reads(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: Plugins[kafka_topic.TokenSource] = Plugins("token", "none", {"unsigned": unsigned})
    monkeypatch.setattr(kafka_topic, "TOKENS", tokens)
    read_back(secured.topic("unsigned", sasl_oauthbearer_config="ward"), b"by token")


@pytest.mark.parametrize(
    ("ca", "settings", "told"),
    [
        ("ca.pem", {"sasl_mechanisms": "PLAIN", "sasl_username": "plain"},
         "refuses 'events' .*[Aa]uthentication"),
        ("ca.pem", {"sasl_mechanisms": "SCRAM-SHA-512", "sasl_username": "nobody"},
         "refuses 'events' .*[Aa]uthentication"),
        ("other.pem", {"sasl_mechanisms": "PLAIN", "sasl_username": "plain"},
         "refuses 'events' .*certificate verify failed"),
        ("none.pem", {"sasl_mechanisms": "PLAIN", "sasl_username": "plain"},
         r"kafka_properties: .*ssl\.ca\.location"),
        ("ca.pem", {"sasl_mechanism": "PLAIN", "sasl_username": "plain", "no_such": "x"},
         r"kafka_properties: .*no\.such"),
    ],
)  # fmt: skip
def test_who_is_not_known_is_told_the_mend_and_no_secret(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, ca: str, settings: dict[str, str], told: str
) -> None:
    monkeypatch.setattr(kafka_topic, "ASK_SECONDS", 6.0)
    topic = secured.topic(ca=ca, **settings, sasl_password="wrong-hunter2")
    with pytest.raises(UsageError, match=told) as caught:
        topic.check()
    assert "hunter2" not in str(caught.value)


def test_a_client_without_tls_is_told_why_it_waits(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topic, "ASK_SECONDS", 6.0)
    with pytest.raises(RetryLater, match=r"security\.protocol"):
        KafkaTopic(secured.servers, "events").check()
