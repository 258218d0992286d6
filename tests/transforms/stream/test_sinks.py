"""Where steps and rejects go: files that are written once and whole, and topics."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.stream_runs import batch_of
from tracecloak.anonymizers.logs.params import PrivateLogParams
from tracecloak.anonymizers.logs.private_log import PrivateLog
from tracecloak.schemas.errors import GuaranteeError, RetryLater, UsageError
from tracecloak.schemas.events.tally import Unread
from tracecloak.schemas.published.manifest import ReleaseManifest
from tracecloak.schemas.published.step import StepLog, StepRelease
from tracecloak.transforms.formats.messages import MESSAGE_REJECT_SCHEMA
from tracecloak.transforms.services.kafka_topic import KafkaTopic
from tracecloak.transforms.stream import step_sinks
from tracecloak.transforms.stream.step_sinks import (
    RejectSink,
    SendSteps,
    StepSink,
    files_of,
    step_path,
)

PARAMS = PrivateLogParams(epsilon="1", vocabulary=("A", "B"), max_trace_length=4)
GUARANTEE = PrivateLog().guarantee(PARAMS)
MANIFEST = ReleaseManifest("ward@1", "", 1, {}, GUARANTEE, (), (), "c", "k", True, True, "2")
SAID: dict[str, Any] = {
    "release_id": "ward", "epoch": "1", "step": 3, "start_us": 0, "end_us": 10, "n_steps_left": 2,
    "epsilon": "1", "delta": "0",
}  # fmt: skip


def release(count: int = 5, names: Sequence[tuple[str, str]] = (("A", "B"),)) -> StepRelease:
    counts, errors = np.full(len(names), count), np.ones(len(names))
    return StepRelease.of(names, counts, errors, product="dfg", view="window", **SAID)


def log(n: int = 5) -> StepLog:
    return StepLog(**SAID, traces=batch_of(*["AB"] * n))


def write(output: Path, *releases: StepRelease | StepLog) -> list[StepRelease | StepLog]:
    sink = step_sinks.FileSink(str(output), ("parquet", "xes"), MANIFEST, str(workplace(output)))
    fn = SendSteps(sink)
    return [passed for made in releases for passed in fn.process(made)]


def workplace(output: Path) -> Path:
    return output.parent / f"_incomplete-{output.name}"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_step_is_where_its_name_says_and_passes_on(tmp_path: Path) -> None:
    made = release()
    assert write(tmp_path, made) == [made]
    files = contents(tmp_path)
    place = "run_id=ward/epoch=1/product=dfg/view=window/step-000003"
    assert set(files) == {f"{place}.json", f"{place}.parquet"}
    assert StepRelease.from_json(files[f"{place}.json"]) == made
    table = pq.read_table(io.BytesIO(files[f"{place}.parquet"]))
    assert table.select(["count"]).to_pylist() == [{"count": 5}]
    metadata = json.loads(table.schema.metadata[b"tracecloak.release"])
    assert metadata["release_id"] == "ward@1"


def test_another_release_of_a_step_ends_the_stream_and_leaves_the_first(tmp_path: Path) -> None:
    write(tmp_path, release())
    before = contents(tmp_path)
    with pytest.raises(GuaranteeError, match="published before") as refused:
        write(tmp_path, release(count=6))
    assert refused.value.exit_code == 5
    assert contents(tmp_path) == before


def test_a_file_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="full"):
        patch.setattr(step_sinks, "rename", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        write(output, release())
    assert contents(output) == {} and len(contents(workplace(output))) == 1
    assert stat.S_IMODE(workplace(output).stat().st_mode) == 0o700
    write(output, release())
    assert contents(output) and not contents(workplace(output))
    monkeypatch.setattr(step_sinks, "write_whole", None)  # what is there is not written again
    write(output, release())


def test_a_log_has_a_folder_and_says_last_what_it_is_of(tmp_path: Path) -> None:
    write(tmp_path, log())
    place = "run_id=ward/epoch=1/product=log/view=window/step-000003"
    assert step_path(str(tmp_path), log()).endswith(place)
    files = contents(tmp_path)
    assert set(files) == {f"{place}/{n}" for n in ("log.parquet", "log.xes.gz", "step.json")}
    xes = gzip.decompress(files[f"{place}/log.xes.gz"]).decode()
    assert xes.count("<trace>") == 5
    assert json.loads(files[f"{place}/step.json"])["n_steps_left"] == 2
    assert files_of(log(), ["xes"], MANIFEST)["/log.xes.gz"] == files[f"{place}/log.xes.gz"]
    with pytest.raises(GuaranteeError):
        write(tmp_path, log(6))


@pytest.mark.parametrize("made", [release(), log(), log(0)], ids=["counts", "log", "no case"])
def test_what_is_kept_of_a_step_makes_the_same_files(made: StepRelease | StepLog) -> None:
    forms = ("parquet", "xes", "csv") if made.has_log else ("parquet",)
    kept = type(made).from_kept(made.to_kept())
    assert files_of(kept, forms, MANIFEST) == files_of(made, forms, MANIFEST)
    assert kept.key == made.key


def test_a_release_too_large_for_a_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    large = release(names=[("▶", f"{i:0>500}") for i in range(20_000)])
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:1")
    with pytest.raises(UsageError, match="publish it to files"):
        StepSink("projects/p/topics/t").send(large)


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
    step_sinks.add_up(str(folder))
    assert not list(folder.glob("messages-*"))
    head, *places = map(json.loads, (folder / "rejects.jsonl").read_text().splitlines())
    return head["counts"], places


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock behind all that is published here."""
    monkeypatch.setattr(step_sinks, "time", lambda: (NOON + 1000 * 24 * HOUR) / 1e6)


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
        sink.send(batch(offsets, Unread.OTHER_OPERATION, NOON + number * HOUR))
    counts, places = read(tmp_path)
    assert len(places) == step_sinks.MOST_PLACES
    assert [row["offset"] for row in places[-7:]] == [*range(7)]
    assert {row["offset"] for row in places[:-7]} == {*range(31_000 - 9_993, 31_000)}
    assert sum(of[Unread.OTHER_OPERATION] for of in counts.values()) == 30_000
    assert len(counts) == 30 and counts["2026-12-01T12Z"] == {
        Unread.OTHER_OPERATION: 1_000,
        NO_TIME: 7,
    }
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
        patch.setattr(step_sinks, "delete_files", lambda _: None)
        step_sinks.add_up(str(tmp_path))
    step_sinks.add_up(str(tmp_path))
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
