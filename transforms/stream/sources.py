"""Sources of messages for a stream on one machine: Kafka, Pub/Sub, and several together.

A source gives messages with the times of their publishing, a watermark before which all of them are
there, and positions behind which it goes on after a restart.
"""

from __future__ import annotations

import importlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.formats.messages import Message
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US, NEVER_US, KafkaClock
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
from tracecloak.transforms.services.pubsub_service import (
    LABEL,
    PubSubClock,
    check_subscription,
    pubsub,
    pull_from,
    reading,
    short_retention,
    stamp_us,
)
from tracecloak.transforms.stream.stream_status import RateLimiter

# --- The sources of a stream on one machine: their common form. -----------------------------------


DIGEST_PURPOSE = b"last message read"
"""Of `ReleaseKey.derive`, for the key of digests by which a source recognises its log."""


@dataclass(frozen=True)
class MessageBatch:
    """Messages that were read together.

    Attributes:
        messages: The messages.
        publish: When each was published, microseconds since 1970 UTC.
        receipt: What the source needs to acknowledge them; None: nothing.
        place: Of the input whose messages they are, among several.
    """

    messages: Sequence[Message] = ()
    publish: Sequence[int] | np.ndarray = ()
    receipt: Any = field(default=None, repr=False)
    place: int = 0


class Source(Protocol):
    """Messages of a service, each read at least once, and how far all of them have been read.

    Only the service's clock says how far, by its stamps and its answers to messages of our own, so
    a wrong clock of this machine moves no watermark. If the two clocks differ by more than
    `service_clock.CLOCK_SKEW_US`, the watermark stays where it is until they agree.

    All methods may raise RetryLater: the service does not answer, or the clocks differ, and the
    call may be tried again.
    """

    @property
    def positions(self) -> Mapping[str, Any]:
        """Where to go on behind the pulled messages, as JSON; empty if the service remembers it.

        It is kept together with these messages.
        """
        ...

    @property
    def clock_offset_us(self) -> int | None:
        """How far this machine's clock is ahead of the service's; None: it was not asked yet."""
        ...

    def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
        """Returns what has come, at most so many; none where nothing came in time."""
        ...

    def let_go(self, pulled: MessageBatch) -> None:
        """Notes that messages are kept durably, so that the service need not send them again."""
        ...

    def watermark_us(self) -> int:
        """Returns a moment before which all messages have been pulled; the smallest integer: none.

        What is pulled later and was published before it is late.
        """
        ...

    def close(self) -> None:
        """Ends reading."""
        ...


class SeveralSources:
    """A `Source` of several ones, each with a name; it is read as far as the one read least far.

    A batch of messages is of one of them, and each has its turn.
    """

    def __init__(
        self,
        openings: Mapping[str, Callable[[Mapping[str, Any], bytes], Source]],
        positions: Mapping[str, Any],
        key: bytes,
    ) -> None:
        """Opens them.

        Args:
            openings: By name, in the order of places, what opens each behind its positions.
            positions: As `positions` gave them, by name; empty before the first message.
            key: Of the digests that a source keeps of messages.
        """
        self._next = 0
        with ExitStack() as opened:
            self._sources: dict[str, Source] = {}
            for name, opening in openings.items():
                self._sources[name] = opening(positions.get(name, {}), key)
                opened.callback(self._sources[name].close)
            self._opened = opened.pop_all()

    @property
    def positions(self) -> Mapping[str, Any]:
        """Those of each by its name."""
        return {name: source.positions for name, source in self._sources.items()}

    @property
    def clock_offset_us(self) -> int | None:
        """That of the first: they have one clock."""
        return next(iter(self._sources.values())).clock_offset_us

    def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
        """See `Source`; waits for each in turn until one has something."""
        sources = list(self._sources.values())
        for _ in sources:
            place, self._next = self._next, (self._next + 1) % len(sources)
            pulled = sources[place].pull(max_messages, timeout_seconds / len(sources))
            if pulled.messages:
                return replace(pulled, place=place)
        return MessageBatch()

    def let_go(self, pulled: MessageBatch) -> None:
        """See `Source`."""
        list(self._sources.values())[pulled.place].let_go(pulled)

    def watermark_us(self) -> int:
        """See `Source`."""
        return min(source.watermark_us() for source in self._sources.values())

    def close(self) -> None:
        """See `Source`."""
        self._opened.close()


