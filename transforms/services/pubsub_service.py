"""Google's client of Pub/Sub: its stamps, which subscription one is, and what time it is.

The service stamps what it is sent, and only who pulls a message sees the stamp. So a message to a
topic of our own, which comes back through a subscription of our own, asks it for its time.
"""

from __future__ import annotations

import contextlib
import importlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracecloak.schemas.errors import RetryLater, SourceChanged, UsageError, import_extra
from tracecloak.transforms.services.kafka_clock import NEVER_US, ServiceClock, StampedProbe

# --- Google's client of Pub/Sub: how it is found, its stamps, and which subscription one is. ------


LABEL = "tracecloak-read-by"
_DELETED_TOPIC = "_deleted-topic_"
_LEAST_RETENTION_HOURS = 24.0


def pubsub() -> Any:
    """Returns the client library.

    Raises:
        UsageError: It is not installed.
    """
    return import_extra("google.cloud.pubsub_v1", "Pub/Sub", "google-cloud-pubsub", "pubsub")


def stamp_us(message: Any) -> int:
    """Returns when the service published a message, microseconds since 1970 UTC."""
    stamp = message.publish_time
    return int(stamp.seconds) * 1_000_000 + int(stamp.nanos) // 1_000


def check_subscription(known: Mapping[str, Any], found: Any, is_begun: bool) -> None:
    """Makes sure that a subscription is the one that was read, and still gets messages.

    A seek is not seen: it changes nothing of a subscription.

    Args:
        known: Its `topic`, its `filter` and its `label` when it was first read; what is not there
            is not compared.
        found: The subscription, as the service describes it.
        is_begun: See `subscription_error`.

    Raises:
        SourceChanged: It is another one, or gets no messages.
        UsageError: Likewise, of an epoch that has not begun.
    """
    for differs, why in (
        (found.detached, "it is detached from its topic"),
        (found.topic == _DELETED_TOPIC, "its topic was deleted"),
        (known.get("topic", found.topic) != found.topic, "it is of another topic"),
        (known.get("filter", found.filter) != found.filter, "it has another filter"),
        (
            "label" in known and known["label"] != found.labels.get(LABEL),
            f"its label {LABEL} differs: it was made anew, or another stream reads it",
        ),
    ):
        if differs:
            raise subscription_error(found.name, why, is_begun)


def subscription_error(name: str, why: str, is_begun: bool) -> SourceChanged | UsageError:
    """Returns the error of a subscription that is not the one to read.

    Args:
        name: Of the subscription.
        why: What is wrong, as a clause about it.
        is_begun: Whether the epoch has begun, so that messages may be lost.
    """
    if not is_begun:
        return UsageError(f"{name} cannot be read: {why}; name another, or make it anew")
    return SourceChanged(
        f"{name} is not the subscription that this epoch has read: {why}. Messages may be lost: "
        "restore what was changed, or begin another epoch, which is another spend"
    )


@contextlib.contextmanager
def asking(name: str, refusal: Callable[[Any], Exception]) -> Iterator[None]:
    """Raises our own error in place of one of the client, which the block asks.

    Args:
        name: Of what is asked for.
        refusal: Returns the error in place of one that does not end by waiting.

    Raises:
        RetryLater: The service does not answer now.
        Exception: See `refusal`.
    """
    errors = importlib.import_module("google.api_core.exceptions")
    passing = errors.ServerError, errors.TooManyRequests, errors.Aborted, errors.RetryError
    try:
        yield
    except (*passing, TimeoutError) as error:
        raise RetryLater(f"{name} cannot be asked: {str(error) or 'no answer'}") from None
    except errors.ClientError as error:
        raise refusal(error) from None


def reading(name: str, is_begun: bool) -> contextlib.AbstractContextManager[None]:
    """Returns `asking` for a subscription; see `subscription_error`."""
    not_found = importlib.import_module("google.api_core.exceptions").NotFound

    def refusal(error: Any) -> Exception:
        if isinstance(error, not_found):
            return subscription_error(name, error.message, is_begun)
        return UsageError(f"{name} cannot be read: {error.message}")

    return asking(name, refusal)


def pull_from(client: Any, subscription: str, most: int, seconds: float) -> Sequence[Any]:
    """Returns what a subscription gives at once, with ids for acknowledgement; or nothing in time.

    The client does not try again by itself: the stream waits, and can be stopped meanwhile.
    """
    errors = importlib.import_module("google.api_core.exceptions")
    request = {"subscription": subscription, "max_messages": most}
    try:
        answer = client.pull(**request, timeout=seconds, retry=None)
    except errors.DeadlineExceeded:  # it waited for a message, and none came
        return ()
    received: Sequence[Any] = answer._pb.received_messages
    return received


