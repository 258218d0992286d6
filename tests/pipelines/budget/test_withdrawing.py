"""A release is taken back or given up: what it spent stays, and the ledger says who and why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.releasing import Place, as_typed, key_files, ledger_entries, visible
from tests.support.stream_runs import run, stream_config
from tests.support.tiers import at_night
from tracecloak.pipelines.budget.registry import ReleaseRegistry
from tracecloak.pipelines.budget.unfinished import elsewhere
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource
from tracecloak.transforms.stream.step_sinks import epoch_workplace

SIGNED = {"by": "A. Officer", "reason": "its input is gone"}


class Ward(Place):
    """A place whose releases have names, and are ended by their names."""

    def made(self, name: str, *flags: object) -> int:
        return self.run("--release_id", name, *flags)

    def end(self, action: str, name: str) -> int:
        return self.officer(action, "--release_id", name)

    def drew(self, name: str, owner: type = ReleaseFolder, step: str = "commit") -> None:
        """Ends a run as a kill would: what it noted stays as it is."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReleaseRegistry, "void", lambda *_: False)
            self.cut_off("--release_id", name, owner=owner, step=step)

    def ledger(self, action: str) -> int:
        return as_typed("ledger", action, "--key_store", self.keys)

    @property
    def latest(self) -> str | None:
        path = self.out / "latest.json"
        return json.loads(path.read_text())["run_id"] if path.exists() else None

    @property
    def is_clean(self) -> bool:
        """Whether there is neither a key nor a workplace."""
        return not key_files(self.keys) and not list(self.folder.glob("_incomplete-*/*"))


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    return Ward(tmp_path)


# --- Taken back -----------------------------------------------------------------------------------


def test_a_withdrawn_release_is_gone_and_stays_spent(
    ward: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("r1", "r2", "r3"):
        assert ward.made(name) == 0
    assert ward.end("withdraw", "r3") == 0
    assert not list(ward.folder.rglob("run_id=r3")) and ward.is_clean
    assert not list((ward.keys / "operator").glob("r3-*"))
    assert ward.latest == "r2"
    for _ in range(2):
        assert ward.end("withdraw", "r1") == 0
        assert ward.latest == "r2"  # which points at another
    withdrawn = [e for e in ledger_entries(ward.keys) if e.action == "withdraw"]
    assert [e.release_id for e in withdrawn] == ["r3", "r1"]
    assert withdrawn[0].facts == SIGNED
    assert ward.ledger("show") == 0
    shown = capsys.readouterr().out
    assert "3 releases, 0 of them open" in shown and "A. Officer: its input is gone" in shown

    before = ward.actions
    assert ward.made("r1") == 2
    # Nor by a key store that never saw it.
    shared = ("--ledger", f"sqlite:///{ward.keys}/ledger.db")
    assert ward.made("r1", "--key_store", ward.folder / "keys2", *shared) == 2
    assert capsys.readouterr().err.count("was withdrawn") == 2
    assert ward.actions == before and ward.is_clean
    assert ward.end("withdraw", "r2") == 0
    assert ward.latest is None
    assert ward.end("withdraw", "r9") == 2
    assert "is not committed in" in capsys.readouterr().err
    assert ward.end("withdraw", "../out") == 2


STEPS = [(KeyStore, "commit"), (ReleaseFolder, "withdraw"), (ReleaseFolder, "_point_latest")]


@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[f"{o.__name__} {s}" for o, s in STEPS])
@pytest.mark.parametrize("when", ["before", at_night("after")])
def test_what_was_cut_off_is_finished_by_the_same_command(
    ward: Ward, owner: type, step: str, when: str
) -> None:
    for name in ("r1", "r2"):
        assert ward.made(name) == 0
    original = getattr(owner, step)

    def cut_off(self: Any, *arguments: Any) -> None:
        if when == "after":
            original(self, *arguments)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, cut_off)
        assert ward.end("withdraw", "r2") == 6
    assert ward.actions[-1] == "withdraw"
    assert ward.made("r2") == 2
    assert ward.end("withdraw", "r2") == 0
    assert ward.actions.count("withdraw") == 1
    assert not list(ward.out.rglob("run_id=r2")) and ward.latest == "r1"
    assert ward.made("r2") == 2


def test_a_key_that_is_played_back_goes_as_the_release_was_withdrawn(ward: Ward) -> None:
    ward.cut_off()
    shutil.copytree(ward.keys / "releases", ward.folder / "backup")
    assert ward.made("r") == ward.end("withdraw", "r") == 0
    shutil.copytree(ward.folder / "backup", ward.keys / "releases", dirs_exist_ok=True)
    assert len(key_files(ward.keys)) == 1
    assert ward.made("r") == 2
    assert key_files(ward.keys) == []


