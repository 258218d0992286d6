"""KafkaSource: all partitions of a topic for a stream on one machine.

Positions are kept with the state of the stream, so a message is read again exactly if it was not
counted; and so is what tells that the topic is the log that was read (`kafka_identity`). Its
watermark is that of the partition that is read least far. A partition that is added to the topic
is found before the watermark passes the moment of looking, so its messages are all later. That
moment is by the brokers' own clock, which is asked before the partitions are listed.

The watermark is held, and the reason reported, while the topic is not set as it must be, and while
a transaction is open that nobody ends.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.services.kafka_identity import (
    DELETED,
    KnownLog,
    LogNow,
    Place,
    check_history,
    check_log,
    look_at,
    open_transactions,
    other_log,
    transaction_remedy,
)
from tracecloak.transforms.services.kafka_reader import PartitionReader
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream.now_and_then import NowAndThen
from tracecloak.transforms.stream.sources import Pulled

_LOG = logging.getLogger("tracecloak")
_OPERATOR = logging.getLogger("tracecloak.operator")
# A transaction that is open for longer is named.
_HANGING_SECONDS = 120.0


def log_to_read(
    topic: KafkaTopic, key: bytes, positions: Mapping[str, Any], start_us: int
) -> tuple[KnownLog, LogNow]:
    """Makes sure that a topic is the log that was read, or has all of an epoch that has read none.

    Args:
        topic: The topic.
        key: Of the digests of messages.
        positions: As `KafkaSource.positions` gave them, or as an earlier version did; without any,
            it is read from the oldest message on.
        start_us: Where step 0 begins, microseconds since 1970 UTC.

    Returns:
        What is known of the log, and the topic as it is.

    Raises:
        SourceChanged: It is another log.
        MessagesLost: Messages were deleted before they were read.
        UsageError: Brokers refuse, or messages since the start may be deleted.
        RetryLater: No broker answers.
    """
    if positions:
        return check_log(topic, key, KnownLog.from_json(positions))
    check_history(topic, start_us)
    now = look_at(topic)
    if not now.bounds:
        raise other_log(topic.name, DELETED)
    places = {n: Place(bounds.first, bounds.epoch) for n, bounds in now.bounds.items()}
    return KnownLog(places, now.identity), now


class KafkaSource:
    """A `transforms.stream.sources.Source`."""

    def __init__(
        self,
        topic: KafkaTopic,
        group: str,
        clock: KafkaClock,
        start_us: int,
        positions: Mapping[str, Any],
        key: bytes = b"",
        longest_us: int = 0,
    ) -> None:
        """Begins to fetch.

        Args:
            topic: The topic.
            group: Consumer group under which positions are noted on the brokers, to watch the lag.
            clock: Tells the brokers' time.
            start_us: Where step 0 begins, microseconds since 1970 UTC.
            positions: As `positions` gave them, or as an earlier version did; without any, from
                the oldest message on.
            key: Of the digests of messages, see `sources.DIGEST_PURPOSE`.
            longest_us: See `KafkaTopic.problems`.

        Raises:
            RetryLater: No broker answers.
            TracecloakError: The topic is not the log that was read, or messages are gone.
        """
        self._topic = topic
        self._clock = clock
        self._longest_us = longest_us
        known, now = log_to_read(topic, key, positions, start_us)
        if positions and KnownLog.from_json(positions).identity != known.identity:
            _LOG.warning(
                "the state of this epoch does not name the log that it has read, as it is of an "
                "earlier version: topic %r is taken for it as it is now",
                topic.name,
            )
        self._reader = PartitionReader(topic, group, known, key)
        self._reader.add(now.bounds.keys() - known.places.keys())
        self._due, self._said = NowAndThen(), NowAndThen()
        self._problems: list[str] = []
        self._stuck: dict[int, tuple[int, float]] = {}

    @property
    def positions(self) -> Mapping[str, Any]:
        """What is known of the log, with the place of each partition."""
        return self._reader.known.to_json()

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
        now = self._reader.look(passed_us)
        self._reader.add(now.bounds.keys() - self._reader.positions.keys())
        self._note_open(now)
        if self._due.is_due():
            self._problems = self._topic.problems(self._longest_us)
        if reasons := [*self._problems, *self._hanging()]:
            raise RetryLater("; ".join(reasons))
        return min(self._reader.watermark_us(n, passed_us) for n in self._reader.positions)

    def close(self) -> None:
        """See `Source`."""
        self._reader.close()

    def _note_open(self, now: LogNow) -> None:
        """Notes since when a partition is read up to a transaction that is open."""
        before, at = self._stuck, time.monotonic()
        self._stuck = {
            number: before[number] if before.get(number, (-1,))[0] == stable else (stable, at)
            for number, stable in open_transactions(now, self._reader.positions).items()
        }

    def _hanging(self) -> list[str]:
        now, name = time.monotonic(), self._topic.name
        held = {n: at for n, (at, since) in self._stuck.items() if now - since > _HANGING_SECONDS}
        if held and self._said.is_due():
            _OPERATOR.warning("open transactions of topic %r: OFFSET by partition %s", name, held)
        return [
            f"a transaction in partition {number} of topic {name!r} has been open for more than "
            f"{_HANGING_SECONDS:.0f} s, and nothing behind it can be read: "
            f"{transaction_remedy(self._topic, number)}"
            for number in sorted(held)
        ]
