"""KafkaClock: what time it is by the clocks of Kafka's brokers, and how far clocks may differ.

Brokers stamp what they append, and tell a producer the stamp. So a message to a topic of our own,
which nothing reads, asks a broker for its time. Steps are decided by that time alone; this
machine's clock is only compared. A message that was sent at one moment of this machine's clock, and
taken by a later one, was stamped in between, so its stamp says by how much the clocks differ at
least.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.services.kafka_topic import (
    ASK_OFTEN_SECONDS,
    KAFKA,
    KafkaTopic,
    confluent_kafka,
)

# ---
# How far the clocks of a message service and of this machine are apart, by messages of our own. A
# stream believes no moment of a service whose clocks differ from each other, or from this
# machine's, by more than CLOCK_SKEW_US.


# By how much clocks may differ: with time synchronisation they differ by milliseconds.
CLOCK_SKEW_US = 2_000_000
NEVER_US = -(1 << 63)
_EVERY_SECONDS = 3.0  # between two questions


@dataclass(frozen=True)
class StampedProbe:
    """A message of our own; all in microseconds since 1970 UTC.

    Attributes:
        sent_us: Before it was sent, by this machine's clock.
        stamp_us: When the service says that it came.
        taken_us: When the service had said that it has it, by this machine's clock.
    """

    sent_us: int
    stamp_us: int
    taken_us: int

    @property
    def offset_us(self) -> int:
        """How far this machine's clock is ahead, if both ways of the message took equally long."""
        return (self.sent_us + self.taken_us) // 2 - self.stamp_us


def check_clocks(service: str, probes: Sequence[StampedProbe]) -> None:
    """Makes sure that all clocks show about the same.

    Args:
        service: What stamped the messages.
        probes: A message for each of its clocks.

    Raises:
        RetryLater: Two of the clocks are certain to differ by more than CLOCK_SKEW_US.
    """
    ahead_us = max(0, *(probe.sent_us - probe.stamp_us for probe in probes))
    behind_us = max(0, *(probe.stamp_us - probe.taken_us for probe in probes))
    if ahead_us + behind_us <= CLOCK_SKEW_US:
        return
    sides = ((ahead_us, "ahead of"), (behind_us, "behind"))
    said = " and ".join(f"{by / 1e6:,.1f} s {side}" for by, side in sides if by)
    raise RetryLater(
        f"the clock of this machine is {said} that of {service}, and no step is decided while they "
        f"differ by more than {CLOCK_SKEW_US / 1e6:.0f} s: have all machines synchronise their time"
    )


class ServiceClock:
    """What is known of the time of a service.

    Attributes:
        offset_us: How far this machine's clock is ahead of the service's; None: it was not asked.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Knows nothing yet.

        Args:
            clock: Seconds since 1970 UTC, of this machine.
        """
        self.offset_us: int | None = None
        self._clock = clock
        self._passed_us = NEVER_US
        self._answered_seconds = -math.inf

    def _is_due(self) -> bool:
        """Whether the service is to be asked: what it answered stays true, so steps come later."""
        return time.monotonic() - self._answered_seconds >= _EVERY_SECONDS

    def _answered(self, service: str, probes: Sequence[StampedProbe]) -> None:
        """Takes a message for each of the clocks of a service; raises as `check_clocks`."""
        self.offset_us = max((probe.offset_us for probe in probes), key=abs)
        check_clocks(service, probes)
        self._passed_us = max(self._passed_us, min(probe.stamp_us for probe in probes))
        self._answered_seconds = time.monotonic()

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)


# --- KafkaClock: what time it is by the clocks of Kafka's brokers. --------------------------------
# Brokers stamp what they append, and tell a producer the stamp. So a message to a topic of our
# own, which nothing reads, asks a broker for its time. The topic has a partition for each broker
# that was there when it was made. Steps are decided by that time alone; this machine's clock is
# only compared.


_RETENTION_MS = 3_600_000


