"""Refusals of ledgers, key stores and books that no other test meets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ledgers import account, reservation
from tracecloak.pipelines.budget.unfinished import forfeit
from tracecloak.pipelines.keys.kept_secrets import KeptSecrets
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.notes import left_out_of
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.cache import LedgerCache
from tracecloak.pipelines.ledger.caps import both_bounds
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import Entry, WindowCharge
from tracecloak.pipelines.ledger.noted_cases import erase
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import UsageError

OFFICER = ("me", "why not")


def ledger_in(folder: Path) -> OfficersLedger:
    return OfficersLedger(f"sqlite:///{folder / 'ledger.db'}", new=True)


def wrapped_by_neither(folder: Path) -> None:
    for number, name in enumerate(("first", "second")):
        (folder / name).write_text(f"{number + 1}" * 64)
    KeyStore(folder / "keys", None, f"file:{folder}/first").identity()
    KeptSecrets(folder / "keys", f"file:{folder}/second").wrap_all()


def damaged_decision(folder: Path) -> None:
    store = KeyStore(folder)
    path = Path(store.operator_folder("/out", "r")) / "left-out.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    left_out_of(store, "/out", "r")


def damaged_copy(folder: Path) -> None:
    copy = LedgerCache(KeyStore(folder / "keys"), "ledger at a place")
    copy.store.write("ledgers/1.head", "no head")
    copy.heads()


REFUSALS: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "an epoch is given up": (
        lambda f: forfeit(KeyStore(f), ledger_in(f), "/out", "ward@1", *OFFICER),
        UsageError, "epoch of a stream",
    ),
    "notes are erased before no day": (
        lambda f: erase(ledger_in(f), None, None, "yesterday", *OFFICER), UsageError, "before must",
    ),
    "a key is wrapped by neither": (wrapped_by_neither, UsageError, "by neither"),
    "a decision is damaged": (damaged_decision, KeyStoreError, "is damaged"),
    "a copy is damaged": (damaged_copy, KeyStoreError, "is damaged"),
    "a number that no ledger wrote": (
        lambda f: ledger_in(f).balance(
            "a",
            LedgerSnapshot.of(
                [Entry.after(None, "reserve", {**reservation().columns(), "epsilon": "x"})]
            ),
        ),
        LedgerError, "ledger verify",
    ),
    "a give-up that nobody signs": (
        lambda f: ledger_in(f).forfeit("/out", "r", "k", "a\nb", "x"), UsageError, "printable",
    ),
    "two units": (
        lambda f: both_bounds(account(), account(unit="individual")), UsageError, "per case",
    ),
    "no flag": (
        lambda f: WindowCharge("s", "w", adds_up=1),  # type: ignore[arg-type]
        UsageError, "adds_up",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_with_what_is_wrong(name: str, tmp_path: Path) -> None:
    call, kind, told = REFUSALS[name]
    with pytest.raises(kind, match=told):
        call(tmp_path)
