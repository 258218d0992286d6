"""Which log a topic is: what tells that it is another one, and what is no difference."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

import confluent_kafka

from tests.support import kafka_double
from tests.support.kafka_double import Record, TopicDouble
from tracecloak.schemas.errors import (
    RetryLater,
    SourceChanged,
    TracecloakError,
    UsageError,
)
from tracecloak.transforms.services import kafka_identity, kafka_reader
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US
from tracecloak.transforms.services.kafka_identity import (
    KnownLog,
    LogNow,
    Place,
    TopicIdentity,
    check_history,
    check_log,
    digests_at,
    look_at,
    message_digest,
)
from tracecloak.transforms.services.kafka_reader import PartitionReader, messages_before
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter

KafkaError, KafkaException = confluent_kafka.KafkaError, confluent_kafka.KafkaException
TOPIC = KafkaTopic("broker:9092", "events")
KEY = b"k" * 32


@pytest.fixture
def topic() -> Iterator[TopicDouble]:
    """Two partitions, in the epoch 3; behind the last message of one is a mark."""
    made = TopicDouble(epoch=3)
    made.add(0, b"a", b"b", b"c")
    made.add(1, b"d")
    made.ends[0] = 4
    with pytest.MonkeyPatch.context() as patch:
        made.used_by(patch)
        yield made


def read(topic: TopicDouble) -> KnownLog:
    """What is known where all of it is read."""
    places = {
        number: replace(Place(0).behind(KEY, records[-1]), next=topic.ends[number])
        for number, records in topic.records.items()
    }
    return KnownLog(places, look_at(TOPIC).identity)


def test_what_is_no_difference(topic: TopicDouble) -> None:
    """Another leader, further messages and partitions, a retention, and brokers without ids.

    By a state that was written and read again. What is one is in the drills of `doctor`.
    """
    known = KnownLog.from_json(json.loads(json.dumps(read(topic).to_json())))
    assert known == read(topic)
    topic.epoch = 7
    topic.add(0, b"e")
    topic.add(2, b"f")
    topic.stables[0] = 1  # a transaction that another producer forgot
    found, now = check_log(TOPIC, KEY, known)
    assert {number: place.epoch for number, place in found.places.items()} == {0: 7, 1: 7}
    assert (now.bounds[0].stable, now.bounds[0].end, now.bounds[2].first) == (1, 5, 0)
    topic.firsts[0] = 4  # retention took the message read last: the rest decides
    topic.records[0] = topic.records[0][-1:]
    check_log(TOPIC, KEY, known)
    topic.cluster_id, topic.topic_id = None, (0, 0)
    check_log(TOPIC, KEY, known)


def test_a_reader_asks_for_the_offsets_of_its_partitions_alone(
    topic: TopicDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a reader for each partition; and one that is gone, or was cut, is noticed all the same."""
    looks: list[LogNow] = []

    def watched(*given: Any) -> LogNow:
        looks.append(look_at(*given))
        return looks[-1]

    monkeypatch.setattr(kafka_reader, "look_at", watched)
    reader = PartitionReader(TOPIC, "group", KnownLog({1: read(topic).places[1]}), KEY)
    reader.look(10)
    topic.add(2)  # a client that does not know it needs not ask for it
    assert reader.watermark_us(1, 20) == 20 - CLOCK_SKEW_US
    assert [set(now.bounds) for now in looks] == [{0, 1}, {1}]
    del topic.ends[2]
    end = topic.ends.pop(1)
    with pytest.raises(SourceChanged, match="1 of its partitions are gone"):
        reader.watermark_us(1, 40)
    topic.ends[1] = end - 1
    with pytest.raises(SourceChanged, match="partition 1 was truncated"):
        reader.watermark_us(1, 50)


def test_positions_of_an_earlier_version_adopt_the_log_that_is_there(topic: TopicDouble) -> None:
    known = KnownLog.from_json({"0": 4, "1": 0})
    assert known == KnownLog({0: Place(4), 1: Place(0)})
    found, now = check_log(TOPIC, KEY, known)
    assert found.identity == now.identity == TopicIdentity("cluster", now.identity.topic_id)
    topic.topic_id = (1, 2)
    with pytest.raises(SourceChanged):
        check_log(TOPIC, KEY, found)


