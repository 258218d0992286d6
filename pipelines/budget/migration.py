"""`tracecloak ledger migrate`: takes over what an earlier version left in ledger and key store.

Each step does nothing where nothing is to be done, and may be cut off anywhere and run again. Until
the last one is done, nothing else is done with that ledger and that key store. On PostgreSQL the
owner of the tables runs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tracecloak.pipelines.ledger.balance import KnownCharge, charge_states, claims_of
from tracecloak.pipelines.ledger.cache import COPIES, Head, damaged
from tracecloak.pipelines.ledger.case_registry import claim_in
from tracecloak.pipelines.ledger.database import UNITS, Database
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.transforms.files import absolute, join, read_if_there

if TYPE_CHECKING:
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.ledger.ledger import Ledger
    from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger


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
            raise damaged(store.path / name) from None
        store.write(name.removesuffix("jsonl") + "head", json.dumps(asdict(Head.after(past))))
        done.append(f"of the {past.seq} entries in {store.path / name} the last one is kept")
        store.remove(name)
    return done


# --- What earlier versions kept of counted units: a file of each claim, named by its SHA-256. -----


def units_of_files(ledger: Ledger, store: KeyStore, settings: Mapping[str, Any]) -> list[str]:
    """Takes what is in these files into the ledger, a claim at a time, in the ledger's order.

    Where a file is missing or was changed, no later one of its scope is taken in, so that no window
    of the scope is released. Whoever is cut off calls it again. The files stay.

    Args:
        ledger: The ledger, which this user may write.
        store: The key store, which loses its index of the files.
        settings: With the folder of the files, `book`, if it is not the usual one in the key store.

    Returns:
        What was done, and what is missing, a sentence each; nothing: there was nothing to do.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    folder = absolute(settings.get("book") or str(store.path / "book"))
    database, n_taken, faults = Database(ledger.url), 0, dict[str, str]()
    database.make(UNITS)
    for known in claims_of(map(KnownCharge.of, charge_states(ledger.entries()).values())):
        scope, label, seq = known.scope, known.label, known.claim or 0
        if scope in faults or database.transact(partial(_has, seq=seq), writes=False):
            continue
        path = join(folder, scope, f"{known.units}.units")
        what, data = "is not there", None
        try:
            data = read_if_there(path)
        except OSError as error:
            what = f"cannot be read ({type(error).__name__})"
        claimed = claim_in(data or b"", str(known.units))
        if claimed is None:
            what = what if data is None else "was changed"
            faults[scope] = (
                f"{path}, with the units that window {label} counted, {what}: no window of its "
                "schedule is released until it is restored and this command has run again"
            )
            continue
        database.transact(partial(_insert, rows=claimed.rows(seq)), writes=True)
        n_taken += 1
    index = [] if faults else store.names("units/*")
    store.remove(*index)
    done = f"took in from {folder} what windows counted: {n_taken} claims; back the ledger up"
    gone = f"removed the index of these files from {store.path}, as it is needed no longer"
    return [*[done] * bool(n_taken), *[gone] * bool(index), *faults.values()]


def _has(connection: sa.Connection, seq: int) -> bool:
    there = sa.select(UNITS.c.seq).where(UNITS.c.seq == seq).limit(1)
    return connection.execute(there).first() is not None


def _insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    if not _has(connection, rows[0]["seq"]):
        connection.execute(sa.insert(UNITS), rows)
