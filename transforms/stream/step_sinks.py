"""Where steps go, and what is kept of them: decisions, files, topics and tables; and rejects."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, Any, cast

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

import tracecloak.transforms.columnar_names  # noqa: F401  # names what is encoded
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.steps import DecidedStep
from tracecloak.schemas.errors import GuaranteeError, InputSchemaError, RetryLater, UsageError
from tracecloak.schemas.events.events import PUBLISH_TIME
from tracecloak.schemas.events.tally import Unread
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.step import Step
from tracecloak.transforms.files import (
    create,
    delete_files,
    is_on_this_machine,
    join,
    names_in,
    read_if_there,
    rename,
    write_anew,
)
from tracecloak.transforms.formats.registry import FORMATS, Format, formats_of_releases
from tracecloak.transforms.keys.wrapping import KeyReference, read_sealed, write_sealed
from tracecloak.transforms.lakes.tables import Address, AppendedRelease, plain
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.publish.products import parquet_of
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.services.kafka_topic import KafkaTopic, TopicWriter
from tracecloak.transforms.services.pubsub_service import asking, pubsub
from tracecloak.transforms.stream.stream_status import RateLimiter

if TYPE_CHECKING:
    from tracecloak.transforms.services.kafka_identity import KnownLog


# --- KeptSteps: the release of each step of an epoch is fixed before anybody can see a byte of it.
# A stream that is started again, or a bundle that is tried again, may count other cases in a step
# than were counted before: messages that were not acknowledged come again, and late ones are
# there now. The noise that was drawn for the step must not be added to these counts. So the
# release of a step is kept in the operator's folder, with a digest of the cases and exact counts
# that it was made from. A later run of the step publishes the kept release or nothing.
#
# The digests form a chain, as that of a step covers all steps before it. So a run that counted
# something else in one step is never taken for the run that decided the later ones.
#
# KeptLogs is in the same folder: which logs the epoch reads, and from where on, if a person set
# that.


_ENDING = ".decision"
_REMEDY = "what the step released is not known; begin another epoch, which is another spend"
_POSITIONS = "which logs the epoch reads is not known; set them with `tracecloak stream positions`"


@dataclass(frozen=True)
class KeptSteps:
    """The releases of an epoch's steps in a folder that only the operator reads; it pickles.

    The folder holds only what is published, and no exact count.

    Attributes:
        folder: On any Beam file system.
        kind: The type of a release.
    """

    folder: str
    kind: type[Step]

    def of(self, step: int, key: ReleaseKey) -> DecidedStep | None:
        """Returns the release of a step; None: it is not decided yet.

        Raises:
            TracecloakError: The kept release was changed.
        """
        message = read_sealed(*_sealed(self.folder, "step", step, key), _REMEDY)
        return None if message is None else DecidedStep.from_kept(step, message, self.kind)

    def keep(self, decided: DecidedStep, key: ReleaseKey) -> DecidedStep:
        """Keeps a step's release; returns the kept one, as another worker may have been first.

        Raises:
            TracecloakError: The kept release was changed.
        """
        write_sealed(*_sealed(self.folder, "step", decided.step, key), decided.to_kept())
        return self.of(decided.step, key) or decided

    def last(self) -> int:
        """Returns the last step that was decided; -1: there is none."""
        return _last(self.folder, "step")


@dataclass(frozen=True)
class KeptLogs:
    """The logs that workers read for an epoch, each as it was when it was kept; it pickles.

    Attributes:
        folder: That of `KeptSteps`.
        key: Where the epoch's key is.
    """

    folder: str
    key: KeyReference

    def last(self) -> tuple[int, dict[str, KnownLog]]:
        """Returns how often a person has set positions, and the logs by the names of sources.

        Reading goes on at their places if somebody has; (0, {}): nothing is kept.

        Raises:
            TracecloakError: What is kept was changed.
        """
        from tracecloak.transforms.services.kafka_identity import KnownLog

        number = max(0, _last(self.folder, "logs"))
        place = _sealed(self.folder, "logs", number, self.key.resolve())
        message = read_sealed(*place, _POSITIONS) or b"{}"
        return number, {name: KnownLog.from_json(log) for name, log in json.loads(message).items()}

    def keep(self, number: int, logs: Mapping[str, KnownLog]) -> None:
        """Keeps logs, for `last`."""
        message = json.dumps({name: log.to_json() for name, log in logs.items()}).encode()
        write_sealed(*_sealed(self.folder, "logs", number, self.key.resolve()), message)


def _last(folder: str, kind: str) -> int:
    (listing,) = FileSystems.match([f"{folder.rstrip('/')}/{kind}-*{_ENDING}"])
    names = (one.path.removesuffix(_ENDING) for one in listing.metadata_list)
    return max((int(name.rpartition("-")[2]) for name in names), default=-1)


def _sealed(folder: str, kind: str, number: int, key: ReleaseKey) -> tuple[str, ReleaseKey, str]:
    """Returns the path of what is kept, the key that seals it, and for what it does so."""
    return f"{folder.rstrip('/')}/{kind}-{number:06d}{_ENDING}", key, f"stream {kind}/{number}"


# --- FileSink: the releases of a stream as files, each written once. ------------------------------
# A file's name says which release it holds, so a file that is there already is not written again.
# If it has the same bytes, a runner has tried the same release again. If it has other bytes, the
# new one would be a second release for one payment, so the stream fails and shows nothing of it.
# Files are written in a workplace beside the output, which only the operator reads, and moved
# when they are complete, so the output holds complete files only.


_LOG = logging.getLogger("tracecloak")


def epoch_folder(output: str, release_id: str, epoch: str) -> str:
    """Returns the folder of all that one epoch of a stream publishes."""
    return cast(str, FileSystems.join(output, f"run_id={release_id}", f"epoch={epoch}"))


def epoch_workplace(output: str, release_id: str, epoch: str, staging_area: str | None) -> str:
    """Returns the folder in which the files of an epoch are written before they appear.

    It is in that of the stream, whose other epochs may run at the same time.
    """
    place = ReleaseFolder(output, release_id, staging_area)
    return cast(str, FileSystems.join(place.workplace, f"epoch={epoch}"))


def step_path(output: str, release: Step) -> str:
    """Returns the path of a step's files, without the ending of any."""
    release_id, epoch, product, view, step = release.key
    folder = epoch_folder(output, release_id, epoch)
    place = (f"product={product}", f"view={view}", f"step-{step:06d}")
    return cast(str, FileSystems.join(folder, *place))


