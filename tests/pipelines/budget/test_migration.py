"""Ledgers and key stores of version 0.1.0, as it wrote them, serve this version."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from tests.support.ledgers import account, reservation
from tests.support.releasing import as_typed, csv_log, small_rows, tracecloak
from tracecloak.pipelines.budget.key_store import KeyStore, KeyStoreError, Receipt
from tracecloak.pipelines.budget.ledger import Ledger
from tracecloak.pipelines.budget.table import migrate
from tracecloak.schemas.errors import UsageError

# What version 0.1.0 made, character by character.
TABLE = """
CREATE TABLE tracecloak_ledger (
	seq INTEGER NOT NULL,
	account TEXT NOT NULL,
	release_id TEXT NOT NULL,
	output TEXT NOT NULL,
	action VARCHAR(16) NOT NULL,
	epsilon TEXT,
	delta TEXT,
	unit VARCHAR(16) NOT NULL,
	adjacency VARCHAR(16) NOT NULL,
	method TEXT NOT NULL,
	spends TEXT NOT NULL,
	config_digest TEXT NOT NULL,
	key_fingerprint TEXT NOT NULL,
	tool_version TEXT NOT NULL,
	recorded_at VARCHAR(40) NOT NULL,
	previous_hash VARCHAR(64) NOT NULL,
	hash VARCHAR(64) NOT NULL,
	PRIMARY KEY (seq)
)
"""
RECEIPT = {
    "release_id": "r0", "output": "/out", "input_fingerprint": "i", "config_digest": "c",
    "key_fingerprint": "k", "state": "committed", "left_machine": False,
}  # fmt: skip


def old_rows() -> list[dict[str, object]]:
    """Two charges of account `a`, one committed and one voided, chained by the rule of 0.1.0."""
    rows: list[dict[str, object]] = []
    previous = "0" * 64
    steps = [("r0", "reserve"), ("r0", "commit"), ("r1", "reserve"), ("r1", "void")]
    for seq, (release_id, action) in enumerate(steps, 1):
        row: dict[str, object] = {
            "seq": seq, "account": "a", "release_id": release_id, "output": "/out",
            "action": action, "epsilon": "0.4", "delta": "0", "unit": "case",
            "adjacency": "add_remove", "method": "m", "spends": "[]", "config_digest": "c",
            "key_fingerprint": "k", "tool_version": "0.1.0",
            "recorded_at": "2026-01-02T03:04:05.000006+00:00", "previous_hash": previous,
        }  # fmt: skip
        text = json.dumps(row, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(text.encode("ascii")).hexdigest()
        rows.append({**row, "hash": previous})
    return rows


def write_old_ledger(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(TABLE)
    for row in old_rows():
        places = ", ".join("?" * len(row))
        connection.execute(
            f"INSERT INTO tracecloak_ledger ({', '.join(row)}) VALUES ({places})",
            tuple(row.values()),
        )
    connection.commit()
    connection.close()


def test_a_ledger_of_0_1_is_migrated_in_place_and_its_hashes_stay(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    write_old_ledger(path)
    url = f"sqlite:///{path}"
    with pytest.raises(UsageError, match=r"of version 0\.1: run `tracecloak ledger migrate` once"):
        Ledger(url, new=True)
    assert migrate(url)
    assert not migrate(url)
    ledger = Ledger(url)
    assert ledger.verify() == []
    assert [e.hash for e in ledger.entries()] == [row["hash"] for row in old_rows()]
    ledger.declare_account(account("1"), "me", "migrated")
    ledger.reserve(reservation(2, "0.6"))
    assert ledger.balance("a").remaining_epsilon == 0
    assert ledger.verify() == []


@pytest.mark.parametrize("there", ["nothing", "an empty file", "another database"])
def test_what_is_no_ledger_is_not_migrated(tmp_path: Path, there: str) -> None:
    path = tmp_path / "ledger.sqlite"
    if there == "an empty file":
        path.write_bytes(b"")
    elif there == "another database":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE experiments (id INTEGER)")
        connection.close()
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(UsageError, match=r"is no ledger|is not a ledger"):
        migrate(f"sqlite:///{path}")
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_release_against_a_ledger_of_0_1_says_the_command_that_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys"
    (keys / "releases").mkdir(parents=True)
    (keys / "store.secret").write_text("ab" * 32)
    write_old_ledger(keys / "ledger.db")
    log = csv_log(tmp_path / "log.csv", list(small_rows()))
    release = [
        "release", "--input", log, "--output", tmp_path / "out", "--key_store", keys, "--method",
        "variant-histogram", "--epsilon", "1", "--runner", "InMemory", "--release_id", "r",
    ]  # fmt: skip
    assert tracecloak(*release) == 2
    told = capsys.readouterr().err
    assert "run `tracecloak ledger migrate` once with the same ledger or key_store" in told
    assert not (tmp_path / "out").exists()
    assert as_typed("ledger", "migrate", "--key_store", keys) == 0
    told = capsys.readouterr().out
    assert told.startswith("migrated from version 0.1\nThe ledger is sound: 4 entries")
    assert tracecloak(*release) == 0
    assert as_typed("ledger", "verify", "--key_store", keys) == 0


def test_a_receipt_of_0_1_is_read(tmp_path: Path) -> None:
    store = KeyStore(tmp_path)
    path = store._path("/out", "r0", ".json")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(RECEIPT))
    receipt = store.receipt("/out", "r0")
    assert receipt is not None
    assert {name: getattr(receipt, name) for name in RECEIPT} == RECEIPT
    receipt.check_same("i", "c")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps({**RECEIPT, "colour": "red"}), "has colour, which this version .* not know"),
        (json.dumps({"release_id": "r0"}), "is damaged; restore the key store"),
        ("[]", "is damaged"),
        ("{", "is damaged"),
    ],
)
def test_a_receipt_that_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(KeyStoreError, match=told):
        Receipt.read(text)
