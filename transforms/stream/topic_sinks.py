"""Topics of Pub/Sub and Kafka, and tables of a lake, that get the steps of a stream."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from hashlib import sha256

import pyarrow as pa

from tracecloak.schemas.errors import InputSchemaError, RetryLater, UsageError
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.lakes.appending import AppendedRelease, plain
from tracecloak.transforms.lakes.tables import Address
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter
from tracecloak.transforms.services.pubsub_service import pubsub
from tracecloak.transforms.stream.step_topic import attributes_of

_ASK_SECONDS = 20.0
# What a message of Pub/Sub has room for, attributes included.
_MOST_BYTES = 10_000_000


class _ToTopic:
    """Pickles until it has sent something, as it makes its client only then."""

    def __init__(self, topic: str | KafkaTopic) -> None:
        """Keeps the topic.

        Args:
            topic: A topic of Kafka, or of Pub/Sub: projects/PROJECT/topics/NAME.

        Raises:
            UsageError: It is no such name.
        """
        if isinstance(topic, str) and not re.fullmatch(r"projects/[^/]+/topics/[^/]+", topic):
            raise UsageError(f"a topic is projects/PROJECT/topics/NAME, got {topic!r}")
        self._topic = topic

    @cached_property
    def _writer(self) -> TopicWriter | _PubSubWriter:
        if isinstance(self._topic, KafkaTopic):
            return TopicWriter(self._topic)
        return _PubSubWriter(self._topic)


class StepSink(_ToTopic):
    """A topic that gets the JSON of steps; of a made-up log it has only what it is of.

    KEY_ATTRIBUTES are the attributes of a message, or the headers and the key of one of Kafka, so a
    compacted topic keeps a step once.
    """

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        attributes = attributes_of(released)
        key = "/".join(attributes.values()).encode()
        self._writer.send([(key, released.to_json())], attributes)


class LineSink(_ToTopic):
    """A topic that gets lines of text, a message each.

    In a topic of Kafka the key of a message is a digest of its line, so a line that is sent again
    is the same message, and a compacted topic keeps it once.
    """

    def send(self, lines: Iterable[str]) -> None:
        """Publishes lines; they are there when this returns.

        Raises:
            RetryLater: The service takes nothing now.
        """
        data = [line.encode() for line in lines]
        self._writer.send([(sha256(line).hexdigest()[:32].encode(), line) for line in data], {})


class _PubSubWriter:
    """See `TopicWriter`; a message has no key."""

    def __init__(self, topic: str) -> None:
        self._name = topic
        self._client = pubsub().PublisherClient()
        self._errors = importlib.import_module("google.api_core.exceptions")

    def send(self, messages: Sequence[tuple[bytes, bytes]], attributes: Mapping[str, str]) -> None:
        n_bytes = max((len(data) for _, data in messages), default=0)
        if n_bytes > _MOST_BYTES - len(str(attributes).encode()):
            raise UsageError(
                f"the release of a step has {n_bytes} bytes, more than a message of Pub/Sub holds; "
                "publish it to files"
            )
        sent = [self._client.publish(self._name, data, **attributes) for _, data in messages]
        try:
            for one in sent:
                one.result(timeout=_ASK_SECONDS)
        except self._errors.ClientError as error:
            raise UsageError(f"{self._name} takes no message: {error.message}") from None
        except (self._errors.GoogleAPIError, TimeoutError) as error:
            raise RetryLater(f"{self._name} takes no message now: {error}") from None


class TableSink:
    """A table of Delta or Iceberg that gets the rows of each step, in one commit a step, once.

    Steps come in their order, so the table remembers the number of the last one alone.
    """

    def __init__(self, address: Address, key_fingerprint: str) -> None:
        """Keeps the table.

        Args:
            address: Of the table, which is made where there is none.
            key_fingerprint: Of the epoch's key.

        Raises:
            UsageError: The table is of a kind that is not written, or its library is missing.
        """
        self._append = partial(address.append, address.place)
        self._fingerprint = key_fingerprint

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        release_id, epoch, _, _, step = released.key

        def rows() -> pa.RecordBatchReader:
            table = pa.table(released.to_rows())
            return table.cast(plain(table.schema)).to_reader()

        name = f"{release_id}@{epoch}"
        part = AppendedRelease(name, self._fingerprint, rows, number=step + 1)
        try:
            self._append(part)
        except InputSchemaError as error:  # as of a store that does not answer
            raise RetryLater(str(error)) from None