def short_retention(found: Any) -> str | None:
    """Returns a clause on a subscription that keeps unread messages for less than a day; or None.

    Args:
        found: The subscription, as the service describes it.
    """
    hours = found._pb.message_retention_duration.seconds / 3600
    if not 0 < hours < _LEAST_RETENTION_HOURS:  # some emulators do not give it
        return None
    return f"keeps unread messages for {hours:.1f} hours: set message_retention_duration to a day"


# --- PubSubClock: what time it is by Pub/Sub. -----------------------------------------------------
# The service stamps what it is sent, and only who pulls a message sees the stamp. So a message to
# a topic of our own, which comes back through a subscription of our own, asks it for its time.
# Steps are decided by that time alone; this machine's clock is only compared.


_PULL_SECONDS = 0.5
# A message that has not come back for so long is lost.
_LOST_SECONDS = 20.0
_ASK_SECONDS = 5.0
_MOST_PULLED = 100


@dataclass(frozen=True)
class _Sent:
    """A message that is on its way, by this machine's clock and by the seconds that passed."""

    nonce: str
    sent_us: int
    taken_us: int
    seconds: float


class PubSubClock(ServiceClock):
    """Asks Pub/Sub for its time; not for threads."""

    def __init__(
        self, topic: str, subscription: str, clock: Callable[[], float] = time.time
    ) -> None:
        """Keeps whom to ask; topic and subscription are made if they are not there.

        Args:
            topic: projects/PROJECT/topics/NAME.
            subscription: projects/PROJECT/subscriptions/NAME, which nobody else pulls from.
            clock: Seconds since 1970 UTC, of this machine.

        Raises:
            UsageError: The client library is not installed.
        """
        super().__init__(clock)
        self._errors = importlib.import_module("google.api_core.exceptions")
        self._publisher = pubsub().PublisherClient()
        self._subscriber = pubsub().SubscriberClient()
        self._topic = topic
        self._subscription = subscription
        self._is_made = False
        self._is_refused = False
        self._sent: _Sent | None = None

    def begin(self) -> None:
        """Waits for the first answer.

        Raises:
            RetryLater, UsageError: See `passed_us`.
        """
        while self.passed_us() == NEVER_US:
            pass  # an answer that does not come is raised there

    def passed_us(self) -> int:
        """Returns a moment that is over by the service's clock; the smallest integer: none yet.

        Returns:
            Microseconds since 1970 UTC.

        Raises:
            RetryLater: The service is away or gives no answer, or its clock and this machine's
                differ.
            UsageError: Topic or subscription can neither be made nor used.
        """
        with asking(self._topic, self._refusal):
            if not self._is_made:
                self._make()
            if self._sent is None and self._is_due():
                self._send()
            if self._sent is not None:
                self._receive(self._sent)
        return self._passed_us

    def close(self) -> None:
        """Ends asking."""
        self._publisher.stop()
        self._publisher.transport.close()
        self._subscriber.close()

    def _make(self) -> None:
        self._is_refused = False
        topic, subscription = self._topic, self._subscription
        for create, named in (
            (self._publisher.create_topic, {"name": topic}),
            (self._subscriber.create_subscription, {"name": subscription, "topic": topic}),
        ):
            try:
                create(**named, timeout=_ASK_SECONDS, retry=None)
            except self._errors.AlreadyExists:
                continue
            except self._errors.Forbidden:  # who may make none may be let use those that are there
                self._is_refused = True
        self._is_made = True

    def _send(self) -> None:
        nonce, sent_us = secrets.token_hex(8), self._now_us()
        self._publisher.publish(self._topic, b"clock", nonce=nonce).result(timeout=_ASK_SECONDS)
        self._sent = _Sent(nonce, sent_us, self._now_us(), time.monotonic())

    def _receive(self, sent: _Sent) -> None:
        received = pull_from(self._subscriber, self._subscription, _MOST_PULLED, _PULL_SECONDS)
        if received:
            self._subscriber.acknowledge(
                subscription=self._subscription,
                ack_ids=[one.ack_id for one in received],
                timeout=_ASK_SECONDS,
                retry=None,
            )
        for one in received:
            if one.message.attributes.get("nonce") == sent.nonce:
                probe = StampedProbe(sent.sent_us, stamp_us(one.message), sent.taken_us)
                self._sent = None
                self._answered("Pub/Sub", [probe])
                return
        if time.monotonic() - sent.seconds > _LOST_SECONDS:
            self._sent = None
            raise RetryLater(f"{self._topic} does not tell the time of Pub/Sub")

    def _refusal(self, error: Any) -> Exception:
        is_gone = isinstance(error, self._errors.NotFound)
        if is_gone and self._is_made and not self._is_refused:  # it is made anew
            self._is_made, self._sent = False, None
            return RetryLater(f"{self._topic} is not there: {error.message}")
        return UsageError(
            f"clock_topic {self._topic} with its subscription {self._subscription} can neither be "
            f"made nor used: {error.message}. Make both, and let this stream publish to one and "
            "pull from the other, or name another topic with clock_topic"
        )
