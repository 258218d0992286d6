"""Opening a ledger with the key store that remembers it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tracecloak.pipelines.budget.accounts import Account
from tracecloak.pipelines.budget.key_store import KeyStore
from tracecloak.pipelines.budget.ledger import Ledger


def store_at(
    folder: str | None, worker_keys: str | None = None, key_encryption_key: str | None = None
) -> KeyStore:
    """Returns the key store in a folder, or the usual one; see `KeyStore`.

    Args:
        folder: The folder, or None.
        worker_keys: Folder where workers elsewhere find keys, or None.
        key_encryption_key: Reference to the key that wraps keys, or None for what the environment
            variable TRACECLOAK_KEY_ENCRYPTION_KEY says, if it is there.

    Raises:
        UsageError: That is no reference.
    """
    return KeyStore(
        Path(folder) if folder else KeyStore.default_folder(),
        worker_keys,
        key_encryption_key or os.environ.get("TRACECLOAK_KEY_ENCRYPTION_KEY") or None,
    )


def ledger_of(
    store: KeyStore,
    url: str | None = None,
    accounts: Mapping[str, Account] | None = None,
    new: bool = False,
    after_loss: bool = False,
    is_by_officer: bool = False,
) -> Ledger:
    """Returns the ledger at a URL, or that in the key store, which remembers it; see `Ledger`.

    Raises:
        UsageError: There is none, or it cannot be opened.
        LedgerError: There is none any more.
    """
    if url is None and (new or after_loss):
        store.make_ledger_file()
    return Ledger(
        url or store.ledger_url,
        accounts,
        new=new,
        store=store,
        after_loss=after_loss,
        is_by_officer=is_by_officer,
    )
