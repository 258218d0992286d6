"""A release is taken back: its files go, what it spent stays, and the ledger says who and why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import (
    as_typed,
    key_files,
    ledger_entries,
    small_release,
    tracecloak,
    visible,
)
from tests.support.stream_runs import run, stream_config
from tests.support.tiers import at_night
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource
from tracecloak.transforms.stream.step_sinks import epoch_workplace


@pytest.fixture
def common(tmp_path: Path) -> list[object]:
    return small_release(tmp_path)


@pytest.fixture
def command(tmp_path: Path) -> list[object]:
    return [
        "ledger", "withdraw", "--output", f"{tmp_path}/x/../out", "--key_store", tmp_path / "keys",
        "--by", "A. Officer", "--reason", "a name was in it", "--release_id",
    ]  # fmt: skip


def actions(tmp_path: Path) -> list[str]:
    return [entry.action for entry in ledger_entries(tmp_path / "keys")]


def latest(tmp_path: Path) -> str | None:
    path = tmp_path / "out" / "latest.json"
    return json.loads(path.read_text())["run_id"] if path.exists() else None


def test_a_withdrawn_release_is_gone_and_stays_spent(
    common: list[object], command: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("r1", "r2", "r3"):
        assert tracecloak(*common, "--release_id", name) == 0
    assert as_typed(*command, "r3") == 0
    assert "What it spent stays spent" in capsys.readouterr().out
    assert not list(tmp_path.rglob("run_id=r3"))
    assert not (tmp_path / "_incomplete-out").exists()
    assert not list((tmp_path / "keys" / "operator").glob("r3-*"))
    assert latest(tmp_path) == "r2"
    assert as_typed(*command, "r1") == 0
    assert latest(tmp_path) == "r2"  # which points at another
    assert as_typed(*command, "r1") == 0
    withdrawn = [e for e in ledger_entries(tmp_path / "keys") if e.action == "withdraw"]
    assert [e.release_id for e in withdrawn] == ["r3", "r1"]
    assert withdrawn[0].facts == {"by": "A. Officer", "reason": "a name was in it"}
    assert as_typed("ledger", "show", "--key_store", tmp_path / "keys") == 0
    shown = capsys.readouterr().out
    assert "3 releases, 0 of them open" in shown and "A. Officer: a name was in it" in shown

    before = actions(tmp_path)
    assert tracecloak(*common, "--release_id", "r1") == 2
    assert "was withdrawn; choose another" in capsys.readouterr().err
    # Nor by a key store that never saw it.
    other = [*common, "--key_store", tmp_path / "keys2", "--release_id", "r1"]
    assert tracecloak(*other, "--ledger", f"sqlite:///{tmp_path}/keys/ledger.db") == 2
    assert "was withdrawn" in capsys.readouterr().err
    assert actions(tmp_path) == before
    assert not list(tmp_path.glob("_incomplete-*/*"))  # and no workplace is left of either
    assert as_typed(*command, "r2") == 0
    assert latest(tmp_path) is None
    assert not (tmp_path / "out" / "latest.json").exists()


def test_what_is_not_committed_cannot_be_withdrawn(
    command: list[object], common: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tracecloak(*common, "--release_id", "r1") == 0
    assert as_typed(*command, "r9") == 2
    assert "is not committed in" in capsys.readouterr().err
    assert as_typed(*command, "../out") == 2
    assert (tmp_path / "out" / "run_id=r1").exists()


STEPS = [(KeyStore, "commit"), (ReleaseFolder, "withdraw"), (ReleaseFolder, "_point_latest")]


@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[f"{o.__name__} {s}" for o, s in STEPS])
@pytest.mark.parametrize("when", ["before", at_night("after")])
def test_what_was_cut_off_is_finished_by_the_same_command(
    common: list[object],
    command: list[object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    owner: type,
    step: str,
    when: str,
) -> None:
    """Catches files that stay and are taken for a release, or go and nobody says why."""
    for name in ("r1", "r2"):
        assert tracecloak(*common, "--release_id", name) == 0
    original = getattr(owner, step)

    def cut_off(self: Any, *arguments: Any) -> None:
        if when == "after":
            original(self, *arguments)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, cut_off)
        assert as_typed(*command, "r2") == 6
    assert actions(tmp_path)[-1] == "withdraw"
    assert tracecloak(*common, "--release_id", "r2") == 2
    assert as_typed(*command, "r2") == 0
    assert actions(tmp_path).count("withdraw") == 1
    assert not list((tmp_path / "out").rglob("run_id=r2"))
    assert latest(tmp_path) == "r1"
    assert tracecloak(*common, "--release_id", "r2") == 2
    assert "was withdrawn" in capsys.readouterr().err


def test_a_key_that_is_played_back_goes_as_the_release_was_withdrawn(
    common: list[object], command: list[object], tmp_path: Path
) -> None:
    """Catches a key of a withdrawn release, of which nobody will ever ask again."""
    keys = tmp_path / "keys"
    with pytest.MonkeyPatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(ReleaseFolder, "commit", killed)
        assert tracecloak(*common, "--release_id", "r1") == 6
    shutil.copytree(keys / "releases", tmp_path / "backup")
    assert tracecloak(*common, "--release_id", "r1") == 0
    assert as_typed(*command, "r1") == 0
    shutil.copytree(tmp_path / "backup", keys / "releases", dirs_exist_ok=True)
    assert len(key_files(keys)) == 1
    assert tracecloak(*common, "--release_id", "r1") == 2
    assert key_files(keys) == []


def test_an_epoch_of_a_stream_is_withdrawn_with_all_its_steps_and_not_begun_again(
    command: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Catches steps that stay, a key with which more are drawn, and another epoch that goes too."""
    monkeypatch.setattr("tracecloak.pipelines.stream.run._run", lambda *_: None)  # stopped early
    for epoch in ("1", "2"):
        run(stream_config(tmp_path, epoch=epoch), ())
    published = tmp_path / "out" / "run_id=ward"
    step = published / "epoch=1" / "product=dfg" / "view=window" / "step-000000.json"
    step.parent.mkdir(parents=True)
    step.write_text("{}")
    workplace = epoch_workplace(str(tmp_path / "out"), "ward", "1", None)
    built = Path(workplace) / "step-000001.json.part"
    private = KeyStore(tmp_path / "keys").operator_folder(str(tmp_path / "out"), "ward@1")
    kept = Path(private) / "decisions" / "step-000001.decision"
    for path in (built, kept):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    assert (published / "epoch=1" / "manifest.json").exists()
    n_keys = len(key_files(tmp_path / "keys"))
    assert n_keys == 3  # and that of identities, which all epochs share
    assert as_typed(*command, "ward") == 2
    assert "each epoch of a stream as NAME@EPOCH" in capsys.readouterr().err
    assert as_typed(*command, "ward@1") == 0
    assert "withdrawn" in capsys.readouterr().out
    assert [path.name for path in published.iterdir()] == ["epoch=2"]
    assert not built.exists() and not kept.exists()
    assert len(key_files(tmp_path / "keys")) == n_keys - 1
    last = ledger_entries(tmp_path / "keys")[-1]
    assert (last.action, last.release_id) == ("withdraw", "ward@1")
    assert last.facts["by"] == "A. Officer"
    others = {
        "key_store": str(tmp_path / "keys2"),
        "ledger": f"sqlite:///{tmp_path}/keys/ledger.db",
    }
    for changes in ({}, others):
        with pytest.raises(UsageError, match="withdrawn"):
            run(stream_config(tmp_path, epoch="1", **changes), ())
    assert [path.name for path in published.iterdir()] == ["epoch=2"]
    assert as_typed(*command, "ward@2") == 0
    assert not published.exists()


