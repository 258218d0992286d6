"""A topic of Kafka: its address, its messages, and where each of its partitions has been read to.

Kafka's own client does the reading (confluent-kafka, which is librdkafka). Here is what a stream
needs beside it: positions are the reader's and never the consumer group's, what was deleted before
it was read is an error and no gap, and it is known up to which moment everything has been read.

That moment is the partition's watermark. Brokers stamp messages as they append them, where the
topic is set so; then all that is unread is no older than the last message that was read. Where
nothing is unread, it is no older than the time that the brokers told before they were asked. Both
are less what the clocks of brokers may differ, since the next message can be another broker's.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracecloak.schemas.errors import (
    MessagesLost,
    RetryLater,
    TracecloakError,
    UsageError,
    missing_extra,
)
from tracecloak.transforms.services.kafka_messages import KafkaMessages
from tracecloak.transforms.services.properties import read_properties
from tracecloak.transforms.services.schemes import KAFKA
from tracecloak.transforms.services.service_clock import CLOCK_SKEW_US

_LOG = logging.getLogger("tracecloak")

ASK_OFTEN_SECONDS = 5.0
ASK_SECONDS = 20.0
_FORM = "kafka://HOST:PORT[,HOST:PORT ...]/TOPIC"
# What the reader keeps track of by itself, and what would lose messages without a word.
READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,  # says where the end is behind offsets that hold no message
    "isolation.level": "read_committed",
}
# What the settings of a client may be that is to ask for a token, the default first.
_BESIDE_TOKEN = {
    "security.protocol": ("SASL_SSL", "SASL_PLAINTEXT"),
    "sasl.mechanisms": ("OAUTHBEARER",),
    "sasl.mechanism": ("OAUTHBEARER",),
    "sasl.oauthbearer.method": ("default",),
}


@dataclass(frozen=True)
class KafkaTopic:
    """A topic and how its brokers are reached.

    Attributes:
        servers: HOST:PORT of brokers, separated by commas.
        name: The topic's.
        properties: File of settings of librdkafka, a line `name=value` each, such as those of
            security; None: none. It is read where the topic is, so workers elsewhere need it too.
        token: Entry of `kafka_tokens.TOKENS` that says who this client is; None: none is needed.
    """

    servers: str
    name: str
    properties: str | None = None
    token: str | None = None

    @classmethod
    def parse(
        cls, text: str, properties: str | None = None, token: str | None = None
    ) -> KafkaTopic:
        """Returns the topic that an address such as `kafka://broker:9092/events` names.

        Raises:
            UsageError: It is no such address.
        """
        servers, slash, name = text.removeprefix(KAFKA).partition("/")
        is_named = text.startswith(KAFKA) and slash and name and "/" not in name
        if not is_named or not all(server.strip() for server in servers.split(",")):
            raise UsageError(f"a topic of Kafka is {_FORM}, got {text!r}")
        return cls(servers, name, properties, token)

    def settings(self) -> dict[str, Any]:
        """Returns the settings of a client of these brokers.

        Raises:
            UsageError: The file of properties cannot be read, a line of it is none, or it says that
                no token is to be used where there is to be one.
        """
        given = read_properties("kafka_properties", self.properties)
        return {
            **self._of_token(given),
            **given,
            "bootstrap.servers": self.servers,
            "logger": _Demoted(),
        }

    def _of_token(self, given: Mapping[str, str]) -> dict[str, Any]:
        """The settings of a client that is known by a token; others may be given beside them."""
        if self.token is None:
            return {}
        for name, allowed in _BESIDE_TOKEN.items():
            # The library would wait for a token that it never asks for, or use another one.
            if given.get(name, allowed[0]).lower() not in map(str.lower, allowed):
                raise UsageError(
                    f"kafka_properties: {name} beside kafka_token {self.token} must be "
                    f"{' or '.join(allowed)}; correct it, or leave it out"
                )
        from tracecloak.transforms.services.kafka_tokens import token_of

        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": functools.partial(token_of, self.token, self.servers),
        }

    def client(
        self, kind: Callable[[dict[str, Any]], Any], further: Mapping[str, Any] | None = None
    ) -> Any:
        """Returns a client of these brokers.

        Args:
            kind: Class of the library.
            further: Settings that come before those of the file.

        Raises:
            UsageError: A setting is wrong.
            RetryLater: There is no token now.
        """
        settings, library = self.settings(), confluent_kafka()
        try:
            return kind({**settings, **(further or {})})
        except library.KafkaException as error:
            code, why = error.args[0].code(), error.args[0].str()
            if code == library.KafkaError.SASL_AUTHENTICATION_FAILED:
                raise RetryLater(f"kafka_token {self.token} gives no token: {why}") from None
        except TypeError as error:  # such as of what must be a function
            why = str(error)
        # The text has the value as well, which may be a secret.
        names = [name for name in settings if name in why] or [n for n in settings if "." in n]
        raise UsageError(
            f"kafka_properties: {', '.join(names)}: there is no such setting, its value is wrong, "
            "or it needs another one beside it; see CONFIGURATION.md of librdkafka"
        )

    def _check_token(self) -> None:
        """Asks for a token: that there is none is told by the library after a while, without why.

        Raises:
            UsageError: There is none.
            RetryLater: There is none yet.
        """
        if self.token is None:
            return
        from tracecloak.transforms.services.kafka_tokens import token_of

        given = read_properties("kafka_properties", self.properties)
        token_of(self.token, self.servers, given.get("sasl.oauthbearer.config", ""))

    def check(self, is_read: bool = True) -> None:
        """Makes sure that the topic is there, and that its brokers stamp what they append.

        Args:
            is_read: Whether it is read from; what is only written to may have any stamps.

        Raises:
            UsageError: It is not, or they do not; or the client library is not installed, or the
                brokers refuse this client, or there is no token for it.
            RetryLater: No broker answers.
        """
        library = confluent_kafka()
        admin = importlib.import_module("confluent_kafka.admin")
        self._check_token()
        reasons: list[Any] = []  # why a connection failed, which the error of a question leaves out
        logger = _Demoted()
        further = {"error_cb": reasons.append, "logger": logger}
        client = self.client(admin.AdminClient, further)
        try:
            # Of all topics: a question for one makes brokers that are set so create it.
            topics = client.list_topics(timeout=ASK_SECONDS).topics
        except library.KafkaException as error:
            client.poll(0)
            raise self.unreached(error, *reasons, said=logger.last) from None
        if self.name not in topics:
            raise UsageError(f"{KAFKA}{self.servers} has no topic {self.name!r}")
        if not is_read:
            return
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, self.name)
        asked = client.describe_configs([resource], request_timeout=ASK_SECONDS)
        try:
            stamped_by = asked[resource].result()["message.timestamp.type"].value
        except library.KafkaException as error:
            raise self.unreached(error) from None
        if stamped_by != "LogAppendTime":
            raise UsageError(
                f"topic {self.name!r} takes the times of messages from its senders, so nobody can "
                "tell when all messages of a step are there: have the brokers stamp them, with the "
                "topic's setting message.timestamp.type=LogAppendTime"
            )

    def unreached(self, error: Exception, *reasons: Any, said: str = "") -> TracecloakError:
        """Returns whether an error of the client ends by waiting, or needs a person to mend it.

        Args:
            error: What the client raised.
            reasons: What it called back with.
            said: What it logged last, which can say more.
        """
        codes = confluent_kafka().KafkaError
        refusals = (
            codes._AUTHENTICATION,
            codes._SSL,
            codes.SASL_AUTHENTICATION_FAILED,
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
        )
        for one in (*reasons, error.args[0]):
            if one.code() in refusals:
                return UsageError(
                    f"{KAFKA}{self.servers} refuses to be asked for {self.name!r}: {one.str()}; "
                    "see kafka_properties"
                )
        hint = "brokers that ask for TLS do so: see security.protocol in kafka_properties"
        is_closed = "closed by peer" in said
        why = "; ".join(filter(None, (error.args[0].str(), said, hint if is_closed else "")))
        return RetryLater(f"{KAFKA}{self.servers} cannot be asked for {self.name!r}: {why}")


class PartitionReader:
    """Reads some partitions of a topic from given offsets on, each in its order.

    Not for threads. It belongs to no consumer group that others see: nobody else is given these
    partitions, and no rebalancing takes them away.

    Attributes:
        positions: By partition the offset of the next message to be read.
    """

    def __init__(self, topic: KafkaTopic, group: str, positions: Mapping[int, int]) -> None:
        """Begins to fetch.

        Args:
            topic: The topic.
            group: Name under which `commit` notes positions, for those who watch the lag.
            positions: By partition where to begin; offsets that are there, or the end.

        Raises:
            UsageError: The client library is not installed.
        """
        self._library = confluent_kafka()
        self._topic = topic
        self._consumer = topic.client(self._library.Consumer, {**READING, "group.id": group})
        self._admin = importlib.import_module("confluent_kafka.admin")
        self._client: Any = None
        self.positions = dict(positions)
        self._read_until_us = dict.fromkeys(positions, _NEVER_US)
        self._assign()

    def add(self, positions: Mapping[int, int]) -> None:
        """Reads further partitions as well, as those that were added to the topic."""
        self.positions.update(positions)
        self._read_until_us.update(dict.fromkeys(positions, _NEVER_US))
        self._assign()

    def poll(self, max_messages: int, timeout_seconds: float) -> KafkaMessages:
        """Returns what was fetched, at most so many messages; none where nothing came in time.

        Raises:
            TracecloakError: A message was deleted before it was read, or brokers refuse.
            RetryLater: The brokers are away.
        """
        fetched = self._consumer.consume(max_messages, timeout_seconds)
        errors = [message for message in fetched if message.error() is not None]
        for message in errors:
            if message.error().code() != self._library.KafkaError._PARTITION_EOF:
                self._raise(message.error())
                continue
            # Marks of transactions and what they took back have offsets, and no message.
            partition = message.partition()
            self.positions[partition] = max(self.positions[partition], message.offset())
        if errors:
            fetched = [message for message in fetched if message.error() is None]
        messages = KafkaMessages(fetched, self._library.TIMESTAMP_LOG_APPEND_TIME)
        for partition in np.unique(messages.partitions).tolist():
            rows = np.flatnonzero(messages.partitions == partition)
            after = int(messages.offsets[rows[-1]]) + 1
            self.positions[partition] = max(self.positions[partition], after)
            stamped = rows[messages.is_stamped[rows]]
            if len(stamped):
                self._read_until_us[partition] = int(messages.published_us[stamped[-1]])
        return messages

    def watermark_us(self, partition: int, passed_us: int) -> int:
        """Returns a moment before which all messages of a partition have been returned.

        Args:
            partition: Of the topic.
            passed_us: A moment that is over by the brokers' clocks; they told it before they are
                asked here, as messages may come meanwhile.

        Returns:
            At most that moment, less CLOCK_SKEW_US: another broker may append what comes next. It
            is the smallest integer where nothing is known yet.

        Raises:
            RetryLater: The brokers are away.
        """
        read_us = self._read_until_us[partition]
        if self.positions[partition] >= self._end(partition):
            read_us = passed_us
        return max(_NEVER_US, min(read_us, passed_us) - CLOCK_SKEW_US)

    def commit(self, positions: Mapping[int, int]) -> None:
        """Notes positions on the brokers, for those who watch the lag; nothing reads them here."""
        partitions = [self._partition(number, offset) for number, offset in positions.items()]
        self._consumer.commit(offsets=partitions, asynchronous=True)

    def close(self) -> None:
        """Ends fetching."""
        self._consumer.close()

    def _assign(self) -> None:
        partitions = [self._partition(number, offset) for number, offset in self.positions.items()]
        self._consumer.assign(partitions)
        self._client = None  # the next one knows these partitions

    def _partition(self, number: int, offset: int) -> Any:
        return self._library.TopicPartition(self._topic.name, number, offset)

    def _end(self, partition: int) -> int:
        """The offset behind the last message, be it of a transaction that is not over."""
        asked = self._partition(partition, 0)
        latest = {asked: self._admin.OffsetSpec.latest()}
        try:
            if self._client is None:
                self._client = self._topic.client(self._admin.AdminClient)
            (answer,) = self._client.list_offsets(
                latest,
                isolation_level=self._library.IsolationLevel.READ_UNCOMMITTED,
                request_timeout=ASK_OFTEN_SECONDS,
            ).values()
            return int(answer.result().offset)
        except self._library.KafkaException as error:
            # A client that knows the topic never learns of a partition that is added to it.
            self._client = None
            raise RetryLater(f"{KAFKA}{self._topic.servers} does not answer: {error}") from None

    def _raise(self, error: Any) -> None:
        """Raises what must not be passed over; the client tries the others again by itself."""
        codes = self._library.KafkaError
        where = f"topic {self._topic.name!r}"
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            raise MessagesLost(
                f"messages of {where} were deleted before they were read, or the topic was made "
                "anew: their cases cannot be counted as they were. Keep messages for longer "
                "(retention.ms), and begin another epoch, which is another spend"
            )
        if error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes._AUTHENTICATION):
            raise UsageError(f"{where} cannot be read: {error.str()}; see kafka_properties")
        if error.fatal() or (not error.retriable() and error.code() > 0):
            raise TracecloakError(f"{where} cannot be read: {error.str()}")


def partitions_of(topic: KafkaTopic) -> dict[int, int]:
    """Returns by partition of a topic the offset of the oldest message that is kept.

    Raises:
        UsageError: The client library is not installed, or the topic is not there.
        RetryLater: No broker answers.
    """
    library = confluent_kafka()
    consumer = topic.client(library.Consumer, {**READING, "group.id": "tracecloak"})
    try:
        metadata = consumer.list_topics(timeout=ASK_SECONDS).topics.get(topic.name)
        if metadata is None:
            raise UsageError(f"{KAFKA}{topic.servers} has no topic {topic.name!r}")
        return {
            number: consumer.get_watermark_offsets(
                library.TopicPartition(topic.name, number), ASK_SECONDS
            )[0]
            for number in sorted(metadata.partitions)
        }
    except library.KafkaException as error:
        raise RetryLater(f"{KAFKA}{topic.servers} does not answer: {error}") from None
    finally:
        consumer.close()


def check_history(
    topic: KafkaTopic, start_us: int, tell: Callable[[str], object] | None = None
) -> None:
    """Makes sure that an epoch which begins to read a topic finds all that belongs to its steps.

    The oldest message that is kept of a partition says when the others were published: before it.
    Where none is kept it cannot be told, so that a partition like that is let pass.

    Args:
        topic: The topic.
        start_us: Where step 0 begins, microseconds since 1970 UTC.
        tell: Takes lines for the operator alone: in how many partitions messages were deleted.

    Raises:
        UsageError: Messages that were published since then may be deleted; or as `partitions_of`.
        RetryLater: No broker answers.
    """
    library = confluent_kafka()
    oldest = {number: offset for number, offset in partitions_of(topic).items() if offset > 0}
    if not oldest:
        return
    asked = [library.TopicPartition(topic.name, n, max(0, start_us // 1_000)) for n in oldest]
    consumer = topic.client(library.Consumer, {**READING, "group.id": "tracecloak"})
    try:
        offsets = consumer.offsets_for_times(asked, timeout=ASK_SECONDS)
        bounds = [consumer.get_watermark_offsets(one, ASK_SECONDS) for one in offsets]
    except library.KafkaException as error:
        raise topic.unreached(error) from None
    finally:
        consumer.close()
    if any(one.error is not None for one in offsets):
        raise RetryLater(f"{KAFKA}{topic.servers} cannot be asked for the past of {topic.name!r}")
    # The offset is that of the first message since the start, and negative where there is none.
    n_doubtful = sum(0 <= one.offset <= oldest[one.partition] for one in offsets)
    n_empty = sum(low == high for low, high in bounds)
    if tell is not None:
        tell(
            f"messages of {len(oldest)} partitions of topic {topic.name!r} were deleted before "
            "this epoch read them: of a case whose first messages are gone, the others count. "
            f"{n_empty} of these partitions are empty, so that nobody can tell when theirs were "
            f"published; {n_doubtful} have no message from before the start of step 0"
        )
    if n_doubtful:
        raise UsageError(
            f"messages of topic {topic.name!r} were deleted that may have been published since the "
            "start of step 0, so its cases would be counted without them: set start to a moment "
            "behind the oldest message of each partition, and have the topic keep messages for "
            "longer (retention.ms)"
        )


class TopicWriter:
    """Sends messages to a topic; each is with the brokers when `send` returns."""

    def __init__(self, topic: KafkaTopic) -> None:
        self._library = confluent_kafka()
        self._topic = topic
        # A message that is tried again by the client itself is one message.
        self._producer = topic.client(self._library.Producer, {"enable.idempotence": True})

    def send(self, key: bytes, data: bytes, attributes: Mapping[str, str]) -> None:
        """Sends a message and waits until the brokers have it.

        Args:
            key: Messages of one key go to one partition, in their order.
            data: Its value.
            attributes: Its headers.

        Raises:
            RetryLater: They did not take it.
            UsageError: It is larger than they take.
        """
        errors: list[Any] = []
        headers = [(name, text.encode()) for name, text in attributes.items()]
        try:
            self._producer.produce(
                self._topic.name,
                data,
                key,
                headers=headers,
                on_delivery=lambda error, _: errors.append(error),
            )
        except self._library.KafkaException as error:
            raise self._not_taken(error.args[0], data) from None
        left = self._producer.flush(ASK_SECONDS)
        if left or errors != [None]:
            raise self._not_taken(errors[0] if errors else None, data)

    def _not_taken(self, error: Any, data: bytes) -> TracecloakError:
        said = f"no answer within {ASK_SECONDS:.0f} s" if error is None else error.str()
        text = f"topic {self._topic.name!r} did not take a message: {said}"
        if error is not None and error.code() == self._library.KafkaError.MSG_SIZE_TOO_LARGE:
            return UsageError(
                f"{text}. It has {len(data)} bytes: raise max.message.bytes of the topic, and "
                "message.max.bytes in kafka_properties"
            )
        return RetryLater(text)


def confluent_kafka() -> Any:
    """Returns the client library.

    Raises:
        UsageError: It is not installed.
    """
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError:
        raise missing_extra("Kafka", "confluent-kafka", "kafka") from None


class _Demoted:
    """What the client library logs, which repeats itself, for those who debug.

    What matters of it comes as an error, and is raised.

    Attributes:
        last: The last line.
    """

    def __init__(self) -> None:
        self.last = ""

    def log(self, _: int, text: str, *values: object) -> None:
        """Takes a line."""
        self.last = text % values
        _LOG.debug(text, *values)


_NEVER_US = -(1 << 63)
