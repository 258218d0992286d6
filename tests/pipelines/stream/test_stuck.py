"""A stream that is stuck ends, pays nothing when it starts again, and after three starts stays."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_streams import Script
from tests.support.stream_runs import in_time, random_messages, stream_config, ticking
from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.stream import local_run, stuck
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.stuck import Overdue, StuckNote, check_stuck_after, stop_if_stuck
from tracecloak.schemas.errors import StaysStuck, Stuck, TracecloakError, UsageError
from tracecloak.transforms.stream import sources
from tracecloak.transforms.stream.sources import MessageBatch
from tracecloak.transforms.stream.stream_status import StreamStatus

AFTER_SECONDS = 660.0
DUE_SECONDS = 20.0


def config_of(folder: Path, **changes: Any) -> StreamConfig:
    return stream_config(folder, **{"stuck_after": f"{AFTER_SECONDS:.0f}s", **changes})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TICK_SECONDS", "_GRACE_SECONDS"):
        monkeypatch.setattr(stuck, name, 0.02)


def test_a_step_is_overdue_by_the_clock_that_only_goes_forward(tmp_path: Path) -> None:
    now, seconds = [0.0], [0.0]
    standing = StreamStatus(step=None)
    overdue = Overdue(config_of(tmp_path), standing, 0, lambda: now[0], lambda: seconds[0])
    seconds[0] = 1e6
    assert not overdue.is_stuck()  # nothing is due
    now[0] = DUE_SECONDS
    assert not overdue.is_stuck()
    now[0] = 0.0  # somebody sets the clock back
    seconds[0] += AFTER_SECONDS
    assert not overdue.is_stuck()
    seconds[0] += 1
    assert overdue.is_stuck()
    standing.step = 1  # which is not due yet
    assert not overdue.is_stuck()
    now[0] = 1e6  # somebody sets it forward: the step has all of its time from now on
    assert not overdue.is_stuck()
    seconds[0] += AFTER_SECONDS + 1
    assert overdue.is_stuck()
    standing.step = config_of(tmp_path).horizon
    assert not overdue.is_stuck()


def test_a_backlog_that_is_read_is_not_stuck_and_one_that_is_not_is(tmp_path: Path) -> None:
    """Each turn reads on by a second of the topic, or by nothing."""
    seconds = [0.0]
    standing = StreamStatus(step=0)
    overdue = Overdue(config_of(tmp_path), standing, 0, lambda: 1e6, lambda: seconds[0])
    for second in range(5):
        standing.complete_us = second * 1_000_000
        assert not overdue.is_stuck()
        seconds[0] += AFTER_SECONDS - 1
        assert not overdue.is_stuck()
    seconds[0] += 2
    assert overdue.is_stuck()


def test_three_starts_at_one_step_stay_down_until_somebody_mends_it(tmp_path: Path) -> None:
    note = StuckNote(config_of(tmp_path))
    errors = [note.add(4, "no broker answers") for _ in range(2)]
    errors += [note.add(5, "no broker answers") for _ in range(3)]
    assert [type(error) for error in errors] == [Stuck, Stuck, Stuck, Stuck, StaysStuck]
    assert [error.exit_code for error in errors[-2:]] == [10, 11]
    told = (note.folder / "operator.log").read_text()
    assert told.count("stuck at step 5 in 3 starts one after the other, and stays down") == 1
    assert len(told.splitlines()) == 5
    with pytest.raises(StaysStuck, match=r"delete .*stuck\.json, and .* waited: no broker answers"):
        note.check()
    note.path.unlink()
    note.check()
    note.path.write_text("{")  # the disk was full
    note.check()
    assert isinstance(note.add(5, ""), Stuck)


def test_a_call_that_never_returns_does_not_keep_the_process(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    words: list[TracecloakError] = []
    is_ended = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        is_ended.set()

    standing = StreamStatus(step=0, source_away="no broker answers")
    config = config_of(tmp_path).model_copy(update={"stuck_after": 1})
    monkeypatch.setattr(stuck, "check_stuck_after", lambda config: None)
    stop = threading.Event()
    with pytest.raises(Stuck):
        with stop_if_stuck(config, standing, stop, words.append, end):
            assert is_ended.wait(20)  # the hung call
    assert stop.is_set() and codes == [10]
    assert "It waited: no broker answers" in str(words[0])


def test_a_stream_that_is_stuck_goes_on_and_pays_nothing(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    happenings = [*in_time(random_messages(), 60), *ticking(60, 120)]
    config = config_of(tmp_path)
    stops: list[threading.Event] = []
    is_hung = threading.Event()
    hung_at = {6}

    class Hanging(Script):
        def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
            if self._place in hung_at:
                is_hung.set()
                assert stops[-1].wait(20)
                return MessageBatch()
            return super().pull(max_messages, timeout_seconds)

    def source_of(config: StreamConfig, is_new: bool) -> Any:
        return lambda positions, _: Hanging(happenings, positions)

    def watched(config: StreamConfig, standing: StreamStatus, stop: threading.Event) -> Any:
        stops.append(stop)
        is_hung.clear()
        return real_watched(config, standing, stop)

    def is_stuck(overdue: Overdue) -> bool:
        real_is_stuck(overdue)
        return is_hung.is_set()

    real_watched, real_is_stuck = local_run.watched, Overdue.is_stuck
    monkeypatch.setattr(local_run, "_source_of", source_of)
    monkeypatch.setattr(local_run, "watched", watched)
    monkeypatch.setattr(Overdue, "is_stuck", is_stuck)
    monkeypatch.setattr(stuck, "_GRACE_SECONDS", 60.0)
    for kind in (Stuck, Stuck, StaysStuck, StaysStuck):
        with pytest.raises(kind):
            local_run.run_local(config)
    StuckNote(config).path.unlink()
    hung_at.clear()
    monkeypatch.setattr(sources, "delete_subscription", lambda name: None)
    assert local_run.run_local(config).is_spent
    balance = open_ledger(config, open_store(config)).balance("default")
    assert (balance.spent_epsilon, balance.n_releases) == (1, 1)


def test_a_limit_below_the_reconnection_of_the_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"stuck_after is 10 minutes, and Pub/Sub .* more than 600s"
    ):
        check_stuck_after(config_of(tmp_path, stuck_after="10m"))
    properties = tmp_path / "kafka.properties"
    properties.write_text("socket.timeout.ms=90000\n")
    of_kafka = {"input_subscription": None, "input_topic": "kafka://b:9092/in"}
    check_stuck_after(config_of(tmp_path, **of_kafka, stuck_after="71s"))
    with pytest.raises(UsageError, match=r"more than 70s, or leave it out"):
        check_stuck_after(config_of(tmp_path, **of_kafka, stuck_after="70s"))
    with pytest.raises(UsageError, match="more than 100s"):
        given = {**of_kafka, "kafka_properties": str(properties), "stuck_after": "71s"}
        check_stuck_after(config_of(tmp_path, **given))