SIGNED = ("--by", "the officer", "--reason", "its input is gone")


def release(tmp_path: Path, name: str = "r") -> int:
    return tracecloak(*small_release(tmp_path, "--epsilon", 8, "--release_id", name))


def cut_off(tmp_path: Path, name: str, owner: type = ReleaseFolder, step: str = "commit") -> None:
    """Ends a run as a kill would: what it noted stays as it is."""

    def fail(*_: object) -> None:
        raise ValueError("cut off")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, fail)
        patch.setattr("tracecloak.pipelines.budget.registry.ReleaseRegistry.void", lambda *_: False)
        assert release(tmp_path, name) == 6


def ledger(tmp_path: Path, action: str, *flags: object) -> int:
    return tracecloak("ledger", action, "--key_store", tmp_path / "keys", *flags)


def forfeit(tmp_path: Path, name: str) -> int:
    return ledger(tmp_path, "forfeit", "--output", tmp_path / "out", "--release_id", name, *SIGNED)


def test_what_waits_is_listed_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release(tmp_path) == 0
    assert ledger(tmp_path, "list-unfinished") == 0
    assert "Nothing waits" in capsys.readouterr().out
    cut_off(tmp_path, "drawn")
    cut_off(tmp_path, "read", EventSource, "read")
    cut_off(tmp_path, "lost")
    keys = sorted(key_files(tmp_path / "keys"), key=lambda path: path.stat().st_mtime)
    keys[-1].unlink()
    capsys.readouterr()
    assert ledger(tmp_path, "list-unfinished") == 0
    drawn, read, lost = capsys.readouterr().out.split("\n\n")
    assert drawn.startswith(f"drawn  in {tmp_path}/out\n  variant-histogram, epsilon 8, account ")
    assert "finishes it with the same noise and pays nothing" in drawn
    assert "It drew nothing yet" in read
    assert "Its key is not in this key store" in lost
    assert release(tmp_path, "drawn") == release(tmp_path, "read") == 0
    assert forfeit(tmp_path, "lost") == 0
    assert ledger(tmp_path, "list-unfinished") == 0
    assert "Nothing waits" in capsys.readouterr().out


