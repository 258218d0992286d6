"""A topic of Kafka for a stream on one machine, without a broker: positions and watermarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

import confluent_kafka
from confluent_kafka.admin import AdminClient

from tests.support.kafka_double import BY_SENDER, SOUND, Clock, TopicDouble
from tracecloak.schemas.errors import MessagesLost, RetryLater, SourceChanged, UsageError
from tracecloak.transforms.services import kafka_reader
from tracecloak.transforms.services.kafka_clock import CLOCK_SKEW_US, KafkaClock
from tracecloak.transforms.services.kafka_identity import KnownLog
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream import sources
from tracecloak.transforms.stream.sources import KafkaSource
from tracecloak.transforms.stream.stream_status import RateLimiter

TOPIC = KafkaTopic("broker:9092", "events")
NEVER = -(1 << 63)
S = 1_000_000


@pytest.fixture
def topic() -> Iterator[TopicDouble]:
    made = TopicDouble()
    with pytest.MonkeyPatch.context() as patch:
        made.used_by(patch)
        patch.setattr(RateLimiter, "is_due", lambda _: True)
        yield made


@pytest.fixture
def clock() -> Clock:
    return Clock(100 * S)


def source(clock: Clock, positions: Mapping[str, Any] | None = None) -> KafkaSource:
    return KafkaSource(TOPIC, "group", cast(KafkaClock, clock), 0, positions or {})


def at(made: KafkaSource) -> dict[int, int]:
    """By partition the offset that is read next."""
    return {n: place.next for n, place in KnownLog.from_json(made.positions).places.items()}


def test_it_goes_on_behind_its_positions_in_every_partition(
    topic: TopicDouble, clock: Clock
) -> None:
    topic.add(0, b"a", b"b", b"c", millis=1_000)
    topic.add(1, b"d", millis=2_000)
    first = source(clock)
    pulled = first.pull(2, 0.0)
    assert ([m.data for m in pulled.messages], list(pulled.publish)) == ([b"a", b"b"], [S, S])
    assert at(first) == {0: 2, 1: 0}
    again = source(clock, first.positions)
    rest = again.pull(10, 0.0)
    assert [(m.partition, m.offset, m.data) for m in rest.messages] == [  # type: ignore[attr-defined]
        (0, 2, b"c"),
        (1, 0, b"d"),
    ]
    again.let_go(rest)
    assert topic.committed == {0: 3, 1: 1}


def test_a_broker_that_is_away_in_between_lets_nobody_pass_such_a_message(
    topic: TopicDouble, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found, and whether the topic is still the same cannot be asked in that moment.

    Nor is what was fetched by then read twice, where a partition is added meanwhile.
    """
    topic.add(0, b"a", millis=1_000)
    topic.add(0, b"event", millis=10**12, kind=BY_SENDER)
    topic.add(1, b"b", millis=2_000)
    made = source(clock)
    with monkeypatch.context() as patch:
        patch.setattr(kafka_reader, "topic_id", away)
        with pytest.raises(RetryLater, match="nobody answers"):
            made.pull(3, 0.0)
    topic.add(0, b"c", millis=3_000)
    topic.add(2, b"d", millis=3_000)
    clock.now_us += S
    for _ in range(2):
        with pytest.raises(RetryLater):
            made.watermark_us()
    pulled = [message.data for _ in range(3) for message in made.pull(3, 0.0).messages]
    assert (pulled, at(made)) == ([b"a", b"b", b"d"], {0: 1, 1: 1, 2: 1})


def away(*_: object) -> None:
    raise RetryLater("nobody answers")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("message.timestamp.type", "CreateTime", "takes the times of messages from its senders"),
        ("cleanup.policy", "compact,delete", "is compacted"),
        ("retention.ms", "20000", "keeps messages for 20000 ms, and a case can take 20000 ms"),
    ],
)
def test_a_topic_that_is_set_as_none_may_be_is_refused_and_holds_what_runs(
    topic: TopicDouble, clock: Clock, name: str, value: str, told: str
) -> None:
    topic.add(0, b"a", millis=1_000)
    made = KafkaSource(TOPIC, "group", cast(KafkaClock, clock), 0, {}, longest_us=20 * S)
    made.watermark_us()
    TOPIC.check(longest_us=20 * S)
    topic.settings[name] = value
    with pytest.raises(UsageError, match=told):
        TOPIC.check(longest_us=20 * S)
    clock.now_us += S
    with pytest.raises(RetryLater, match=told):
        made.watermark_us()
    assert len(made.pull(10, 0.0).messages) == 1  # read on
    topic.settings[name] = SOUND[name]
    clock.now_us += S
    assert made.watermark_us() == clock.now_us - CLOCK_SKEW_US


