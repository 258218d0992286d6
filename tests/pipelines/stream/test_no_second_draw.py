"""What was decided is never drawn again, whatever is lost, and one key store pays for an epoch."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.pipelines.stream.test_run import NeverRead, cut_off
from tests.support.ledgers import begun_anew
from tests.support.local_streams import Topic, run_script, state_files
from tests.support.releasing import counting_charges, fix_key, key_files, ledger_entries
from tests.support.stream_runs import (
    files_of,
    in_time,
    made,
    published,
    random_messages,
    run,
    script,
    steps_of,
    stream_config,
)
from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.anonymizers.streams.dfg_steps import DfgSteps
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.database import LedgerUnavailable, MadeByAnother
from tracecloak.pipelines.ledger.ledger import Ledger as StreamLedger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.pipelines.stream import epoch as epochs
from tracecloak.pipelines.stream import run as running
from tracecloak.pipelines.stream import stuck
from tracecloak.pipelines.stream.config import StreamConfig
from tracecloak.pipelines.stream.epoch import Epoch, NotedSteps, paid_epoch
from tracecloak.pipelines.stream.plan import resolve
from tracecloak.pipelines.stream.run import noting, run_stream
from tracecloak.schemas.errors import BudgetExhausted, GuaranteeError, RetryLater, TracecloakError
from tracecloak.transforms.stream import local_stream
from tracecloak.transforms.stream.step_sinks import FileSink
from tracecloak.transforms.stream.stream_status import StreamStatus

EPOCH = "ward@1"


def steps_noted(keys: Path) -> list[int]:
    """The steps that the ledger of a key store notes, in their order."""
    return [entry.decided[0] for entry in ledger_entries(keys) if entry.decided is not None]


class Cut(NamedTuple):
    """A stream that was stopped: its last step, what loses what is kept of it, and what goes on."""

    config: StreamConfig
    last: int
    lose: Mapping[str, Callable[[], object]]
    go_on: Callable[[], object]


def cut_here(config: StreamConfig, keys: Path) -> Cut:
    """Its state may be gone, or be an older one."""
    run_script(config, script(), until=6)
    (path,) = state_files(keys)
    old = path.read_bytes()
    run_script(config, script(), until=9)
    lose = {"all": path.unlink, "last": lambda: path.write_bytes(old)}
    return Cut(config, steps_noted(keys)[-1], lose, lambda: run_script(config, script()))


def cut_on_beam(config: StreamConfig, keys: Path) -> Cut:
    """The decisions of its steps may be gone, or the last one."""
    cut_off(config, in_time(random_messages(), 120))
    decisions = sorted((keys / "operator").rglob("*.decision"))
    lose = {"all": lambda: [path.unlink() for path in decisions], "last": decisions[-1].unlink}
    source = NeverRead()
    return Cut(config, steps_noted(keys)[-1], lose, lambda: run_stream(config, messages=source))


@pytest.fixture(params=[cut_here, cut_on_beam], ids=["here", "on Beam"])
def cut(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cut:
    fix_key(monkeypatch)
    made_cut: Cut = request.param(stream_config(tmp_path), tmp_path / "keys")
    assert steps_noted(tmp_path / "keys") == [r.step for r in published(made_cut.config)]
    assert made_cut.last > 0
    return made_cut


def move_away(config: StreamConfig) -> None:
    """A consumer takes what is published."""
    shutil.move(config.output, f"{config.output}-taken")


def refused(cut: Cut, patch: pytest.MonkeyPatch, said: str) -> None:
    """Nothing is computed or published, and the reason is said."""

    def never(*_: Any) -> Any:
        raise AssertionError("drawn again")

    patch.setattr(DfgSteps, "publish", never)
    with pytest.raises(TracecloakError, match=said) as failure:
        cut.go_on()
    assert failure.value.exit_code == 6
    assert steps_of(cut.config) == {}


@pytest.mark.parametrize("lost", ["all", "last"])
@pytest.mark.parametrize("known_by", ["both", "receipt", "ledger"])
def test_steps_that_were_moved_away_are_not_drawn_again(
    cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, known_by: str
) -> None:
    move_away(cut.config)
    cut.lose[lost]()
    keys = tmp_path / "keys"
    if known_by == "receipt":  # the ledger and what is remembered of it are from before the stream
        begun_anew(keys)
    elif known_by == "ledger":
        store = KeyStore(keys)
        assert store.last_step(cut.config.output, EPOCH) == cut.last
        store._path(cut.config.output, EPOCH, ".step").unlink()
    refused(cut, monkeypatch, rf"step {cut.last} of this epoch was decided, .*another epoch")
    assert len(counting_charges(keys)) == 1


def test_steps_are_not_drawn_again_where_the_key_is_gone_as_well(
    cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the ledger back to before the stream, too, only the receipt knows."""
    move_away(cut.config)
    cut.lose["all"]()
    keys = tmp_path / "keys"
    KeyStore(keys)._path(cut.config.output, EPOCH, ".key").unlink()
    begun_anew(keys)
    refused(cut, monkeypatch, "the key of the epoch is gone from the key store")
    assert counting_charges(keys) == []


