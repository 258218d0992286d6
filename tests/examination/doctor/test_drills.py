"""What a run of a stream would end with now, `doctor` reports before: a table of drills.

Each drill changes a stream that was cut off behind its first messages. Doctor looks at it and
changes nothing, and then the stream is started: both end with one exit code, for one reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")

from tests.examination.doctor.test_what_is_shown import _tree
from tests.support.doctor import cut_off
from tests.support.kafka_double import TopicDouble
from tests.support.stream_runs import stream_config
from tracecloak.examination.doctor.run import Line, exit_code_of, run_checks
from tracecloak.examination.doctor.setting import Setting
from tracecloak.pipelines.budget.opening import officers_ledger
from tracecloak.pipelines.budget.unfinished import withdraw
from tracecloak.pipelines.keys import notes
from tracecloak.pipelines.keys.key_store import STREAM_STATE, KeyStore
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.services.kafka_clock import KafkaClock
from tracecloak.transforms.stream.local_stream import LocalStream

EPOCH = "ward@1"


@dataclass
class Ward:
    """A stream that was cut off, with its topic."""

    folder: Path
    config: StreamConfig
    topic: TopicDouble
    open: contextlib.ExitStack

    @property
    def store(self) -> KeyStore:
        return KeyStore(self.folder / "keys")

    @property
    def state(self) -> Path:
        return Path(self.store.operator_folder(self.config.output, EPOCH)) / STREAM_STATE

    def send(self, n: int) -> None:
        body = {"case_id": "c", "activity": "A", "timestamp": 1}
        self.topic.add(0, *[json.dumps(body).encode()] * n, millis=1_000)

    def change(self, **keys: Any) -> None:
        given = {"input_subscription": None, "input_topic": "kafka://b:1/events", "runner": "Local"}
        shared = {"ledger": f"sqlite:///{self.folder / 'ledger.db'}", "stuck_after": "1h"}
        self.config = stream_config(self.folder, **{**given, **shared, **keys})


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ward]:
    monkeypatch.setattr(KafkaClock, "passed_us", lambda _: 2_000_000)
    topic = TopicDouble(ends={0: 0}, epoch=3)
    topic.used_by(monkeypatch)
    with contextlib.ExitStack() as opened:
        made = Ward(tmp_path, stream_config(tmp_path), topic, opened)
        made.change()
        made.send(2)
        yield made


def killed(ward: Ward) -> None:
    if not (child := os.fork()):
        LocalStream._end_steps = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore
        run_stream(ward.config)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def ends(config: StreamConfig) -> tuple[int, str]:
    """The exit code of a start, and why; one that would read on is stopped there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStream, "run", lambda *_: False)
        try:
            run_stream(config)
        except TracecloakError as error:
            return error.exit_code, str(error)
    return 0, ""


def lines_of(ward: Ward, is_private: bool = True) -> list[Line]:
    return list(run_checks(Setting(resolve(ward.config), is_private=is_private)))


# --- The drills -----------------------------------------------------------------------------------


def withdrawn(ward: Ward) -> None:
    ledger = officers_ledger(ward.store, ward.config.ledger)
    withdraw(ward.store, ledger, ward.config.output, EPOCH, "A. Officer", "a name was in it")


def damaged(ward: Ward) -> None:
    ward.state.write_bytes(ward.state.read_bytes().replace(b"places", b"spaces"))


def running(ward: Ward) -> None:
    ward.open.enter_context(ward.store.alone(ward.config.output, EPOCH))


def noted(ward: Ward, step: int = 0) -> None:
    ward.store.note_step(ward.config.output, EPOCH, step)


def without_key(ward: Ward, of: str) -> None:
    ward.store._path(ward.config.output, of, ".key").unlink()


