"""What is written down of a run that failed, was interrupted, or was not alone."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.object_store import ObjectStore
from tests.support.releasing import (
    Commands,
    check_whole,
    counting_charges,
    digests,
    fix_key,
    key_files,
    ledger_entries,
    manifest,
    small_release,
    tracecloak,
    visible,
)
from tests.support.tiers import at_night
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.transforms.publish.release_folder import ReleaseFolder


@pytest.fixture
def common(tmp_path: Path) -> list[object]:
    flags = ("--epsilon", "8", "--delta", "1e-5", "--release_id", "r", "--parts", 2)
    return small_release(tmp_path, *flags)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def key_of(release: Path) -> str:
    return manifest(release)["randomness"]["key_fingerprint"]


def actions(keys: Path) -> list[str]:
    return [entry.action for entry in ledger_entries(keys)]


# --- Not alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", ["after key", "after charge", "after decide variants", "before commit", "after latest"]
)
def test_a_second_run_at_the_same_time_is_refused_and_leaves_one_release_and_one_spend(
    commands: Commands, common: list[object], out: Path, keys: Path, step: str
) -> None:
    first = commands.run(*common, at=f"stop {step}", secret=b"1" * 32)
    assert first.code is None
    before = actions(keys)
    second = commands.run(*common, secret=b"2" * 32)
    assert second.code == 75
    assert "another process is making release_id 'r'" in second.text
    assert "run this again when it has ended" in second.text
    assert actions(keys) == before
    assert commands.resume(first).code == 0
    assert "already released" in commands.run(*common, secret=b"2" * 32).text
    assert actions(keys) == ["reserve", "draw", "commit"]
    (charge,) = counting_charges(keys)
    assert charge.key_fingerprint == key_of(out / "run_id=r")


def test_another_spelling_of_the_output_is_the_same_release(
    commands: Commands, common: list[object], tmp_path: Path, keys: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out", target_is_directory=True)
    first = commands.run(*common, at="stop before commit")
    for spelled in (tmp_path / "link", f"{tmp_path}/x/../out/"):
        assert commands.run(*common, "--output", spelled).code == 75
    assert commands.resume(first).code == 0
    assert "already released" in commands.run(*common, "--output", tmp_path / "link").text
    assert actions(keys) == ["reserve", "draw", "commit"]


@pytest.mark.parametrize(
    ("step", "code"),
    [
        at_night("after key", 0), at_night("after charge", 75), ("after decide variants", 75),
        at_night("before commit", 75), at_night("after latest", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ends", ["resume", "kill"])
def test_of_two_key_stores_with_one_ledger_the_first_to_reserve_releases(
    commands: Commands, common: list[object], tmp_path: Path, out: Path, step: str, code: int,
    ends: str,
) -> None:  # fmt: skip
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    common += ["--ledger", url]
    others = [*common, "--key_store", tmp_path / "keys2"]
    first = commands.run(*common, at=f"stop {step}", secret=b"1" * 32)
    second = commands.run(*others, secret=b"2" * 32)
    assert second.code == code
    assert (code == 75) == ("which paid for it, so nothing is paid here" in second.text)
    n_paid = len({entry.charge for entry in Ledger(url).entries()})
    assert n_paid == 1 and not key_files(tmp_path / "keys2")
    if ends == "resume":
        # The second has released where nothing was reserved, which the first finds at its turn.
        assert commands.resume(first).code == (75 if code == 0 else 0)
    else:
        commands.kill(first)
        if code == 75:  # the first key store is lost with its machine
            officer = ["--by", "A", "--reason", "lost", "--ledger", url, "--output", out]
            gone = ["ledger", "forfeit", "--release_id", "r", "--key_store", tmp_path / "keys3"]
            assert commands.run(*gone, *officer).code == 0
            assert commands.run(*others, secret=b"2" * 32).code == 0
        released = digests(out / "run_id=r")
        assert commands.run(*common, secret=b"1" * 32).code == (0 if code == 2 else 2)
        assert digests(out / "run_id=r") == released
    check_whole(out / "run_id=r")
    drawn = [e for e in Ledger(url).entries() if e.action == "commit"]
    assert [e.key_fingerprint for e in drawn] == [key_of(out / "run_id=r")]


@pytest.mark.parametrize("output", ["objects://out", "out"])
def test_a_folder_of_another_key_is_not_replaced(
    common: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: str,
) -> None:
    monkeypatch.setattr(ObjectStore, "root", tmp_path / "objects")
    there = output if "://" in output else str(tmp_path / output)
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    common += ["--output", there, "--ledger", url]
    commit, released = ReleaseFolder.commit, []

    def at_the_same_time(self: ReleaseFolder, *given: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ReleaseFolder, "commit", commit)
            Ledger(url).forfeit(there, "r", given[0]["randomness"]["key_fingerprint"], "A", "lost")
            assert tracecloak(*common, "--key_store", tmp_path / "keys2") == 0
        released.append(self.committed())
        commit(self, *given)

    monkeypatch.setattr(ReleaseFolder, "commit", at_the_same_time)
    assert tracecloak(*common) == 75
    assert "a run with another key store released" in capsys.readouterr().err
    assert released == [ReleaseFolder(there, "r").committed()] and released[0]


# --- The key store --------------------------------------------------------------------------------


def test_a_key_that_belongs_to_no_receipt_is_replaced(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    old = store.reserve("out", "r", "in", "conf").resolve()
    store.commit("out", "r")
    assert store.unfinished("out", "r") is None
    # Cut off between the new key and its receipt: the old receipt lies beside another key.
    store._path("out", "r", ".key").write_text("ab" * 32)
    assert store.unfinished("out", "r") is None
    new = store.reserve("out", "r", "in", "conf").resolve()
    receipt = store.receipt("out", "r")
    assert receipt is not None
    assert receipt.key_fingerprint == new.fingerprint not in (old.fingerprint, "ab" * 32)
    assert store.key_state(receipt) == "there"


# --- Where files are moved one by one -------------------------------------------------------------


@pytest.mark.parametrize(
    ("fail_at", "shows_files"),
    [
        ("create objects://out/_incomplete/{r}/release/variants.json", False),
        ("create objects://out/_incomplete/{r}/release/dfg.json", False),
        ("rename objects://out/_incomplete/{r}/release/variants.json", True),
        ("create objects://out/run_id=r/manifest.json", True),
    ],
)
def test_a_commit_cut_off_where_files_are_moved_one_by_one_stays_spent(
    common: list[object],
    tmp_path: Path,
    keys: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fail_at: str,
    shows_files: bool,
) -> None:
    monkeypatch.setattr(ObjectStore, "root", tmp_path / "objects")
    there = [*common, "--output", "objects://out"]
    fix_key(monkeypatch, b"1" * 32)
    assert tracecloak(*there, "--release_id", "whole") == 0
    mine = KeyStore(keys).identity()
    own = Path(ReleaseFolder("objects://out", "r", store=mine).workplace).name
    monkeypatch.setattr(ObjectStore, "fail_at", fail_at.format(r=own))
    assert tracecloak(*there) == 6
    told = capsys.readouterr().err
    moved = tmp_path / "objects" / "out" / "run_id=r"
    assert bool(moved.exists() and visible(moved)) == shows_files
    assert "Its budget stays spent" in told
    charged = [e for e in counting_charges(keys) if e.release_id == "r"]
    assert len(charged) == len(key_files(keys)) == 1
    monkeypatch.setattr(ObjectStore, "fail_at", "")
    before = {path.name: path.read_bytes() for path in visible(moved)} if shows_files else {}
    fix_key(monkeypatch, b"2" * 32)
    assert tracecloak(*there) == 0
    after = {path.name: path.read_bytes() for path in visible(moved)}
    assert before.items() <= after.items()
    (charge,) = [e for e in counting_charges(keys) if e.release_id == "r"]
    assert charge.key_fingerprint == key_of(moved)
    assert charge.action == "commit"
    assert not any(
        path.is_file() for path in (tmp_path / "objects" / "out" / "_incomplete").rglob("*")
    )


def test_a_release_in_a_store_of_objects_is_withdrawn_object_by_object(
    common: list[object], tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectStore, "root", tmp_path / "objects")
    there = [*common, "--output", "objects://out"]
    for name in ("r", "s"):
        assert tracecloak(*there, "--release_id", name) == 0
    signed = ["--by", "A. Officer", "--reason", "of the wrong file", "--key_store", keys]
    place = ["ledger", "withdraw", "--output", "objects://out", *signed, "--release_id"]
    assert tracecloak(*place, "s") == 0
    left = [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert left and not [path for path in left if "run_id=s" in str(path)]
    assert '"run_id": "r"' in (tmp_path / "objects" / "out" / "latest.json").read_text()
    assert tracecloak(*place, "r") == 0
    assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert actions(keys) == ["reserve", "draw", "commit"] * 2 + ["withdraw"] * 2