def test_a_running_epoch_keeps_its_key_of_identities(
    cut: Cut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = cut.config
    KeyStore(tmp_path / "keys")._path(config.output, "ward@", ".key").unlink()
    before, n_keys = files_of(config), len(key_files(tmp_path / "keys"))
    for _ in range(2):
        with pytest.raises(TracecloakError, match="the key of identities of 'ward' is gone"):
            cut.go_on()
    assert files_of(config) == before and len(key_files(tmp_path / "keys")) == n_keys
    with monkeypatch.context() as patch:  # another epoch begins with another
        patch.setattr(ReleaseKey, "generate", classmethod(lambda cls: cls(b"o" * 32)))
        assert run_script(stream_config(tmp_path, epoch="2"), script()).is_spent


def test_a_ledger_that_is_away_is_waited_for_and_nothing_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_stream, "_AGAIN_SECONDS", 0.01)
    fix_key(monkeypatch)
    whole, config = (stream_config(tmp_path / n) for n in made(tmp_path, "whole", "away"))
    run_script(whole, script())
    note, failures = StreamLedger.note_step, [2, 2, 2, 4]

    def away(ledger: StreamLedger, keyed_release: Any, step: int, sha256: str) -> None:
        if step in failures:
            failures.remove(step)
            assert len(published(config)) == step
            raise LedgerUnavailable("the ledger does not answer")
        note(ledger, keyed_release, step, sha256)

    monkeypatch.setattr(StreamLedger, "note_step", away)
    assert run_script(config, script()).is_spent
    assert failures == []
    assert steps_of(config) == steps_of(whole)


def test_two_epochs_that_begin_at_once_make_one_key_of_identities(tmp_path: Path) -> None:
    config = stream_config(tmp_path)
    with KeyStore(tmp_path / "keys").alone(config.output, "ward@"):
        with pytest.raises(RetryLater):
            run_script(config, script())
    assert key_files(tmp_path / "keys") == ledger_entries(tmp_path / "keys") == []
    assert run_script(config, script()).is_spent


def test_an_epoch_whose_files_are_taken_as_they_come_ends(tmp_path: Path) -> None:
    config = stream_config(tmp_path)

    class Taking(Topic):
        def send(self, released: Any) -> None:
            super().send(released)
            for path in Path(config.output).rglob("step-*"):
                path.unlink()

    topic = Taking()
    assert run_script(config, script(), [topic]).is_spent
    assert [step for step, _ in topic.sent] == list(range(6))
    assert len(key_files(tmp_path / "keys")) == 1  # that of identities
    assert state_files(tmp_path / "keys") == []


