"""KafkaSource: all partitions of a topic for a stream on one machine.

Positions are kept with the state of the stream, so a message is read again exactly if it was not
counted. Its watermark is that of the partition that is read least far. A partition that is added to
the topic is found before the watermark passes the moment of looking, so its messages are all later.
That moment is by the brokers' own clock, which is asked before the partitions are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.services.kafka_topic import (
    KafkaTopic,
    PartitionReader,
    check_history,
    partitions_of,
)
from tracecloak.transforms.stream.sources import Pulled


class KafkaSource:
    """A `transforms.stream.sources.Source`."""

    def __init__(
        self,
        topic: KafkaTopic,
        group: str,
        clock: KafkaClock,
        start_us: int,
        positions: Mapping[str, Any],
    ) -> None:
        """Begins to fetch.

        Args:
            topic: The topic.
            group: Consumer group under which positions are noted on the brokers, to watch the lag.
            clock: Tells the brokers' time.
            start_us: Where step 0 begins, microseconds since 1970 UTC.
            positions: As `positions` gave them; without any, from the oldest message on.

        Raises:
            RetryLater: No broker answers.
            TracecloakError: A partition that was read is gone, or messages since the start are.
        """
        self._topic = topic
        self._clock = clock
        if not positions:
            check_history(topic, start_us)
        oldest_offsets = partitions_of(topic)
        if gone := positions.keys() - {str(number) for number in oldest_offsets}:
            raise TracecloakError(
                f"topic {topic.name!r} has lost {len(gone)} of its partitions since this epoch "
                "began, as where it was made anew: begin another epoch, which is another spend"
            )
        begin = {
            # One that was added since is read from its first message on.
            number: positions.get(str(number), 0) if positions else oldest
            for number, oldest in oldest_offsets.items()
        }
        self._reader = PartitionReader(topic, group, begin)
        self._looked_us = 0

    @property
    def positions(self) -> Mapping[str, Any]:
        """Offset of the next message by partition."""
        return {str(number): offset for number, offset in self._reader.positions.items()}

    @property
    def clock_offset_us(self) -> int | None:
        """See `Source`."""
        return self._clock.offset_us

    def pull(self, max_messages: int, timeout_seconds: float) -> Pulled:
        """See `Source`."""
        messages = self._reader.poll(max_messages, timeout_seconds)
        return Pulled(messages, messages.published_us)

    def let_go(self, pulled: Pulled) -> None:
        """Notes the positions on the brokers; nothing here depends on it."""
        if pulled.messages:
            self._reader.commit(self._reader.positions)

    def watermark_us(self) -> int:
        """See `Source`."""
        passed_us = self._clock.passed_us()
        if passed_us != self._looked_us:
            self._look()
            self._looked_us = passed_us
        return min(self._reader.watermark_us(n, passed_us) for n in self._reader.positions)

    def close(self) -> None:
        """See `Source`."""
        self._reader.close()

    def _look(self) -> None:
        if added := partitions_of(self._topic).keys() - self._reader.positions.keys():
            self._reader.add(dict.fromkeys(added, 0))
