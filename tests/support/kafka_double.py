"""A topic of Kafka in this process: what clients of the library confluent-kafka are answered.

Each message is where a test put it, with the stamp that the test gave it. There is no network, no
group and no transaction; an offset without a message is as one of a transaction's marks.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.services import kafka_identity

STAMPED = confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
BY_SENDER = confluent_kafka.TIMESTAMP_CREATE_TIME
_EARLIEST = -2  # of an OffsetSpec
SOUND = {
    "message.timestamp.type": "LogAppendTime",
    "cleanup.policy": "delete",
    "retention.ms": "-1",
}


@dataclass
class Record:
    """What a consumer gets: a message, or an error."""

    partition_number: int
    offset_number: int
    content: bytes | None = None
    millis: int = 0
    kind: int = STAMPED
    code: int | None = None
    epoch: int = 0

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.offset_number

    def value(self) -> bytes | None:
        return self.content

    def key(self) -> bytes | None:
        return None

    def headers(self) -> list[tuple[str, bytes]]:
        return []

    def leader_epoch(self) -> int:
        return self.epoch

    def timestamp(self) -> tuple[int, int]:
        return self.kind, self.millis

    def error(self) -> confluent_kafka.KafkaError | None:
        return None if self.code is None else confluent_kafka.KafkaError(self.code)


@dataclass
class TopicDouble:
    """One topic.

    Attributes:
        records: What is in it, by partition in the order of offsets.
        ends: By partition the offset behind all that is in it.
        committed: What was noted of positions.
        errors: What consumers are answered next.
        cluster_id: Of its brokers; None: they have none.
        topic_id: Both halves; zeros: brokers that have none.
        epoch: Of all leaders.
        firsts: By partition the offset of the oldest message that is kept, if not 0.
        stables: By partition the last stable offset, if it is not the end.
        settings: Of the topic.
        n_looks: How often it was asked which topic it is.
    """

    name: str = "events"
    records: dict[int, list[Record]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    errors: list[int] = field(default_factory=list)
    cluster_id: str | None = "cluster"
    topic_id: tuple[int, int] = (1, 1)
    epoch: int = 0
    firsts: dict[int, int] = field(default_factory=dict)
    stables: dict[int, int] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=lambda: dict(SOUND))
    n_looks: int = 0

    def add(
        self, partition: int, *contents: bytes | None, millis: int = 0, kind: int = STAMPED
    ) -> None:
        """Appends messages of one moment, or makes the partition."""
        end = self.ends.setdefault(partition, 0)
        made = [
            Record(partition, end + i, one, millis, kind, epoch=self.epoch)
            for i, one in enumerate(contents)
        ]
        self.records.setdefault(partition, []).extend(made)
        self.ends[partition] = end + len(made)

    def cut(self, partition: int, end: int) -> None:
        """Takes back what is from an offset on, and grows the epoch: an unclean election."""
        self.records[partition] = [
            one for one in self.records[partition] if one.offset_number < end
        ]
        self.ends[partition] = end
        self.epoch += 1

    def used_by(self, patch: pytest.MonkeyPatch) -> None:
        """Has all clients of this process use this topic."""
        patch.setattr(kafka_identity, "ABSENT_SECONDS", 0.0)
        patch.setattr(confluent_kafka, "Consumer", lambda settings: _Consumer(self))
        patch.setattr(confluent_kafka.admin, "AdminClient", lambda settings: _Admin(self))


@dataclass
class Clock:
    """The clock of the brokers, which a test moves."""

    now_us: int
    differs: bool = False

    def passed_us(self) -> int:
        if self.differs:
            raise RetryLater("clocks differ")
        return self.now_us


class _Consumer:
    def __init__(self, topic: TopicDouble) -> None:
        self._topic = topic
        self._next: dict[int, int] = {}

    def assign(self, places: Iterable[confluent_kafka.TopicPartition]) -> None:
        self._next = {place.partition: place.offset for place in places}

    def consume(self, max_messages: int, timeout: float) -> list[Record]:
        topic = self._topic
        if topic.errors:
            return [Record(0, 0, code=topic.errors.pop())]
        found: list[Record] = []
        for partition, begin in self._next.items():
            ahead = [one for one in topic.records.get(partition, []) if one.offset_number >= begin]
            taken = ahead[: max_messages - len(found)]
            found += taken
            self._next[partition] = taken[-1].offset_number + 1 if taken else topic.ends[partition]
            if not ahead and begin < topic.ends[partition]:
                code = confluent_kafka.KafkaError._PARTITION_EOF
                found.append(Record(partition, topic.ends[partition], code=code))
        return found

    def offsets_for_times(
        self, places: Iterable[confluent_kafka.TopicPartition], **_: Any
    ) -> list[confluent_kafka.TopicPartition]:
        def since(place: confluent_kafka.TopicPartition) -> int:
            records = self._topic.records.get(place.partition, [])
            return next((r.offset_number for r in records if r.millis >= place.offset), -1)

        named = confluent_kafka.TopicPartition
        return [named(self._topic.name, one.partition, since(one)) for one in places]

    def commit(self, offsets: Iterable[confluent_kafka.TopicPartition], **_: Any) -> None:
        self._topic.committed.update({place.partition: place.offset for place in offsets})

    def close(self) -> None:
        pass


class _Admin:
    """It never learns of a partition that is added to a topic that it knows."""

    def __init__(self, topic: TopicDouble) -> None:
        self._topic = topic
        self._known = set(topic.ends)

    def describe_cluster(self, **_: Any) -> Future[Any]:
        return _done(SimpleNamespace(cluster_id=self._topic.cluster_id))

    def describe_topics(self, named: Any, **_: Any) -> dict[str, Future[Any]]:
        topic = self._topic
        topic.n_looks += 1
        answer: Future[Any]
        if not topic.ends:
            answer = Future()
            code = confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
            answer.set_exception(confluent_kafka.KafkaException(confluent_kafka.KafkaError(code)))
        else:
            partitions = [SimpleNamespace(id=number) for number in topic.ends]
            uuid = confluent_kafka.Uuid(*topic.topic_id)
            answer = _done(SimpleNamespace(topic_id=uuid, partitions=partitions))
        return dict.fromkeys(named.topic_names, answer)  # each is this one

    def describe_configs(self, resources: Iterable[Any], **_: Any) -> dict[Any, Any]:
        settings = self._topic.settings.items()
        answer = {name: SimpleNamespace(value=value) for name, value in settings}
        client = weakref.ref(self)

        def result() -> Any:
            assert client() is not None, "an answer ends with its client"
            return answer

        return {resource: SimpleNamespace(result=result) for resource in resources}

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={self._topic.name: None} if self._topic.ends else {})

    def list_offsets(
        self,
        asked: Mapping[confluent_kafka.TopicPartition, Any],
        isolation_level: Any = None,
        **_: Any,
    ) -> dict[Any, Future[Any]]:
        topic = self._topic
        is_stable = isolation_level == confluent_kafka.IsolationLevel.READ_COMMITTED
        answers = {}
        for place, spec in asked.items():
            if (number := place.partition) not in self._known:
                error = confluent_kafka.KafkaError
                raise confluent_kafka.KafkaException(error(error._NOENT))
            end = topic.stables.get(number, topic.ends[number]) if is_stable else topic.ends[number]
            is_first = spec._value == _EARLIEST
            offset = topic.firsts.get(number, 0) if is_first else end
            answers[place] = _done(SimpleNamespace(offset=offset, leader_epoch=topic.epoch))
        return answers


def _done(answer: Any) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_result(answer)
    return made
