"""Which windows counted a case, found by the case: an index of a book's files in SQLite.

It lies beside the keys, where nobody else writes, and has the units of each file that the ledger
named when it was taken in. Its content was compared with the ledger then, so who writes the folder
of the book cannot move what is here. One more window looks up its own units, and reads only the
files that came since; however many windows there are, that takes the same time.

All of it follows from the files: one that is missing, damaged, or of another version of tracecloak
is made anew of them. One process at a time has it, and what is taken in together is there as a
whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from tracecloak.anonymizers.contract.case_digests import CountedUnits
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError

_Answer = TypeVar("_Answer")

# Raised with any table: an index of another version is made anew.
_VERSION = 1
_SCHEMA = f"""
    CREATE TABLE files (file INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE);
    CREATE TABLE units (word INTEGER NOT NULL, rest BLOB NOT NULL, file INTEGER NOT NULL,
        PRIMARY KEY (word, rest, file)) WITHOUT ROWID;
    PRAGMA user_version = {_VERSION};
"""
_DAMAGED = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Rows that are values of Python at a time, and words of one query.
_N_ROWS, _N_WORDS = 1 << 16, 500
# What is read of a large index again and again while many files are taken in.
_CACHE_KIB = 1 << 16


class UnitIndex:
    """The index of one book, open."""

    def __init__(self, path: Path | None) -> None:
        """Opens it, and makes it where the file is empty.

        Args:
            path: A file that is there; None: in memory.

        Raises:
            sqlite3.Error: The file is damaged, of another version, or cannot be used.
        """
        self._database = sqlite3.connect(
            ":memory:" if path is None else path, isolation_level=None, check_same_thread=False
        )
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        [version] = self._database.execute("PRAGMA user_version").fetchone()
        if version == 0:
            with whole_change(self._database):
                for statement in _SCHEMA.split(";"):
                    self._database.execute(statement)
        elif version != _VERSION:
            self.close()
            raise _OtherVersion

    def close(self) -> None:
        """Ends it; one in memory is gone."""
        self._database.close()

    def files(self) -> set[str]:
        """Returns the SHA-256 of the files that were taken in."""
        return {sha256 for (sha256,) in self._database.execute("SELECT sha256 FROM files")}

    def take_in(self, files: Mapping[str, CountedUnits]) -> None:
        """Takes in files that are not here, all or none of them.

        Args:
            files: The units of each, by its SHA-256; all of cases, or all of individuals.
        """
        with whole_change(self._database):
            insert = "INSERT INTO files (sha256) VALUES (?)"
            numbers = [self._database.execute(insert, (sha256,)).lastrowid or 0 for sha256 in files]
            weights = [units.weight for units in files.values()]
            digests = [units.digests for units in files.values() if units.weight]
            if digests:
                self._insert(np.concatenate(digests), np.repeat(numbers, weights))

    def _insert(self, digests: np.ndarray, numbers: np.ndarray) -> None:
        words = digests[:, 0].view(np.int64)
        rests = np.ascontiguousarray(digests[:, 1:], "<u8")
        rests = rests.view(f"V{rests.shape[1] * rests.itemsize}")[:, 0]
        order = np.argsort(words)  # in which neighbours are written together
        for at in range(0, len(order), _N_ROWS):
            some = order[at : at + _N_ROWS]
            columns = words[some].tolist(), rests[some].tolist(), numbers[some].tolist()
            self._database.executemany(
                "INSERT INTO units VALUES (?, ?, ?)", zip(*columns, strict=True)
            )

    def files_with_same(self, units: CountedUnits) -> dict[str, CountedUnits]:
        """Returns what files have of the same cases or individuals as some units.

        Returns:
            By the SHA-256 of each file that has any; by chance with a few others, too.
        """
        words = np.unique(units.digests[:, 0]).view(np.int64).tolist()
        by_file: dict[str, list[tuple[int, bytes]]] = {}
        for at in range(0, len(words), _N_WORDS):
            some = words[at : at + _N_WORDS]
            rows = self._database.execute(
                "SELECT sha256, word, rest FROM units JOIN files USING (file) WHERE word IN "
                f"({', '.join('?' * len(some))})",
                some,
            )
            for sha256, word, rest in rows:
                by_file.setdefault(sha256, []).append((word, rest))
        return {sha256: _units(rows) for sha256, rows in by_file.items()}

    def weights(self) -> dict[str, int]:
        """Returns how many units each file has that has any; reads all of the index."""
        asked = "SELECT sha256, count(*) FROM units JOIN files USING (file) GROUP BY file"
        return dict(self._database.execute(asked).fetchall())


@contextlib.contextmanager
def whole_change(database: sqlite3.Connection) -> Iterator[None]:
    """Does all of the block or nothing of it, and lets nobody else write meanwhile."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")


def index_name(folder: str) -> str:
    """Returns the file of the index of the book in a folder, relative to a key store."""
    return f"units/{hashlib.sha256(folder.encode()).hexdigest()[:32]}.db"


def asked_of_index(store: KeyStore, name: str, ask: Callable[[UnitIndex], _Answer]) -> _Answer:
    """Returns an answer of an index, which one process at a time has.

    Args:
        store: The key store that has it.
        name: Of its file, see `index_name`.
        ask: Is given the index, and takes in what that lacks. It is called again with an empty one
            where this one is damaged.

    Raises:
        RetryLater: Another process has it all the time.
        KeyStoreError: It cannot be used.
    """
    may_rebuild = True
    with store.locked(f"{name.removesuffix('.db')}.lock"):
        while True:
            try:
                with contextlib.closing(UnitIndex(store.touch(name))) as index:
                    return ask(index)
            except sqlite3.Error as error:
                if not (may_rebuild and _is_damage(error)):
                    raise KeyStoreError(
                        f"the key store's index of the book, {store.path / name}, cannot be used: "
                        f"{error}; check its disk and its permissions, and run again"
                    ) from error
            may_rebuild = False
            store.remove(name, f"{name}-journal")


class _OtherVersion(sqlite3.DatabaseError):
    """The index was made by another version of tracecloak."""


def _is_damage(error: sqlite3.Error) -> bool:
    """Returns whether an index has to be made anew; a disk that is full or slow is no reason."""
    code = getattr(error, "sqlite_errorcode", None)  # none of what Python's module raises itself
    return isinstance(error, _OtherVersion) or (code is not None and code & 0xFF in _DAMAGED)


def _units(rows: list[tuple[int, bytes]]) -> CountedUnits:
    words = np.array([word for word, _ in rows], np.int64).view(np.uint64)
    rests = np.frombuffer(b"".join(rest for _, rest in rows), "<u8").astype(np.uint64)
    return CountedUnits.of(np.column_stack([words, rests.reshape(len(rows), -1)]))
