"""A Pub/Sub service in this process, or in one of its own: the part of it that streams use.

It speaks gRPC as the service does, so that Google's client meets it through the variable
PUBSUB_EMULATOR_HOST. Topics, subscriptions, publishing, unary pull, acknowledgement, deadlines,
redelivery, labels and detaching are there; filters and retention are kept and not applied;
streaming pull, push, ordering keys, snapshots, seek and dead-letter topics are not. Nothing is
stored: what no subscription waits for is gone.

Where the service leaves something open the double does what is worse for the subscriber: a late
acknowledgement does not count, so the message comes again.

`python -m tests.support.pubsub_double` starts one and writes its address.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types

# The messages themselves; the client's classes around them cost ten times the time.
_RECEIVED = types.ReceivedMessage.pb()
_PULLED = types.PullResponse.pb()

_DEFAULT_ACK_SECONDS = 10
_DEFAULT_RETENTION_SECONDS = 7 * 86_400
_CHANGEABLE = frozenset({"labels", "message_retention_duration"})  # a filter is not, as there
_DELETED_TOPIC = "_deleted-topic_"
_MOST_PULLED = 1000
_TICK = 0.05  # seconds between two looks at the deadlines
_THREADS = 32


class Refused(Exception):  # noqa: N818 - what the caller gets is a status
    """What the service answers instead of a result."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Subscription:
    """Messages that wait, and those that were delivered and have a deadline."""

    def __init__(self, proto: Any) -> None:
        self.proto = proto
        self._waiting: deque[Any] = deque()
        self._outstanding: dict[str, tuple[float, Any]] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._numbers = itertools.count(1)

    def add(self, message: Any) -> None:
        self._waiting.append(message)

    def take(self, most: int, seconds: float) -> list[Any]:
        """Delivers messages; what is not acknowledged in time waits again, before the others."""
        now = time.monotonic()
        self._expire(now)
        taken = []
        while self._waiting and len(taken) < most:
            message = self._waiting.popleft()
            ack_id = f"{self.proto.name}:{next(self._numbers)}"
            self._keep(ack_id, now + seconds, message)
            taken.append(_RECEIVED(ack_id=ack_id, message=message))
        return taken

    def acknowledge(self, ack_ids: Any) -> None:
        self._expire(time.monotonic())
        for ack_id in ack_ids:
            self._outstanding.pop(ack_id, None)

    def extend(self, ack_ids: Any, seconds: float) -> None:
        """Sets deadlines anew; those of late or unknown deliveries stay as they are."""
        now = time.monotonic()
        self._expire(now)
        for ack_id in ack_ids:
            if ack_id in self._outstanding:
                self._keep(ack_id, now + seconds, self._outstanding[ack_id][1])
        self._expire(now)

    def _keep(self, ack_id: str, deadline: float, message: Any) -> None:
        self._outstanding[ack_id] = (deadline, message)
        heapq.heappush(self._deadlines, (deadline, ack_id))

    def _expire(self, now: float) -> None:
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, ack_id = heapq.heappop(self._deadlines)
            if self._outstanding.get(ack_id, (None,))[0] == deadline:  # else it was set anew
                late.append(self._outstanding.pop(ack_id)[1])
        self._waiting.extendleft(reversed(late))


