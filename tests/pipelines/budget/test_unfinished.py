"""What waits for a rerun is listed, and can be given up: it stays spent, and draws no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.releasing import (
    key_files,
    ledger_entries,
    small_release,
    tracecloak,
    visible,
)
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.sources import EventSource

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
