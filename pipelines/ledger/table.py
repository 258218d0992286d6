"""The table of a ledger's entries: its columns, and what is read of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
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


# A ledger with fewer entries is read whole every time, which takes no longer.
_N_LONG = 1000
# A long one is read whole again after so many seconds.
_FRESH_SECONDS = 600.0


@dataclass(frozen=True)
class EntriesRead:
    """What a process read of a ledger.

    Attributes:
        entries: All of it.
        whole_at: When all of it was read last, by this process's monotonic clock.
    """

    entries: list[Entry]
    whole_at: float


def read_entries(connection: sa.Connection, known: EntriesRead | None = None) -> EntriesRead:
    """Returns all entries in their order.

    If the ledger is long and its last known entry is unchanged, only later entries are read, and
    the known ones are returned for the rest. If somebody changed those in the table meanwhile, this
    does not show before all entries are read again.

    Args:
        connection: Of a transaction.
        known: What this process read of the same ledger before; None: read all.
    """
    past = [] if known is None else known.entries
    if known is not None and len(past) >= _N_LONG and _age(known) < _FRESH_SECONDS:
        since = _read_from(connection, past[-1].seq)
        if since[:1] == past[-1:]:
            return EntriesRead([*past, *since[1:]], known.whole_at)
    now = time.monotonic()
    entries = _read_from(connection, 0)
    # Equal entries are taken from the known ones, since an object is quickly compared with itself.
    n_same = next(
        (at for at, (new, old) in enumerate(zip(entries, past, strict=False)) if new != old),
        min(len(entries), len(past)),
    )
    return EntriesRead([*past[:n_same], *entries[n_same:]], now)


def _age(known: EntriesRead) -> float:
    return time.monotonic() - known.whole_at


def _read_from(connection: sa.Connection, seq: int) -> list[Entry]:
    # One statement sees one state of the table, whatever the isolation level.
    asked = sa.select(*(TABLE.c[name] for name in _NAMES)).order_by(TABLE.c.seq)
    rows = connection.execute(asked.where(TABLE.c.seq >= seq) if seq else asked).all()
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
