"""What the operator learns of messages that cannot be read: how many an hour, and the last places.

Each batch is a file that is named after its content, so one that is tried again is there once. Once
a minute these files are added to one that has the counts by reason and hour in its first line, and
then a line for each of the last messages. So there are few files, and what a batch costs does not
grow with those before it. One process adds them at a time.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import re
from collections.abc import Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from tracecloak.schemas.events.events import PUBLISH_TIME
from tracecloak.schemas.streams.message_reasons import OTHER_OPERATION, TOMBSTONE
from tracecloak.transforms.files import delete_files, join, names_in, read_if_there, write_anew
from tracecloak.transforms.operator_log import kept_on_worker
from tracecloak.transforms.stream.now_and_then import NowAndThen

if TYPE_CHECKING:
    from tracecloak.transforms.services.kafka_topic import KafkaTopic

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
        self._adding = NowAndThen()
        self._lines = None
        if topic is not None:
            from tracecloak.transforms.stream.topic_sinks import LineSink

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