def write_whole(path: str, data: bytes, workplace: str) -> None:
    """Publishes a file, which appears as a whole or not at all.

    Args:
        path: Where.
        data: All of it.
        workplace: Folder on the same file system in which it is written before it is moved there;
            on this machine only its owner reads it.
    """
    folder, name = FileSystems.split(path)
    # Two writers share this name only if they write the same bytes to the same place.
    digest = hashlib.sha256(path.encode() + b"\n" + data).hexdigest()[:16]
    fresh = FileSystems.join(workplace, f"{name}-{digest}.part")
    if is_on_this_machine(path):
        os.makedirs(workplace, mode=0o700, exist_ok=True)
        os.makedirs(folder, exist_ok=True)
    with closing(create(fresh)) as stream:
        stream.write(data)
    rename([fresh], [path])


@dataclass(frozen=True)
class FileSink:
    """Writes steps to <output>/run_id=…/epoch=…/product=…/view=…/step-000000.{json,parquet}.

    A log has a folder of that name, with step.json, log.parquet and log.xes.gz. JSON is always
    written and comes last.

    Attributes:
        output: The folder of all releases, on any Beam file system.
        formats: Beside JSON.
        manifest: Whose promise the files carry.
        workplace: Where they are written before they appear, see `write_whole`.
    """

    output: str
    formats: Sequence[str]
    manifest: ReleaseManifest
    workplace: str

    def send(self, released: Step) -> None:
        """Publishes the files of a step, unless they are there with the same bytes.

        Raises:
            GuaranteeError: One is there with other bytes.
        """
        path = step_path(self.output, released)
        for ending, data in files_of(released, self.formats, self.manifest).items():
            there = read_if_there(path + ending)
            if there is None:
                write_whole(path + ending, data, self.workplace)
            elif there != data:
                raise GuaranteeError(
                    f"{path}{ending} was published before, from other input: nothing was written; "
                    "begin another epoch, which is another spend"
                )
        _LOG.info("published step %d; %d are left", released.key[-1], released.n_steps_left)


def possible_forms(kind: type[Step]) -> Iterable[str]:
    """Returns, or yields, the forms of files that a product of this type can have beside JSON."""
    return formats_of_releases() if kind.has_log else ("parquet",)


def default_forms(kind: type[Step]) -> tuple[str, ...]:
    """Returns those that it has unless others are asked for."""
    return ("parquet", "xes") if kind.has_log else ("parquet",)


