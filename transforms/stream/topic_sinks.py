"""Topics that a stream writes to: steps and rejected messages."""

from __future__ import annotations

import datetime
import hashlib
import importlib
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from hashlib import sha256
from time import time
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from tracecloak.schemas.errors import InputSchemaError, RetryLater, UsageError
from tracecloak.schemas.events.events import PUBLISH_TIME
from tracecloak.schemas.events.tally import OTHER_OPERATION, TOMBSTONE
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.files import delete_files, join, names_in, read_if_there, write_anew
from tracecloak.transforms.lakes.tables import Address, AppendedRelease, plain
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter
from tracecloak.transforms.services.pubsub_service import pubsub
from tracecloak.transforms.stream.stream_status import RateLimiter

# ---
# What the operator learns of messages that cannot be read: how many an hour, and the last places.
# Each batch is a file that is named after its content, so one that is tried again is there once.
# Once
# a minute these files are added to one that has the counts by reason and hour in its first line,
# and
# then a line for each of the last messages. So there are few files, and what a batch costs does not
# grow with those before it. One process adds them at a time.


_OPERATOR = logging.getLogger("tracecloak.operator")

MOST_PLACES = 10_000
DAYS = 400
_MOST_BATCHES = 1_000
_HOUR = "%Y-%m-%dT%HZ"
# What a feed of changes has as a matter of course makes room for what is wrong.
_EXPECTED = tuple(f'"reason": {json.dumps(reason)}}}' for reason in (OTHER_OPERATION, TOMBSTONE))
_BATCH = re.compile(r"messages-([0-9a-f]{16})\.jsonl")
_AT_ONCE = 256


class RejectSink:
    """Counts and lists messages that cannot be read, and sends their places to a topic."""

    def __init__(self, folder: str, topic: str | KafkaTopic | None) -> None:
        """Keeps where to write.

        Args:
            folder: Of the file, on any Beam file system.
            topic: See `topic_sinks.LineSink`; None: none gets the places.
        """
        self.folder = folder
        self._adding = RateLimiter()
        self._lines = None
        if topic is not None:
            self._lines = LineSink(topic)

    def send(self, rejects: pa.RecordBatch | pa.Table) -> None:
        """Takes rows of MESSAGE_REJECT_SCHEMA, at least one; they are there when this returns.

        A line is a JSON object with what the service knows of a message, and nothing of the
        message.

        Raises:
            RetryLater: The service of the topic takes nothing now.
        """
        lines = [
            json.dumps({name: value for name, value in row.items() if value is not None})
            for row in rejects.to_pylist()
        ]
        text = "".join(f"{line}\n" for line in lines).encode()
        name = f"messages-{hashlib.sha256(text).hexdigest()[:16]}.jsonl"
        write_anew(join(self.folder, name), text)
        if self._adding.is_due():
            add_up(self.folder)
            _OPERATOR.warning("messages could not be read; see %s", self.folder)
        if self._lines is not None:
            self._lines.send(lines)


class WriteRejects(beam.DoFn):
    """Gives a sink the rejects of `DecodeMessages`, all under one key; those of a bundle together.

    A metric counts the messages.
    """

    # Without a state, several workers could write the file at a time.
    STATE = beam.DoFn.StateParam(ReadModifyWriteStateSpec("unused", VarIntCoder()))

    def __init__(self, sink: RejectSink) -> None:
        """Keeps the sink."""
        self._sink = sink
        self._counted = Metrics.counter("tracecloak", "messages that cannot be read")

    def start_bundle(self) -> None:
        """Begins with no message."""
        self._batches: list[pa.RecordBatch] = []

    def process(self, element: tuple[int, pa.RecordBatch], _: Any = STATE) -> None:
        """Keeps a batch."""
        self._counted.inc(element[1].num_rows)
        self._batches.append(element[1])

    def finish_bundle(self) -> None:
        """Gives the sink what was kept."""
        if self._batches:
            with kept_on_worker(self._sink.folder):
                self._sink.send(pa.Table.from_batches(self._batches))


def add_up(folder: str) -> None:
    """Adds the batches that are in files of their own to the one file, and removes their files.

    Args:
        folder: Where, on any Beam file system; nobody else does so at the time.
    """
    found = [match for match in map(_BATCH.fullmatch, names_in(folder)) if match]
    for begin in range(0, len(found), _AT_ONCE):
        paths = {one[1]: join(folder, one[0]) for one in found[begin : begin + _AT_ONCE]}
        data = {digest: read_if_there(path) or b"" for digest, path in paths.items()}
        _add(folder, {digest: one.decode().splitlines() for digest, one in data.items()})
        delete_files([*paths.values()])


def _add(folder: str, batches: Mapping[str, Sequence[str]]) -> None:
    """Adds batches of lines, each under a digest of its own, to the file, unless it has them."""
    path = join(folder, "rejects.jsonl")
    first, *lines = (read_if_there(path) or b"{}").decode().splitlines()
    head, places = json.loads(first), dict.fromkeys(lines)
    counts: dict[str, dict[str, int]] = head.get("counts", {})
    digests = dict.fromkeys(head.get("batches", ()))
    now = time()
    for line in (line for digest in batches.keys() - digests.keys() for line in batches[digest]):
        row = json.loads(line)
        if line in places and ("offset" in row or "message_id" in row):
            continue  # in another batch, as after a restart
        places[line] = None
        at = datetime.datetime.fromtimestamp(min(row[PUBLISH_TIME] / 1e6, now), datetime.UTC)
        of = counts.setdefault(at.strftime(_HOUR), {})
        of[row["reason"]] = of.get(row["reason"], 0) + 1
    newest = datetime.datetime.strptime(max(counts, default="1970-01-01T00Z"), _HOUR)
    oldest = (newest - datetime.timedelta(DAYS)).strftime(_HOUR)
    text = {
        "counts": {hour: of for hour, of in sorted(counts.items()) if hour > oldest},
        "batches": [*dict.fromkeys([*digests, *batches])][-_MOST_BATCHES:],
    }
    # Lines begin with the time of publishing, so the last ones are kept.
    last = sorted(places, key=lambda line: (not line.endswith(_EXPECTED), line))[-MOST_PLACES:]
    write_anew(path, "".join(f"{line}\n" for line in [json.dumps(text), *last]).encode())


# --- The releases of a stream as messages of a topic, which may come more than once. --------------
# Steps are sent at least once, and the message service delivers at least once. Equal releases are
# equal bytes and have equal attributes, so a consumer keeps the first message of each key and
# drops what repeats it. Two messages with one key and different bytes are two releases for the
# price of one: that is an error, never a repetition.


# What a consumer needs to drop a repetition without reading the data; together they are the key.
KEY_ATTRIBUTES = ("release_id", "epoch", "product", "view", "step")


class SendSteps(beam.DoFn):
    """Sends releases by a sink, and gives each once it is there."""

    def __init__(self, sink: Any) -> None:
        """Keeps the sink, a `local_stream.Sink` that pickles."""
        self._sink = sink

    def process(self, release: Step) -> Iterable[Step]:
        """Sends a release; one that is tried again is sent again, with the same bytes."""
        self._sink.send(release)
        yield release


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
        key_parts = zip(KEY_ATTRIBUTES, released.key, strict=True)
        attributes = {name: str(part) for name, part in key_parts}
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
