"""The table of a ledger's entries: its columns, what is read of it, and what version 0.1 had."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from tracecloak.pipelines.budget.database import Database
from tracecloak.pipelines.budget.entries import Entry
from tracecloak.pipelines.budget.noted_cases import NotedCases
from tracecloak.schemas.errors import UsageError

TABLE = sa.Table(
    "tracecloak_ledger",
    sa.MetaData(),
    sa.Column(
        "seq",
        sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        primary_key=True,
        autoincrement=False,
    ),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("release_id", sa.Text, nullable=False),
    sa.Column("output", sa.Text, nullable=False),
    sa.Column("action", sa.String(16), nullable=False),
    sa.Column("epsilon", sa.Text),
    sa.Column("delta", sa.Text),
    sa.Column("unit", sa.String(16), nullable=False),
    sa.Column("adjacency", sa.String(16), nullable=False),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("spends", sa.Text, nullable=False),
    sa.Column("config_digest", sa.Text, nullable=False),
    sa.Column("key_fingerprint", sa.Text, nullable=False),
    sa.Column("tool_version", sa.Text, nullable=False),
    sa.Column("recorded_at", sa.String(40), nullable=False),
    sa.Column("previous_hash", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("details", sa.Text, nullable=True),
)

_COLUMNS: frozenset[str] = frozenset(TABLE.columns.keys())
# Of version 0.1.
_EARLIER_COLUMNS = _COLUMNS - {"details"}


def read_entries(connection: sa.Connection) -> list[Entry]:
    """Returns all entries in their order."""
    # One statement sees one state of the table, whatever the isolation level.
    rows = connection.execute(sa.select(TABLE).order_by(TABLE.c.seq)).mappings()
    return [Entry(**{name: _as_written(name, row[name]) for name in row}) for row in rows]


def is_there(database: Database, connection: sa.Connection) -> bool:
    """Returns whether the table is there, and may be read.

    Raises:
        UsageError: Another table is, or one of version 0.1.
    """
    found = _columns_there(database, connection)
    if found is None:
        return False
    if found == _EARLIER_COLUMNS:
        raise UsageError(
            f"{database.place} is of version 0.1: run `tracecloak ledger migrate` once "
            "with the same ledger or key_store, which keeps all that it says"
        )
    if found != _COLUMNS:
        raise UsageError(
            f"{database.place} is not a ledger of this version: its table "
            f"{TABLE.name} has other columns; correct the URL"
        )
    connection.execute(sa.select(TABLE.c.seq).limit(1))  # may this user read it?
    return True


def migrate(url: str) -> bool:
    """Gives a ledger of version 0.1 what it lacks; its entries and hashes stay.

    Args:
        url: See `Ledger`.

    Returns:
        Whether it lacked a column.

    Raises:
        UsageError: There is no ledger.
        LedgerError: It cannot be changed; on a server its owner must do that.
    """
    database = Database(url, 30.0)

    def columns(connection: sa.Connection) -> frozenset[str] | None:
        return _columns_there(database, connection)

    def change(connection: sa.Connection) -> bool:
        is_earlier = columns(connection) == _EARLIER_COLUMNS  # another may have been first
        if is_earlier:
            connection.exec_driver_sql(f"ALTER TABLE {TABLE.name} ADD COLUMN details TEXT")
        return is_earlier

    found = None if database.is_missing else database.transact(columns, writes=False)
    if found not in (_COLUMNS, _EARLIER_COLUMNS):
        raise UsageError(f"{database.place} is no ledger; correct ledger or key_store")
    NotedCases(url).make()
    return found == _EARLIER_COLUMNS and database.transact(change, writes=True)


def _columns_there(database: Database, connection: sa.Connection) -> frozenset[str] | None:
    """Returns the columns of the ledger's table; None: there is no table."""
    inspector = sa.inspect(connection)
    names = inspector.get_table_names()
    if TABLE.name in names:
        return frozenset(column["name"] for column in inspector.get_columns(TABLE.name))
    if names and not database.is_shared:
        raise UsageError(
            f"{database.place} is not a ledger: the database holds other tables; correct the URL"
        )
    return None


def _as_written(name: str, value: Any) -> Any:
    """Returns a column's value with the type that a ledger writes; SQLite keeps any it gets."""
    if name == "details" and value is None:
        return ""
    if name == "seq" or (value is None and name in ("epsilon", "delta")):
        return value
    return str(value)