def files_of(release: Step, formats: Sequence[str], manifest: ReleaseManifest) -> dict[str, bytes]:
    """Returns a step's files by what follows the number of the step in their names, JSON last.

    Args:
        release: The step.
        formats: Forms beside JSON, of those that are possible.
        manifest: Whose promise the files carry.
    """
    files: dict[str, bytes] = {}
    if release.has_log:
        rows = release.to_rows()
        files = {f"/log{FORMATS[f].log_ending}": _log(rows, FORMATS[f], manifest) for f in formats}
    elif formats:
        files = {".parquet": parquet_of(release.to_rows(), manifest)}
    return {**files, release.json_ending: release.to_json()}


def _log(rows: pa.RecordBatch, form: Format, manifest: ReleaseManifest) -> bytes:
    from tracecloak.transforms.publish.release_files import write_rows

    stream = io.BytesIO()
    write_rows(form, stream, [rows], rows.schema, manifest)
    return stream.getvalue()


# --- RejectSink: what the operator learns of messages that cannot be read. -----------------------
# How many they are an hour, and the last places. Each batch is a file that is named after its
# content, so one that is tried again is there once. Once a minute these files are added to one
# that has the counts by reason and hour in its first line, and then a line for each of the last
# messages. So there are few files, and what a batch costs does not grow with those before it. One
# process adds them at a time.


_OPERATOR = logging.getLogger("tracecloak.operator")

MOST_PLACES = 10_000
DAYS = 400
_MOST_BATCHES = 1_000
_HOUR = "%Y-%m-%dT%HZ"
# What a feed of changes has as a matter of course makes room for what is wrong.
_EXPECTED = tuple(
    f'"reason": {json.dumps(reason)}}}' for reason in (Unread.OTHER_OPERATION, Unread.TOMBSTONE)
)
_BATCH = re.compile(r"messages-([0-9a-f]{16})\.jsonl")
_AT_ONCE = 256


class RejectSink:
    """Counts and lists messages that cannot be read, and sends their places to a topic."""

    def __init__(self, folder: str, topic: str | KafkaTopic | None) -> None:
        """Keeps where to write.

        Args:
            folder: Of the file, on any Beam file system.
            topic: Gets a message for each line, under a digest of it in a topic of Kafka: a line
                that is sent again is the same message. None: none gets the places.
        """
        self.folder = folder
        self._adding = RateLimiter()
        self._topic = None if topic is None else Topic(topic)

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
        if self._topic is not None:
            data = [line.encode() for line in lines]
            keyed = [(sha256(line).hexdigest()[:32].encode(), line) for line in data]
            self._topic.writer.send(keyed, {})


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


class Topic:
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
    def writer(self) -> TopicWriter | _PubSubWriter:
        """What sends messages to it."""
        if isinstance(self._topic, KafkaTopic):
            return TopicWriter(self._topic)
        return _PubSubWriter(self._topic)


class StepSink(Topic):
    """A topic that gets the JSON of steps; of a made-up log it has only what it is of.

    KEY_ATTRIBUTES are the attributes of a message, or the headers and the key of one of Kafka, so a
    compacted topic keeps a step once.
    """

    def send(self, released: Step) -> None:
        """See `local_stream.Sink`."""
        key_parts = zip(KEY_ATTRIBUTES, released.key, strict=True)
        attributes = {name: str(part) for name, part in key_parts}
        key = "/".join(attributes.values()).encode()
        self.writer.send([(key, released.to_json())], attributes)


class _PubSubWriter:
    """See `TopicWriter`; a message has no key."""

    def __init__(self, topic: str) -> None:
        self._name = topic
        self._client = pubsub().PublisherClient()

    def send(self, messages: Sequence[tuple[bytes, bytes]], attributes: Mapping[str, str]) -> None:
        n_bytes = max((len(data) for _, data in messages), default=0)
        if n_bytes > _MOST_BYTES - len(str(attributes).encode()):
            raise UsageError(
                f"the release of a step has {n_bytes} bytes, more than a message of Pub/Sub holds; "
                "publish it to files"
            )
        sent = [self._client.publish(self._name, data, **attributes) for _, data in messages]
        with asking(self._name, self._refusal):
            for one in sent:
                one.result(timeout=_ASK_SECONDS)

    def _refusal(self, error: Any) -> UsageError:
        return UsageError(f"{self._name} takes no message: {error.message}")


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
