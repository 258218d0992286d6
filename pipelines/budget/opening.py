"""The ledger and the key store of a configuration: opened, begun, backed up and restored."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger import database
from tracecloak.pipelines.ledger.cache import COPIES, not_migrated
from tracecloak.pipelines.ledger.caps import Account, load_accounts
from tracecloak.pipelines.ledger.database import LedgerError
from tracecloak.pipelines.ledger.entries import NO_COLUMNS, Entry, signed
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot, problems
from tracecloak.pipelines.runners.flags import is_local
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms import files
from tracecloak.transforms.keys.sources import referred

if TYPE_CHECKING:
    from tracecloak.pipelines.configuration.shared_keys import AccountConfig
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger


# --- Opening key store and ledger: by a configuration that pays, or by what a command names. ------


_LOG = logging.getLogger("tracecloak")
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
    if not files.is_on_this_machine(place):
        from tracecloak.pipelines.budget.database_store import DatabaseKeyStore

        return DatabaseKeyStore(place, worker_keys, wraps)
    return KeyStore(Path(place), worker_keys, wraps)


def store_of(config: AccountConfig) -> KeyStore:
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


def open_store(config: AccountConfig) -> KeyStore:
    """Returns the key store of a configuration, whose keys can be read and lie as they shall.

    Raises:
        UsageError: worker_keys is on a file system that nobody knows here, or keys are wrapped, and
            what wrapped them was not named, see `KeyStore.check_secrets`; or see `store_of`.
        RetryLater: The key-encryption key cannot be had now, or a release is at work whose key lies
            in clear and shall not.
        KeyStoreError: The store cannot be used.
    """
    if config.worker_keys is not None:
        files.require_file_system("worker_keys", config.worker_keys)
    store = store_of(config)
    if store.check_secrets():
        _LOG.warning(
            "key store %s: %d keys were in clear and are encrypted from now on, so commands that "
            "read them need key_encryption_key; earlier copies of the folder have them in clear",
            store.path,
            store.rewrap(),
        )
    return store


def check_worker_keys(config: AccountConfig) -> None:
    """Makes sure that workers can find the key, as far as it can be told.

    Raises:
        UsageError: They run where nobody sees this machine's disk.
    """
    if config.runner == "DataflowRunner" and (
        config.worker_keys is None or files.is_on_this_machine(config.worker_keys)
    ):
        raise UsageError(
            "workers of DataflowRunner cannot read this machine's key store; name a folder that "
            "they alone can read with worker_keys, such as gs://BUCKET/keys"
        )


def open_ledger(config: AccountConfig, store: KeyStore) -> Ledger:
    """Returns the ledger of a configuration.

    Raises:
        UsageError: There is none and none is to be begun, it cannot be opened, or is on this
            machine and the run is not.
        LedgerError: It, or the key store, was restored from an old backup, as it seems.
    """
    accounts = load_accounts(config.accounts, config.account)
    url = ledger_url(config.ledger, store, config.new_ledger)
    ledger = Ledger(url, accounts, new=config.new_ledger, store=store)
    if not ledger.is_shared and not is_local(config.runner):
        raise out_of_reach(config.runner)
    check_migrated(ledger, store)
    ledger.check_remembered()
    return ledger


def check_migrated(ledger: Ledger, store: KeyStore) -> None:
    """Makes sure that nothing is to be taken over.

    Raises:
        UsageError: Something is.
        LedgerError: The ledger cannot be read.
    """
    if store.names(COPIES) or not ledger.is_migrated:
        raise not_migrated(f"{ledger.place} or key store {store.path}")


def ledger_url(named: str | None, store: KeyStore, makes: bool = False) -> str:
    """Returns the URL that is named, see `referred`, or by default the store's.

    Args:
        named: See there.
        store: The key store.
        makes: Whether to make the file of its ledger, where that is to be begun.
    """
    if named is None and makes:
        store.touch("ledger.db")
    return store.ledger_url if named is None else referred(named)


def out_of_reach(runner: str) -> UsageError:
    """Returns the error that a ledger is on this machine, and the run is not."""
    return UsageError(f"runner {runner} leaves this machine: ledger must be a shared database")


def officers_ledger(
    store: KeyStore,
    url: str | None = None,
    accounts: Mapping[str, Account] | None = None,
    new: bool = False,
    after_loss: bool = False,
    is_migrated: bool = True,
) -> OfficersLedger:
    """Returns the ledger at a URL, or that in the key store, as people have it; see `Ledger`.

    Raises:
        UsageError: There is none, or it cannot be opened, or it is not migrated, and must be.
        LedgerError: There is none any more.
    """
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger

    url = ledger_url(url, store, makes=new or after_loss)
    ledger = OfficersLedger(url, accounts, new=new, store=store, after_loss=after_loss)
    if new:
        ledger.make_tables()
    if is_migrated:
        check_migrated(ledger, store)
    return ledger


# --- A backup of a ledger, and a ledger that is made of one again. --------------------------------
# A backup is a file of JSON lines: the entries as `tracecloak ledger export` prints them, what
# windows counted, and a last line with the number of entries and the hash of the last one. A file
# that was cut off lacks that line, and what was changed in it breaks the chain of hashes. Sketches
# of cases are not in it, as they are erased from the ledger and could not be erased from backups.
#
# Whoever restores a ledger does not know what was paid after the backup. So the restored ledger
# says of itself that it is one, and no release is paid with it until somebody accepted that, which
# counts what the caps left as spent.


_WHAT = "ledger of tracecloak"
_FIRST = sa.select(database.TABLE.c.seq).limit(1)


def back_up(ledger: Ledger, path: str) -> Entry:
    """Writes all entries of a ledger, and what windows counted, into a file.

    The file appears whole or not at all. Units that are not what the ledger says are left out.

    Args:
        ledger: The ledger.
        path: The file, on this machine or any file system.

    Returns:
        The last entry, whose hash tells the backup.

    Raises:
        UsageError: There is a file at that path, or nothing in the ledger.
        LedgerError: The ledger cannot be read, or does not say what was written into it.
    """
    files.require_file_system("output", path)
    if files.exists(path):
        raise UsageError(f"output {path!r} exists, and may be the last good backup; name another")
    entries = ledger.entries()
    if not entries:
        raise UsageError(f"{ledger.place} has no entries yet: there is nothing to back up")
    if faults := problems(entries):
        raise LedgerError(
            f"{ledger.place} is not sound, so it is not backed up: {faults[0]} (problems in all: "
            f"{len(faults)}); see `tracecloak ledger verify`"
        )
    from tracecloak.pipelines.ledger.case_registry import Claimed, units_of

    head = entries[-1]
    claims = (one for one in units_of(ledger, entries) if isinstance(one, Claimed))
    units = ({"units": base64.b64encode(claim.to_bytes()).decode()} for claim in claims)
    end = {"backup_of": _WHAT, "entries": head.seq, "hash": head.hash}
    lines = [json.dumps(line) for line in (*map(asdict, entries), *units, end)]
    files.write_new(path, "".join(f"{line}\n" for line in lines).encode())
    return head


def restore(store: KeyStore, url: str | None, path: str, by: str, reason: str) -> tuple[str, int]:
    """Makes a ledger of a backup, at once or not at all.

    Args:
        store: The key store whose own ledger it is, where no URL says another.
        url: Of the database; None: the file in the key store.
        path: The backup.
        by: Who restores it.
        reason: Why.

    Returns:
        How messages name the ledger, and how many entries the backup has.

    Raises:
        UsageError: There is a ledger with entries already, or the file is no whole backup, or
            nobody and no reason is named.
        LedgerError: The database cannot be used.
    """
    details = signed(by, reason)
    entries, units = _parts_of(path)
    place = database.Database(ledger_url(url, store, makes=True))
    mark = Entry.after(entries[-1], "restore", NO_COLUMNS, details)
    rows = [asdict(entry) for entry in (*entries, mark)]
    windows = LedgerSnapshot.of(entries).rows

    def make(connection: sa.Connection) -> None:
        if database.is_there(place, connection) and connection.execute(_FIRST).first() is not None:
            raise UsageError(f"{place.place} has entries: move it away first, or name another")
        for table in database.TABLES:
            table.create(connection, checkfirst=True)
        tables = {database.TABLE: rows, database.UNITS: units, database.WINDOWS: windows}
        database.insert(connection, tables)

    place.make_file()
    place.transact(make, writes=True)
    return place.place, len(entries)


def _parts_of(path: str) -> tuple[list[Entry], list[dict[str, Any]]]:
    """Returns the entries of a whole backup, and its rows of units.

    Raises:
        UsageError: It is not there, or not whole, or was changed.
    """
    files.require_file_system("backup", path)
    text = files.read_if_there(path)
    if text is None:
        raise UsageError(f"backup {path!r} is not there; correct the path")
    try:
        *lines, end = [json.loads(line) for line in text.decode().splitlines()]
        units = [base64.b64decode(line["units"]) for line in lines if "units" in line]
        entries = [Entry(**line) for line in lines if "units" not in line]
        whole = {"backup_of": _WHAT, "entries": len(entries), "hash": entries[-1].hash}
        faults = problems(entries) if end == whole else ["its last line does not match its entries"]
    except (ValueError, TypeError, KeyError, IndexError):
        faults = ["it does not consist of entries as JSON lines"]
    if faults:
        raise UsageError(f"backup {path!r} is not complete: {faults[0]}; use another backup")
    from tracecloak.pipelines.ledger.case_registry import claim_in

    by_sha256 = {hashlib.sha256(data).hexdigest(): data for data in units}
    named = [(e.seq, e.units_sha256) for e in entries if e.units_sha256 in by_sha256]
    claims = [(seq, claim_in(by_sha256[sha256], sha256)) for seq, sha256 in named if sha256]
    return entries, [row for seq, claim in claims if claim for row in claim.rows(seq)]