def test_what_is_given_up_stays_spent_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Catches a way to draw again for nothing, and noisy values that lie about."""
    cut_off(tmp_path, "r")
    assert forfeit(tmp_path, "r") == 0
    assert "stays spent. Its key was in this key store, and is des" in capsys.readouterr().out
    entries = ledger_entries(tmp_path / "keys")
    assert [entry.action for entry in entries] == ["reserve", "draw", "forfeit"]
    assert "its input is gone" in entries[-1].details
    assert key_files(tmp_path / "keys") == visible(tmp_path / "out") == []
    assert not (tmp_path / "_incomplete-out").exists()
    assert forfeit(tmp_path, "r") == 2
    assert "no open reservation" in capsys.readouterr().err
    assert release(tmp_path) == 0  # another draw, another payment
    assert ledger(tmp_path, "show") == 0
    assert "16" in capsys.readouterr().out


@pytest.mark.parametrize("step", ["clear", "receipt", "key"])
def test_what_is_cut_off_while_it_is_given_up_is_given_up_by_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Catches a key, and noisy values, of a release of which the ledger says that it is over."""
    cut_off(tmp_path, "r")
    with monkeypatch.context() as patch:
        unlink = Path.unlink

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        def killed_at(path: Path, missing_ok: bool = False) -> None:
            if path.suffix == (".json" if step == "receipt" else ".key"):
                raise KeyboardInterrupt
            unlink(path, missing_ok)

        if step == "clear":
            patch.setattr(ReleaseFolder, "clear", killed)
        else:
            patch.setattr(Path, "unlink", killed_at)
        assert forfeit(tmp_path, "r") == 6
    assert [entry.action for entry in ledger_entries(tmp_path / "keys")][-1] == "forfeit"
    assert len(key_files(tmp_path / "keys")) == 1
    assert forfeit(tmp_path, "r") == 0
    assert key_files(tmp_path / "keys") == []
    assert not (tmp_path / "_incomplete-out").exists()
    assert forfeit(tmp_path, "r") == 2
    assert [entry.action for entry in ledger_entries(tmp_path / "keys")].count("forfeit") == 1


def test_what_is_finished_cannot_be_given_up(tmp_path: Path) -> None:
    assert release(tmp_path) == 0
    assert forfeit(tmp_path, "r") == 2
    assert visible(tmp_path / "out")