class PubSubDouble:
    """The service on a free port of this machine, from entering the context to leaving it.

    Attributes:
        address: HOST:PORT, for PUBSUB_EMULATOR_HOST.
    """

    def __init__(
        self, port: int = 0, empty_pull_seconds: float = 0.5, clock: Callable[[], float] = time.time
    ) -> None:
        """Takes the port; nothing answers yet.

        Args:
            port: To listen at on 127.0.0.1; 0: any free one.
            empty_pull_seconds: How long a pull waits for a first message before it returns none.
            clock: Seconds since 1970 UTC, for the stamps of messages.
        """
        self._empty_pull_seconds = empty_pull_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._stopping = False
        self._topics: dict[str, Any] = {}
        self._subscriptions: dict[str, _Subscription] = {}
        self._message_ids = itertools.count(1)
        self._last_published = 0
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS),
            options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 20 << 20)],
        )
        self._server.add_generic_rpc_handlers(self._handlers())
        bound = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.address = f"127.0.0.1:{bound}"

    def __enter__(self) -> PubSubDouble:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._server.stop(grace=1).wait()

    # --- Topics -------------------------------------------------------------------------------

    def _create_topic(self, request: Any) -> Any:
        if request.name in self._topics:
            _refuse(grpc.StatusCode.ALREADY_EXISTS, f"topic {request.name!r} exists")
        self._topics[request.name] = request
        return request

    def _get_topic(self, request: Any) -> Any:
        return self._topic(request.topic)

    def _delete_topic(self, request: Any) -> Any:
        self._topic(request.topic)
        del self._topics[request.topic]
        for subscription in self._subscriptions.values():
            if subscription.proto.topic == request.topic:
                subscription.proto.topic = _DELETED_TOPIC
        return Empty()

    def _publish(self, request: Any) -> Any:
        self._topic(request.topic)
        takers = [
            s
            for s in self._subscriptions.values()
            if s.proto.topic == request.topic and not s.proto.detached
        ]
        response = types.PublishResponse.pb()()
        for message in request.messages:
            message.message_id = str(next(self._message_ids))
            # Clocks of machines are set back; the service's is not.
            self._last_published = max(self._last_published, int(self._clock() * 1e6))
            message.publish_time.FromMicroseconds(self._last_published)
            response.message_ids.append(message.message_id)
            for subscription in takers:
                subscription.add(message)
        self._changed.notify_all()
        return response

    # --- Subscriptions ------------------------------------------------------------------------

    def _create_subscription(self, request: Any) -> Any:
        if request.name in self._subscriptions:
            _refuse(grpc.StatusCode.ALREADY_EXISTS, f"subscription {request.name!r} exists")
        self._topic(request.topic)
        request.ack_deadline_seconds = request.ack_deadline_seconds or _DEFAULT_ACK_SECONDS
        if not request.message_retention_duration.seconds:
            request.message_retention_duration.seconds = _DEFAULT_RETENTION_SECONDS
        self._subscriptions[request.name] = _Subscription(request)
        return request

    def _update_subscription(self, request: Any) -> Any:
        proto = self._subscription(request.subscription.name).proto
        paths = request.update_mask.paths
        if not paths or not _CHANGEABLE.issuperset(paths):
            _refuse(grpc.StatusCode.INVALID_ARGUMENT, f"only {sorted(_CHANGEABLE)} are changed")
        for path in paths:
            proto.ClearField(path)
        changes = type(proto)()
        request.update_mask.MergeMessage(request.subscription, changes)
        proto.MergeFrom(changes)
        return proto

    def _detach_subscription(self, request: Any) -> Any:
        subscription = self._subscription(request.subscription)
        self._subscriptions[request.subscription] = _Subscription(subscription.proto)
        subscription.proto.detached = True
        return types.DetachSubscriptionResponse.pb()()

    def _get_subscription(self, request: Any) -> Any:
        return self._subscription(request.subscription).proto

    def _delete_subscription(self, request: Any) -> Any:
        self._subscription(request.subscription)
        del self._subscriptions[request.subscription]
        self._changed.notify_all()
        return Empty()

    def _pull(self, request: Any) -> Any:
        most = min(request.max_messages, _MOST_PULLED)
        end = time.monotonic() + self._empty_pull_seconds
        while True:
            subscription = self._subscription(request.subscription)
            if subscription.proto.detached:
                _refuse(grpc.StatusCode.FAILED_PRECONDITION, "the subscription is detached")
            taken = subscription.take(most, subscription.proto.ack_deadline_seconds)
            left = end - time.monotonic()
            if taken or left <= 0 or self._stopping:
                return _PULLED(received_messages=taken)
            self._changed.wait(min(left, _TICK))

    def _acknowledge(self, request: Any) -> Any:
        self._subscription(request.subscription).acknowledge(request.ack_ids)
        return Empty()

    def _modify(self, request: Any) -> Any:
        subscription = self._subscription(request.subscription)
        subscription.extend(request.ack_ids, request.ack_deadline_seconds)
        self._changed.notify_all()
        return Empty()

    # --- What the service is made of ----------------------------------------------------------

    def _topic(self, name: str) -> Any:
        if name not in self._topics:
            _refuse(grpc.StatusCode.NOT_FOUND, f"no topic {name!r}")
        return self._topics[name]

    def _subscription(self, name: str) -> _Subscription:
        if name not in self._subscriptions:
            _refuse(grpc.StatusCode.NOT_FOUND, f"no subscription {name!r}")
        return self._subscriptions[name]

    def _handlers(self) -> list[Any]:
        publisher: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "CreateTopic": (self._create_topic, types.Topic),
            "GetTopic": (self._get_topic, types.GetTopicRequest),
            "DeleteTopic": (self._delete_topic, types.DeleteTopicRequest),
            "Publish": (self._publish, types.PublishRequest),
            "DetachSubscription": (self._detach_subscription, types.DetachSubscriptionRequest),
        }
        subscriber: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "CreateSubscription": (self._create_subscription, types.Subscription),
            "GetSubscription": (self._get_subscription, types.GetSubscriptionRequest),
            "UpdateSubscription": (self._update_subscription, types.UpdateSubscriptionRequest),
            "DeleteSubscription": (self._delete_subscription, types.DeleteSubscriptionRequest),
            "Pull": (self._pull, types.PullRequest),
            "Acknowledge": (self._acknowledge, types.AcknowledgeRequest),
            "ModifyAckDeadline": (self._modify, types.ModifyAckDeadlineRequest),
        }
        return [
            grpc.method_handlers_generic_handler(
                f"google.pubsub.v1.{kind}", {name: self._unary(*call) for name, call in of.items()}
            )
            for kind, of in (("Publisher", publisher), ("Subscriber", subscriber))
        ]

    def _unary(self, call: Callable[[Any], Any], request_type: Any) -> Any:
        def answer(request: Any, context: Any) -> bytes:
            try:
                with self._changed:
                    return call(request).SerializeToString()
            except Refused as refusal:
                context.abort(refusal.code, str(refusal))

        return grpc.unary_unary_rpc_method_handler(answer, request_type.pb().FromString)


def _refuse(code: grpc.StatusCode, text: str) -> NoReturn:
    raise Refused(code, text)


def main() -> None:
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1 (default: a free one)")
    with PubSubDouble(parser.parse_args().port) as double:
        sys.stdout.write(f"{double.address}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