# --- KafkaSource: all partitions of a topic for a stream on one machine. --------------------------
# Positions are kept with the state of the stream, so a message is read again exactly if it was
# not counted; and so is what tells that the topic is the log that was read (`kafka_identity`).
# Its watermark is that of the partition that is read least far. A partition that is added to the
# topic is found before the watermark passes the moment of looking, so its messages are all later.
# That moment is by the brokers' own clock, which is asked before the partitions are listed.
#
# The watermark is held, and the reason reported, while the topic is not set as it must be, and
# while a transaction is open that nobody ends.


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
                "the state is of an earlier version and names no log: topic %r is taken for it",
                topic.name,
            )
        self._reader = PartitionReader(topic, group, known, key)
        self._reader.add(now.bounds.keys() - known.places.keys())
        self._due, self._said = RateLimiter(), RateLimiter()
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

    def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
        """See `Source`."""
        messages = self._reader.poll(max_messages, timeout_seconds)
        return MessageBatch(messages, messages.published_us)

    def let_go(self, pulled: MessageBatch) -> None:
        """Notes the positions on the brokers; nothing here depends on it."""
        if pulled.messages:
            self._reader.commit(self._reader.positions)

    def watermark_us(self) -> int:
        """See `Source`."""
        passed_us = self._clock.passed_us()
        now = self._reader.look(passed_us)
        self._reader.add(now.bounds.keys() - self._reader.positions.keys())
        if self._due.is_due():
            self._problems = self._topic.problems(self._longest_us)
        if reasons := [*self._problems, *self._hanging(now)]:
            raise RetryLater("; ".join(reasons))
        return min(self._reader.watermark_us(n, passed_us) for n in self._reader.positions)

    def close(self) -> None:
        """See `Source`."""
        self._reader.close()

    def _hanging(self, look: LogNow) -> list[str]:
        """Returns a reason for each partition that is read up to a transaction open for long."""
        before, now, name = self._stuck, time.monotonic(), self._topic.name
        self._stuck = {
            number: before[number] if before.get(number, (-1,))[0] == stable else (stable, now)
            for number, stable in open_transactions(look, self._reader.positions).items()
        }
        held = {n: at for n, (at, since) in self._stuck.items() if now - since > _HANGING_SECONDS}
        if held and self._said.is_due():
            _OPERATOR.warning("open transactions of topic %r: OFFSET by partition %s", name, held)
        return [
            f"a transaction in partition {number} of topic {name!r} has been open for more than "
            f"{_HANGING_SECONDS:.0f} s, and nothing behind it can be read: "
            f"{transaction_remedy(self._topic, number)}"
            for number in sorted(held)
        ]


# --- PubSubSource: a subscription of Pub/Sub for a stream on one machine. -------------------------
# A subscription has no offsets, and it cannot be asked how old its oldest unread message is. But
# it has a deadline: a message that was delivered and never acknowledged, for example because this
# process was killed, is delivered again once the deadline is over. So all messages published
# before a moment have been read once pulls followed each other for as long as the deadline, and
# none of them brought a message from before that moment. While there is a backlog, pulls bring
# old messages, and the watermark stays behind them. The service usually delivers older messages
# first, but does not promise it. A message that it holds back for longer than the deadline is
# late, and still counts within the release delay of its step. For a pull that brings nothing, the
# service's own clock says up to which moment it counts; this machine's clock only measures how
# long the pulls went on.
#
# A message is acknowledged when it is kept durably. If an acknowledgement is lost, the message
# comes again, and is recognised by its event's id.
#
# A subscription has no id either. So the stream keeps its topic, its filter and a label that the
# stream sets when it first reads, and compares them once a minute. A seek changes none of them.


# How long after the deadline a message may come again, and how far apart two pulls may begin.
_MARGIN_SECONDS = 5.0
# The service gives no more at once.
_MOST_PULLED = 1_000
_ASK_SECONDS = 20.0
_LEAST_SECONDS = 0.1
_LOOK_SECONDS = 60.0


