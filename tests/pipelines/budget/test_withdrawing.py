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
)
from tests.support.stream_runs import run, stream_config
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.stream.step_files import epoch_workplace


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
    common: list[object],
    command: list[object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
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
    assert "was withdrawn, and is not released again" in capsys.readouterr().err
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
@pytest.mark.parametrize("when", ["before", "after"])
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
