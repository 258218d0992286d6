"""Many whole releases at once, at a ledger on PostgreSQL and at one of SQLite."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.ledgers import faults
from tests.support.postgres import database, server
from tests.support.releasing import csv_log, key_files, small_rows
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger as Ledger
from tracecloak.schemas.errors import BudgetExhausted

__all__ = ["database", "server"]  # fixtures


class Ward:
    """Releases of one log, of which the account pays for ten, at one ledger."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.out, self.keys = folder / "out", folder / "keys"
        self._folder = folder
        csv_log(folder / "log.csv", list(small_rows(60)))
        (folder / "accounts.yaml").write_text(
            "accounts:\n  a: {epsilon: 1, delta: 1e-5, unit: case}\n"
        )

    def flags(self, name: str) -> list[str]:
        given = {
            "log": self._folder / "log.csv", "output": self.out, "key_store": self.keys,
            "ledger": self.url, "accounts": self._folder / "accounts.yaml", "account": "a",
            "method": "variant-histogram", "epsilon": "0.1", "delta": "1e-6",
            "release_id": name, "runner": "InMemory",
        }  # fmt: skip
        return ["release", *(f"--{flag}={value}" for flag, value in given.items())]

    def actions(self, name: str) -> list[str]:
        entries = Ledger(self.url).entries()
        return [entry.action for entry in entries if entry.release_id == name]

    def check_totals(self, n_spent: int, n_open: int) -> None:
        """The ledger is sound, and has exactly so many releases of a tenth."""
        ledger = Ledger(self.url)
        assert faults(ledger) == []
        balance = ledger.balance("a")
        assert balance.spent_epsilon == Fraction(n_spent, 10)
        assert balance.spent_delta == Fraction(n_spent, 10**6)
        assert balance.n_open == n_open


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n_at_once"), [("postgresql", 50), ("sqlite", 20)])
@pytest.mark.timeout(900)
def test_of_many_whole_releases_at_once_the_account_pays_for_ten(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, n_at_once: int
) -> None:
    """Commands from start to end, of which each is a process: ten end well, and no eleventh."""
    if kind == "postgresql":
        url = request.getfixturevalue("database")
    else:
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ward = Ward(tmp_path, url)
    Ledger(url, new=True)
    names = [f"r{number}" for number in range(n_at_once)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tracecloak", *ward.flags(name), "--quiet"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    texts = [process.communicate(timeout=800)[1] for process in running]
    ends = [process.returncode for process in running]
    assert sorted(ends) == [0] * 10 + [BudgetExhausted.exit_code] * (n_at_once - 10), texts
    ward.check_totals(10, n_open=0)
    finished = {name for name, code in zip(names, ends, strict=True) if code == 0}
    assert {path.name.removeprefix("run_id=") for path in ward.out.glob("run_id=*")} == finished
    assert {name for name in names if "commit" in ward.actions(name)} == finished
    assert key_files(ward.keys) == []
    assert sa.make_url(url).get_backend_name() == kind
