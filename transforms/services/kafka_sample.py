"""A look at messages of a topic of Kafka that leaves no trace: nothing is committed or kept."""

from __future__ import annotations

import time

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.services.kafka_reader import KafkaMessages
from tracecloak.transforms.services.kafka_topic import (
    ASK_SECONDS,
    KafkaTopic,
    confluent_kafka,
    looking,
)
from tracecloak.transforms.services.schemes import KAFKA

_POLL_SECONDS = 1.0


def messages_before(topic: KafkaTopic, until_us: int, most: int) -> KafkaMessages:
    """Returns the newest messages of before a moment, spread over the partitions of a topic.

    Args:
        topic: The topic.
        until_us: The moment, microseconds since 1970 UTC, by the times of the messages.
        most: How many; each partition gives an equal share, or all that it has.

    Raises:
        UsageError: The client library is not installed, or brokers refuse.
        RetryLater: No broker answers, or messages do not come.
    """
    library = confluent_kafka()
    with looking(topic) as consumer:
        numbers = consumer.list_topics(timeout=ASK_SECONDS).topics[topic.name].partitions
        places = [library.TopicPartition(topic.name, n, max(0, until_us // 1_000)) for n in numbers]
        bounds = {n: consumer.get_watermark_offsets(one, ASK_SECONDS) for n, one in
                  zip(numbers, places, strict=True)}  # fmt: skip
        # A negative offset: no message is as late as that.
        ends = {
            one.partition: bounds[one.partition][1] if one.offset < 0 else one.offset
            for one in consumer.offsets_for_times(places, timeout=ASK_SECONDS)
        }
        room = {number: ends[number] - bounds[number][0] for number in numbers}
        begins = {}
        for n_done, number in enumerate(sorted(room, key=room.__getitem__)):
            share = max(0, min(room[number], -(-most // (len(room) - n_done))))
            begins[number] = ends[number] - share
            most -= share
        is_open = {number for number in numbers if begins[number] < ends[number]}
        consumer.assign([library.TopicPartition(topic.name, n, begins[n]) for n in is_open])
        fetched = []
        deadline = time.monotonic() + ASK_SECONDS
        while is_open:
            for message in consumer.consume(1_000, _POLL_SECONDS):
                number, error = message.partition(), message.error()
                if error is None and message.offset() < ends[number]:
                    fetched.append(message)
                elif error is not None and error.code() != library.KafkaError._PARTITION_EOF:
                    raise RetryLater(f"{KAFKA}{topic.servers}: {error.str()}")
                if error is not None or message.offset() >= ends[number] - 1:
                    is_open.discard(number)
            if time.monotonic() > deadline:
                raise RetryLater(f"{KAFKA}{topic.servers} does not give all messages in time")
    return KafkaMessages(fetched, library.TIMESTAMP_LOG_APPEND_TIME)
