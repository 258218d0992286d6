"""KafkaSource: all partitions of a topic for a stream on one machine.

Positions are kept with the state of the stream, so a message is read again exactly if it was not
counted. Its watermark is that of the partition that is read least far. A partition that is added to
the topic is found before the watermark passes the moment of looking: what is in it was appended
later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.stream.kafka_topic import (
    CLOCK_SKEW_US,
    KafkaTopic,
    PartitionReader,
    partitions_of,
)
from tracecloak.transforms.stream.sources import Pulled

# Between two looks for partitions; the watermark is at least so much behind the clock.
_LOOK_SECONDS = 5.0


class KafkaSource:
    """A `transforms.stream.sources.Source`."""

    def __init__(
        self,
        topic: KafkaTopic,
        group: str,
        positions: Mapping[str, Any],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Begins to fetch.

        Args:
            topic: The topic.
            group: Under which positions are noted on the brokers, for those who watch the lag.
            positions: As `positions` gave them; without any, from the oldest message on.
            clock: Seconds since 1970 UTC.

        Raises:
            RetryLater: No broker answers.
            TracecloakError: A partition that was read is gone.
        """
        self._topic = topic
        self._clock = clock
        looked = clock()
        found = partitions_of(topic)
        if gone := positions.keys() - {str(number) for number in found}:
            raise TracecloakError(
                f"topic {topic.name!r} has lost {len(gone)} of its partitions since this epoch "
                "began, as where it was made anew: begin another epoch, which is another spend"
            )
        begin = {number: positions.get(str(number), oldest) for number, oldest in found.items()}
        self._reader = PartitionReader(topic, group, begin)
        self._looked = looked

    @property
    def positions(self) -> Mapping[str, Any]:
        """Offset of the next message by partition."""
        return {str(number): offset for number, offset in self._reader.positions.items()}

    def pull(self, max_messages: int, timeout_seconds: float) -> Pulled:
        """See `Source`."""
        messages = self._reader.poll(max_messages, timeout_seconds)
        return Pulled(messages, [message.published_us for message in messages])

    def let_go(self, pulled: Pulled) -> None:
        """Notes the positions on the brokers; nothing here depends on it."""
        if pulled.messages:
            self._reader.commit(self._reader.positions)

    def watermark_us(self) -> int:
        """See `Source`."""
        if self._clock() - self._looked >= _LOOK_SECONDS:
            self._look()
        looked_us = int(self._looked * 1e6) - CLOCK_SKEW_US
        return min(looked_us, *(self._reader.watermark_us(n) for n in self._reader.positions))

    def close(self) -> None:
        """See `Source`."""
        self._reader.close()

    def _look(self) -> None:
        looked = self._clock()
        found = partitions_of(self._topic)
        if added := {n: oldest for n, oldest in found.items() if n not in self._reader.positions}:
            self._reader.add(added)
        self._looked = looked