@pytest.mark.parametrize(
    "other",
    [
        Record(0, 1, b"b", 5),
        Record(1, 0, b"b", 5),
        Record(0, 0, b"b", 6),
        Record(0, 0, b"c", 5),
        Record(0, 0, None, 5),
    ],
)
def test_a_digest_is_of_place_time_and_content_under_a_key(other: Record) -> None:
    one = Record(0, 0, b"b", 5)
    assert message_digest(KEY, one) == message_digest(KEY, Record(0, 0, b"b", 5, epoch=9))
    assert message_digest(KEY, one) not in (
        message_digest(KEY, other),
        message_digest(b"q" * 32, one),
    )


def refusing(code: int) -> Callable[..., Any]:
    """A call of the client library that fails."""

    def fail(*_: Any, **__: Any) -> Any:
        raise KafkaException(KafkaError(code))

    return fail


AWAY = refusing(KafkaError._TRANSPORT)


def produced(topic: KafkaTopic) -> None:
    with pytest.MonkeyPatch.context() as patch:
        too_large = refusing(KafkaError.MSG_SIZE_TOO_LARGE)
        patch.setattr(confluent_kafka, "Producer", lambda _: SimpleNamespace(produce=too_large))
        TopicWriter(topic).send([(b"key", b"data")], {})


# What is asked, what of the clients answers otherwise, what a consumer fails with, and what is
# said: no broker is waited for longer than it may be, and what it answers is passed on.
Ask = Callable[[KafkaTopic], Any]
UNANSWERED: dict[str, tuple[Ask, dict[str, Any], int | None, type[Exception], str]] = {
    "no message at an offset": (lambda t: digests_at(t, KEY, {0: 4}), {}, None, RetryLater,
        "gives no messages of 'events' in time"),
    "an error at an offset": (lambda t: digests_at(t, KEY, {0: 0}), {}, KafkaError._TRANSPORT,
        RetryLater, "^kafka://broker:9092: .*transport"),
    "no answer on the past": (lambda t: check_history(t, 0), {"offsets_for_times": lambda *_,
        **__: [SimpleNamespace(error=KafkaError(KafkaError._TIMED_OUT))]}, None, RetryLater,
        "cannot be asked for the past of 'events'"),
    "an error of a sample": (lambda t: messages_before(t, 1_000, 9), {}, KafkaError._TRANSPORT,
        RetryLater, "^kafka://broker:9092: .*transport"),
    "a sample that takes too long": (lambda t: messages_before(t, 1_000, 9), {}, None, RetryLater,
        "gives no messages of 'events' in time"),
    "no answer to who looks": (lambda t: messages_before(t, 1, 1), {"offsets_for_times": AWAY},
        None, RetryLater, "cannot be asked for 'events'"),
    "no answer on settings": (lambda t: t.check(), {"describe_configs": lambda *_, **__:
        defaultdict(lambda: SimpleNamespace(result=AWAY))}, None, RetryLater, "cannot be asked"),
    "no topic": (lambda t: replace(t, name="none").check(), {}, None, UsageError,
        "has no topic 'none'"),
    "a message that no client takes": (produced, {}, None, UsageError,
        "did not take a message: .*It has 4 bytes"),
    "what nobody can mend by waiting": (lambda t: PartitionReader(t, "g", KnownLog({0: Place(0)}
        )).poll(1, 0.0), {}, KafkaError.INVALID_REQUEST, TracecloakError, "cannot be read: "),
}  # fmt: skip


@pytest.mark.parametrize("name", UNANSWERED)
def test_what_brokers_do_not_answer_is_named(
    topic: TopicDouble, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Catches a wait without an end, and an answer that is taken for what was asked."""
    ask, answers, code, kind, said = UNANSWERED[name]
    topic.firsts[0] = 1
    topic.errors = [] if code is None else [code]
    monkeypatch.setattr(kafka_identity, "ASK_SECONDS", -1.0)
    for call, answer in answers.items():
        owner = kafka_double._Admin if call == "describe_configs" else kafka_double._Consumer
        monkeypatch.setattr(owner, call, answer)
    with pytest.raises(kind, match=said) as told:
        ask(TOPIC)
    assert type(told.value) is kind
