"""A subscription read for a stream on one machine: how far it is known to have been read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub")

from google.api_core import exceptions

from tests.support.pubsub import VARIABLE, Service
from tests.support.pubsub_double import PubSubDouble
from tracecloak.schemas.errors import RetryLater, SourceChanged, UsageError
from tracecloak.transforms.services import kafka_clock, pubsub_service
from tracecloak.transforms.services.pubsub_service import PubSubClock
from tracecloak.transforms.stream.sources import MessageBatch, PubSubSource, delete_subscription
from tracecloak.transforms.stream.step_sinks import _PubSubWriter

ACK_SECONDS = 10
WAIT_SECONDS = ACK_SECONDS + 5  # until it is known that nothing comes again
NEVER = -(1 << 63)
OPENED: list[Any] = []  # what a test leaves open


class Clock:
    """The right time, which a test moves, and what this machine's clock is ahead of it."""

    def __init__(self) -> None:
        self.now = time.time()
        self.ahead = 0.0

    def __call__(self) -> float:
        return self.now

    def of_machine(self) -> float:
        return self.now + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(kafka_clock, "_EVERY_SECONDS", 0.0)  # the test's time goes on by itself
    return Clock()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Service]:
    with PubSubDouble(empty_pull_seconds=0.0, clock=clock) as double:
        monkeypatch.setenv(VARIABLE, double.address)
        made = Service(double.address)
        yield made
        while OPENED:
            OPENED.pop().close()
        made.close()


def reading(
    subscription: str,
    clock: Clock,
    topic: str | None = None,
    positions: Mapping[str, Any] | None = None,
    is_begun: bool = False,
) -> PubSubSource:
    """A source whose service tells its time through a topic beside it."""
    project = subscription.partition("/subscriptions/")[0]
    own = f"{project}/subscriptions/tracecloak-clock-own"
    told = PubSubClock(f"{project}/topics/tracecloak-clock", own, clock.of_machine)
    OPENED.append(PubSubSource(subscription, told, topic, clock, positions, is_begun))
    return OPENED[-1]


def answering(error: Exception | None) -> Callable[..., Any]:
    """A call of a client that fails, or sends a message that nobody gets."""

    def answer(*_: object, **__: object) -> Any:
        if error is not None:
            raise error
        return SimpleNamespace(result=answer)

    return answer


def own_clock(service: Service, clock: Clock) -> PubSubClock:
    project = service.topic.partition("/topics/")[0]
    told = PubSubClock(f"{project}/topics/mine", f"{project}/subscriptions/mine", clock)
    OPENED.append(told)
    return told


def pull_until(source: PubSubSource, clock: Clock, end: float, let_go: bool = True) -> list[bytes]:
    """Pulls every four seconds of the clock, up to a moment."""
    found = []
    while clock.now <= end:
        pulled = source.pull(1_000, 5.0)
        found += [message.data for message in pulled.messages]
        if let_go:
            source.let_go(pulled)
        clock.now += 4
    return found


def test_nothing_is_known_before_a_deadline_has_passed(service: Service, clock: Clock) -> None:
    """What a process that was killed had pulled comes again only then."""
    source = reading(service.subscription, clock)
    began = clock.now
    pull_until(source, clock, began + WAIT_SECONDS - 4)
    assert source.watermark_us() == NEVER
    pull_until(source, clock, began + WAIT_SECONDS)
    # The oldest pull that is not longer ago than that is the second one, less what clocks differ.
    assert source.watermark_us() == int((began + 4) * 1e6) - 2_000_000


