"""The double of Pub/Sub does what Google's test server does: the same tests run against both.

What is checked is what the client library, Beam's connector and the streams of this project rely
on. Messages are compared as sets: neither server promises an order.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from google.api_core import exceptions

from tests.support.pubsub import KIND_PARAMS, PROJECT, Service, running, until
from tests.support.pubsub_double import PubSubDouble


@pytest.fixture(scope="module", params=KIND_PARAMS)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param) as its_address:
        yield its_address


@pytest.fixture
def service(address: str) -> Iterator[Service]:
    made = Service(address)
    yield made
    made.close()


def test_names_are_made_found_and_deleted(service: Service) -> None:
    found = service.subscriber.get_subscription(subscription=service.subscription)
    assert (found.name, found.topic) == (service.subscription, service.topic)
    assert found.ack_deadline_seconds == 10
    assert service.publisher.get_topic(topic=service.topic).name == service.topic
    with pytest.raises(exceptions.AlreadyExists):
        service.publisher.create_topic(name=service.topic)
    with pytest.raises(exceptions.AlreadyExists):
        service.subscriber.create_subscription(name=service.subscription, topic=service.topic)
    service.subscriber.delete_subscription(subscription=service.subscription)
    with pytest.raises(exceptions.NotFound):
        service.subscriber.get_subscription(subscription=service.subscription)
    service.publisher.delete_topic(topic=service.topic)
    with pytest.raises(exceptions.NotFound):
        service.publisher.get_topic(topic=service.topic)


def test_what_is_not_there_is_not_found(service: Service) -> None:
    gone, missing = f"projects/{PROJECT}/topics/gone", f"projects/{PROJECT}/subscriptions/gone"
    calls = [
        lambda: service.publish(b"x", topic=gone),
        lambda: service.publisher.delete_topic(topic=gone),
        lambda: service.subscriber.create_subscription(name=missing, topic=gone),
        lambda: service.subscriber.delete_subscription(subscription=missing),
        lambda: service.pull(missing),
        lambda: service.subscriber.acknowledge(subscription=missing, ack_ids=["a"]),
        lambda: service.subscriber.modify_ack_deadline(
            subscription=missing, ack_ids=["a"], ack_deadline_seconds=10
        ),
    ]
    for call in calls:
        with pytest.raises(exceptions.NotFound):
            call()


@pytest.mark.parametrize("seconds", [9, 601])
def test_the_double_refuses_a_deadline_that_the_service_would(seconds: int) -> None:
    """Google's test server answers with an error that the client tries again for a minute."""
    with PubSubDouble() as double:
        service = Service(double.address)
        with pytest.raises(exceptions.InvalidArgument):
            service.subscriber.create_subscription(
                name=f"{service.subscription}-2", topic=service.topic, ack_deadline_seconds=seconds
            )
        service.close()


def test_every_subscription_gets_every_message_from_then_on(service: Service) -> None:
    before = time.time()
    ids = service.publish(b"1", b"2", release_id="r")
    second = service.subscribe(service.topic)
    ids = [*ids, *service.publish(b"3", release_id="s")]
    messages = service.drain(n=3)
    assert {(m.message_id, m.data, m.attributes["release_id"]) for m in messages} == {
        (ids[0], b"1", "r"),
        (ids[1], b"2", "r"),
        (ids[2], b"3", "s"),
    }
    published = sorted((m.data, m.publish_time.timestamp()) for m in messages)
    assert [at for _, at in published] == sorted(at for _, at in published)
    assert all(before - 1 <= at <= time.time() + 1 for _, at in published)
    assert [m.data for m in service.drain(second)] == [b"3"]


def test_an_empty_pull_returns_none_after_a_while_and_before_its_deadline(service: Service) -> None:
    begun = time.monotonic()
    assert service.pull() == []
    assert time.monotonic() - begun < 5


def test_a_message_that_comes_during_a_pull_is_in_it_or_in_the_next(service: Service) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(service.pull)
        service.publish(b"late")
        received = waiting.result()
    assert [one.message.data for one in received or service.pull()] == [b"late"]


def test_a_pull_takes_no_more_than_asked_and_no_message_twice(service: Service) -> None:
    service.publish(*[b"%d" % i for i in range(25)])
    pulls = [service.pull(most=10) for _ in range(3)]
    assert all(len(received) <= 10 for received in pulls)
    data = [one.message.data for one in itertools.chain(*pulls)]
    assert sorted(data) == sorted(b"%d" % i for i in range(25))
    assert service.pull() == []  # all are out, none is acknowledged


def test_what_is_acknowledged_does_not_come_again(service: Service) -> None:
    service.publish(b"kept", b"lost")
    received = service.pull()
    kept = [one for one in received if one.message.data == b"kept"]
    service.acknowledge(kept)
    service.acknowledge(kept)  # once more does no harm
    give_back(service, received)  # an acknowledged one stays so
    assert [one.message.data for one in service.pull()] == [b"lost"]


def give_back(service: Service, received: list[Any], seconds: int = 0) -> None:
    service.subscriber.modify_ack_deadline(
        subscription=service.subscription,
        ack_ids=[one.ack_id for one in received],
        ack_deadline_seconds=seconds,
    )


def test_a_message_comes_again_after_its_deadline_and_is_the_same(service: Service) -> None:
    (sent,) = service.publish(b"again", n="1")
    (first,) = service.pull()
    give_back(service, [first], seconds=1)
    assert service.pull() == []
    begun = time.monotonic()
    again: list[Any] = []
    until(lambda: bool(again.extend(service.pull()) or again), seconds=5)
    assert time.monotonic() - begun < 3
    assert [one.message for one in again] == [first.message]
    assert first.message.message_id == sent
    service.acknowledge(again)
    assert service.pull() == []


def test_a_longer_deadline_keeps_a_message_away(service: Service) -> None:
    service.publish(b"slow")
    received = service.pull()
    give_back(service, received, seconds=1)
    give_back(service, received, seconds=60)
    time.sleep(1.3)
    assert service.pull() == []
    service.acknowledge(received)


def test_a_stream_delivers_and_takes_acknowledgements(service: Service) -> None:
    """As the client library subscribes: it holds a stream and answers on it."""
    got: dict[bytes, int] = {}

    def take(message: Any) -> None:
        got[message.data] = got.get(message.data, 0) + 1
        if message.data == b"twice" and got[b"twice"] == 1:
            message.nack()
        else:
            message.ack()

    service.publish(b"once", b"twice")
    stream = service.subscriber.subscribe(service.subscription, callback=take)
    try:
        until(lambda: got == {b"once": 1, b"twice": 2})
        service.publish(b"later")
        until(lambda: b"later" in got)
        time.sleep(0.5)  # the answers are sent together, a moment later
    finally:
        stream.cancel()
        stream.result()
    assert got == {b"once": 1, b"twice": 2, b"later": 1}
    assert service.pull() == []


def test_a_deleted_topic_takes_no_more(service: Service) -> None:
    service.publisher.delete_topic(topic=service.topic)
    with pytest.raises(exceptions.NotFound):
        service.publish(b"x")
