"""Messages that cannot be read: how many are counted, which places are kept, each of them once."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import confluent_kafka
import pyarrow as pa
import pytest

from tracecloak.schemas.errors import RetryLater
from tracecloak.schemas.events.tally import OTHER_OPERATION
from tracecloak.transforms.formats.messages import MESSAGE_REJECT_SCHEMA
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream import topic_sinks
from tracecloak.transforms.stream.topic_sinks import RejectSink

HOUR = 3_600_000_000
NOON = 1_796_126_400_000_000  # 2026-12-01T12Z
NO_TIME = "no time"


def batch(
    offsets: Sequence[int], reason: str = NO_TIME, at: int = NOON, partition: int = 0, **more: Any
) -> pa.RecordBatch:
    rows = [
        {"publish_time": at, "partition": partition, "offset": n, "reason": reason, **more}
        for n in offsets
    ]
    return pa.RecordBatch.from_pylist(rows, MESSAGE_REJECT_SCHEMA)


def read(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    topic_sinks.add_up(str(folder))
    assert not list(folder.glob("messages-*"))
    head, *places = map(json.loads, (folder / "rejects.jsonl").read_text().splitlines())
    return head["counts"], places


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock behind all that is published here."""
    monkeypatch.setattr(topic_sinks, "time", lambda: (NOON + 1000 * 24 * HOUR) / 1e6)


def test_what_comes_again_counts_once(tmp_path: Path) -> None:
    """In the same batch, as of a bundle that is tried again, or in another one after a restart."""
    sink = RejectSink(str(tmp_path), None)
    for offsets in ([1, 2], [3], [1, 2], [2, 3, 4]):
        sink.send(batch(offsets))
    counts, places = read(tmp_path)
    assert counts == {"2026-12-01T12Z": {NO_TIME: 4}}
    assert [row["offset"] for row in places] == [1, 2, 3, 4]
    # Of messages that have no place, equal ones are several, but for a batch that is tried again.
    unplaced = [{"publish_time": NOON, "reason": NO_TIME}] * 3
    for n in (3, 3, 2):
        sink.send(pa.RecordBatch.from_pylist(unplaced[:n], MESSAGE_REJECT_SCHEMA))
    assert len(list(tmp_path.glob("messages-*"))) == 2
    sink._adding._said -= 60
    sink.send(batch([9]))
    assert not list(tmp_path.glob("messages-*"))
    assert read(tmp_path)[0] == {"2026-12-01T12Z": {NO_TIME: 10}}


def test_the_file_is_bounded_and_its_counts_are_right(tmp_path: Path) -> None:
    """Catches a file that grows, and non-events of a feed that push out what is wrong."""
    sink = RejectSink(str(tmp_path), None)
    sink.send(batch(range(7)))
    for number in range(30):
        offsets = range(1_000 * (1 + number), 1_000 * (2 + number))
        sink.send(batch(offsets, OTHER_OPERATION, NOON + number * HOUR))
    counts, places = read(tmp_path)
    assert len(places) == topic_sinks.MOST_PLACES
    assert [row["offset"] for row in places[-7:]] == [*range(7)]
    assert {row["offset"] for row in places[:-7]} == {*range(31_000 - 9_993, 31_000)}
    assert sum(of[OTHER_OPERATION] for of in counts.values()) == 30_000
    assert len(counts) == 30 and counts["2026-12-01T12Z"] == {OTHER_OPERATION: 1_000, NO_TIME: 7}
    sink.send(batch([99_999], at=NOON + 24 * 400 * HOUR + HOUR))
    assert "2026-12-01T13Z" not in read(tmp_path)[0] and "2026-12-01T14Z" in read(tmp_path)[0]
    # A stamp of the far future makes no room for itself.
    sink.send(batch([5], at=NOON * 100))
    assert len(json.dumps(read(tmp_path)[0])) < 3_000 and max(read(tmp_path)[0]) < "2030"


def test_batches_are_added_up_once_a_minute_and_those_of_earlier_versions_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a run is killed before their files are gone."""
    for number in range(600):
        digest = f"{number * 7919 % 600:016x}"
        line = {"publish_time": NOON + number, "offset": number, "partition": 0, "reason": NO_TIME}
        (tmp_path / f"messages-{digest}.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "operator.log").write_text("stays\n")
    with monkeypatch.context() as patch:
        patch.setattr(topic_sinks, "delete_files", lambda _: None)
        topic_sinks.add_up(str(tmp_path))
    topic_sinks.add_up(str(tmp_path))
    counts, places = read(tmp_path)
    assert counts == {"2026-12-01T12Z": {NO_TIME: 600}}
    assert [row["offset"] for row in places] == [*range(600)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["operator.log", "rejects.jsonl"]


class Producer:
    """The client of a topic, which takes no more than so many messages before it fails once."""

    sent: ClassVar[list[tuple[bytes, bytes]]] = []
    room: ClassVar[list[int]] = []

    def __init__(self, settings: Mapping[str, Any]) -> None:
        assert settings["enable.idempotence"] and settings["security.protocol"] == "SSL"
        self._left: list[Any] = []

    def produce(self, topic: str, value: bytes, key: bytes, **more: Any) -> None:
        assert topic == "unread"
        self._left.append((key, value, more["on_delivery"]))

    def flush(self, _: float) -> int:
        taken = self.room.pop() if self.room else len(self._left)
        for number, (key, value, tell) in enumerate(self._left):
            if number < taken:
                self.sent.append((key, value))
            tell(None if number < taken else SimpleNamespace(str=lambda: "away", code=int), None)
        self._left = []
        return 0


def test_a_topic_of_kafka_gets_a_line_under_one_key_however_often_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also after the sink was pickled for a worker; and what is tried again counts once."""
    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    monkeypatch.setattr(Producer, "sent", [])
    monkeypatch.setattr(Producer, "room", [2])
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SSL\n")
    topic = KafkaTopic.parse("kafka://b:1/unread", str(properties), None)
    sink = pickle.loads(pickle.dumps(RejectSink(str(tmp_path), topic)))  # noqa: S301
    with pytest.raises(RetryLater, match="away"):
        sink.send(batch(range(4)))
    sink.send(batch(range(4)))
    values = [json.loads(value) for value in dict(Producer.sent).values()]
    assert len(Producer.sent) == 6 and values == read(tmp_path)[1] and len(values) == 4
    assert read(tmp_path)[0] == {"2026-12-01T12Z": {NO_TIME: 4}}
