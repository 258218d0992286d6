"""The database that a ledger is kept in: its URL, its transactions, and what its errors mean.

A message names the database by host and name, never by user, password or options, and never quotes
a driver, which could quote what it was given.

The table of a ledger's entries: its columns, and what is read of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError, missing_extra


def required_columns(**lengths: int | None) -> list[sa.Column[str]]:
    """Returns columns of text that always have a value, by their longest one; None: any."""
    return [
        sa.Column(name, sa.String(length) if length else sa.Text, nullable=False)
        for name, length in lengths.items()
    ]


TABLE = sa.Table(
    "tracecloak_ledger",
    sa.MetaData(),
    sa.Column(
        "seq",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        primary_key=True,
        autoincrement=False,
    ),
    *required_columns(account=None, release_id=None, output=None, action=16),
    sa.Column("epsilon", sa.Text),
    sa.Column("delta", sa.Text),
    *required_columns(unit=16, adjacency=16, method=None, spends=None, config_digest=None),
    *required_columns(key_fingerprint=None, tool_version=None),
    *required_columns(recorded_at=40, previous_hash=64, hash=64),
    sa.Column("details", sa.Text, nullable=True),
)

# What a ledger notes of the cases that releases read, see `pipelines.ledger.noted_cases`.
CASES = sa.Table(
    "tracecloak_cases",
    sa.MetaData(),
    sa.Column("charge", sa.String(64), primary_key=True),
    *required_columns(account=None, output=None, release_id=None, deployment_key=16),
    *required_columns(noted_on=10, kept_until=10),
    sa.Column("sketch", sa.LargeBinary, nullable=False),
)

# What windows counted, see `pipelines.ledger.case_registry`: the rows of a claim, by its entry.
UNITS = sa.Table(
    "tracecloak_units",
    sa.MetaData(),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("word", sa.BigInteger, primary_key=True, index=True),
    sa.Column("rest", sa.LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)

# What each charge of a window cost and claimed once it was closed, as JSON, by the entry that
# closed it; it follows from the entries, see `pipelines.ledger.snapshot`.
WINDOWS = sa.Table(
    "tracecloak_windows",
    sa.MetaData(),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    *required_columns(scope=None, body=None),
    sa.Index("tracecloak_windows_of_scope", "scope", "seq"),
)

# All tables of a ledger.
TABLES = (TABLE, CASES, UNITS, WINDOWS)

# Literally, as databases compare it with the condition of the index. Streams have many steps.
NO_STEP = TABLE.c.action != sa.literal_column("'step'")
# The entries of one release; a condition for PostgreSQL would load its dialect everywhere.
INDEX = sa.Index(
    "tracecloak_ledger_of_release", TABLE.c.release_id, TABLE.c.output, sqlite_where=NO_STEP
)

_NAMES = tuple(field.name for field in fields(Entry))


# Returns the rows of a table that are asked for.
Asks = Callable[[sa.Select[Any]], Sequence[Any]]


def asks(connection: sa.Connection) -> Asks:
    """Returns what asks within the transaction of a connection."""
    return lambda asked: connection.execute(asked).all()


def read_entries(ask: Asks, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
    """Returns the entries that satisfy conditions, in their order; without any, all."""
    # One statement sees one state of the table, whatever the isolation level.
    asked = sa.select(*(TABLE.c[name] for name in _NAMES)).where(*conditions).order_by(TABLE.c.seq)
    return [Entry(*map(_as_written, _NAMES, row)) for row in ask(asked)]


def insert(connection: sa.Connection, rows: Mapping[sa.Table, Sequence[dict[str, Any]]]) -> None:
    """Inserts rows into tables."""
    for table, some in rows.items():
        if some:
            connection.execute(sa.insert(table), some)


def read_windows(ask: Asks) -> list[dict[str, Any]]:
    """Returns what the table of windows has."""
    return [dict(row._mapping) for row in ask(sa.select(WINDOWS).order_by(WINDOWS.c.seq))]


def is_there(database: Database, connection: sa.Connection) -> bool:
    """Returns whether the table is there, and may be read.

    Raises:
        UsageError: Another table is.
    """
    inspector = sa.inspect(connection)
    names, what = inspector.get_table_names(), ""
    if TABLE.name not in names:
        if database.is_shared or not names:
            return False
        what = "the database has other tables"
    elif {one["name"] for one in inspector.get_columns(TABLE.name)} != {*TABLE.columns.keys()}:
        what = f"its table {TABLE.name} has other columns than this version writes"
    if what:
        raise UsageError(f"{database.place} is not a ledger: {what}; correct the URL")
    connection.execute(sa.select(TABLE.c.seq).limit(1))  # may this user read it?
    return True


def _as_written(name: str, value: Any) -> Any:
    """Returns a column's value with the type that a ledger writes; SQLite keeps any it gets."""
    if type(value) is str or name == "seq":
        return value
    if value is None and name in ("epsilon", "delta", "details"):
        return "" if name == "details" else None
    return str(value)