def test_of_two_machines_with_one_key_the_first_decides_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key store was copied, and both went on at once."""
    ledger = {"ledger": f"sqlite:///{tmp_path / 'shared.sqlite'}"}
    here = stream_config(tmp_path, **ledger)
    run_script(here, script(), until=6)
    shutil.copytree(tmp_path / "keys", tmp_path / "copied")
    there = stream_config(tmp_path, key_store=str(tmp_path / "copied"), **ledger)
    others = [*script()[:6], *in_time(random_messages(60, 50), 60)[6:]]
    assert run_script(here, script()).is_spent
    expected = steps_of(here)
    move_away(here)
    with pytest.raises(TracecloakError, match="step 5 of this epoch was decided"):
        run_script(there, others)
    assert steps_of(there) == {}
    # It had looked before the first decided.
    monkeypatch.setattr("tracecloak.pipelines.stream.epoch.Epoch.last_decided", lambda *_: -1)
    with pytest.raises(GuaranteeError, match="was decided before"):
        run_script(there, others)
    assert steps_of(there).items() <= expected.items()


# --- On Beam's runners ------------------------------------------------------------------------


def test_workers_on_this_machine_note_steps_before_they_hand_them_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, keys = stream_config(tmp_path), tmp_path / "keys"
    send = FileSink.send

    def watched(sink: FileSink, released: Any) -> None:
        step = released.key[-1]
        assert step in steps_noted(keys)
        assert (KeyStore(keys).last_step(config.output, EPOCH) or 0) >= step
        send(sink, released)

    monkeypatch.setattr(FileSink, "send", watched)
    cut_off(config, in_time(random_messages(), 120))
    run(config, in_time(random_messages(), 120))
    assert steps_noted(keys) == [release.step for release in published(config)] == list(range(6))


def test_what_workers_elsewhere_decide_is_noted_while_they_are_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "_NOTE_SECONDS", 0.01)
    (place,) = made(tmp_path, "worker keys")
    config = stream_config(tmp_path, worker_keys=str(tmp_path / place))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NotedSteps, "send", lambda *_: None)
        cut_off(config, in_time(random_messages(), 120))
    assert steps_noted(tmp_path / "keys") == []
    with paid_epoch(resolve(config)) as epoch:
        last = epoch.steps.last()
        assert last is not None and last >= 2
        ended = threading.Event()
        calls: list[int | None] = []
        original = NotedSteps.last

        def watched(self: NotedSteps, *_: object) -> int:
            calls.append(original(self))
            if calls[-1] == last:
                ended.set()
            return calls[-1]

        monkeypatch.setattr(NotedSteps, "last", watched)
        with noting(epoch, threading.Event(), StreamStatus()):
            assert ended.wait(60)
    assert steps_noted(tmp_path / "keys") == list(range(last + 1))


@pytest.mark.parametrize("by", ["its command", "the noting", "a stop", "the next start"])
def test_an_epoch_that_is_over_leaves_no_key_to_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """Whoever finds its last step published ends it: with the keys noise could be subtracted."""
    (place,) = made(tmp_path, "worker keys")
    config = stream_config(tmp_path, worker_keys=str(tmp_path / place))
    with monkeypatch.context() as patch:
        if by != "its command":
            patch.setattr(Epoch, "end", lambda _: None)
        assert run(config, in_time(random_messages(), 120)).is_spent
    n_left = {"its command": 0}.get(by, 2)
    sent: list[Any] = []
    away = [] if by == "its command" else [RetryLater("the topic is away")] * 2

    def send(released: Any) -> None:
        assert len(list((tmp_path / place).iterdir())) == n_left
        if away:
            raise away.pop()
        sent.append(released)

    assert len(list((tmp_path / place).iterdir())) == n_left
    monkeypatch.setattr(epochs, "step_sinks", lambda _: [SimpleNamespace(send=send)])
    with monkeypatch.context() as patch:
        looks = itertools.chain([False], itertools.repeat(True))
        patch.setattr(Epoch, "is_spent", property(lambda _: next(looks)))
        if by == "the noting":
            patch.setattr(stuck, "_NOTE_SECONDS", 0.01)
            with (
                paid_epoch(resolve(config)) as epoch,
                noting(epoch, ended := threading.Event(), StreamStatus()),
            ):
                assert ended.wait(60)
                assert list((tmp_path / place).iterdir()) == []
        if by == "a stop":
            patch.setattr(running, "_run", lambda *_: True)
            with pytest.raises(RetryLater):
                run(config, [])
    for _ in range(len(away)):
        with pytest.raises(RetryLater):
            run_stream(config, messages=NeverRead())
    with pytest.raises(BudgetExhausted, match="its last step is published"):
        run_stream(config, messages=NeverRead())
    assert [step.key[-1] for step in sent] == ([] if by == "its command" else [5])
    assert list((tmp_path / place).iterdir()) == []
    assert len(key_files(tmp_path / "keys")) == 1  # that of identities, for other epochs


def test_the_key_of_identities_stays_for_workers_of_another_epoch(tmp_path: Path) -> None:
    (place,) = made(tmp_path, "worker keys")
    first, second = (
        stream_config(tmp_path, worker_keys=str(tmp_path / place), epoch=epoch) for epoch in "12"
    )
    cut_off(second, in_time(random_messages(), 120))
    kept = set((tmp_path / place).iterdir())
    assert len(kept) == 2
    assert run(first, in_time(random_messages(), 120)).is_spent
    assert set((tmp_path / place).iterdir()) == kept


def test_a_ledger_that_is_away_stops_no_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (place,) = made(tmp_path, "worker keys")
    config = stream_config(tmp_path, worker_keys=str(tmp_path / place))

    def away(*_: Any) -> None:
        raise LedgerUnavailable("the ledger does not answer")

    with paid_epoch(resolve(config)) as epoch, monkeypatch.context() as patch:
        patch.setattr(NotedSteps, "last", away)
        with noting(epoch, threading.Event(), StreamStatus()):
            pass
    assert "or not sent to all: the ledger does not answer" in caplog.text


# --- Two machines -----------------------------------------------------------------------------


@pytest.mark.parametrize("account", ["default", "another"])
def test_of_two_key_stores_one_pays_for_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    ledger = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    here = stream_config(tmp_path, ledger=ledger)
    run_script(here, script(), until=6)
    before, entries = files_of(here), Ledger(ledger).entries()
    fix_key(monkeypatch, b"o" * 32)
    keys = tmp_path / "their keys"
    there = stream_config(tmp_path, ledger=ledger, key_store=str(keys), account=account)
    for messages in (None, NeverRead()):
        with pytest.raises(MadeByAnother, match=r"'ward@1' .* nothing is paid here") as no:
            if messages is None:
                run_script(there, script())
            else:
                run_stream(there, messages=messages)
        assert no.value.exit_code == 75
    assert Ledger(ledger).entries() == entries
    assert files_of(here) == before
    assert key_files(keys) == []
    other = stream_config(tmp_path, ledger=ledger, key_store=str(keys), epoch="2")
    assert run_script(other, script()).is_spent
    assert run_script(here, script()).is_spent
    assert [e.release_id for e in Ledger(ledger).entries() if e.action == "commit"] == [
        "ward@1", "ward@2",
    ]  # fmt: skip
