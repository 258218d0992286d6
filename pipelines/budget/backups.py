"""A backup of a ledger, and a ledger that is made of one again.

A backup is a file of JSON lines: the entries as `tracecloak ledger export` prints them, and a last
line with their number and the hash of the last one. A file that was cut off lacks that line, and
what was changed in it breaks the chain of hashes. Sketches of cases are not in it, as they are
erased from the ledger and could not be erased from backups.

Whoever restores a ledger does not know what was paid after the backup. So the restored ledger says
of itself that it is one, and no release is paid with it until the key stores that paid with it
before have said what they paid since; see `declarations.awaited_stores`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from tracecloak.pipelines.budget.opening import ledger_url
from tracecloak.pipelines.cases.noted_cases import NotedCases
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.chain import problems
from tracecloak.pipelines.ledger.database import TABLE, Database, LedgerError, is_there
from tracecloak.pipelines.ledger.declarations import (
    NO_COLUMNS,
    awaited_stores,
    awaited_text,
)
from tracecloak.pipelines.ledger.entries import Entry, signed
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import exists, read_if_there, require_file_system, write_new

_WHAT = "ledger of tracecloak"
# A database has few hundred parameters to a statement at least; one row has eighteen.
_ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Restored:
    """A ledger that was made of a backup.

    Attributes:
        place: How messages name it.
        n_entries: How many entries the backup has.
        awaited: The key stores that have to say what they paid since.
        text: What is to be done now, as a sentence without its full stop.
    """

    place: str
    n_entries: int
    awaited: tuple[str, ...]
    text: str


def back_up(ledger: Ledger, path: str) -> Entry:
    """Writes all entries of a ledger into a file that appears whole or not at all.

    Args:
        ledger: The ledger.
        path: The file, on this machine or any file system.

    Returns:
        The last entry, whose hash tells the backup.

    Raises:
        UsageError: There is a file at that path, or nothing in the ledger.
        LedgerError: The ledger cannot be read, or does not say what was written into it.
    """
    require_file_system("output", path)
    if exists(path):
        raise UsageError(
            f"output {path!r} is there already, and may be the last good backup; name another file"
        )
    entries = ledger.entries()
    if not entries:
        raise UsageError(f"{ledger.place} has no entries yet: there is nothing to back up")
    if faults := problems(entries):
        raise LedgerError(
            f"{ledger.place} is not sound, and is not backed up over what was: {faults[0]} "
            f"(problems in all: {len(faults)}); see `tracecloak ledger verify`"
        )
    head = entries[-1]
    end = {"backup_of": _WHAT, "entries": head.seq, "hash": head.hash}
    lines = [json.dumps(line) for line in (*map(asdict, entries), end)]
    write_new(path, "".join(f"{line}\n" for line in lines).encode())
    return head


def restore(store: KeyStore, url: str | None, path: str, by: str, reason: str) -> Restored:
    """Makes a ledger of a backup, at once or not at all.

    Args:
        store: The key store whose own ledger it is, where no URL says another.
        url: Of the database; None: the file in the key store.
        path: The backup.
        by: Who restores it.
        reason: Why.

    Raises:
        UsageError: There is a ledger with entries already, or the file is no whole backup, or
            nobody and no reason is named.
        LedgerError: The database cannot be used.
    """
    details = signed(by, reason)
    entries = _entries_of(path)
    if url is None:
        store.make_ledger_file()
    url = ledger_url(url, store)
    database = Database(url, patience_seconds=30.0)
    known = dict.fromkeys(
        str(entry.facts["store"])
        for entry in entries
        if entry.action == "reserve" and "store" in entry.facts
    )
    mark = Entry.after(entries[-1], "restore", NO_COLUMNS, {**details, "awaits": sorted(known)})
    rows = [asdict(entry) for entry in (*entries, mark)]

    def make(connection: sa.Connection) -> None:
        if not is_there(database, connection):
            TABLE.create(connection)
        elif connection.execute(sa.select(TABLE.c.seq).limit(1)).first() is not None:
            raise UsageError(
                f"{database.place} has entries, and what they say was spent is not replaced: move "
                "that ledger away first if it is damaged, or name another with --ledger"
            )
        for begin in range(0, len(rows), _ROWS_AT_ONCE):
            connection.execute(sa.insert(TABLE), rows[begin : begin + _ROWS_AT_ONCE])

    database.make_file()
    database.transact(make, writes=True)
    NotedCases(url).make()
    awaited = tuple(awaited_stores([*entries, mark]))
    return Restored(database.place, len(entries), awaited, awaited_text(database.place, awaited))


def _entries_of(path: str) -> list[Entry]:
    """Returns the entries of a whole backup.

    Raises:
        UsageError: It is not there, or not whole, or was changed.
    """
    require_file_system("backup", path)
    text = read_if_there(path)
    if text is None:
        raise UsageError(f"backup {path!r} is not there; correct the path")
    refusal = (
        f"backup {path!r} is not whole: it was cut off or changed, or `tracecloak ledger backup` "
        "did not write it; use another backup"
    )
    try:
        *lines, end = [json.loads(line) for line in text.decode().splitlines()]
        entries = [Entry(**line) for line in lines]
        is_whole = end == {"backup_of": _WHAT, "entries": len(entries), "hash": entries[-1].hash}
    except (ValueError, TypeError, KeyError, IndexError):
        raise UsageError(refusal) from None
    faults = problems(entries) if is_whole else [""]
    if faults:
        raise UsageError(f"{refusal} ({faults[0]})" if faults[0] else refusal)
    return entries