# Seconds that one statement waits for somebody's lock; several such waits fit a call's patience.
_LOCK_SECONDS = 5.0
# Seconds until a server that does not answer at all counts as unreachable.
_CONNECT_SECONDS = 10
# Seconds for which a server that never answered is asked again.
_FIRST_SECONDS = 3.0
# Pauses between tries are drawn evenly below a limit that grows from 5 ms to half a second.
_FIRST_PAUSE_US = 5_000
_LONGEST_PAUSE_US = 500_000

_URLS = (
    "write sqlite:////absolute/path/ledger.sqlite or postgresql+psycopg://USER@HOST/DATABASE with "
    "its password in PGPASSWORD, or env:NAME"
)
_LOCKED = "is locked by another process; wait for that process or end it, and run again"
_UNREACHABLE = "does not answer; start the server, or correct the URL (host, port, user, password)"
# By primary result code of SQLite, https://www.sqlite.org/rescode.html, and by SQLSTATE or its
# class of two characters.
_REMEDIES: Mapping[int | str, str] = {
    5: _LOCKED,
    6: _LOCKED,
    8: "cannot be written; give this user write permission on the file and on its folder",
    10: "cannot be read or written by its disk; free or repair the disk",
    11: "is damaged; restore the file from a backup",
    13: "has no space left on its disk; free some",
    14: "cannot be opened; make its folder, let this user write there, or correct the URL",
    26: "is not an SQLite database; correct the URL",
    "25006": "can only be read; use the URL of the primary server",
    "28": "refuses the user or the password; correct the URL",
    "3D": "does not exist on the server; create it or correct the URL",
    "42501": "gives this user no permission; grant SELECT and INSERT on its table, leave to the "
    "privacy officer what is the officer's, and its tables to `tracecloak ledger begin`",
    "42P01": "lacks a table; its owner runs `tracecloak ledger migrate`",
    "53": "has no disk, memory or connections left; free some and run again",
    "55P03": _LOCKED,
}
_SQLITE_OTHER = "cannot be read as a ledger; correct the URL or restore the file from a backup"
_BUSY = (5, 6, "40001", "40P01", "55P03")
# Connections that break, servers that start, stop or are full.
_PASSING = ("08", "53", "57")

_T = TypeVar("_T")


class LedgerError(TracecloakError, section="The ledger cannot be used"):
    """The ledger cannot be read or written now, so nothing may be released."""


class LedgerUnavailable(LedgerError, RetryLater, exit_code=75, section="The ledger is locked"):  # noqa: N818 - a state
    """The ledger is locked, does not answer or has no connection left: that may pass."""


class MadeByAnother(RetryLater):
    """Another key store paid for the same release, or the same epoch of a stream."""


