"""A key store in a database of PostgreSQL, for machines whose disks do not stay.

Each file of the store is a row. A process works in a copy of them in a folder of its own, and what
it writes is in the database when the call returns. From its first write to its end it holds a lock
of its session, and it writes in no other session. So one process writes at a time, one that lost
its connection writes nothing more, and the next begins with all that was written. A process that
only reads takes no lock.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.configuration.shared_keys import AccountConfig
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.database import Database
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.schemas.texts import has_secret
from tracecloak.transforms.files import is_on_this_machine, write_private
from tracecloak.transforms.keys.sources import referred

_ROWS = sa.Table(
    "tracecloak_key_store",
    sa.MetaData(),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
# All that a store needs again: no locks.
_FILES = ("*.secret", "generation", "releases/*.*", "ledgers/*.*")
# The advisory lock of the database: a number that nobody else takes.
_LOCK = 0x7472_6163_6B65_7973
# The server notices within two minutes that a machine is gone, and frees its lock.
_NOTICES = {"tcp_keepalives_idle": 60, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 6}


def require_lasting(config: AccountConfig) -> None:
    """Makes sure that a key store in a database is enough for what is configured.

    Raises:
        UsageError: It is a stream, or of several jobs; something that is needed again would be on
            this machine alone; or a password would be in the database.
    """
    if not isinstance(config, ReleaseConfig):
        raise UsageError("key_store is a database, which no stream writes: give a lasting folder")
    if config.jobs > 1:
        raise UsageError("key_store is a database, which one process writes: set jobs to 1")
    ledger = referred(config.ledger or "").removeprefix("sqlite:")
    # Findings and decisions of the operator are in the folder of worker_keys, too.
    for name, place in ("ledger", ledger), ("worker_keys", config.worker_keys):
        if is_on_this_machine(place or ""):
            raise UsageError(
                f"key_store is a database, for a machine whose disk does not last: {name} must be "
                "elsewhere; give a postgresql+psycopg://HOST/DATABASE or gs://BUCKET/FOLDER"
            )
    if has_secret(ledger):
        raise UsageError("key_store is a database: give the password of ledger with PGPASSWORD")


class DatabaseKeyStore(KeyStore):
    """The key store in one database; see the module."""

    is_in_database = True

    def __init__(
        self, url: str, worker_keys: str | None = None, key_encryption_key: str | None = None
    ) -> None:
        """Reads the rows, once in a process; see `KeyStore`.

        Args:
            url: SQLAlchemy URL, without a password.
            worker_keys: See `KeyStore`.
            key_encryption_key: See `KeyStore`; it must be named, as backups have deleted keys.

        Raises:
            UsageError: The URL is not one of PostgreSQL or has a password, or that key is missing.
            RetryLater: The database cannot be read now.
        """
        if not re.match(r"postgresql(\+\w+)?://", url) or has_secret(url):
            raise UsageError(
                "key_store must be a folder of this machine, or postgresql+psycopg://USER@HOST/"
                "DATABASE with its password in PGPASSWORD"
            )
        if key_encryption_key is None:
            raise UsageError(
                "key_encryption_key (or TRACECLOAK_KEY_ENCRYPTION_KEY) is missing: backups of the "
                "database of key_store would have deleted keys in clear"
            )
        self._copy = _copy_of(url)
        super().__init__(self._copy.folder, worker_keys, key_encryption_key)

    @property
    def ledger_url(self) -> str:
        """No ledger is beside these keys.

        Raises:
            UsageError: Always.
        """
        raise UsageError("key_store is a database: give the URL of the ledger with ledger")

    def descriptor(self, name: str) -> int:
        """Opens a file for reading and writing, once this process alone writes."""
        self._copy.lock()
        return super().descriptor(name)

    def save(self) -> None:
        """Has all that was written be in the database."""
        self._copy.save()


class _WorkingCopy:
    """The rows as files of this machine, as long as the process lives."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, 0)
        self._session: sa.Connection | None = None
        with self._explained(), self._database.connect() as connection:
            self._saved = self._rows(connection)
        self.folder = Path(tempfile.mkdtemp(prefix="tracecloak-keys-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        for name, body in self._saved.items():
            write_private(self.folder / name, body)

    def lock(self) -> sa.Connection:
        """Returns the session that alone writes; RetryLater: another process writes or wrote."""
        if self._session is None:
            with self._explained():
                self._session = self._database.connect()
                with self._session.begin():
                    for name, seconds in _NOTICES.items():
                        self._session.exec_driver_sql(f"SET {name} = {seconds}")
                    asked = sa.select(sa.func.pg_try_advisory_lock(_LOCK))
                    if not self._session.scalar(asked) or self._rows(self._session) != self._saved:
                        raise sa.exc.ResourceClosedError("another process has it")
                    _ROWS.create(self._session, checkfirst=True)
        return self._session

    def save(self) -> None:
        """Writes what differs from the database, all or nothing; RetryLater: it could not."""
        session = self.lock()
        paths = [path for pattern in _FILES for path in self.folder.glob(pattern)]
        files = {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in paths
            if path.suffix != ".lock"
        }
        changed = [n for n in files | self._saved if files.get(n) != self._saved.get(n)]
        with self._explained(), session.begin():
            session.execute(_ROWS.delete().where(_ROWS.c.name.in_(changed)))
            for name in files.keys() & changed:
                session.execute(_ROWS.insert().values(name=name, body=files[name]))
        self._saved = files

    def _rows(self, connection: sa.Connection) -> dict[str, bytes]:
        if not sa.inspect(connection).has_table(_ROWS.name):
            return {}
        return {name: bytes(body) for name, body in connection.execute(sa.select(_ROWS))}

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Names the database that failed, and ends its session: another has no lock."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            if self._session is not None:
                self._session.close()
            raise RetryLater(
                f"key store: {self._database.place.removeprefix('ledger ')} is in use by another "
                f"process or away ({type(error).__name__}); its login must own it: run again later"
            ) from None


# A second copy in one process would wait for the lock of the first.
_copy_of = functools.cache(_WorkingCopy)