def test_an_epoch_of_a_stream_is_withdrawn_with_all_its_steps_and_not_begun_again(
    ward: Ward, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tracecloak.pipelines.stream.run._run", lambda *_: None)  # stopped early
    for epoch in ("1", "2"):
        run(stream_config(ward.folder, epoch=epoch), ())
    published = ward.out / "run_id=ward"
    workplace = epoch_workplace(str(ward.out), "ward", "1", None)
    private = KeyStore(ward.keys).operator_folder(str(ward.out), "ward@1")
    paths = [
        published / "epoch=1" / "product=dfg" / "view=window" / "step-000000.json",
        Path(workplace) / "step-000001.json.part",
        Path(private) / "decisions" / "step-000001.decision",
    ]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    assert (published / "epoch=1" / "manifest.json").exists()
    n_keys = len(key_files(ward.keys))
    assert n_keys == 3  # and that of identities, which all epochs share
    assert ward.end("withdraw", "ward") == 2
    assert "each epoch of a stream as NAME@EPOCH" in capsys.readouterr().err
    assert ward.end("withdraw", "ward@1") == 0
    assert [path.name for path in published.iterdir()] == ["epoch=2"]
    assert not any(path.exists() for path in paths)
    assert len(key_files(ward.keys)) == n_keys - 1
    last = ledger_entries(ward.keys)[-1]
    assert (last.action, last.release_id, last.facts) == ("withdraw", "ward@1", SIGNED)
    others = {
        "key_store": str(ward.folder / "keys2"), "ledger": f"sqlite:///{ward.keys}/ledger.db",
    }  # fmt: skip
    for changes in ({}, others):
        with pytest.raises(UsageError, match="withdrawn"):
            run(stream_config(ward.folder, epoch="1", **changes), ())
    assert [path.name for path in published.iterdir()] == ["epoch=2"]
    assert ward.end("withdraw", "ward@2") == 0
    assert not published.exists()


# --- Given up -------------------------------------------------------------------------------------


def test_what_waits_is_listed_with_what_to_do(
    ward: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed() -> str:
        capsys.readouterr()
        assert ward.ledger("list-unfinished") == 0
        return capsys.readouterr().out

    assert ward.made("r") == 0
    assert "Nothing waits" in listed()
    ward.drew("drawn")
    ward.drew("read", EventSource, "read")
    ward.drew("lost")
    sorted(key_files(ward.keys), key=lambda path: path.stat().st_mtime)[-1].unlink()
    drawn, read, lost = listed().split("\n\n")
    assert drawn.startswith(f"drawn  in {ward.out}\n  variant-histogram, epsilon 1, account ")
    assert "It drew noise" in drawn and "It drew nothing yet" in read
    assert "Its key is not in this key store" in lost
    assert ward.made("drawn") == ward.made("read") == ward.end("forfeit", "lost") == 0
    assert "Nothing waits" in listed()


def test_what_is_given_up_stays_spent_and_leaves_nothing_behind(ward: Ward) -> None:
    ward.drew("r")
    assert ward.end("forfeit", "r") == 0
    assert ward.actions == ["reserve", "draw", "forfeit"]
    assert ledger_entries(ward.keys)[-1].facts == SIGNED
    assert visible(ward.out) == [] and ward.is_clean
    assert ward.end("forfeit", "r") == 2
    assert ward.made("r") == 0  # another draw, another payment
    assert ward.actions == ["reserve", "draw", "forfeit", "reserve", "draw", "commit"]
    assert ward.end("forfeit", "r") == 2
    assert visible(ward.out) and ward.made("r") == 0


@pytest.mark.parametrize("step", ["clear", ".json", ".key"])
def test_what_is_cut_off_while_it_is_given_up_is_given_up_by_the_same_command(
    ward: Ward, step: str
) -> None:
    ward.drew("r")
    unlink = Path.unlink

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    def killed_at(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == step:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with pytest.MonkeyPatch.context() as patch:
        if step == "clear":
            patch.setattr(ReleaseFolder, "clear", killed)
        else:
            patch.setattr(Path, "unlink", killed_at)
        assert ward.end("forfeit", "r") == 6
    assert ward.actions[-1] == "forfeit" and len(key_files(ward.keys)) == 1
    assert ward.end("forfeit", "r") == 0
    assert ward.is_clean
    assert ward.end("forfeit", "r") == 2
    assert ward.actions.count("forfeit") == 1


def test_other_key_stores_of_what_is_ended_are_all_but_that_of_the_receipt(tmp_path: Path) -> None:
    names = {"1": "here", "2": "there", "3": "elsewhere"}
    built = {key: ReleaseFolder("/out", "r", store=name) for key, name in names.items()}
    receipt = SimpleNamespace(key_fingerprint="1")
    assert elsewhere(built, ["1", "2"], receipt) == ("there",)  # type: ignore[arg-type]
    assert elsewhere(built, ["1", "2"], None) == ("here", "there")
