"""Opening key store and ledger: by a configuration that pays, or by what a command names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.runners.names import is_local
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import is_on_this_machine, require_file_system
from tracecloak.transforms.keys.sources import referred

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.paying import PayingConfig
    from tracecloak.pipelines.ledger.accounts import Account
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger

_L = TypeVar("_L", bound=Ledger)
# Of the key store, in the user's home.
_USUAL_FOLDER = Path(".local", "state", "tracecloak")


def store_at(
    folder: str | None, worker_keys: str | None = None, key_encryption_key: str | None = None
) -> KeyStore:
    """Returns the key store in a folder or a database, or the usual one; see `KeyStore`.

    Args:
        folder: The folder, the URL of the database, or None.
        worker_keys: Folder where workers elsewhere find keys, or None.
        key_encryption_key: Reference to the key that wraps keys, or None for what the environment
            variable TRACECLOAK_KEY_ENCRYPTION_KEY says, if it is there.

    Raises:
        UsageError: That is no reference.
    """
    wraps = key_encryption_key or os.environ.get("TRACECLOAK_KEY_ENCRYPTION_KEY") or None
    place = folder or os.environ.get("TRACECLOAK_KEY_STORE") or str(Path.home() / _USUAL_FOLDER)
    if not is_on_this_machine(place):
        from tracecloak.pipelines.budget.database_store import DatabaseKeyStore

        return DatabaseKeyStore(place, worker_keys, wraps)
    return KeyStore(Path(place), worker_keys, wraps)


def store_of(config: PayingConfig) -> KeyStore:
    """Returns the key store of a configuration, of whose keys nothing is read yet.

    Raises:
        UsageError: It is a database, which is not enough here; see `require_lasting`.
        RetryLater: It is a database, which cannot be read now.
    """
    store = store_at(config.key_store, config.worker_keys, config.key_encryption_key)
    if store.is_in_database:
        from tracecloak.pipelines.budget.database_store import require_lasting

        require_lasting(config)
    return store


def open_store(config: PayingConfig) -> KeyStore:
    """Returns the key store of a configuration, whose keys can be read and lie as they shall.

    Raises:
        UsageError: worker_keys is on a file system that nobody knows here, or keys are wrapped, and
            what wrapped them was not named, see `KeyStore.check_secrets`; or see `store_of`.
        RetryLater: The key-encryption key cannot be had now, or a release is at work whose key lies
            in clear and shall not.
        KeyStoreError: The store cannot be used.
    """
    if config.worker_keys is not None:
        require_file_system("worker_keys", config.worker_keys)
    store = store_of(config)
    if store.check_secrets():
        from tracecloak.pipelines.keys.rewrapping import wrap_what_is_in_clear

        wrap_what_is_in_clear(store)
    return store


def check_worker_keys(config: PayingConfig) -> None:
    """Makes sure that workers can find the key, as far as it can be told.

    Raises:
        UsageError: They run where nobody sees this machine's disk.
    """
    if config.runner == "DataflowRunner" and (
        config.worker_keys is None or is_on_this_machine(config.worker_keys)
    ):
        raise UsageError(
            "runner DataflowRunner has workers that cannot read this machine's key store; name a "
            "folder that they alone can read with worker_keys, such as gs://BUCKET/keys"
        )


def open_ledger(config: PayingConfig, store: KeyStore) -> Ledger:
    """Returns the ledger of a configuration.

    Raises:
        UsageError: There is none and none is to be begun, it cannot be opened, or is on this
            machine and the run is not.
        LedgerError: It, or the key store, was restored from an old backup, as it seems.
    """
    accounts = accounts_of(config)
    if config.ledger is None and config.new_ledger:
        store.make_ledger_file()
    url = ledger_url(config.ledger, store)
    ledger = _with_cases(Ledger(url, accounts, new=config.new_ledger, store=store))
    if not ledger.is_shared and not is_local(config.runner):
        raise out_of_reach(config.runner)
    ledger.check_remembered()
    return ledger


def ledger_url(named: str | None, store: KeyStore) -> str:
    """Returns the URL that is named, see `referred`, or by default the store's."""
    return store.ledger_url if named is None else referred(named)


def accounts_of(config: PayingConfig) -> Mapping[str, Account]:
    """Returns the accounts in the file of a configuration; without a file none.

    Raises:
        UsageError: It cannot be read, or the account of the configuration is not in it.
    """
    if config.accounts is None:
        return {}
    from tracecloak.pipelines.ledger.accounts import load_accounts

    return load_accounts(config.accounts, config.account)


def out_of_reach(runner: str) -> UsageError:
    """Returns the error that a ledger is on this machine, and the run is not."""
    return UsageError(
        f"runner {runner} leaves this machine, and an SQLite ledger does not; give the "
        "URL of a shared database with ledger"
    )


def officers_ledger(
    store: KeyStore,
    url: str | None = None,
    accounts: Mapping[str, Account] | None = None,
    new: bool = False,
    after_loss: bool = False,
) -> OfficersLedger:
    """Returns the ledger at a URL, or that in the key store, as people have it; see `Ledger`.

    Raises:
        UsageError: There is none, or it cannot be opened.
        LedgerError: There is none any more.
    """
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger

    if url is None and (new or after_loss):
        store.make_ledger_file()
    ledger = OfficersLedger(
        ledger_url(url, store), accounts, new=new, store=store, after_loss=after_loss
    )
    return _with_cases(ledger, new)


def _with_cases(ledger: _L, may_lack_it: bool = False) -> _L:
    """Makes the table of noted cases beside a ledger that is new, as its owner alone may.

    Args:
        ledger: The ledger.
        may_lack_it: Whether one that is not new gets it as well where it lacks it.
    """
    if ledger.is_new or may_lack_it:
        from tracecloak.pipelines.cases.noted_cases import NotedCases

        NotedCases(ledger.url).make()
    return ledger
