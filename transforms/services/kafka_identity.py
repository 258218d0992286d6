"""Which log a topic of Kafka is, and whether it still is the one that was read.

A name and offsets do not tell: the topic may have been deleted and made anew, the servers may
belong to another cluster, and an unclean election may have taken messages back. What tells is
the id of the cluster, the id of the topic, the leader epoch of each partition, and a keyed digest
of the last message read. All of it is private, as offsets are.

A broker may have no ids, and retention may have deleted the message; then the rest decides. A
leader epoch grows whenever another broker leads, so only a smaller one is a difference.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from itertools import chain, islice
from typing import Any

from tracecloak.schemas.errors import (
    MessagesLost,
    RetryLater,
    SourceChanged,
    UsageError,
)
from tracecloak.transforms.services.kafka_topic import (
    ASK_OFTEN_SECONDS,
    ASK_SECONDS,
    KAFKA,
    KafkaTopic,
    confluent_kafka,
    looking,
)

DELETED = "it was deleted"
_DIGEST_DIGITS = 32
_FETCH_SECONDS = 1.0
# A broker that has just started, or a topic that was just made, is unknown for a second or two.
ABSENT_SECONDS = 5.0
_AGAIN_SECONDS = 0.5
_REMEDY = (
    "Compare both with `tracecloak stream positions`; after a failover, set positions by it. Else "
    "name the log that was read, or begin another epoch, which is another spend"
)


@dataclass(frozen=True)
class Place:
    """Where a partition has been read to.

    Attributes:
        next: Offset of the next message to read.
        epoch: The largest leader epoch seen; -1: none.
        last: Offset of the last message read, which need not be the one before `next`, as marks of
            transactions have offsets; -1: none was read.
        digest: Of that message, by `message_digest`; empty: none was read.
    """

    next: int
    epoch: int = -1
    last: int = -1
    digest: str = ""

    def behind(self, key: bytes, message: Any) -> Place:
        """Returns the place behind a message of the library, the last one read."""
        offset = message.offset()
        epoch = max(self.epoch, epoch_of(message.leader_epoch()))
        return Place(max(self.next, offset + 1), epoch, offset, message_digest(key, message))


@dataclass(frozen=True)
class TopicIdentity:
    """What brokers call a cluster and a topic; None where they have no such id."""

    cluster_id: str | None = None
    topic_id: str | None = None

    def adopting(self, now: TopicIdentity) -> TopicIdentity:
        """Returns this identity with what was not known of it."""
        return TopicIdentity(self.cluster_id or now.cluster_id, self.topic_id or now.topic_id)


@dataclass(frozen=True)
class KnownLog:
    """What a stream keeps of the log that it reads.

    Attributes:
        places: By partition.
        identity: Of the topic.
    """

    places: Mapping[int, Place]
    identity: TopicIdentity = field(default_factory=TopicIdentity)

    def to_json(self) -> dict[str, Any]:
        """Returns it as a state keeps it."""
        places = {str(partition): list(astuple(place)) for partition, place in self.places.items()}
        return {**asdict(self.identity), "places": places}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> KnownLog:
        """Returns what a state keeps; an earlier version kept offsets by partition alone."""
        if "places" not in kept:
            return cls({int(partition): Place(offset) for partition, offset in kept.items()})
        places = {int(partition): Place(*place) for partition, place in kept["places"].items()}
        return cls(places, TopicIdentity(kept["cluster_id"], kept["topic_id"]))


@dataclass(frozen=True)
class Bounds:
    """The offsets that a partition has.

    Attributes:
        first: Of the oldest message that is kept.
        stable: Behind the last message that is of no open transaction.
        end: Behind the last message.
        epoch: Of its leader; -1: the broker has none.
    """

    first: int
    stable: int
    end: int
    epoch: int = -1


@dataclass(frozen=True)
class LogNow:
    """A topic as its brokers describe it.

    Attributes:
        identity: Of the topic.
        bounds: By partition.
    """

    identity: TopicIdentity
    bounds: Mapping[int, Bounds]


def epoch_of(given: int | None) -> int:
    """Returns a leader epoch as the library gives it; -1: the broker has none."""
    return -1 if given is None else given


def message_digest(key: bytes, message: Any) -> str:
    """Returns the keyed digest of a message, of its partition, offset, time and content.

    Args:
        key: That of the epoch, see `sources.DIGEST_PURPOSE`.
        message: One of the library, as it was fetched.
    """
    mac = hmac.new(key, digestmod=hashlib.sha256)
    mac.update(b"%d/%d/%d/%d" % (message.partition(), message.offset(), *message.timestamp()))
    for part in (message.key(), message.value(), *chain.from_iterable(message.headers() or ())):
        content = part.encode() if isinstance(part, str) else part
        mac.update(b"\n-" if content is None else b"\n%d:%b" % (len(content), content))
    return mac.hexdigest()[:_DIGEST_DIGITS]


def look_at(
    topic: KafkaTopic, client: Any = None, partitions: Collection[int] | None = None
) -> LogNow:
    """Asks the brokers which topic it is, and for the offsets that it has.

    A topic that is not there has no partition.

    Args:
        topic: The topic.
        client: An `AdminClient` that was asked before; None: a new one. It may know neither a
            partition that was added since then nor that another broker takes its questions, so it
            is given up on soon.
        partitions: Whose offsets are asked for, of those that are there; None, or none of them is
            there: of all.

    Raises:
        UsageError: The client library is not installed, or brokers refuse.
        RetryLater: No broker answers.
    """
    library = confluent_kafka()
    seconds = ASK_SECONDS if client is None else ASK_OFTEN_SECONDS
    client = client or topic.admin()
    if (described := _described(topic, client, seconds)) is None:
        return LogNow(TopicIdentity(), {})
    try:
        cluster = client.describe_cluster(request_timeout=seconds).result()
        there = {one.id for one in described.partitions}
        wanted = there.intersection(there if partitions is None else partitions) or there
        places = [library.TopicPartition(topic.name, number) for number in sorted(wanted)]
        spec, levels = library.admin.OffsetSpec, library.IsolationLevel
        committed, every = levels.READ_COMMITTED, levels.READ_UNCOMMITTED
        asked = (spec.earliest(), every), (spec.latest(), committed), (spec.latest(), every)
        answers = [
            client.list_offsets(
                dict.fromkeys(places, which), isolation_level=level, request_timeout=seconds
            )
            for which, level in asked
        ]
        first, stable, end = [
            {place.partition: answer.result() for place, answer in one.items()} for one in answers
        ]
    except library.KafkaException as error:
        raise topic.unreached(error) from None
    bounds = {
        n: Bounds(first[n].offset, stable[n].offset, end[n].offset, epoch_of(end[n].leader_epoch))
        for n in sorted(first)
    }
    return LogNow(TopicIdentity(cluster.cluster_id or None, _text_of(described.topic_id)), bounds)


def topic_id(topic: KafkaTopic, client: Any) -> str | None:
    """Returns the id of a topic, which no later one has; None: it is not there, or has none.

    Raises:
        UsageError: Brokers refuse.
        RetryLater: No broker answers.
    """
    described = _described(topic, client, ASK_OFTEN_SECONDS)
    return None if described is None else _text_of(described.topic_id)


def _described(topic: KafkaTopic, client: Any, seconds: float) -> Any:
    """Returns a topic as brokers describe it; None: none has known it for ABSENT_SECONDS."""
    library = confluent_kafka()
    named = library.TopicCollection([topic.name])
    deadline = time.monotonic() + ABSENT_SECONDS
    while True:
        try:
            return client.describe_topics(named, request_timeout=seconds)[topic.name].result()
        except library.KafkaException as error:
            if error.args[0].code() != library.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise topic.unreached(error) from None
        if time.monotonic() >= deadline:
            return None
        time.sleep(_AGAIN_SECONDS)


def digests_at(topic: KafkaTopic, key: bytes, offsets: Mapping[int, int]) -> dict[int, str | None]:
    """Returns by partition the digest of the message at an offset; None: no message has it.

    Args:
        topic: The topic.
        key: Of the digests.
        offsets: By partition; each within the bounds of the partition.

    Raises:
        RetryLater: No broker answers, or bounds moved meanwhile.
    """
    # What is read of a transaction is at its offset, whether others are open now or not.
    further = {"isolation.level": "read_uncommitted"}
    digests: dict[int, str | None] = {}
    with looking(topic, further) as consumer:
        while missing := offsets.keys() - digests.keys():
            # Anew in each round, so that a long partition does not fill the answers.
            n, begins = len(missing), {number: offsets[number] for number in missing}
            for message in islice(fetched_from(topic, consumer, begins, n), n):
                number = message.partition()
                is_there = message.error() is None and message.offset() == offsets[number]
                digests.setdefault(number, message_digest(key, message) if is_there else None)
    return digests


def fetched_from(
    topic: KafkaTopic, consumer: Any, begins: Mapping[int, int], most: int = 1_000
) -> Iterator[Any]:
    """Yields messages of partitions, and where each ends as an error, as they come; never ends.

    Args:
        topic: The topic.
        consumer: Of the topic, see `looking`.
        begins: By partition the offset of the first message.
        most: How many are fetched at once.

    Raises:
        RetryLater: A partition cannot be read, or this takes longer than ASK_SECONDS.
    """
    library = confluent_kafka()
    consumer.assign([library.TopicPartition(topic.name, *begin) for begin in begins.items()])
    deadline = time.monotonic() + ASK_SECONDS
    while True:
        for message in consumer.consume(most, _FETCH_SECONDS):
            error = message.error()
            if error is not None and error.code() != library.KafkaError._PARTITION_EOF:
                raise RetryLater(f"{KAFKA}{topic.servers}: {error.str()}")
            yield message
        if time.monotonic() > deadline:
            raise RetryLater(f"{KAFKA}{topic.servers} gives no messages of {topic.name!r} in time")


def offsets_since(
    topic: KafkaTopic, consumer: Any, bounds: Mapping[int, Bounds], since_us: int
) -> dict[int, int]:
    """Returns by partition the offset of the first message since a moment, or where it ends.

    Args:
        topic: The topic.
        consumer: Of the topic, see `looking`.
        bounds: By partition.
        since_us: Microseconds since 1970 UTC, by the times of messages.

    Raises:
        RetryLater: No broker answers.
    """
    library, since_ms = confluent_kafka(), max(0, since_us // 1_000)
    asked = [library.TopicPartition(topic.name, number, since_ms) for number in bounds]
    answers = consumer.offsets_for_times(asked, timeout=ASK_SECONDS)
    if any(one.error is not None for one in answers):
        raise RetryLater(f"{KAFKA}{topic.servers} cannot be asked for the past of {topic.name!r}")
    offsets = {one.partition: one.offset for one in answers}
    # A negative offset: no message is as late as that.
    return {n: one.end if offsets[n] < 0 else offsets[n] for n, one in bounds.items()}


def difference(known: KnownLog, now: LogNow) -> str | None:
    """Returns why a topic is not the log that was read, as a clause; None: nothing says so.

    Args:
        known: What was kept of the log.
        now: The topic as it is.
    """
    before, after = known.identity, now.identity
    if _differ(before.cluster_id, after.cluster_id):
        return "its servers belong to another cluster"
    if _differ(before.topic_id, after.topic_id):
        return "it was deleted and made anew, or is another topic of that name"
    if known.places and not now.bounds:
        return DELETED
    if n_gone := len(known.places.keys() - now.bounds.keys()):
        return f"{n_gone} of its partitions are gone"
    for number, place in sorted(known.places.items()):
        bounds = now.bounds[number]
        if 0 <= bounds.epoch < place.epoch:
            return f"partition {number} has a smaller leader epoch than before"
        if bounds.end < place.next:
            return f"partition {number} was truncated: messages that were read are not in it"
    return None


def checked(
    topic: KafkaTopic, key: bytes, known: KnownLog, now: LogNow, partitions: Collection[int] = ()
) -> KnownLog:
    """Makes sure that a topic is the log that was read.

    The last message read is compared in partitions whose leader epoch grew. Where there is none
    to compare, the place keeps the epoch that it has: whoever fetches by it (`PartitionReader`) has
    the library ask the leader where that epoch ended.

    Args:
        topic: The topic.
        key: Of the digests.
        known: What was kept of the log.
        now: The topic as it is.
        partitions: In which the message is compared in any case.

    Returns:
        What is known now, with ids and leader epochs that were not known, and those that grew.

    Raises:
        SourceChanged: It is another log.
        MessagesLost: Messages were deleted before they were read.
        UsageError: Brokers refuse.
        RetryLater: No broker answers.
    """
    if why := difference(known, now):
        raise other_log(topic.name, why)
    if any(place.next < now.bounds[number].first for number, place in known.places.items()):
        raise MessagesLost(
            f"messages of topic {topic.name!r} were deleted before they were read. Keep them for "
            "longer (retention.ms), and begin another epoch, which is another spend"
        )
    offsets = {
        number: place.last
        for number, place in known.places.items()
        if place.digest and place.last >= now.bounds[number].first
        if number in partitions or now.bounds[number].epoch > place.epoch
    }
    digests = digests_at(topic, key, offsets) if offsets else {}
    for number, digest in sorted(digests.items()):
        if digest != known.places[number].digest:
            why = f"partition {number} has not the message that was read last, where it was"
            raise other_log(topic.name, why)
    places = {
        number: replace(place, epoch=max(place.epoch, now.bounds[number].epoch))
        if number in offsets or place.epoch < 0
        else place
        for number, place in known.places.items()
    }
    return KnownLog(places, known.identity.adopting(now.identity))


def check_log(topic: KafkaTopic, key: bytes, known: KnownLog) -> tuple[KnownLog, LogNow]:
    """Makes sure that a topic is the log that was read, by its last messages read as well.

    Returns:
        What is known now, see `checked`, and the topic as it is.
    """
    now = look_at(topic)
    return checked(topic, key, known, now, known.places), now


def compared(topic: KafkaTopic, known: KnownLog, now: LogNow) -> KnownLog:
    """Makes sure that a topic is the log that others read, who keep their places themselves.

    Args:
        topic: The topic.
        known: What was kept of the log.
        now: The topic as it is.

    Returns:
        What is known now: ids, and the largest leader epochs of all partitions that are there.

    Raises:
        SourceChanged: It is another log.
    """
    if why := difference(known, now):
        raise other_log(topic.name, why)
    places = {
        number: Place(0, max(bounds.epoch, known.places.get(number, Place(0)).epoch))
        for number, bounds in now.bounds.items()
    }
    return KnownLog(places, known.identity.adopting(now.identity))


def check_history(
    topic: KafkaTopic, start_us: int, tell: Callable[[str], object] | None = None
) -> None:
    """Makes sure that an epoch which begins to read a topic finds all that belongs to its steps.

    The oldest message that is kept of a partition says when the others were published: before it.
    Where none is kept it cannot be told, so that a partition like that is let pass.

    Args:
        topic: The topic.
        start_us: Where step 0 begins, microseconds since 1970 UTC.
        tell: Takes lines for the operator alone: in how many partitions messages were deleted.

    Raises:
        UsageError: Messages that were published since then may be deleted; or brokers refuse.
        RetryLater: No broker answers.
    """
    oldest = {number: one for number, one in look_at(topic).bounds.items() if one.first > 0}
    if not oldest:
        return
    with looking(topic) as consumer:
        since = offsets_since(topic, consumer, oldest, start_us)
    n_doubtful = sum(since[number] <= one.first < one.end for number, one in oldest.items())
    n_empty = sum(one.first == one.end for one in oldest.values())
    if tell is not None:
        tell(
            f"messages of {len(oldest)} partitions of topic {topic.name!r} were deleted before "
            "this epoch read them: of a case whose first messages are gone, the others count. "
            f"{n_empty} of these partitions are empty, so that nobody can tell when theirs were "
            f"published; {n_doubtful} have no message from before the start of step 0"
        )
    if n_doubtful:
        raise UsageError(
            f"messages of topic {topic.name!r} since the start of step 0 may be deleted: set start "
            "to behind the oldest message of each partition, and a longer retention.ms"
        )


def open_transactions(now: LogNow, positions: Mapping[int, int]) -> dict[int, int]:
    """Returns by partition the offset of a message of an open transaction, if all before are read.

    Args:
        now: The topic as it is.
        positions: By partition, the offset of the next message to read.
    """
    return {
        number: bounds.stable
        for number, position in positions.items()
        if (bounds := now.bounds[number]).stable < bounds.end and position >= bounds.stable
    }


def log_since(topic: KafkaTopic, since_us: int) -> KnownLog:
    """Returns a topic as it is, with places before the first messages since a moment.

    Messages that no broker stamped are passed: their times are those of their senders.

    Args:
        topic: The topic.
        since_us: Microseconds since 1970 UTC.

    Raises:
        UsageError: Brokers refuse.
        RetryLater: No broker answers.
    """
    now, stamped = look_at(topic), confluent_kafka().TIMESTAMP_LOG_APPEND_TIME

    def is_since(message: Any) -> bool:
        kind, millis = message.timestamp()
        return bool(kind == stamped and millis >= max(0, since_us // 1_000))

    places = {}
    with looking(topic) as consumer:
        for number, at in offsets_since(topic, consumer, now.bounds, since_us).items():
            bounds = now.bounds[number]
            if at < bounds.end:
                # What is found first can have its time from its sender.
                messages = fetched_from(topic, consumer, {number: at})
                first = next(one for one in messages if one.error() or is_since(one))
                at = max(at, int(first.offset()))
            places[number] = Place(at, bounds.epoch)
    return KnownLog(places, now.identity)


def transaction_remedy(topic: KafkaTopic, partition: int) -> str:
    """Returns what ends a transaction of a partition that nobody ends, as commands to paste.

    The client library cannot ask who began it.
    """
    tool = f"kafka-transactions.sh --bootstrap-server {topic.servers}"
    place = f"--topic {topic.name} --partition {partition}"
    return (
        f"`{tool} describe-producers {place}` names its producer and its offset: end that, or the "
        f"transaction with `{tool} abort {place} --start-offset OFFSET`"
    )


def other_log(name: str, why: str) -> SourceChanged:
    """Returns the error of a topic that is not the log that was read.

    Args:
        name: Of the topic.
        why: What differs, as a clause about it.
    """
    return SourceChanged(
        f"topic {name!r} is not the log that this epoch has read: {why}. {_REMEDY}"
    )


def _differ(known: str | None, now: str | None) -> bool:
    return None not in (known, now) and known != now


def _text_of(uuid: Any) -> str | None:
    """The text of a topic's id; brokers of before Kafka 2.8 answer with zero."""
    is_zero = not (uuid.get_most_significant_bits() or uuid.get_least_significant_bits())
    return None if is_zero else str(uuid)