def test_a_transaction_that_nobody_ends_is_named(
    topic: TopicDouble,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the commands to paste; its offset counts messages, and is for the operator alone."""
    monkeypatch.setattr(sources, "_HANGING_SECONDS", -1.0)
    topic.add(0, b"a", b"open", millis=1_000)
    topic.add(1, b"b", b"open", millis=1_000)
    topic.stables |= {0: 1, 1: 1}
    made = source(clock, {"0": 1, "1": 0})
    with pytest.raises(RetryLater, match=r"in partition 0 .*describe-producers") as held:
        made.watermark_us()
    assert "partition 1" not in str(held.value)  # what is before it is not read yet
    command = "kafka-transactions.sh --bootstrap-server broker:9092"
    place = "--topic events --partition 0"
    assert f"`{command} describe-producers {place}`" in str(held.value)
    assert f"`{command} abort {place} --start-offset OFFSET`" in str(held.value)
    [line] = [one.getMessage() for one in caplog.records if one.name == "tracecloak.operator"]
    assert line == "open transactions of topic 'events': OFFSET by partition {0: 1}"
    topic.stables.clear()
    clock.now_us += S
    made.watermark_us()


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_stream(
    topic: TopicDouble, clock: Clock
) -> None:
    topic.add(0, b"a", b"b", millis=1_000)
    made = source(clock)
    pulled = made.pull(1, 0.0)
    before = made.positions, made.watermark_us()
    topic.topic_id = (2, 2)
    topic.ends[0] = 1
    # Between two looks: its end ends no step, and none of its messages counts.
    assert (made.positions, made.watermark_us()) == before
    with pytest.raises(SourceChanged, match="deleted and made anew"):
        made.pull(1, 0.0)
    assert made.positions == before[0]
    clock.now_us += S
    with pytest.raises(SourceChanged, match="deleted and made anew"):
        made.watermark_us()
    with pytest.raises(SourceChanged, match="deleted and made anew"):
        source(clock, made.positions)
    assert pulled.messages and topic.committed == {}


def test_messages_of_a_new_epoch_count_only_if_the_last_one_read_is_there(
    topic: TopicDouble, clock: Clock
) -> None:
    """An unclean election, before anybody looks: what is behind the cut was another message."""
    topic.add(0, b"a", b"b", millis=1_000)
    made = source(clock)
    made.pull(10, 0.0)
    topic.cut(0, 1)
    topic.add(0, b"x", b"y", millis=2_000)
    with pytest.raises(SourceChanged, match="partition 0 has not the message"):
        made.pull(10, 0.0)
    sound = TopicDouble(records={0: []}, ends={0: 0})
    sound.add(0, b"a", millis=1_000)
    with pytest.MonkeyPatch.context() as patch:
        sound.used_by(patch)
        made = source(clock)
        made.pull(10, 0.0)
        sound.epoch += 1  # another broker leads, which is nothing
        sound.add(0, b"b", millis=2_000)
        assert [message.data for message in made.pull(10, 0.0).messages] == [b"b"]


def test_the_watermark_is_that_of_the_partition_that_is_read_least_far(
    topic: TopicDouble, clock: Clock
) -> None:
    topic.add(0, b"a", b"b", millis=5_000)
    topic.add(1, b"c", b"d", millis=9_000)
    made = source(clock)
    assert made.watermark_us() == NEVER
    made.pull(3, 0.0)
    assert at(made) == {0: 2, 1: 1}
    assert made.watermark_us() == 9 * S - CLOCK_SKEW_US
    made.pull(1, 0.0)
    # All is read: what comes now is no older than the clock, less what clocks differ.
    assert made.watermark_us() == clock.now_us - CLOCK_SKEW_US
    # A stamp of the future, as of a broker whose clock was wrong, only delays.
    topic.add(0, b"e", b"f", millis=900_000)
    made.pull(1, 0.0)
    clock.now_us += S
    assert made._reader.watermark_us(0, clock.now_us) == clock.now_us - CLOCK_SKEW_US


def test_offsets_without_a_message_are_passed(topic: TopicDouble, clock: Clock) -> None:
    """Marks of transactions: a stream would wait for ever for what they hold."""
    topic.add(0, b"a", millis=1_000)
    topic.ends |= {0: 4, 1: 4}
    made = source(clock, {"0": 0, "1": 2})
    made.pull(10, 0.0)
    topic.epoch = 3
    made.pull(10, 0.0)
    assert at(made) == {0: 4, 1: 4}
    places = KnownLog.from_json(made.positions).places
    assert (places[0].epoch, places[1].epoch) == (0, -1)
    assert made.watermark_us() == clock.now_us - CLOCK_SKEW_US
    places = KnownLog.from_json(made.positions).places
    assert (places[0].epoch, places[1].epoch) == (3, 3)


def test_a_tombstone_is_no_empty_message(topic: TopicDouble, clock: Clock) -> None:
    topic.add(0, None, b"")
    messages = source(clock).pull(10, 0.0).messages
    assert [(m.data, m.is_tombstone) for m in messages] == [
        (b"", True), (b"", False),
    ]  # fmt: skip


def test_a_partition_that_is_added_is_read_from_its_first_message(
    topic: TopicDouble, clock: Clock
) -> None:
    topic.add(0, b"a", millis=1_000)
    made = source(clock)
    made.pull(10, 0.0)
    assert made.watermark_us() == clock.now_us - CLOCK_SKEW_US
    topic.add(1, b"b", b"c", millis=2_000)
    clock.now_us += S
    with pytest.raises(RetryLater, match="cannot be asked"):  # a client that does not know it
        made.watermark_us()
    assert made.watermark_us() == NEVER  # nothing of it is read
    assert [message.data for message in made.pull(10, 0.0).messages] == [b"b", b"c"]
    assert at(made) == {0: 1, 1: 2}


_CODES = confluent_kafka.KafkaError
_NOT_THERE = (_CODES.UNKNOWN_TOPIC_OR_PART, _CODES._UNKNOWN_PARTITION)


@pytest.mark.parametrize(
    ("code", "change", "kind", "told"),
    [
        (_CODES.OFFSET_OUT_OF_RANGE, {"firsts": {0: 1}}, MessagesLost, "were deleted"),
        (_CODES._AUTO_OFFSET_RESET, {"firsts": {0: 1}}, MessagesLost, "were deleted"),
        (_CODES._AUTO_OFFSET_RESET, {}, SourceChanged, "partition 0 was truncated"),
        (_CODES.TOPIC_AUTHORIZATION_FAILED, {}, UsageError, "kafka_properties"),
        *((code, {"ends": {}}, SourceChanged, "not the log") for code in _NOT_THERE),
    ],
)
def test_what_no_waiting_mends_ends_the_stream(
    topic: TopicDouble,
    clock: Clock,
    code: int,
    change: dict[str, object],
    kind: type[Exception],
    told: str,
) -> None:
    topic.add(0, b"a")
    made = source(clock)
    topic.errors.append(code)
    vars(topic).update(change)
    with pytest.raises(kind, match=told) as raised:
        made.pull(10, 0.0)
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("token", "lines", "told"),
    [
        ("msk", "socket.timeout.ms=planted", r"kafka_properties: .*socket\.timeout\.ms"),
        ("msk", "no.such=planted", r"kafka_properties: .*no\.such"),
        ("msk", "sasl.mechanism=PLAIN", r"sasl\.mechanism with kafka_token must be"),
        ("msk", "security.protocol=SSL", "must be SASL_SSL or SASL_PLAINTEXT"),
        (None, "security.protocol=planted", r"kafka_properties: security\.protocol: "),
        (None, "security.protocol=SSL\nssl.ca.location=/planted", r"s: ssl\.ca\.location: "),
        (None, "security.protocol=SASL_SSL\nsasl.mechanisms=planted", r"l, sasl\.mechanisms, "),
        (None, "error_cb=planted", "kafka_properties: error_cb: "),
    ],
)
def test_a_wrong_setting_of_a_client_is_named(
    tmp_path: Path, token: str | None, lines: str, told: str
) -> None:
    """Without its value, and not waited for as if it were a token."""
    (tmp_path / "properties").write_text(lines)
    topic = KafkaTopic("broker:9092", "events", str(tmp_path / "properties"), token)
    with pytest.raises(UsageError, match=told) as raised:
        topic.client(AdminClient)
    assert "planted" not in str(raised.value) and raised.value.__context__ is None


def test_a_token_that_is_not_there_yet_is_waited_for() -> None:
    def client(settings: dict[str, Any]) -> None:
        error = confluent_kafka.KafkaError
        raise confluent_kafka.KafkaException(error(error.SASL_AUTHENTICATION_FAILED))

    with pytest.raises(RetryLater, match="kafka_token msk gives no token"):
        KafkaTopic("broker:9092", "events", token="msk").client(client)


@pytest.mark.parametrize("code", [_CODES._TRANSPORT, *_NOT_THERE])
def test_what_the_client_tries_again_by_itself_is_passed_over(
    topic: TopicDouble, clock: Clock, code: int
) -> None:
    """A broker that has just started may not know the topic yet, which a look finds."""
    topic.add(0, b"a")
    made = source(clock)
    topic.errors.append(code)
    assert not made.pull(10, 0.0).messages
    assert [message.data for message in made.pull(10, 0.0).messages] == [b"a"]