class PubSubSource:
    """A `transforms.stream.sources.Source`."""

    def __init__(
        self,
        subscription: str,
        clock: PubSubClock,
        topic: str | None = None,
        seconds: Callable[[], float] = time.monotonic,
        positions: Mapping[str, Any] | None = None,
        is_begun: bool = False,
    ) -> None:
        """Asks for the subscription, and for the time.

        Args:
            subscription: projects/PROJECT/subscriptions/NAME.
            clock: Tells the time of the service; it is closed with the source.
            topic: Where the subscription is made if it is not there and the epoch has not begun;
                None: it must be there.
            seconds: A clock in seconds that only goes forward.
            positions: As `positions` gave them, empty before the first; None: nothing is to be
                read yet, so the subscription gets no label.
            is_begun: Whether the epoch has begun, so that another subscription loses messages.

        Raises:
            SourceChanged: The subscription is not the one that the epoch has read.
            UsageError: The subscription or topic is not there, or cannot be read, or the service
                tells no time, or the client library is not installed.
            RetryLater: The service is away, or clocks differ.
        """
        self._library = pubsub()
        self._errors = importlib.import_module("google.api_core.exceptions")
        self._client = self._library.SubscriberClient()
        self._name = subscription
        self._clock = clock
        self._seconds = seconds
        self._known = dict(positions or {})
        self._is_begun = is_begun
        self._look_again = RateLimiter(_LOOK_SECONDS, seconds)
        try:
            with reading(self._name, self._is_begun):
                found = self._subscription(None if is_begun else topic)
                self._deadline_seconds = found.ack_deadline_seconds
                if positions is not None:
                    self._adopt(found)
            clock.begin()
        except BaseException:
            self.close()
            raise
        # Since when one pull has followed the other.
        self._began = seconds()
        # (when it began, the first time of publishing in it) of the pulls of the last deadline.
        self._pulls: deque[tuple[float, int]] = deque()

    @property
    def positions(self) -> Mapping[str, Any]:
        """What tells the subscription from others: the service knows what was acknowledged."""
        return self._known

    @property
    def clock_offset_us(self) -> int | None:
        """See `Source`."""
        return self._clock.offset_us

    def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
        """See `Source`; several pulls one after the other, until one brings nothing."""
        messages: list[Any] = []
        publish: list[int] = []
        receipt: list[str] = []
        if self._look_again.is_due():
            with reading(self._name, self._is_begun):
                self._subscription(None)
        passed_us = self._clock.passed_us()
        end = time.monotonic() + timeout_seconds
        while len(messages) < max_messages and (left := end - time.monotonic()) > 0:
            began = self._seconds()
            received = self._pulled(min(_MOST_PULLED, max_messages - len(messages)), left)
            if not self._pulls or began - self._pulls[-1][0] > _MARGIN_SECONDS:
                # Nothing is known of the messages that have gathered without a pull.
                self._began = began
                self._pulls.clear()
            pulled = [one.message for one in received]
            stamps = [stamp_us(message) for message in pulled]
            oldest = min(stamps, default=passed_us - CLOCK_SKEW_US)
            self._pulls.append((began, oldest))
            messages += pulled
            publish += stamps
            receipt += [one.ack_id for one in received]
            if not received:
                break
        return MessageBatch(messages, publish, receipt)

    def let_go(self, pulled: MessageBatch) -> None:
        """Acknowledges the messages."""
        with reading(self._name, self._is_begun):
            for at in range(0, len(pulled.receipt or ()), _MOST_PULLED):
                self._client.acknowledge(
                    subscription=self._name,
                    ack_ids=pulled.receipt[at : at + _MOST_PULLED],
                    timeout=_ASK_SECONDS,
                )

    def watermark_us(self) -> int:
        """See `Source`."""
        since = self._seconds() - self._deadline_seconds - _MARGIN_SECONDS
        if self._began > since:
            return NEVER_US
        while self._pulls and self._pulls[0][0] < since:
            self._pulls.popleft()
        return min((oldest for _, oldest in self._pulls), default=NEVER_US)

    def close(self) -> None:
        """See `Source`."""
        self._client.close()
        self._clock.close()

    def _pulled(self, most: int, seconds: float) -> Sequence[Any]:
        with reading(self._name, self._is_begun):
            try:
                return pull_from(self._client, self._name, most, max(seconds, _LEAST_SECONDS))
            except self._errors.FailedPrecondition:  # such as of a detached subscription
                self._subscription(None)
                raise

    def _subscription(self, topic: str | None) -> Any:
        """The subscription, which is the one that was read; made where it may be, at a topic."""
        try:
            # Asked once: the stream waits by itself, and can be stopped meanwhile.
            found = self._client.get_subscription(
                subscription=self._name, timeout=_ASK_SECONDS, retry=None
            )
        except self._errors.NotFound:
            if topic is None:
                raise
            found = self._client.create_subscription(
                name=self._name, topic=topic, timeout=_ASK_SECONDS
            )
        check_subscription(self._known, found, self._is_begun)
        return found

    def _adopt(self, found: Any) -> None:
        """Begins to read: keeps what the subscription is, and sets its label if it has none."""
        self._is_begun = True
        if short := short_retention(found):
            _LOG.warning("%s %s", self._name, short)
        self._known = {"topic": found.topic, "filter": found.filter, **self._known}
        if "label" in self._known:
            return
        label, errors = secrets.token_hex(8), self._errors
        labelled = {"name": self._name, "labels": {**found.labels, LABEL: label}}
        change = {"subscription": labelled, "update_mask": {"paths": ["labels"]}}
        try:
            self._client.update_subscription(request=change, timeout=_ASK_SECONDS, retry=None)
            self._known["label"] = label
        except (errors.Forbidden, errors.InvalidArgument, errors.MethodNotImplemented) as error:
            text = "%s gets no label (%s), so another of that name and topic is not recognised"
            _LOG.warning(text + ": let this account update it", self._name, error.message)


def delete_subscription(subscription: str) -> None:
    """Deletes the subscription of an epoch, if it is there."""
    client = pubsub().SubscriberClient()
    errors = importlib.import_module("google.api_core.exceptions")
    with client:
        try:
            client.delete_subscription(subscription=subscription, timeout=_ASK_SECONDS)
        except errors.NotFound:
            return
        except errors.GoogleAPIError:
            _LOG.warning("%s could not be deleted, and nothing reads it any more", subscription)
