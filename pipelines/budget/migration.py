"""`tracecloak ledger migrate`: takes over what an earlier version left in ledger and key store.

Each step does nothing where nothing is to be done, and may be cut off anywhere and run again. Until
the last one is done, nothing else is done with that ledger and that key store. On PostgreSQL the
owner of the tables runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.cache import COPIES, Head, not_migrated
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.pipelines.ledger.unit_files import units_of_files

if TYPE_CHECKING:
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.ledger.ledger import Ledger
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger


def check_migrated(ledger: Ledger, store: KeyStore) -> None:
    """Makes sure that nothing is to be taken over.

    Raises:
        UsageError: Something is.
        LedgerError: The ledger cannot be read.
    """
    if store.names(COPIES) or not ledger.is_migrated:
        raise not_migrated(f"{ledger.place} or key store {store.path}")


def migrate(
    store: KeyStore, opened: Callable[[], OfficersLedger], settings: Mapping[str, Any]
) -> list[str]:
    """Takes over what an earlier version left; returns what was done, a sentence each.

    Args:
        store: The key store.
        opened: Opens the ledger.
        settings: Keys of the configuration, or flags.

    Raises:
        LedgerError: The ledger cannot be used, or this user may not.
        KeyStoreError: The key store cannot be used.
    """
    done = _heads_of_copies(store)  # which show whether there was a ledger
    ledger = opened()
    return [*done, *units_of_files(ledger, store, settings), *ledger.migrate()]


def _heads_of_copies(store: KeyStore) -> list[str]:
    """Keeps the last entry of what the key store of 0.1.0 saw of its ledgers."""
    done = []
    for name in store.names(COPIES):
        # Who was cut off left a part of a line.
        lines = (store.read(name) or "").split("\n")[:-1]
        try:
            past = LedgerSnapshot.of([Entry(**json.loads(line)) for line in lines])
        except (ValueError, TypeError):
            raise KeyStoreError(
                f"what the key store saw of a ledger, {store.path / name}, is damaged; restore the "
                "key store from a backup"
            ) from None
        store.write(name.removesuffix("jsonl") + "head", json.dumps(asdict(Head.after(past))))
        done.append(f"of the {past.seq} entries in {store.path / name} the last one is kept")
        store.remove(name)
    return done
