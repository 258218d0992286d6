"""PubSubSource: a subscription of Pub/Sub for a stream on one machine.

A subscription has no offsets, and it cannot be asked how old its oldest unread message is. But it
has a deadline: a message that was delivered and never acknowledged, for example because this
process was killed, is delivered again once the deadline is over. So all messages published before a
moment have been read once pulls followed each other for as long as the deadline, and none of them
brought a message from before that moment. While there is a backlog, pulls bring old messages, and
the watermark stays behind them. The service usually delivers older messages first, but does not
promise it. A message that it holds back for longer than the deadline is late, and still counts
within the release delay of its step. For a pull that brings nothing, the service's own clock says
up to which moment it counts; this machine's clock only measures how long the pulls went on.

A message is acknowledged when it is kept durably. If an acknowledgement is lost, the message comes
again, and is recognised by its event's id.

A subscription has no id either. So the stream keeps its topic, its filter and a label that the
stream sets when it first reads, and compares them once a minute. A seek changes none of them.
"""

from __future__ import annotations

import importlib
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from tracecloak.transforms.services.pubsub_clock import PubSubClock
from tracecloak.transforms.services.pubsub_service import (
    LABEL,
    NEVER_US,
    asking,
    check_subscription,
    pubsub,
    short_retention,
    stamp_us,
)
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US
from tracecloak.transforms.stream.now_and_then import NowAndThen
from tracecloak.transforms.stream.sources import Pulled

_LOG = logging.getLogger("tracecloak")

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
        self._look_again = NowAndThen(_LOOK_SECONDS, seconds)
        try:
            with asking(self._name, self._is_begun):
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

    def pull(self, max_messages: int, timeout_seconds: float) -> Pulled:
        """See `Source`; several pulls one after the other, until one brings nothing."""
        messages: list[Any] = []
        publish: list[int] = []
        receipt: list[str] = []
        if self._look_again.is_due():
            with asking(self._name, self._is_begun):
                self._subscription(None)
        passed_us = self._clock.passed_us()
        end = time.monotonic() + timeout_seconds
        while len(messages) < max_messages and (left := end - time.monotonic()) > 0:
            began = self._seconds()
            received = self._pulled(min(_MOST_PULLED, max_messages - len(messages)), left)
            self._cover(began)
            pulled = [one.message for one in received]
            stamps = [stamp_us(message) for message in pulled]
            oldest = min(stamps, default=passed_us - CLOCK_SKEW_US)
            self._pulls.append((began, oldest))
            messages += pulled
            publish += stamps
            receipt += [one.ack_id for one in received]
            if not received:
                break
        return Pulled(messages, publish, receipt)

    def let_go(self, pulled: Pulled) -> None:
        """Acknowledges the messages."""
        with asking(self._name, self._is_begun):
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

    def _cover(self, began: float) -> None:
        """Notes a pull that succeeded; after a long time without one, the count begins anew.

        Nothing is known of the messages that have gathered meanwhile, as when the stream began.
        """
        if not self._pulls or began - self._pulls[-1][0] > _MARGIN_SECONDS:
            self._began = began
            self._pulls.clear()

    def _pulled(self, max_messages: int, timeout_seconds: float) -> Any:
        with asking(self._name, self._is_begun):
            try:
                answer = self._client.pull(
                    subscription=self._name,
                    max_messages=max_messages,
                    timeout=max(timeout_seconds, _LEAST_SECONDS),
                    retry=None,
                )
            except self._errors.DeadlineExceeded:  # it waited for a message, and none came
                return ()
            except self._errors.FailedPrecondition:  # such as of a detached subscription
                self._subscription(None)
                raise
        return answer._pb.received_messages

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
