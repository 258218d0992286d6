"""A release that somebody else ended, overtook or paid for, or that appeared and was not noted."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.releasing import (
    Place,
    as_typed,
    csv_log,
    key_files,
    ledger_entries,
    manifest,
    small_rows,
)
from tracecloak.pipelines.budget.unfinished import Ended
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.reading import text_of
from tracecloak.pipelines.runners.in_memory import InMemoryDriver
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.batch.job import Job
from tracecloak.transforms.publish.release_folder import ReleaseFolder

JOB = ("--formats", "csv")


def officer(place: Place, action: str, *more: object, keys: str = "officers keys") -> int:
    """Somebody with another key store, or that of the release, ends it."""
    return place.officer(action, "--key_store", place.folder / keys, *place.flags[2:4], *more)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Key stores share a ledger."""
    assert as_typed("ledger", "begin", "--key_store", tmp_path / "keys") == 0
    url = f"sqlite:///{tmp_path}/keys/ledger.db"
    return Place(tmp_path, "--ledger", url, "--cases_kept_days", 0, n_cases=30)


def test_what_an_officer_gives_up_meanwhile_does_not_appear(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove = ReleaseFolder.remove

    def slow(self: ReleaseFolder, names: list[str]) -> None:
        remove(self, names)
        assert officer(place, "forfeit") == 0

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseFolder, "remove", slow)
        assert place.run("--formats", "csv") == 2
    assert "was ended meanwhile" in capsys.readouterr().err
    assert not place.release.exists()
    assert place.actions == ["reserve", "draw", "forfeit"]

    # What the message says is true: another run reserves anew, with another key.
    assert place.run("--formats", "csv") == 0
    assert place.actions[3:] == ["reserve", "draw", "commit"]
    first, second = (e.key_fingerprint for e in ledger_entries(place.folder / "keys")[::3])
    assert first != second == manifest(place.release)["randomness"]["key_fingerprint"]


# --- Copies of a key for workers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "owner", "step"),
    [("forfeit", ReleaseFolder, "commit"), ("withdraw", KeyStore, "commit")],
)
def test_an_officer_with_another_key_store_is_told_which_one_has_the_key(
    place: Place, capsys: pytest.CaptureFixture[str], action: str, owner: type, step: str
) -> None:
    """Catches "its key is destroyed" of a key that lies elsewhere, and a copy that outlives it."""
    for workers in ("workers", "others"):  # of which nobody names the folders any more
        place.cut_off("--worker_keys", place.folder / workers, owner=owner, step=step)
    n_keys = len(key_files(place.folder))
    assert n_keys == (2 if action == "withdraw" else 3)
    name = KeyStore(place.folder / "keys").identity()
    capsys.readouterr()
    assert officer(place, action) == 0
    told = capsys.readouterr().out
    assert f"made with another key store (in the ledger: {name})" in told
    assert "destroyed" not in told and "Run this command again with the key_store of that" in told
    assert len(key_files(place.folder)) == n_keys
    assert officer(place, action, "--json", keys="keys") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["key_destroyed"], told["key_stores_elsewhere"]) == (True, [])
    assert key_files(place.folder) == []


@pytest.fixture(params=["beside", "staging area"])
def job(
    place: Place, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Callable[[], None]:
    """A job that goes on elsewhere after its command was killed; calling this goes on with it."""
    jobs: list[bytes] = []
    run = InMemoryDriver.run

    def killed(_: InMemoryDriver, job: Job) -> None:
        jobs.append(pickle.dumps(job))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(InMemoryDriver, "is_local", False)
        patch.setattr(InMemoryDriver, "check_workplace", lambda *_: None, raising=False)
        patch.setattr(InMemoryDriver, "run", killed)
        area = ["--staging_area", place.folder / "area"] if request.param != "beside" else []
        assert place.run("--worker_keys", place.folder / "workers", *JOB, *area) == 6
    assert place.actions == ["reserve", "draw"]
    return lambda: run(InMemoryDriver(), pickle.loads(jobs[0]))  # noqa: S301  # which this made


def built(place: Place) -> list[Path]:
    return [path for area in ("_incomplete-*", "area") for path in place.folder.glob(f"{area}/*")]


@pytest.mark.parametrize("when", ["before, by its key store", "before", "while it writes"])
def test_a_job_elsewhere_does_not_commit_what_is_given_up(
    place: Place, job: Callable[[], None], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    remove = ReleaseFolder.remove

    def slow(self: ReleaseFolder, names: list[str]) -> None:
        remove(self, names)
        assert officer(place, "forfeit") == 0

    if when == "while it writes":
        monkeypatch.setattr(ReleaseFolder, "remove", slow)
    else:
        keys = "keys" if when == "before, by its key store" else "officers keys"
        assert officer(place, "forfeit", keys=keys) == 0
    with pytest.raises(UsageError):
        job()
    assert not place.release.exists()
    assert place.actions == ["reserve", "draw", "forfeit"]


def test_a_job_elsewhere_commits_what_nobody_gave_up(place: Place, job: Callable[[], None]) -> None:
    job()
    assert place.release.exists()
    assert place.run(*JOB) == 0
    assert place.actions == ["reserve", "draw", "commit"]
    assert key_files(place.folder) == built(place) == []


# --- Two key stores -------------------------------------------------------------------------------


def test_what_is_visible_is_noted_whatever_became_of_its_input(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.cut_off(step="point_latest")
    assert place.release.exists() and place.actions[-1] == "draw"
    csv_log(place.log, list(small_rows(31)))
    assert place.run() == 2
    told = capsys.readouterr().err
    assert "was begun in" in told and "the input changed since" in told
    assert "give the release up" not in told
    assert place.actions == ["reserve", "draw", "commit"]
    assert (place.folder / "out" / "latest.json").exists()


def test_a_release_of_which_files_vanished_does_not_appear(tmp_path: Path) -> None:
    folder = ReleaseFolder(str(tmp_path / "out"), "r")
    folder.prepare()
    folder.write("dfg.json", lambda stream: None)
    folder.discard()
    with pytest.raises(TracecloakError, match="files of the release vanished"):
        folder.commit({"outputs": [{"path": "dfg.json"}]})
    assert folder.committed() is None


def test_the_account_that_paid_goes_on_paying(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.cut_off()
    assert place.run("--account", "other") == 2
    assert "account 'default' paid" in capsys.readouterr().err
    assert place.actions == ["reserve", "draw"]
    assert place.run() == 0


def test_a_key_that_is_nowhere_is_told_of() -> None:
    for action, had_key, is_told in (
        ("forfeit", False, True), ("forfeit", True, False), ("withdraw", False, False),
    ):  # fmt: skip
        text = text_of("ended", action=action, ended=Ended("/out", had_key))
        assert ("see to backups that may have it" in text) == is_told, action
