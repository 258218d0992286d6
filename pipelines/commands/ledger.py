"""`tracecloak ledger`: shows, verifies or exports the ledger of privacy budgets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tracecloak.pipelines.commands.table import Given
from tracecloak.schemas.errors import TracecloakError


def add_flags(parser: argparse.ArgumentParser, argv: Sequence[str], config: str | None) -> None:
    """Adds the action, the places and what to show."""
    parser.add_argument(
        "action",
        choices=["show", "verify", "export"],
        help="show: accounts, and how many more releases fit; verify: the hash chain; "
        "export: all entries as JSON lines",
    )
    parser.add_argument("--ledger", help="SQLAlchemy URL; by default the file in the key store")
    parser.add_argument(
        "--key_store",
        help="folder of keys and receipts, and of that file; by default TRACECLOAK_KEY_STORE or "
        "one in the home folder",
    )
    parser.add_argument(
        "--accounts", help="YAML file with the caps of the accounts; without it none is shown"
    )
    parser.add_argument("--account", help="show this account only; by default all")
    parser.add_argument("--json", action="store_true", default=None, help="show as JSON")


def run(given: Given) -> int:
    """Prints what is asked for; an unsound ledger is an error by its exit code."""
    from tracecloak.pipelines.budget.accounts import load_accounts
    from tracecloak.pipelines.budget.key_store import KeyStore
    from tracecloak.pipelines.budget.ledger import Ledger
    from tracecloak.pipelines.budget.reading import export, show, verify

    flags = given.flags
    folder, accounts = flags.get("key_store"), flags.get("accounts")
    store = KeyStore(Path(folder) if folder else KeyStore.default_folder())
    ledger = Ledger(
        flags.get("ledger") or store.ledger_url,
        {} if accounts is None else load_accounts(accounts),
    )
    if flags["action"] == "show":
        print(show(ledger, flags.get("account"), bool(flags.get("json"))), end="")
    elif flags["action"] == "export":
        print(export(ledger), end="")
    else:
        found = verify(ledger)
        print(found.text, end="")
        return 0 if found.is_sound else TracecloakError.exit_code
    return 0