Drill = Callable[[Ward], object]
DRILLS: dict[str, tuple[Drill, int, str]] = {
    "nothing": (lambda w: None, 0, "is the log that was read"),
    "behind": (lambda w: (w.send(3), w.topic.add(1, b"in a partition that was added")),
        0, "3 in partition 0, 1 in partition 1"),
    "transaction": (lambda w: (w.send(1), w.topic.stables.update({0: 2})),
        0, "a transaction in partition 0 of topic 'events' is open"),
    "made anew": (lambda w: vars(w.topic).update(topic_id=(2, 2)), 6, "made anew"),
    "other cluster": (lambda w: vars(w.topic).update(cluster_id="other"), 6, "another cluster"),
    "smaller epoch": (lambda w: vars(w.topic).update(epoch=2), 6, "a smaller leader epoch"),
    "truncated": (lambda w: w.topic.cut(0, 1), 6, "was truncated"),
    "truncated and grown": (lambda w: (w.topic.cut(0, 1), w.topic.add(0, b"x", b"y")),
        6, "has not the message"),
    "other message": (lambda w: vars(w.topic.records[0][-1]).update(content=b"other"),
        6, "has not the message that was read last"),
    "retention": (
        lambda w: (w.send(3), w.topic.firsts.update({0: 4})), 6, "deleted before they were read"),
    "deleted": (lambda w: w.topic.ends.clear(), 6, "it was deleted"),
    "compacted": (
        lambda w: w.topic.settings.update({"cleanup.policy": "compact"}), 2, "is compacted"),
    "by senders": (lambda w: w.topic.settings.update({"message.timestamp.type": "CreateTime"}),
        2, "takes the times of messages from its senders"),
    "spent": (lambda w: (noted(w, w.config.horizon - 1), w.store.commit(w.config.output, EPOCH)),
        4, "is spent"),
    "withdrawn": (withdrawn, 2, "was withdrawn"),
    "other configuration": (lambda w: w.change(epsilon="2"), 2, "another configuration"),
    "other key store": (
        lambda w: w.change(key_store=str(w.folder / "others")), 75, "another key store"),
    "key gone": (lambda w: (noted(w), without_key(w, EPOCH)), 6, "the key of the epoch is gone"),
    "identities gone": (lambda w: without_key(w, "ward@"), 6, "the key of identities"),
    "damaged": (damaged, 6, "is not what tracecloak wrote"),
    "unreadable": (lambda w: (w.state.unlink(), w.state.mkdir()), 6, "unable to open database file"
        ),
    "state gone": (lambda w: (noted(w), w.state.unlink()), 6, "is not there"),
    "older": (noted, 6, "goes on with step 0"),
    "running": (running, 75, "another process"),
    "for workers": (lambda w: w.change(worker_keys=str(w.folder / "workers")),
        2, "worker_keys are for workers elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRILLS)
def test_what_a_run_ends_with_doctor_reports_before(ward: Ward, name: str) -> None:
    drill, code, word = DRILLS[name]
    cut_off(ward.config)
    drill(ward)
    before = _tree(ward.folder)
    lines = lines_of(ward)
    assert _tree(ward.folder) == before
    texts = " | ".join(line.text for line in lines)
    assert exit_code_of(lines) == code and word in texts, texts
    if code == 0 and name != "nothing":
        return  # a start reads on
    assert (found := ends(ward.config))[0] == code
    assert found[1] in texts and word in (found[1] or texts)
    failures = [line.text for line in lines if line.status == "failure" and not line.cause]
    assert len(failures) == (code != 0), failures


def test_how_the_last_run_ended_is_noted(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A refusal, a stop and a kill; and what counts messages is for the operator alone."""
    killed(ward)
    before = _tree(ward.folder)
    texts = " | ".join(line.text for line in lines_of(ward))
    assert "did not end by itself" in texts and "events not read yet: none" in texts
    assert _tree(ward.folder) == before and exit_code_of(lines_of(ward)) == 0
    assert "not read yet" not in " | ".join(line.text for line in lines_of(ward, False))
    assert ends(ward.config) == (0, "")
    assert any("exit code 0, it was stopped" in line.text for line in lines_of(ward))
    ward.topic.cluster_id = "other"
    code, why = ends(ward.config)
    [line] = [line for line in lines_of(ward) if "last run" in line.text]
    assert line.status == "warning" and f"exit code {code}, {why}" in line.text
    running(ward)
    assert ends(ward.config)[0] == 75
    ward.open.close()
    assert why in " | ".join(line.text for line in lines_of(ward) if "last run" in line.text)
    monkeypatch.setattr(notes, "write_anew", lambda *_: os.open("/dev/null/a", os.O_WRONLY))
    ends(ward.config)
    assert "how ward@1 ended was not noted" in caplog.text
