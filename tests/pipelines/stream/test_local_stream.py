"""A stream on one machine: what it keeps, when it publishes, and what it refuses."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_streams import NAME, Script, run_script, state_files
from tests.support.releasing import fix_key
from tests.support.stream_runs import (
    Happening,
    Sent,
    accepted,
    batch_pairs,
    counts_of,
    in_time,
    no_noise,
    published,
    random_messages,
    run,
    script,
    steps_of,
    stream_config,
    taken_back,
    ticking,
)
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.budget.opening import open_ledger, open_store
from tracecloak.pipelines.stream import local_run, stuck
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import paid_epoch
from tracecloak.pipelines.stream.local_run import stop_on_signal
from tracecloak.pipelines.stream.plan import StreamPlan, resolve
from tracecloak.pipelines.stream.run import run_stream
from tracecloak.pipelines.stream.stuck import Overdue, StuckNote, check_stuck_after, stop_if_stuck
from tracecloak.schemas.errors import StaysStuck, Stuck, TracecloakError, UsageError
from tracecloak.schemas.published.step import StepRelease
from tracecloak.transforms.stream.local_stream import LocalState
from tracecloak.transforms.stream.sources import MessageBatch
from tracecloak.transforms.stream.stream_status import StreamStatus


def state_of(tmp_path: Path) -> Path:
    (path,) = (p for p in state_files(tmp_path / "keys") if p.suffix == ".sqlite")
    return path


# --- What it keeps ----------------------------------------------------------------------------


def test_positions_are_kept_where_no_message_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a topic of marks that is read again from where its service has deleted them."""
    begun: list[Mapping[str, Any]] = []
    make = Script.__init__

    def noted(made: Script, happenings: Any, positions: Any, *more: Any) -> None:
        begun.append(positions)
        make(made, happenings, positions, *more)

    monkeypatch.setattr(Script, "__init__", noted)
    for until in (3, 4):
        run_script(stream_config(tmp_path), [1.0, 2.0, 3.0, 4.0], until=until)
    assert begun == [{}, {"place": 3}]


