"""The double of Pub/Sub does what Google's test server does: the same tests run against both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from google.api_core import exceptions

from tests.support.pubsub import KIND_PARAMS, Service, running, until


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
