"""PartitionReader: the messages of some partitions of a topic of Kafka, each in its order.

A sample of messages is read without a trace: nothing is committed or kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import methodcaller
from typing import Any, TypeVar, overload

import numpy as np

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.schemas.texts import text_or_null
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US, NEVER_US
from tracecloak.transforms.services.kafka_identity import (
    KnownLog,
    LogNow,
    Place,
    checked,
    epoch_of,
    fetched_from,
    look_at,
    offsets_since,
    other_log,
    topic_id,
)
from tracecloak.transforms.services.kafka_topic import (
    READING,
    KafkaTopic,
    confluent_kafka,
    looking,
)

# --- PartitionReader: messages of partitions of Kafka, and how far all of them have been read. ----
# Kafka's own client does the reading (confluent-kafka, which is librdkafka). Here is what a
# stream needs beside it: positions are the reader's and never the consumer group's, what was
# deleted before it was read is an error and no gap, a log that is another one is noticed, and it
# is known up to which moment everything has been read.
#
# That moment is the partition's watermark. Brokers stamp messages as they append them, where the
# topic is set so; then all that is unread is no older than the last message that was read. Where
# nothing is unread, it is no older than the time that the brokers told before they were asked.
# Both are less what the clocks of brokers may differ, since the next message can be another
# broker's.
#
# A message that no broker stamped is evidence of the topic's setting. It stops its partition, and
# is neither read nor rejected: the one case in which a record decides for others.
#
# Messages of a topic of Kafka: one by itself, and many as columns, as a client fetched them.


# As many digits as int64 surely holds.
_ORDERS = 10**18


@dataclass(frozen=True)
class KafkaMessage:
    """A message as it was read; a `transforms.formats.messages.Message`.

    Attributes:
        data: Its value; empty where it has none.
        attributes: Its headers that are text.
        message_id: Its offset, which is its place among the messages of its partition.
        partition: Of the topic.
        offset: In the partition.
        published_us: When the broker appended it, microseconds since 1970 UTC.
        is_tombstone: Whether it has no value, by which a compacted topic forgets its key.
    """

    data: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    message_id: str = ""
    partition: int = 0
    offset: int = 0
    published_us: int = 0
    is_tombstone: bool = False


class KafkaMessages(Sequence[KafkaMessage]):
    """Messages as columns; with the columns of `transforms.formats.messages._Listed`.

    A message by itself is made when it is asked for: to make one of each takes longer than to read
    what they hold.

    Attributes:
        data: [n], as `KafkaMessage` has it.
        partitions: int64[n].
        offsets: int64[n].
        published_us: int64[n].
        is_stamped: bool[n], whether a broker set the time; if not, it is the sender's.
    """

    def __init__(self, fetched: Sequence[Any], append_time: int) -> None:
        """Takes over what the library gave.

        Args:
            fetched: Its messages, none of which is an error.
            append_time: The library's number for a time that a broker has set.
        """
        n = len(fetched)
        stamps = np.fromiter(chain.from_iterable(map(_TIMESTAMP, fetched)), np.int64, 2 * n)
        self.partitions = np.fromiter(map(_PARTITION, fetched), np.int64, n)
        self.offsets = np.fromiter(map(_OFFSET, fetched), np.int64, n)
        self.published_us = np.maximum(stamps[1::2], 0) * 1_000
        self.is_stamped = stamps[::2] == append_time
        self._fetched = fetched
        self.data = [value or b"" for value in map(_VALUE, fetched)]

    @property
    def orders(self) -> np.ndarray:
        """int64[n], the place of each among what its partition got at the same moment."""
        return self.offsets % _ORDERS

    def are_plain(self, names: Collection[str]) -> np.ndarray:
        """Returns bool[n], which messages have none of the named headers."""
        is_plain = np.ones(len(self), bool)
        for row, headers in enumerate(map(_HEADERS, self._fetched)):
            if headers and any(name in names for name, _ in headers):
                is_plain[row] = False
        return is_plain

    def __len__(self) -> int:
        return len(self.data)

    @overload
    def __getitem__(self, row: int) -> KafkaMessage: ...
    @overload
    def __getitem__(self, row: slice) -> list[KafkaMessage]: ...
    def __getitem__(self, row: int | slice) -> KafkaMessage | list[KafkaMessage]:
        if isinstance(row, slice):
            return [self[one] for one in range(*row.indices(len(self)))]
        offset = int(self.offsets[row])
        return KafkaMessage(
            self.data[row],
            _texts(self._fetched[row].headers() or ()),
            str(offset),
            int(self.partitions[row]),
            offset,
            int(self.published_us[row]),
            self._fetched[row].value() is None,
        )


_PARTITION, _OFFSET, _TIMESTAMP, _VALUE, _HEADERS = map(
    methodcaller, ("partition", "offset", "timestamp", "value", "headers")
)


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    texts = ((name, text_or_null(value or b"")) for name, value in headers)
    return {name: text for name, text in texts if text is not None}  # nothing asks for others


_Answer = TypeVar("_Answer")


class PartitionReader:
    """Reads some partitions of a topic from given places on, each in its order.

    Not for threads. It belongs to no consumer group that others see: nobody else is given these
    partitions, and no rebalancing takes them away.

    Attributes:
        known: The log, with the place of each partition.
    """

    def __init__(self, topic: KafkaTopic, group: str, known: KnownLog, key: bytes = b"") -> None:
        """Begins to fetch.

        Args:
            topic: The topic.
            group: Name under which `commit` notes positions, for those who watch the lag.
            known: Where to begin; offsets that are there, or the end.
            key: Of the digests of messages, see `sources.DIGEST_PURPOSE`.

        Raises:
            UsageError: The client library is not installed.
        """
        self._library = confluent_kafka()
        self._topic = topic
        self._key = key
        self._consumer = topic.client(self._library.Consumer, {**READING, "group.id": group})
        self._client: Any = None
        self._now: LogNow
        self._looked_us = NEVER_US
        self.known = known
        self._held: dict[int, str] = {}
        self._must_assign = False  # whether other partitions are fetched than are to be
        self._fetched: Sequence[Any] = ()
        self._read_until_us = dict.fromkeys(known.places, NEVER_US)
        self._assign()

    @property
    def positions(self) -> dict[int, int]:
        """By partition the offset of the next message to be read."""
        return {number: place.next for number, place in self.known.places.items()}

    def add(self, partitions: Iterable[int]) -> None:
        """Reads partitions as well that were added to the topic, from their first messages on."""
        if not (added := dict.fromkeys(partitions, Place(0))):
            return
        self.known = replace(self.known, places={**self.known.places, **added})
        self._read_until_us.update(dict.fromkeys(added, NEVER_US))
        self._must_assign = True

    def poll(self, max_messages: int, timeout_seconds: float) -> KafkaMessages:
        """Returns what was fetched, at most so many messages; none where nothing came in time.

        Raises:
            TracecloakError: A message was deleted before it was read, the log is another one, or
                brokers refuse.
            RetryLater: The brokers are away.
        """
        # What was fetched before the log could be checked is not fetched again.
        if not self._fetched:
            if self._must_assign:
                self._assign()
            self._fetched = self._consumer.consume(max_messages, timeout_seconds)
        fetched = [message for message in self._fetched if message.error() is None]
        messages = KafkaMessages(fetched, self._library.TIMESTAMP_LOG_APPEND_TIME)
        if not messages.is_stamped.all():
            fetched = self._hold(fetched, messages)
            messages = KafkaMessages(fetched, self._library.TIMESTAMP_LOG_APPEND_TIME)
        last = {
            number: int(np.flatnonzero(messages.partitions == number)[-1])
            for number in np.unique(messages.partitions).tolist()
        }
        places = self.known.places
        grown = [
            number
            for number, row in last.items()
            if places[number].digest
            and epoch_of(fetched[row].leader_epoch()) > places[number].epoch
        ]
        # If the name is that of the same topic, all that was fetched before is of it: no id comes
        # back.
        known = self.known.identity.topic_id
        if grown or (fetched and known is not None and known != self._ask(topic_id)):
            self.check(self._ask(self._look_at_own), grown)
        self._pass_marks()
        behind = {
            number: self.known.places[number].behind(self._key, fetched[row])
            for number, row in last.items()
        }
        self.known = replace(self.known, places={**self.known.places, **behind})
        for number, row in last.items():
            self._read_until_us[number] = int(messages.published_us[row])
        self._fetched = ()
        return messages

    def look(self, passed_us: int, is_whole: bool = True) -> LogNow:
        """Returns the topic as it was after a moment, once it is the log that is read.

        Args:
            passed_us: That moment, by the brokers' clocks; they are asked again if it is another.
            is_whole: Whether they are asked for the offsets of all partitions, and not only of
                those that are read: of many readers each would ask for those of all.

        Raises:
            SourceChanged: It is another log.
            MessagesLost: Messages were deleted before they were read.
            RetryLater: No broker answers.
        """
        if passed_us != self._looked_us:
            self._now = self._ask(look_at if is_whole else self._look_at_own)
            self.check(self._now)
            self._looked_us = passed_us
        return self._now

    def check(self, now: LogNow, partitions: Collection[int] = ()) -> None:
        """Makes sure that the topic is the log that is read.

        The last message read is compared in partitions whose leader epoch grew.

        Args:
            now: The topic as it is.
            partitions: In which the message is compared in any case.

        Raises:
            SourceChanged: It is another log.
            MessagesLost: Messages were deleted before they were read.
            RetryLater: No broker answers.
        """
        self.known = checked(self._topic, self._key, self.known, now, partitions)

    def watermark_us(self, partition: int, passed_us: int) -> int:
        """Returns a moment before which all messages of a partition have been returned.

        The end of the partition is that of a look, whose topic was the one that is read: the end
        of one that was made anew meanwhile is less.

        Args:
            partition: Of the topic.
            passed_us: See `look`, as messages may come meanwhile.

        Returns:
            At most that moment, less CLOCK_SKEW_US: another broker may append what comes next. It
            is the smallest integer where nothing is known yet.

        Raises:
            RetryLater: The brokers are away, or a message of the partition has no time.
        """
        if partition in self._held:
            raise RetryLater(self._held[partition])
        read_us = self._read_until_us[partition]
        if self.known.places[partition].next >= self.look(passed_us, False).bounds[partition].end:
            read_us = passed_us
        return max(NEVER_US, min(read_us, passed_us) - CLOCK_SKEW_US)

    def commit(self, positions: Mapping[int, int]) -> None:
        """Notes positions on the brokers, for those who watch the lag; nothing reads them here."""
        partitions = [self._partition(number, offset) for number, offset in positions.items()]
        self._consumer.commit(offsets=partitions, asynchronous=True)

    def close(self) -> None:
        """Ends fetching."""
        self._consumer.close()

    def _hold(self, fetched: Sequence[Any], messages: KafkaMessages) -> list[Any]:
        """Stops partitions before their first message without a stamp; returns what is before."""
        limits: dict[int, int] = {}
        for row in np.flatnonzero(~messages.is_stamped).tolist():
            number = int(messages.partitions[row])
            limits[number] = min(limits.get(number, 1 << 62), int(messages.offsets[row]))
            self._must_assign |= number not in self._held
            self._held[number] = (
                f"partition {number} of topic {self._topic.name!r} has a message that no broker "
                "has stamped, and is not read further: set message.timestamp.type=LogAppendTime, "
                "then pass such messages with `tracecloak stream positions`"
            )
        return [one for one in fetched if one.offset() < limits.get(one.partition(), 1 << 62)]

    def _pass_marks(self) -> None:
        """Moves behind marks of transactions and what they took back, which have offsets alone."""
        places = dict(self.known.places)
        for message in self._fetched:
            if (error := message.error()) is None or message.partition() in self._held:
                continue
            if error.code() != self._library.KafkaError._PARTITION_EOF:
                self._raise(error, message.partition())
                continue
            place = places[message.partition()]
            if message.offset() > place.next:
                # The marks may be of a later epoch than the place, which the next look finds.
                epoch = place.epoch if place.digest else -1
                places[message.partition()] = replace(place, next=message.offset(), epoch=epoch)
        self.known = replace(self.known, places=places)

    def _assign(self) -> None:
        # Where no message that was read is compared, the library asks the leader whether the log
        # still has the offset. It does so for one that it is given with an epoch, and for no other.
        self._consumer.assign(
            [
                self._partition(n, at.next, -1 if at.digest else at.epoch)
                for n, at in self.known.places.items()
                if n not in self._held
            ]
        )
        self._client = None  # the next one knows these partitions
        self._must_assign = False

    def _partition(self, number: int, offset: int, epoch: int = -1) -> Any:
        name = self._topic.name
        return self._library.TopicPartition(name, number, offset, leader_epoch=epoch)

    def _ask(self, question: Callable[[KafkaTopic, Any], _Answer]) -> _Answer:
        """Asks the brokers, by one client as long as it is answered."""
        try:
            self._client = self._client or self._topic.admin()
            return question(self._topic, self._client)
        except RetryLater:
            # A client that knows the topic never learns of a partition that is added to it.
            self._client = None
            raise

    def _look_at_own(self, topic: KafkaTopic, client: Any) -> LogNow:
        return look_at(topic, client, self.known.places)

    def _raise(self, error: Any, partition: int) -> None:
        """Raises what must not be passed over; the client tries the others again by itself."""
        codes, name = self._library.KafkaError, self._topic.name
        # A broker that has just started may not know the topic, and the client finds it again.
        is_unknown = error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_PARTITION)
        if is_unknown or error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            self.check(self._ask(self._look_at_own), self.known.places)
            if not is_unknown:
                raise other_log(name, f"partition {partition} was truncated before the position")
            return
        if error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes._AUTHENTICATION):
            raise UsageError(f"topic {name!r} cannot be read: {error.str()}; see kafka_properties")
        if error.fatal() or (not error.retriable() and error.code() > 0):
            raise TracecloakError(f"topic {name!r} cannot be read: {error.str()}")


# --- A look at messages of a topic of Kafka that leaves no trace: nothing is committed or kept. ---


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
    bounds, fetched = look_at(topic).bounds, []
    with looking(topic) as consumer:
        ends = {
            number: min(end, bounds[number].stable)
            for number, end in offsets_since(topic, consumer, bounds, until_us).items()
        }
        room = {number: max(0, ends[number] - one.first) for number, one in bounds.items()}
        begins = {}
        for n_done, number in enumerate(sorted(room, key=room.__getitem__)):
            if share := min(room[number], -(-most // (len(room) - n_done))):
                begins[number] = ends[number] - share
                most -= share
        is_open = set(begins)
        messages = fetched_from(topic, consumer, begins)
        while is_open:
            message = next(messages)
            number, is_message = message.partition(), message.error() is None
            if is_message and message.offset() < ends[number]:
                fetched.append(message)
            if not is_message or message.offset() >= ends[number] - 1:
                is_open.discard(number)
    return KafkaMessages(fetched, confluent_kafka().TIMESTAMP_LOG_APPEND_TIME)