def test_all_that_was_pulled_is_let_go_of_by_thousands(
    service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service takes no more at once; what is not acknowledged would come again for ever."""
    service.publish(*(b"%d" % i for i in range(2_300)))
    source = reading(service.subscription, clock)
    pulled = source.pull(2_300, 5.0)
    asked: list[list[str]] = []
    monkeypatch.setattr(
        source._client, "acknowledge", lambda ack_ids, **_: asked.append(list(ack_ids))
    )
    source.let_go(pulled)
    assert [len(ids) for ids in asked] == [1_000, 1_000, 300]
    assert {ack for ids in asked for ack in ids} == set(pulled.receipt)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        *((getattr(exceptions, name), RetryLater) for name in (
            "TooManyRequests ResourceExhausted ServiceUnavailable InternalServerError Aborted"
        ).split()),
        *((getattr(exceptions, name), UsageError) for name in (
            "NotFound InvalidArgument PermissionDenied Unauthenticated FailedPrecondition"
        ).split()),
    ],
)  # fmt: skip
def test_what_the_service_answers_is_waited_for_or_for_a_person(
    service: Service,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    answer: type[exceptions.GoogleAPICallError],
    kind: type[Exception],
) -> None:
    """A quota that is used up passes; a right that is missing does not."""
    source = reading(service.subscription, clock)
    for call in ("pull", "acknowledge"):
        monkeypatch.setattr(source._client, call, answering(answer("said by the service")))
    for asked in (lambda: source.pull(1, 1.0), lambda: source.let_go(MessageBatch(receipt=["a"]))):
        with pytest.raises(kind, match="said by the service"):
            asked()


def test_it_stays_behind_a_backlog_and_goes_on_after_it(service: Service, clock: Clock) -> None:
    service.publish(*(b"%d" % i for i in range(2_500)))
    published_us = int(clock.now * 1e6)
    clock.now += 1
    source = reading(service.subscription, clock)
    began = clock.now
    found = pull_until(source, clock, began + WAIT_SECONDS)
    assert sorted(found) == sorted(b"%d" % i for i in range(2_500))
    assert source.watermark_us() <= published_us
    pull_until(source, clock, clock.now + WAIT_SECONDS)
    assert source.watermark_us() > published_us


def test_a_pause_begins_it_anew(service: Service, clock: Clock) -> None:
    """Catches a first young pull, after the service was away, that passes over what gathered."""
    source = reading(service.subscription, clock)
    pull_until(source, clock, clock.now + 2 * WAIT_SECONDS)
    known = source.watermark_us()
    assert known > NEVER
    clock.now += 60
    source.pull(1_000, 5.0)
    assert source.watermark_us() == NEVER
    pull_until(source, clock, clock.now + WAIT_SECONDS + 4)
    assert source.watermark_us() > known


def test_a_topic_gets_one_subscription_for_an_epoch(service: Service, clock: Clock) -> None:
    name = f"{service.topic.partition('/topics/')[0]}/subscriptions/own"
    with pytest.raises(UsageError, match="no subscription"):
        reading(name, clock)
    reading(name, clock, service.topic)
    service.publish(b"while nobody reads")
    source = reading(name, clock, service.topic)
    assert [m.data for m in source.pull(10, 1.0).messages] == [b"while nobody reads"]
    for _ in range(2):
        delete_subscription(name)
    with pytest.raises(UsageError, match="no subscription"):
        reading(name, clock)


# --- Which subscription it is -----------------------------------------------------------------


def make_anew(service: Service, topic: str, **settings: Any) -> None:
    """Deletes the subscription and makes another of its name."""
    service.subscriber.delete_subscription(subscription=service.subscription)
    request = {"name": service.subscription, "topic": topic, **settings}
    service.subscriber.create_subscription(request=request)


def delete_topic(service: Service) -> None:
    service.publisher.delete_topic(topic=service.topic)


def detach(service: Service) -> None:
    service.publisher.detach_subscription(request={"subscription": service.subscription})


def with_labels(service: Service, **settings: Any) -> None:
    """Makes the subscription anew with the labels that it had, as its declaration would."""
    labels = dict(service.subscriber.get_subscription(subscription=service.subscription).labels)
    make_anew(service, settings.pop("topic", service.topic), labels=labels, **settings)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: make_anew(s, s.topic), "its label tracecloak-read-by differs"),
        (lambda s: with_labels(s, topic=s.new_topic()), "it is of another topic"),
        (lambda s: with_labels(s, filter='attributes.ward = "2"'), "it has another filter"),
        (lambda s: s.subscriber.delete_subscription(subscription=s.subscription), "no subscript"),
        (delete_topic, "its topic was deleted"),
        (detach, "it is detached"),
    ],
)
def test_another_subscription_of_the_name_is_not_read(
    service: Service, clock: Clock, change: Callable[[Service], None], why: str
) -> None:
    """Catches messages that are lost, or acknowledged, under a name that is another source's."""
    source = reading(service.subscription, clock, positions={})
    known = source.positions
    pull_until(source, clock, clock.now + WAIT_SECONDS)
    source = reading(service.subscription, clock, positions=known, is_begun=True)
    assert source.positions == known and source.pull(10, 0.1).messages == []
    change(service)
    clock.now += 61
    for ask in (
        lambda: source.pull(10, 0.1),
        lambda: reading(service.subscription, clock, service.topic, known, is_begun=True),
    ):
        with pytest.raises(SourceChanged, match=f"not the subscription .*{why}") as caught:
            ask()
        assert caught.value.exit_code == 6


def test_an_earlier_state_adopts_the_subscription_and_its_labels_stay(
    service: Service, clock: Clock
) -> None:
    make_anew(service, service.topic, labels={"team": "a"}, filter='attributes.ward = "1"')
    reading(service.subscription, clock)  # before anything is paid
    before = service.subscriber.get_subscription(subscription=service.subscription)
    assert dict(before.labels) == {"team": "a"}
    source = reading(service.subscription, clock, positions={}, is_begun=True)
    after = service.subscriber.get_subscription(subscription=service.subscription)
    label = source.positions["label"]
    assert dict(after.labels) == {"team": "a", "tracecloak-read-by": label}
    assert source.positions == {"topic": service.topic, "filter": before.filter, "label": label}


def test_a_stream_that_may_set_no_label_and_a_short_retention_are_told(
    service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    client = pubsub_service.pubsub().SubscriberClient
    refused = answering(exceptions.PermissionDenied("subscriptions.update"))
    monkeypatch.setattr(client, "update_subscription", refused)
    make_anew(service, service.topic, message_retention_duration={"seconds": 3600})
    source = reading(service.subscription, clock, positions={})
    assert source.positions == {"topic": service.topic, "filter": ""}
    assert "gets no label (subscriptions.update)" in caplog.text
    assert "keeps unread messages for 1.0 hours" in caplog.text
    source.pull(1, 0.1)


# --- Whose clock it is ------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "said"), [(90.0, "90.0 s ahead of"), (-90.0, "s behind")])
def test_a_clock_that_is_wrong_holds_the_watermark_until_it_is_right(
    service: Service, clock: Clock, ahead: float, said: str
) -> None:
    """Catches steps that are decided early, and a start with such a clock."""
    source = reading(service.subscription, clock)
    pull_until(source, clock, clock.now + WAIT_SECONDS)
    clock.ahead, known_us = ahead, clock.now * 1e6
    for _ in range(3):
        clock.now += 4
        with pytest.raises(RetryLater, match=f"{said}.*no step is decided"):
            source.pull(10, 1.0)
        assert source.watermark_us() < known_us
    with pytest.raises(RetryLater, match=said):
        reading(service.subscription, clock)
    clock.ahead = 1.5
    pull_until(source, clock, clock.now + 2 * WAIT_SECONDS)
    assert known_us < source.watermark_us() <= clock.now * 1e6


def test_a_clock_topic_that_cannot_be_used_is_told_with_the_remedy(
    service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, refuse = own_clock(service, clock), answering(exceptions.PermissionDenied("not you"))
    monkeypatch.setattr(told._publisher, "create_topic", refuse)
    monkeypatch.setattr(told._subscriber, "create_subscription", refuse)
    with pytest.raises(UsageError, match=r"topics/mine with its .*no topic|no subscription") as no:
        told.begin()
    assert "name another topic with clock_topic" in str(no.value)
    service.publisher.create_topic(name=told._topic)
    service.subscriber.create_subscription(name=told._subscription, topic=told._topic)
    told.begin()  # it may make none, and uses those that are there
    assert abs(told.passed_us() - clock.now * 1e6) < 1e6


def test_messages_of_others_on_the_clock_topic_are_passed_over(
    service: Service, clock: Clock
) -> None:
    told = own_clock(service, clock)
    told.begin()
    service.publish(b"clock", topic=told._topic, nonce="another stream's")
    clock.now += 1
    assert abs(told.passed_us() - clock.now * 1e6) < 1_000


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (None, RetryLater, "does not tell the time of Pub/Sub"),
        (exceptions.NotFound("gone"), RetryLater, "is not there: gone"),
        (exceptions.ServiceUnavailable("away"), RetryLater, "cannot be asked: .*away"),
        (TimeoutError(), RetryLater, "cannot be asked: no answer"),
        (exceptions.InvalidArgument("no"), UsageError, "neither be made nor used"),
    ],
)
def test_a_service_that_tells_no_time_is_named(
    service: Service,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception | None,
    kind: type[Exception],
    said: str,
) -> None:
    """Catches a message of the clock that is waited for without an end."""
    told = own_clock(service, clock)
    monkeypatch.setattr(told._publisher, "publish", answering(raised))
    monkeypatch.setattr(pubsub_service, "_LOST_SECONDS", 0.1)
    with pytest.raises(kind, match=said):
        told.begin()


def test_a_topic_that_takes_no_message_is_named(service: Service) -> None:
    writer = _PubSubWriter(service.topic)
    for error, kind, said in (
        (exceptions.NotFound("gone"), UsageError, "takes no message: gone"),
        (TimeoutError("slow"), RetryLater, "cannot be asked: slow"),
    ):
        later = SimpleNamespace(result=answering(error))
        writer._client = SimpleNamespace(publish=lambda *_, later=later: later)
        with pytest.raises(kind, match=f"{service.topic} {said}"):
            writer.send([(b"key", b"data")], {})
