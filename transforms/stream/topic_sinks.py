"""Topics of Pub/Sub and Kafka in which a stream on one machine publishes its steps."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping

from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter
from tracecloak.transforms.services.pubsub_service import pubsub
from tracecloak.transforms.stream.step_topic import attributes_of, to_message

_ASK_SECONDS = 20.0


class PubSubSink:
    """A topic of Pub/Sub, with the messages of `PublishToTopic`."""

    def __init__(self, topic: str) -> None:
        """Makes a client; see `_Topic`."""
        self._topic = _Topic(topic)

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        message = to_message(released)
        self._topic.publish([message.data], message.attributes)


class LineSink:
    """A topic of Pub/Sub that gets lines of text, a message each."""

    def __init__(self, topic: str) -> None:
        """Makes a client; see `_Topic`."""
        self._topic = _Topic(topic)

    def send(self, lines: Iterable[str]) -> None:
        """Publishes lines; they are there when this returns.

        Raises:
            RetryLater: The service takes nothing now.
        """
        self._topic.publish([line.encode() for line in lines], {})


class _Topic:
    def __init__(self, topic: str) -> None:
        """Makes a client.

        Args:
            topic: projects/PROJECT/topics/NAME.

        Raises:
            UsageError: It is no such name, or the client library is not installed.
        """
        if re.fullmatch(r"projects/[^/]+/topics/[^/]+", topic) is None:
            raise UsageError(f"a topic is projects/PROJECT/topics/NAME, got {topic!r}")
        self._name = topic
        self._client = pubsub().PublisherClient()
        self._errors = importlib.import_module("google.api_core.exceptions")

    def publish(self, messages: Iterable[bytes], attributes: Mapping[str, str]) -> None:
        sent = [self._client.publish(self._name, data, **attributes) for data in messages]
        try:
            for one in sent:
                one.result(timeout=_ASK_SECONDS)
        except self._errors.ClientError as error:
            raise UsageError(f"{self._name} takes no message: {error.message}") from None
        except (self._errors.GoogleAPIError, TimeoutError) as error:
            raise RetryLater(f"{self._name} takes no message now: {error}") from None


class KafkaSink:
    """A topic of Kafka, with the messages of `PublishToKafka`."""

    def __init__(self, topic: KafkaTopic) -> None:
        """Makes a client; see `TopicWriter`."""
        self._writer = TopicWriter(topic)

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        attributes = attributes_of(released)
        self._writer.send("/".join(attributes.values()).encode(), released.to_json(), attributes)
