"""Where releases lie: what no other run removes or mixes, and what is refused before it is paid."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.releasing import Place, check_whole, key_files, visible
from tests.support.tiers import at_night
from tracecloak.pipelines.budget.draw_guard import DrawGuard
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource


class Places(Place):
    """A log, a key store and the command that releases the one with the other."""

    def released(self, output: object, *flags: object, log: object = None) -> int:
        return self.run("--output", output, "--release_id", "a", *flags, log=log)

    def failed(self, output: object, *flags: object, log: object = None) -> None:
        """The release fails as it is about to appear."""

        def fail(*_: object) -> None:
            raise ValueError("cut off")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReleaseFolder, "commit", fail)
            assert self.released(output, *flags, log=log) == 6

    def refused(self, output: object, *flags: object) -> None:
        """The release is refused, and leaves everything as it was."""
        before = self._all()
        assert self.released(output, *flags) == 2
        assert self._all() == before

    def _all(self) -> tuple[object, ...]:
        there = [path for path in self.folder.rglob("*") if self.keys not in path.parents]
        return sorted(there), self.actions, key_files(self.keys)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.chdir(tmp_path)
    return Places(tmp_path, "--epsilon", 8, "--delta", "1e-5")


# --- The staging area -----------------------------------------------------------------------------


def test_two_outputs_that_share_a_staging_area_do_not_mix(places: Places, tmp_path: Path) -> None:
    area = tmp_path / "area"
    one, two = tmp_path / "o1", tmp_path / "o2"
    commit = ReleaseFolder.commit

    def at_the_same_time(self: ReleaseFolder, *given: Any) -> None:
        patch.setattr(ReleaseFolder, "commit", commit)
        assert places.released(two, "--staging_area", area, "--formats", "xes") == 0
        commit(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ReleaseFolder, "commit", at_the_same_time)
        assert places.released(one, "--staging_area", area, "--formats", "csv") == 0
    for out in (one, two):
        check_whole(out / "run_id=a")
    assert list(area.iterdir()) == []
    # What waits for one is not given up with the other.
    for out in (one, two):
        places.failed(out, "--staging_area", "area", "--release_id", "b")
    assert len(list(area.iterdir())) == 2
    assert places.officer("forfeit", "--output", two, "--release_id", "b") == 0
    (left,) = area.iterdir()
    mine = KeyStore(places.keys).identity()
    assert str(left) == ReleaseFolder(str(one), "b", str(area), store=mine).workplace


INSIDE = "which is the folder of one release"
BUILT = "releases are built before they are seen, {}; name another folder"


@pytest.mark.parametrize(
    ("flag", "folders", "told"),
    [
        ("--staging_area", ["out", "out/x"], BUILT.format("is the output or lies in it")),
        ("--staging_area", ["."], BUILT.format("has the output in it")),
        ("--staging_area", ["other"], BUILT.format("holds releases")),
        ("--staging_area", ["other/run_id=a/x"], "lies in the folder of a release"),
        ("--output", ["out/run_id=a", "out/run_id=a/deeper", "renamed", "renamed/deeper"], INSIDE),
        ("--dead_letter", ["out", "out/rejects", "out/run_id=a", "out/run_id=b", "renamed"],
         "is or lies in"),
    ],
)  # fmt: skip
def test_a_place_among_releases_is_refused(
    places: Places, flag: str, folders: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert places.released("out") == places.released("other") == 0
    shutil.copytree(places.folder / "out" / "run_id=a", places.folder / "renamed")
    for folder in folders:
        if flag == "--output":
            places.refused(folder, "--release_id", "b")
        else:
            places.refused("out", "--release_id", "b", flag, folder)
        assert told in capsys.readouterr().err


# --- Inputs that change ---------------------------------------------------------------------------


@contextlib.contextmanager
def read_after(change: Callable[[], object]) -> Iterator[None]:
    """Something happens to the input just before it is read."""
    read = EventSource.read

    def late(self: EventSource, *arguments: Any) -> Iterator[Any]:
        change()
        return read(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventSource, "read", late)
        yield


def rewritten(log: Path) -> None:
    """Replaces a log by another of the same size, as one that is moved there is."""
    fresh = log.with_name("fresh")
    fresh.write_bytes(log.read_bytes().replace(b"case-1,", b"case-2,", 1))
    os.utime(fresh, ns=(log.stat().st_atime_ns, log.stat().st_mtime_ns))
    fresh.replace(log)


def grown(log: Path) -> None:
    """Adds a record to a log."""
    log.write_text(log.read_text() + "late,A,2026-01-01T10:00:00+00:00\n")


@pytest.mark.parametrize(
    ("change", "runner"),
    [(rewritten, "InMemory"), (grown, "InMemory"), at_night(rewritten, "FnApiRunner")],
)
def test_an_input_that_changes_before_it_is_read_ends_the_run_and_costs_nothing(
    places: Places, capsys: pytest.CaptureFixture[str], change: Callable[[Path], None], runner: str
) -> None:
    before = places.log.read_bytes()
    with read_after(lambda: change(places.log)):
        assert places.released("out", "--runner", runner) == 75
    told = capsys.readouterr().err
    assert f"input '{places.log}' changed while it was read, before anything was drawn" in told
    assert places.actions == ["reserve", "void"]
    assert visible(places.folder / "out") == key_files(places.keys) == []
    places.log.write_bytes(before)
    assert places.released("out", "--runner", runner) == 0


def test_an_input_that_changes_after_the_first_round_decided_ends_nothing(places: Places) -> None:
    once = DrawGuard.__call__

    def twice(self: DrawGuard) -> None:
        once(self)
        grown(places.log)
        once(self)  # as a second round does

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DrawGuard, "__call__", twice)
        assert places.released("out") == 0
    assert places.actions == ["reserve", "draw", "commit"]
    assert places.released("out") == 2  # of another input


def test_a_release_that_drew_looks_at_digests_alone(places: Places) -> None:
    places.failed("out")
    with read_after(places.log.touch):
        assert places.released("out") == 0
    assert places.actions == ["reserve", "draw", "commit"]


@pytest.mark.parametrize("spelled", ["./log.csv", "link/log.csv"])
def test_another_spelling_of_an_input_is_the_same_file(
    places: Places, spelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (places.folder / "link").symlink_to(places.folder, target_is_directory=True)
    places.failed("out")
    assert places.released("out", log=spelled) == 0
    places.failed("out", "--release_id", "b", log=spelled)
    (places.folder / "elsewhere").mkdir()
    monkeypatch.chdir(places.folder / "elsewhere")
    assert places.released("../out", "--release_id", "b", log="../log.csv") == 0
    assert places.actions == ["reserve", "draw", "commit"] * 2


# --- The ledger -----------------------------------------------------------------------------------


def test_an_sqlite_ledger_that_is_named_is_read_by_its_owner_only(places: Places) -> None:
    path = places.folder / "named.db"
    before = os.umask(0o022)
    try:
        assert places.released("out", "--ledger", f"sqlite:///{path}") == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