class KafkaClock(ServiceClock):
    """Asks the brokers of a topic for their time; for threads."""

    def __init__(
        self, topic: KafkaTopic, name: str, clock: Callable[[], float] = time.time
    ) -> None:
        """Keeps whom to ask.

        Args:
            topic: What the brokers are known by; the topic of the clock is replicated as it is.
            name: Of the topic of the clock, which is made if it is not there.
            clock: Seconds since 1970 UTC, of this machine.

        Raises:
            UsageError: The client library is not installed.
        """
        super().__init__(clock)
        self._library = confluent_kafka()
        self._topic = topic
        self._name = name
        self._lock = threading.Lock()
        self._producer: Any = None
        self._n_partitions = 0

    def passed_us(self) -> int:
        """Returns a moment that is over by the clock of every broker, some seconds ago at most.

        Returns:
            Microseconds since 1970 UTC.

        Raises:
            RetryLater: The brokers are away, or clocks differ.
            UsageError: The topic of the clock can neither be made nor written, or brokers do not
                stamp its messages.
        """
        with self._lock:
            if self._is_due():
                self._ask()
            return self._passed_us

    def _ask(self) -> None:
        if self._producer is None:
            self._n_partitions = self._require_topic()
            limit_ms = int(ASK_OFTEN_SECONDS * 1e3)
            self._producer = self._topic.client(
                self._library.Producer, {"message.timeout.ms": limit_ms}
            )
        answers: list[tuple[Any, Any, int]] = []
        sent_us = self._now_us()
        for partition in range(self._n_partitions):
            self._producer.produce(
                self._name,
                b"clock",
                partition=partition,
                on_delivery=lambda error, message: answers.append((error, message, self._now_us())),
            )
        self._producer.flush(ASK_OFTEN_SECONDS + 1)
        if len(answers) < self._n_partitions:
            raise RetryLater(f"{KAFKA}{self._topic.servers} does not tell its time")
        probes = [self._probe(sent_us, *answer) for answer in answers]
        self._answered(f"{KAFKA}{self._topic.servers}", probes)

    def _probe(self, sent_us: int, error: Any, message: Any, taken_us: int) -> StampedProbe:
        if error is not None:
            self._producer = None  # the topic is looked for again
            raise self._not_written(error)
        kind, millis = message.timestamp()
        if kind != self._library.TIMESTAMP_LOG_APPEND_TIME:
            raise UsageError(
                f"clock_topic {self._name!r} takes the times of messages from its senders: set its "
                "message.timestamp.type=LogAppendTime, so that it tells the time of the brokers"
            )
        return StampedProbe(sent_us, millis * 1_000, taken_us)

    def _require_topic(self) -> int:
        """Returns how many partitions the topic has, which is made where it is not there.

        A message to a topic that is not there would make brokers that are set so create it, without
        their stamps.
        """
        client = self._topic.admin()
        try:
            cluster = client.list_topics(timeout=ASK_OFTEN_SECONDS)
        except self._library.KafkaException as error:
            raise self._topic.unreached(error) from None
        if (topic := cluster.topics.get(self._name)) is not None and topic.partitions:
            return len(topic.partitions)
        read = cluster.topics.get(self._topic.name)
        replicas = [len(one.replicas) for one in read.partitions.values()] if read else []
        configuration = {
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": "delete",
            "retention.ms": str(_RETENTION_MS),
        }
        n_partitions = max(1, len(cluster.brokers))
        new_topic = self._library.admin.NewTopic(
            self._name, n_partitions, min(replicas, default=-1), config=configuration
        )
        try:
            client.create_topics([new_topic])[self._name].result(ASK_OFTEN_SECONDS)
        except self._library.KafkaException as error:
            raise self._not_written(error.args[0]) from None
        return n_partitions

    def _not_written(self, error: Any) -> TracecloakError:
        codes = self._library.KafkaError
        refusals = (
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
            codes.POLICY_VIOLATION,
            codes.INVALID_REPLICATION_FACTOR,
            codes.TOPIC_EXCEPTION,
            codes.INVALID_CONFIG,
        )
        if error.code() not in refusals:
            return RetryLater(f"{KAFKA}{self._topic.servers} does not tell its time: {error.str()}")
        return UsageError(
            f"clock_topic {self._name!r} can neither be made nor written: {error.str()}. Make it "
            "with message.timestamp.type=LogAppendTime and a partition for each broker, and let "
            "this stream write to it, or name another one with clock_topic"
        )


@functools.cache
def shared_clock(topic: KafkaTopic, name: str) -> KafkaClock:
    """Returns the clock of a topic's brokers that all threads of this process ask."""
    return KafkaClock(topic, name)