def test_the_state_is_synchronous_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    modes: list[Any] = []
    original = LocalState.write

    def write(self: LocalState, *arguments: Any) -> None:
        for pragma in ("synchronous", "journal_mode"):
            modes.extend(self._database.execute(f"PRAGMA {pragma}").fetchone())
        original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalState, "write", write)
        run_script(config, script(), until=2)
    assert set(modes) == {2, b"wal"}  # 2: FULL
    path = state_of(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_no_text_of_a_message_is_in_the_state(tmp_path: Path) -> None:
    sent = [Sent(1, "secret-case", "secret-name", "secret-id", individual="secret-person")]
    config = stream_config(tmp_path, individual_id="person")
    run_script(config, [sent, 5.0], until=2)
    (path,) = state_files(tmp_path / "keys")
    assert b"secret" not in path.read_bytes()
    assert b"case-events" in path.read_bytes()


CHANGED = "UPDATE record SET value = substr(value, 1, length(value) - 1) || x'07'"


def damages(path: Path) -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Statements by which each record is changed or gone, or in the place of another one."""
    with contextlib.closing(sqlite3.connect(path)) as rows:
        records = rows.execute("SELECT kind, number FROM record").fetchall()
    assert {kind for kind, _ in records} >= {"head", "opened", "counted", "waiting"}
    for at in records:
        for change in (CHANGED, "DELETE FROM record"):
            yield [(f"{change} WHERE kind = ? AND number = ?", at)]
    pairs = [
        (first, second)
        for first, second in itertools.combinations(records, 2)
        if first[0] == second[0] or first[1] == second[1]
    ]
    assert any(first[0] == second[0] for first, second in pairs)
    move = "UPDATE record SET kind = ?, number = ? WHERE kind = ? AND number = ?"
    aside = ("aside", 0)
    for first, second in pairs[:: len(pairs) // 12]:
        places = ((first, aside), (second, first), (aside, second))
        yield [(move, (*new, *old)) for old, new in places]


def test_a_state_that_is_damaged_is_refused(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        fix_key(patch)
        config = stream_config(tmp_path, view="total")
        later: list[Happening] = [[Sent(41, f"later{i}", "A", f"later{i}")] for i in range(3)]
        happenings = [*script()[:8], *later, *script()[8:]]
        run_script(config, happenings, until=11)
        path, before = state_of(tmp_path), steps_of(config)
        whole = path.read_bytes()
        with paid_epoch(resolve(config)) as epoch:
            state = LocalState(path, epoch.keys[0].resolve(), epoch.plan.product.released)
        for statements in damages(path):
            path.write_bytes(whole)
            with contextlib.closing(sqlite3.connect(path)) as rows, rows:
                assert all(rows.execute(*one).rowcount == 1 for one in statements)
            with pytest.raises(TracecloakError, match=r"not what tracecloak wrote.*another epoch"):
                with state.opened(NAME):
                    pass
        for wrong in (b"", whole[: len(whole) // 2], b"no database" * 1000):
            path.write_bytes(wrong)
            with pytest.raises(TracecloakError, match=r"not what tracecloak wrote|cannot be read"):
                run_script(config, happenings)
        assert steps_of(config) == before
        path.write_bytes(whole)
        assert run_script(config, happenings).is_spent


def test_a_copy_without_the_index_of_its_log_is_told(tmp_path: Path) -> None:
    """The copy of a state whose process was killed; a start would make the index anew."""
    path = tmp_path / "state.sqlite"
    Path(f"{path}-wal").touch()
    state = LocalState(path, ReleaseKey(bytes(32)), StepRelease)
    with pytest.raises(TracecloakError, match=r"without state\.sqlite-shm.*copy it again"):
        with state.opened("", is_read_only=True):
            pass


def test_a_state_of_another_version_or_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stream_config(tmp_path)
    run_script(config, script(), until=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracecloak.transforms.stream.local_stream._VERSION", 3)
        with pytest.raises(TracecloakError, match="is of version 2, and this is version 3"):
            run_script(config, script())
    monkeypatch.setattr("tests.support.local_streams.NAME", "another script")
    with pytest.raises(TracecloakError, match="has read script so far"):
        run_script(config, script())


def test_an_epoch_belongs_to_the_runner_that_began_it(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    run_script(config, script(), until=4)
    with pytest.raises(UsageError, match="which runner Local goes on with"):
        run(config, script())
    other = stream_config(tmp_path, epoch="2", horizon=9)
    with pytest.MonkeyPatch.context() as patch:  # it dies before a file of its first step is there
        patch.setattr(
            "tracecloak.transforms.stream.step_sinks.write_whole",
            lambda path, *_: (_ for _ in ()).throw(OSError("cut off")) if "step-" in path else None,
        )
        with pytest.raises(TracecloakError, match="stays published"):
            run(other, script())
    with pytest.raises(TracecloakError, match=r"state\.sqlite.*is not there"):
        run_script(other, script())


# --- When it publishes ------------------------------------------------------------------------


def test_no_step_is_published_before_its_release_by_the_clock(tmp_path: Path) -> None:
    """Whatever the stamps of messages say."""
    config = stream_config(tmp_path, release_delay="4s")
    stamped_ahead = [[s._replace(publish=s.publish) for s in random_messages(10, 30)], 500.0]
    now = [23.9]
    place = len(stamped_ahead)
    run_script(config, stamped_ahead, until=place, clock=lambda: now[0])
    assert [release.step for release in published(config)] == [0]
    now[0] = 24.0
    run_script(config, [*stamped_ahead, 500.0], until=place + 1, clock=lambda: now[0])
    assert [release.step for release in published(config)] == [0, 1]


def test_steps_wait_for_a_backlog_and_say_so_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sent = random_messages()
    config = stream_config(tmp_path)
    batches: list[Happening] = [[s] for s in sent]  # the watermark stays where it was
    with caplog.at_level(logging.WARNING, logger="tracecloak"), no_noise():
        run_script(config, batches, until=len(batches), clock=lambda: 1e6)
        assert published(config) == []
        behind = [(r.name, r.message) for r in caplog.records if "step 0" in r.message]
        assert behind == [
            (
                "tracecloak",
                "step 0 should have been published 999980 s ago and waits for its messages",
            ),
            (
                "tracecloak.operator",  # how far messages were read would be a number of the data
                "step 0 waits: it is not known yet whether all messages are there",
            ),
        ]
        run_script(config, batches)
    expected = {step: batch_pairs(own) for step, own in accepted(sent).items() if step < 6}
    found = {release.step: counts_of(release) for release in published(config)}
    assert {step: pairs for step, pairs in found.items() if pairs} == expected


# --- How it ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_a_second_one_at_once(number: signal.Signals) -> None:
    # A shell that runs the tests in the background has them ignore interrupts.
    before = signal.signal(number, signal.default_int_handler)
    try:
        with stop_on_signal() as stop:
            assert not stop.is_set()
            os.kill(os.getpid(), number)
            assert stop.wait(10)
            # A second one ends it at once.
            assert signal.getsignal(number) == signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_an_epoch_has_one_subscription_of_its_topic_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    deleted: list[str] = []
    fails = [True]

    class Subscription(Script):
        def __init__(self, name: str, clock: object, topic: str | None = None, **_: Any) -> None:
            assert topic == "projects/p/topics/events"
            opened.append(name)
            super().__init__(script(), {})

        def pull(self, max_messages: int, timeout_seconds: float) -> MessageBatch:
            if fails:
                raise TracecloakError("cut off")
            return super().pull(max_messages, timeout_seconds)

    monkeypatch.setattr(local_run, "PubSubSource", Subscription)
    monkeypatch.setattr(local_run, "PubSubClock", lambda *_: None)
    monkeypatch.setattr(local_run, "delete_subscription", deleted.append)
    changes = {"input_subscription": None, "input_topic": "projects/p/topics/events"}
    config, other = (stream_config(tmp_path, epoch=epoch, **changes) for epoch in "12")
    with pytest.raises(TracecloakError, match="cut off"):
        run_stream(config)
    assert deleted == []
    fails.clear()
    assert run_stream(config).is_spent
    (own,) = set(opened)
    assert own.startswith("projects/p/subscriptions/") and deleted[0] == own
    opened.clear()
    assert run_stream(other).is_spent
    # Each has another by which it asks for the time.
    assert own not in opened and [deleted[2]] == list(set(opened))
    assert len(set(deleted)) == len(deleted) == 4


def test_an_epoch_that_is_withdrawn_leaves_no_state(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    run_script(config, script(), until=4)
    assert state_files(tmp_path / "keys")
    taken_back(config, tmp_path / "keys")
    assert state_files(tmp_path / "keys") == []
    with pytest.raises(TracecloakError, match=r"withdrawn|taken back"):
        run_script(config, script())


AFTER_SECONDS = 660.0
DUE_SECONDS = 20.0


def config_of(folder: Path, **changes: Any) -> StreamConfig:
    return stream_config(folder, **{"stuck_after": f"{AFTER_SECONDS:.0f}s", **changes})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_TICK_SECONDS", "_GRACE_SECONDS"):
        monkeypatch.setattr(stuck, name, 0.02)


@pytest.mark.parametrize(
    "turns",
    [
        [  # seconds since 1970, seconds that passed, what the loop says
            (0.0, 1e6, {}, False),  # nothing is due
            (DUE_SECONDS, 0, {}, False),
            (0.0, AFTER_SECONDS, {}, False),  # somebody sets the clock back
            (0.0, 1, {}, True),
            (0.0, 0, {"step": 1}, False),  # which is not due yet
            (1e6, 0, {}, False),  # set forward: the step has all of its time from now on
            (1e6, AFTER_SECONDS + 1, {}, True),
            (1e6, 0, {"step": 6}, False),  # the horizon
        ],
        [  # each turn reads on by a second of the topic, and then by nothing
            *((1e6, AFTER_SECONDS - 1, {"step": 0, "complete_us": n}, False) for n in range(5)),
            (1e6, AFTER_SECONDS - 1, {}, False),
            (1e6, 2, {}, True),
        ],
    ],
    ids=["by the clock that goes forward", "while a backlog is read"],
)
def test_a_step_is_overdue(
    tmp_path: Path, turns: Sequence[tuple[float, float, dict[str, int], bool]]
) -> None:
    now, seconds, standing = [0.0], [0.0], StreamStatus()
    overdue = Overdue(resolve(config_of(tmp_path)), standing, 0, lambda: now[0], lambda: seconds[0])
    for now[0], passed, said, is_stuck in turns:
        seconds[0] += passed
        for name, value in said.items():
            setattr(standing, name, value)
        assert overdue.is_stuck() == is_stuck


def test_three_starts_at_one_step_stay_down_until_somebody_mends_it(tmp_path: Path) -> None:
    note = StuckNote(resolve(config_of(tmp_path)))
    errors = [note.add(4, "no broker answers") for _ in range(2)]
    errors += [note.add(5, "no broker answers") for _ in range(3)]
    assert [type(error) for error in errors] == [Stuck, Stuck, Stuck, Stuck, StaysStuck]
    assert [error.exit_code for error in errors[-2:]] == [10, 11]
    told = (note.folder / "operator.log").read_text()
    assert told.count("stuck at step 5 in 3 starts, and stays down") == 1
    assert len(told.splitlines()) == 5
    with pytest.raises(StaysStuck, match=r"delete .*stuck\.json, and .* waited: no"):
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
        with stop_if_stuck(resolve(config), standing, stop, words.append, end):
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

    def source_of(plan: StreamPlan, is_new: bool) -> Any:
        return lambda positions, _: Hanging(happenings, positions)

    def watched(plan: StreamPlan, standing: StreamStatus, stop: threading.Event) -> Any:
        stops.append(stop)
        is_hung.clear()
        return real_watched(plan, standing, stop)

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
            local_run.run_local(resolve(config))
    StuckNote(resolve(config)).path.unlink()
    hung_at.clear()
    monkeypatch.setattr(local_run, "delete_subscription", lambda name: None)
    assert local_run.run_local(resolve(config)).is_spent
    balance = open_ledger(config, open_store(config)).balance("default")
    assert (balance.spent_epsilon, balance.n_releases) == (1, 1)


def test_a_limit_below_the_reconnection_of_the_broker_is_refused(tmp_path: Path) -> None:
    properties = tmp_path / "kafka.properties"
    properties.write_text("socket.timeout.ms=90000\n")
    of_kafka = {"input_subscription": None, "input_topic": "kafka://b:9092/in"}
    slow = {**of_kafka, "kafka_properties": str(properties)}
    check_stuck_after(resolve(config_of(tmp_path, **of_kafka, stuck_after="71s")))
    for given, after, said in (
        ({}, "10m", r"stuck_after is 10 minutes, and Pub/Sub .* more than 600s"),
        (of_kafka, "70s", "more than 70s, or leave it out"),
        (slow, "71s", "more than 100s"),
    ):
        with pytest.raises(UsageError, match=said):
            check_stuck_after(resolve(config_of(tmp_path, **given, stuck_after=after)))
