"""The table of a ledger's entries: its columns, and what is read of it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from tracecloak.pipelines.ledger.database import Database
from tracecloak.pipelines.ledger.entries import Entry
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
_NAMES = tuple(field.name for field in fields(Entry))


def read_entries(connection: sa.Connection, since: int = 1) -> list[Entry]:
    """Returns the entries in their order.

    Args:
        connection: Of a transaction.
        since: Number of the first.
    """
    # One statement sees one state of the table, whatever the isolation level.
    asked = sa.select(*(TABLE.c[name] for name in _NAMES)).order_by(TABLE.c.seq)
    rows = connection.execute(asked.where(TABLE.c.seq >= since) if since > 1 else asked).all()
    return [Entry(*map(_as_written, _NAMES, row)) for row in rows]


def is_there(database: Database, connection: sa.Connection) -> bool:
    """Returns whether the table is there, and may be read.

    Raises:
        UsageError: Another table is.
    """
    columns = _columns_there(database, connection)
    if columns is None:
        return False
    if columns != _COLUMNS:
        raise UsageError(
            f"{database.place} is not a ledger of this version: its table "
            f"{TABLE.name} has other columns; correct the URL"
        )
    connection.execute(sa.select(TABLE.c.seq).limit(1))  # may this user read it?
    return True


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
    if type(value) is str or name == "seq":
        return value
    if value is None and name in ("epsilon", "delta", "details"):
        return "" if name == "details" else None
    return str(value)