class Database:
    """Transactions on one database. Holds no connection in between, so it survives a fork.

    Attributes:
        place: How messages name it.
        is_shared: Whether other machines reach it, too: whether it is anything but SQLite.
    """

    def __init__(self, url: str, patience_seconds: float = 30.0) -> None:
        """Does not connect yet.

        Args:
            url: SQLAlchemy URL.
            patience_seconds: How long `transact` tries while others are in the way.

        Raises:
            UsageError: The URL is none, or its driver is not installed.
        """
        address = _address(url)
        self.place = place_of(url)
        self.is_shared = address.get_backend_name() != "sqlite"
        self._file = None if self.is_shared else Path(str(address.database))
        self._patience_seconds = patience_seconds
        self._was_reached = False
        self._lock_seconds = min(_LOCK_SECONDS, patience_seconds)
        self._engine = self._new_engine(address)

    @property
    def is_missing(self) -> bool:
        """Whether it is a file that is not there: SQLite would make it to look into it."""
        return self._file is not None and not self._file.exists()

    def make_file(self) -> None:
        """Makes the file, which only its owner reads, where it is one and not there.

        It raises nothing if that fails: the first transaction says what is wrong with the place.
        """
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))

    def holds(self, table: sa.Table) -> bool:
        """Returns whether a table is there.

        Raises:
            LedgerError: That cannot be read.
        """
        return self.transact(lambda one: bool(sa.inspect(one).has_table(table.name)), writes=False)

    def make(self, table: sa.Table) -> None:
        """Makes a table where there is none.

        Raises:
            LedgerError: This user may not.
        """
        try:
            self.transact(lambda one: table.create(one, checkfirst=True), writes=True)
        except LedgerError:
            # Databases raise several errors if two processes make one table at the same time.
            if not self.holds(table):
                raise

    def transact(self, work: Callable[[sa.Connection], _T], writes: bool) -> _T:
        """Does work in a transaction, and again in a new one while others are in the way.

        The work is done again if an answer was lost, so it must be right to do it twice.

        Raises:
            LedgerUnavailable: It could not be done within the patience.
            LedgerError: It cannot be done at all.
        """
        started = time.monotonic()
        limit_us = _FIRST_PAUSE_US
        while True:
            try:
                with self._transaction(writes) as connection:
                    self._was_reached = True
                    return work(connection)
            except DBAPIError as error:
                if time.monotonic() - started >= self._patience_for(error):
                    remedy, may_pass = _judged(error)
                    kind = LedgerUnavailable if may_pass else LedgerError
                    raise kind(f"{self.place} {remedy}") from None
            time.sleep(secrets.randbelow(limit_us) / 1e6)
            limit_us = min(2 * limit_us, _LONGEST_PAUSE_US)

    def ask(self, asked: sa.Select[Any]) -> Sequence[Any]:
        """Returns the rows that are asked for, in a transaction of their own."""
        return self.transact(lambda one: one.execute(asked).all(), writes=False)

    @contextlib.contextmanager
    def _transaction(self, writes: bool) -> Iterator[sa.Connection]:
        with self.connect() as connection, connection.begin():
            if not self.is_shared:
                # Erased values must not stay readable in the file.
                connection.exec_driver_sql("PRAGMA secure_delete = ON")
                # The write lock first: two readers that both turn writers would block each other.
                connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
            elif connection.dialect.name == "postgresql":
                milliseconds = int(1000 * self._lock_seconds)
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {milliseconds}")
            yield connection

    def _patience_for(self, error: DBAPIError) -> float:
        """Returns for how many seconds the same work may be tried again."""
        if _is_busy(error) or error.connection_invalidated:
            return self._patience_seconds
        if _code(error) != "" or not isinstance(error, OperationalError):
            return 0
        if self._was_reached:  # it may be starting again
            return self._patience_seconds
        return min(self._patience_seconds, _FIRST_SECONDS)

    def connect(self) -> sa.Connection:
        """Returns a connection of its own, which whoever calls closes.

        Raises:
            DBAPIError: The server does not answer or refuses.
            LedgerError: The URL has options that the driver does not know.
        """
        try:
            return self._engine.connect()
        except DBAPIError:
            raise
        except (SQLAlchemyError, ImportError, TypeError, ValueError, OSError) as error:
            # A driver raises this for options that it does not know.
            what = f"cannot be opened ({type(error).__name__}); check the options in its URL"
            raise LedgerError(f"{self.place} {what}") from None

    def _new_engine(self, address: sa.URL) -> sa.Engine:
        arguments: dict[str, Any] = {}
        if not self.is_shared:
            # isolation_level None: the driver leaves BEGIN to `_transaction`.
            arguments = {"timeout": self._lock_seconds, "isolation_level": None}
        elif address.get_backend_name() == "postgresql" and "connect_timeout" not in address.query:
            arguments = {"connect_timeout": _CONNECT_SECONDS}
        try:
            return sa.create_engine(
                address, poolclass=sa.NullPool, connect_args=arguments, hide_parameters=True
            )
        except ImportError as error:
            if error.name == "psycopg":
                raise missing_extra(self.place, "psycopg", "postgresql") from None
            raise UsageError(
                f"{self.place} needs the driver {error.name}; install it, or name another"
            ) from None
        except (SQLAlchemyError, TypeError, ValueError) as error:
            what = f"cannot be used ({type(error).__name__}); check dialect and options in its URL"
            raise UsageError(f"{self.place} {what}") from None


