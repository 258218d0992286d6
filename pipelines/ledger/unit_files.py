"""What earlier versions kept of counted units: a file of each claim, named after its SHA-256."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tracecloak.pipelines.ledger.database import UNITS, Database
from tracecloak.transforms.files import absolute, join, read_if_there

if TYPE_CHECKING:
    from tracecloak.pipelines.keys.key_store import KeyStore
    from tracecloak.pipelines.ledger.ledger import Ledger


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
        OSError: A file is there, and cannot be read.
    """
    folder = absolute(settings.get("book") or str(store.path / "book"))
    from tracecloak.pipelines.ledger.case_registry import claim_in, claims_of

    database, n_taken, faults = Database(ledger.url), 0, dict[str, str]()
    database.make(UNITS)
    for scope, label, seq, sha256 in claims_of(ledger.entries()):
        if scope in faults or database.transact(partial(_has, seq=seq), writes=False):
            continue
        path = join(folder, scope, f"{sha256}.units")
        data = read_if_there(path)
        claimed = None if data is None else claim_in(data, sha256)
        if claimed is None:
            what = "is not there" if data is None else "was changed"
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
