"""What hangs on a release: one file and one line of a table, and nothing where nobody asks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.releasing import key_files, ledger_entries, manifest, small_release, tracecloak
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.release.values import CONCERNS
from tracecloak.schemas.errors import BudgetExhausted, TracecloakError
from tracecloak.transforms.publish.release_folder import ReleaseFolder

LOT = ("tests.support.toys.toy_concern:LotConcern", bool)  # every release has a plan, so each asks


def line(folder: Path, *more: object) -> list[object]:
    return small_release(folder, "--release_id", "r", "--cases_kept_days", 0, *more)


def test_a_concern_is_one_file_and_one_line_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It claims before the run, survives a kill, and writes one field of the manifest."""
    monkeypatch.setitem(CONCERNS, "lot", LOT)
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(ReleaseFolder, "commit", killed)
        assert tracecloak(*line(tmp_path)) == 6
    (lot,) = (tmp_path / "keys").rglob("lot")
    drawn = lot.read_text()
    assert tracecloak(*line(tmp_path)) == 0
    assert manifest(tmp_path / "out" / "run_id=r")["noted"] == {"lot": drawn}
    assert [e.action for e in ledger_entries(tmp_path / "keys")] == ["reserve", "draw", "commit"]
    # A run that finds the release there reads what it says, and draws no lot.
    assert tracecloak(*line(tmp_path)) == 0
    assert lot.read_text() == drawn


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("tests.support.toys.toy_concern.LotConcern.reserved", BudgetExhausted("no lots are left")),
        ("tracecloak.pipelines.release.run.warn_of_overlaps", LedgerError("it is locked")),
        (
            "tracecloak.pipelines.keys.key_store.KeyStore.receipt",
            KeyStoreError("the receipt cannot be read"),
        ),
    ],
)
def test_what_fails_while_a_release_is_claimed_fails_before_it_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: TracecloakError
) -> None:
    monkeypatch.setitem(CONCERNS, "lot", LOT)
    flags = ["--method", "k-anonymous-variants", "--k", 2]
    command = [*line(tmp_path)[:7], *flags, *line(tmp_path)[11:]]

    def fail(*_: object) -> NoReturn:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        assert tracecloak(*command) == error.exit_code
    assert ledger_entries(tmp_path / "keys") == key_files(tmp_path / "keys") == []
    assert not list((tmp_path / "keys" / "releases").glob("*.json"))
    assert not list(tmp_path.glob("_incomplete-*"))
    assert tracecloak(*command) == 0


# What a plain release loads nothing of: windows, extensions, streams, the wiring of Beam.
UNASKED = (
    "pipelines.release.window", "pipelines.ledger.case_registry",
    "pipelines.windows", "pipelines.stream",
    "pipelines.budget.withdrawing", "pipelines.budget.unfinished",
    "pipelines.runners.on_beam", "transforms.batch.anonymize", "transforms.batch.read",
    "transforms.batch.traces", "transforms.stream", "transforms.services",
    "transforms.keys.signing", "anonymizers.streams", "examination", "apache_beam",
)  # fmt: skip


def test_a_release_loads_nothing_of_what_it_does_not_ask_for(tmp_path: Path) -> None:
    assert tracecloak("ledger", "begin", "--key_store", tmp_path / "keys") == 0
    script = (
        "import sys\nfrom tracecloak.pipelines.commands.main import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "names = (n for n in sys.modules if n.startswith(('tracecloak.', 'apache_beam')))\n"
        "print('LOADED', *names)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, line(tmp_path)), "--workers", "2"],
        capture_output=True,
        text=True,
        check=True,
    )
    (last,) = (text for text in done.stdout.splitlines() if text.startswith("LOADED"))
    loaded = last.split()[1:]
    assert "tracecloak.pipelines.release.run" in loaded
    found = {
        name
        for name in loaded
        for unasked in UNASKED
        if f"{name}.".startswith((f"tracecloak.{unasked}.", f"{unasked}."))
    }
    assert sorted(found) == []