def _address(url: str) -> sa.URL:
    try:
        address = sa.make_url(url)
    except (SQLAlchemyError, ValueError):
        raise UsageError(f"the ledger's URL cannot be read; {_URLS}") from None
    what, name = "", address.database or ""
    if address.get_backend_name() == "sqlite":
        if name in ("", ":memory:") or name.startswith("file:"):
            what = f"names no file, so what is spent would be forgotten; {_URLS}"
        elif address.query:
            what = "names a file, which takes no options after a ?"
    elif "@" in f"{address.host}{name}":
        # Part of a password, then: nothing of it may be shown.
        what = "has an @ too many; write %40 for one in a password"
    if what:
        raise UsageError(f"the ledger's URL {what}")
    return address


def place_of(url: str) -> str:
    """Returns how messages name the database at a URL.

    Raises:
        UsageError: The URL is none.
    """
    address = _address(url)
    if address.get_backend_name() == "sqlite":
        return f"ledger {Path(str(address.database)).absolute()}"
    host = address.host or "the local host"
    port = "" if address.port is None else f":{address.port}"
    return f"ledger {address.database} ({address.get_backend_name()} at {host}{port})"


def _is_busy(error: DBAPIError) -> bool:
    """Returns whether others are in the way, who will be gone."""
    return isinstance(error, IntegrityError) or _code(error) in _BUSY


def _judged(error: DBAPIError) -> tuple[str, bool]:
    """Returns (what is wrong and what to do about it, whether the same work may succeed later)."""
    if isinstance(error, IntegrityError):
        return "is written by too many others at once; run again", True
    code = _code(error)
    if isinstance(code, int):
        return _REMEDIES.get(code, _SQLITE_OTHER), _is_busy(error)
    remedy = _REMEDIES.get(code) or _REMEDIES.get(code[:2]) or _UNREACHABLE
    passes = _is_busy(error) or code[:2] in _PASSING or remedy == _UNREACHABLE
    return remedy, passes


def _code(error: DBAPIError) -> int | str:
    """Returns SQLite's code, or a SQLSTATE; empty: the server said nothing."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is None and type(error.orig).__module__ == "sqlite3":
        return 1  # raised by Python's module itself, such as for text that is no UTF-8
    # psycopg's name for it, then that of psycopg2.
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    return code & 0xFF if code is not None else state if isinstance(state, str) else ""
