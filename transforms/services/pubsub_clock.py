"""PubSubClock: what time it is by Pub/Sub.

The service stamps what it is sent, and only who pulls a message sees the stamp. So a message to a
topic of our own, which comes back through a subscription of our own, asks it for its time. Steps
are decided by that time alone; this machine's clock is only compared.
"""

from __future__ import annotations

import importlib
import math
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.services.pubsub_service import NEVER_US, pubsub, stamp_us
from tracecloak.transforms.services.service_clock import StampedProbe, check_clocks

# Between two questions; what was answered stays true, so steps come later by that at most.
_EVERY_SECONDS = 3.0
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


class PubSubClock:
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
        self._errors = importlib.import_module("google.api_core.exceptions")
        self._publisher = pubsub().PublisherClient()
        self._subscriber = pubsub().SubscriberClient()
        self._topic = topic
        self._subscription = subscription
        self._clock = clock
        self._is_made = False
        self._is_refused = False
        self._sent: _Sent | None = None
        self._passed_us = NEVER_US
        self._answered_seconds = -math.inf
        self.offset_us: int | None = None

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
        with self._asking():
            if not self._is_made:
                self._make()
            is_due = time.monotonic() - self._answered_seconds >= _EVERY_SECONDS
            if self._sent is None and is_due:
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
        try:
            received = self._subscriber.pull(
                subscription=self._subscription,
                max_messages=_MOST_PULLED,
                timeout=_PULL_SECONDS,
                retry=None,
            )._pb.received_messages
        except self._errors.DeadlineExceeded:  # it waited for a message, and none came
            received = ()
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
                self.offset_us = probe.offset_us
                check_clocks("Pub/Sub", [probe])
                self._passed_us = max(self._passed_us, probe.stamp_us)
                self._answered_seconds = time.monotonic()
                return
        if time.monotonic() - sent.seconds > _LOST_SECONDS:
            self._sent = None
            raise RetryLater(f"{self._topic} does not tell the time of Pub/Sub")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        errors = self._errors
        try:
            yield
        except errors.NotFound as error:  # it is made anew, unless that is refused as well
            if self._is_refused or not self._is_made:
                raise self._unusable(error) from None
            self._is_made, self._sent = False, None
            raise RetryLater(f"{self._topic} is not there: {error.message}") from None
        except (errors.ServerError, errors.TooManyRequests, errors.RetryError) as error:
            raise RetryLater(f"{self._topic} cannot be asked: {error}") from None
        except TimeoutError:
            raise RetryLater(f"{self._topic} takes no message now") from None
        except errors.ClientError as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Any) -> UsageError:
        return UsageError(
            f"clock_topic {self._topic} with its subscription {self._subscription} can neither be "
            "made nor used, and without it a wrong clock of this machine would publish steps too "
            f"early: {error.message}. Make both, and let this stream publish to the one and pull "
            "from the other, or name a topic that it can use with clock_topic"
        )

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)
