"""A Pub/Sub server for a test, and what a test does with it through Google's own client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "pubsub_server.sh"
# For fixtures: what needs a server that is built first is not in `make test`.
KIND_PARAMS = ("double", pytest.param("pstest", marks=pytest.mark.engines))
PROJECT = "hospital"
VARIABLE = "PUBSUB_EMULATOR_HOST"


@contextmanager
def running(kind: str) -> Iterator[str]:
    """Starts the server of a kind by the script and gives its address; skips where it cannot."""
    if kind == "pstest" and shutil.which("go") is None:
        pytest.skip("pstest needs Go")
    server = subprocess.Popen(
        [str(SCRIPT), kind],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        if not address and kind == "pstest":
            pytest.skip("pstest could not be built; its modules come from Go's module proxy")
        assert address, f"{SCRIPT.name} {kind} ended with {server.wait()}"
        yield address
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


class Service:
    """A topic with a subscription, and the clients of both.

    Attributes:
        address: HOST:PORT of the server.
        topic: Full name of the topic.
        subscription: Full name of a subscription of it.
    """

    def __init__(self, address: str) -> None:
        from google.cloud import pubsub_v1

        self.address = address
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, address)
            self.publisher = pubsub_v1.PublisherClient()
            self.subscriber = pubsub_v1.SubscriberClient()
        self.topic = self.new_topic()
        self.subscription = self.subscribe(self.topic)

    def close(self) -> None:
        self.publisher.stop()
        self.publisher.transport.close()
        self.subscriber.close()

    def new_topic(self) -> str:
        name = f"projects/{PROJECT}/topics/t{uuid.uuid4().hex}"
        self.publisher.create_topic(name=name)
        return name

    def subscribe(self, topic: str, ack_seconds: int = 10) -> str:
        name = f"projects/{PROJECT}/subscriptions/s{uuid.uuid4().hex}"
        self.subscriber.create_subscription(
            name=name, topic=topic, ack_deadline_seconds=ack_seconds
        )
        return name

    def publish(
        self, *messages: bytes, topic: str | None = None, **attributes: str
    ) -> Sequence[str]:
        sent = [self.publisher.publish(topic or self.topic, m, **attributes) for m in messages]
        return [future.result() for future in sent]

    def pull(self, subscription: str | None = None, most: int = 1000) -> list[Any]:
        response = self.subscriber.pull(
            subscription=subscription or self.subscription, max_messages=most, timeout=10
        )
        return list(response.received_messages)

    def acknowledge(self, received: Sequence[Any], subscription: str | None = None) -> None:
        self.subscriber.acknowledge(
            subscription=subscription or self.subscription, ack_ids=[one.ack_id for one in received]
        )

    def drain(self, subscription: str | None = None, n: int = 1, seconds: float = 60) -> list[Any]:
        """Takes and acknowledges messages until there are n of them."""
        found: list[Any] = []

        def enough() -> bool:
            received = self.pull(subscription)
            if received:
                self.acknowledge(received, subscription)
            found.extend(one.message for one in received)
            return len(found) >= n

        until(enough, seconds)
        return found


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Waits until a condition holds; fails if it does not within the time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
