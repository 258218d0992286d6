"""The privacy budget's ledger: an append-only table of what was reserved, released and voided.

It is kept in any database that SQLAlchemy reaches. SQLite, a file, serves one machine; a server
serves all. Give the pipeline's login no more than SELECT and INSERT on the table, and the accounts
file to somebody else: then the pipeline can neither forget what it spent nor raise a cap.

A release reserves before it runs, says so before it draws its first noise, and commits when it is
visible. Only what ended before it could draw is given back; all else counts as spent, whatever
became of it, as noise that nobody was meant to see may have been seen.

Appending is optimistic: read everything, decide, insert the next seq. Who comes second finds the
seq taken, reads again and decides again, so a cap holds for any number of processes on any
database. `pipelines.budget.entries` says what the entries mean and how they are chained.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from tracecloak.pipelines.budget.accounts import Account
from tracecloak.pipelines.budget.balance import (
    Balance,
    balance_of,
    charges_of,
    check_affordable,
    counting,
)
from tracecloak.pipelines.budget.database import Database, LedgerError, LedgerUnavailable
from tracecloak.pipelines.budget.entries import Action, Entry, Reservation, problems
from tracecloak.schemas.errors import UsageError

__all__ = ["Balance", "Entry", "Ledger", "LedgerError", "LedgerUnavailable", "Reservation"]

_LOG = logging.getLogger("tracecloak")

_TABLE = sa.Table(
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

# An action and the columns of what it is about; an entry's place gives it the others.
_Step = tuple[Action, Mapping[str, Any], Mapping[str, Any] | None]


class Ledger:
    """The ledger at one URL; safe for any number of processes and threads.

    No connection is held between calls, so a ledger survives a fork and a long run.
    """

    def __init__(
        self,
        url: str,
        accounts: Mapping[str, Account] | None = None,
        patience_seconds: float = 30.0,
    ) -> None:
        """Connects, and makes the table where there is none.

        Args:
            url: SQLAlchemy URL, `sqlite:////absolute/path/ledger.sqlite` or a server's. Its
                password appears in no message.
            accounts: Caps by account; see `pipelines.budget.accounts.load_accounts`. None or empty:
            no
                account has a cap, the ledger records only.
            patience_seconds: How long a call tries while others write or hold a lock.

        Raises:
            UsageError: The database is not there, may not be used, or holds something else.
            LedgerUnavailable: It does not answer, or others have it locked.
        """
        self.url = url
        self.accounts = dict(accounts or {})
        self._database = Database(url, patience_seconds)
        try:
            if not self._database.transact(self._is_there, writes=False):
                self._make()
        except LedgerUnavailable:
            raise
        except LedgerError as error:
            raise UsageError(str(error)) from None

    def __repr__(self) -> str:
        return f"Ledger({self._database.place})"

    @property
    def place(self) -> str:
        """Where the ledger is, for people; never its password."""
        return self._database.place

    @property
    def is_shared(self) -> bool:
        """Whether other machines reach the ledger, too: whether it is anything but SQLite."""
        return self._database.is_shared

    def reserve(self, reservation: Reservation) -> None:
        """Takes a release's epsilon and delta from its account before the release runs.

        A charge that is open or committed already is not added again: the same account, output,
        release id, key, configuration, epsilon, delta, unit and adjacency. The same release under
        another key or configuration is another draw of noise, and adds up.

        Raises:
            UsageError: The account is in no accounts file, or its caps are about another unit or
                adjacency, or the release has no finite epsilon and the account a cap.
            BudgetExhausted: The account has too little left.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        account = self._account(reservation.account)
        charge, columns = reservation.charge, reservation.columns()

        def steps(entries: Sequence[Entry]) -> list[_Step]:
            self._check_sound(entries)
            past = counting(entries, reservation.account)
            if any(entry.charge == charge for entry in past):
                return []
            if account is not None:
                check_affordable(entries, reservation, account)
            return [("reserve", columns, None)]

        self._append(steps)

    def commit(self, output: str, release_id: str, key_fingerprint: str) -> None:
        """Notes that a release is visible. Once noted, does nothing.

        Raises:
            UsageError: It was never reserved.
            LedgerError: The ledger cannot be used.
        """

        def steps(entries: Sequence[Entry]) -> list[_Step]:
            found = charges_of(entries, output, release_id, key_fingerprint)
            if not found:
                raise UsageError(
                    f"release {release_id!r} in {output} was never reserved under this key in "
                    f"{self._database.place}; use the ledger and the key_store of that run"
                )
            ended = [entry for entry in found if entry.is_open]
            if not ended and all(entry.action != "commit" for entry in found):
                ended = found[-1:]  # one is visible after all, and the last is the likeliest
            return [("commit", asdict(entry), None) for entry in ended]

        self._append(steps)

    def draw(self, output: str, release_id: str, key_fingerprint: str) -> None:
        """Notes that a release draws noise from now on, after which nothing is given back.

        Whoever draws asks this first: it is refused to a run whose reservation was voided or given
        up meanwhile. Once noted, does nothing.

        Raises:
            UsageError: There is no such reservation, or no longer.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """

        def steps(entries: Sequence[Entry]) -> list[_Step]:
            self._check_sound(entries)
            found = charges_of(entries, output, release_id, key_fingerprint)
            if not any(entry.action in ("reserve", "draw", "commit") for entry in found):
                ended = f"is {_ENDED[found[-1].action]}" if found else "was never reserved"
                raise UsageError(
                    f"release {release_id!r} in {output} {ended} in {self._database.place}, so "
                    "nothing is drawn for it; run the command again, which reserves anew"
                )
            return [("draw", asdict(entry), None) for entry in found if entry.action == "reserve"]

        self._append(steps)

    def state(self, output: str, release_id: str, key_fingerprint: str) -> Action | None:
        """Returns what happened last to a release under a key; None: it was never reserved.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        found = charges_of(self.entries(), output, release_id, key_fingerprint)
        return found[-1].action if found else None

    def void(self, output: str, release_id: str, key_fingerprint: str) -> bool:
        """Gives back what a release reserved, if it ended before it could draw noise.

        Returns:
            Whether nothing of it counts as spent now. What was voided before, or never reserved,
            stays as it is; what may have drawn stays spent.

        Raises:
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        is_free = True

        def steps(entries: Sequence[Entry]) -> list[_Step]:
            nonlocal is_free
            self._check_sound(entries)
            found = charges_of(entries, output, release_id, key_fingerprint)
            is_free = all(entry.action in ("reserve", "void") for entry in found)
            return [("void", asdict(entry), None) for entry in found if entry.action == "reserve"]

        self._append(steps)
        return is_free

    def forfeit(
        self, output: str, release_id: str, key_fingerprint: str, by: str, reason: str
    ) -> None:
        """Gives up a release that is not finished: it stays spent, and draws nothing any more.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            key_fingerprint: Tells release keys apart.
            by: Who gives it up.
            reason: Why.

        Raises:
            UsageError: There is no open charge of it, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        details = signed(by, reason)

        def steps(entries: Sequence[Entry]) -> list[_Step]:
            self._check_sound(entries)
            found = charges_of(entries, output, release_id, key_fingerprint)
            still_open = [entry for entry in found if entry.is_open]
            if not still_open and not any(entry.action == "forfeit" for entry in found):
                raise UsageError(
                    f"release {release_id!r} in {output} has no open reservation in "
                    f"{self._database.place}; `tracecloak ledger resume` lists those that have one"
                )
            return [("forfeit", asdict(entry), details) for entry in still_open]

        self._append(steps)

    def entries(self, account: str | None = None) -> list[Entry]:
        """Returns the entries in their order, of one account or all.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        read = self._database.transact(self._read, writes=False)
        return [entry for entry in read if account is None or entry.account == account]

    def balance(self, account: str) -> Balance:
        """Returns what an account's charges add up to, and what its caps leave.

        Raises:
            UsageError: Neither the accounts file nor the ledger knows the account.
            LedgerError: The ledger cannot be read, or a number in it is no decimal.
        """
        return self.balance_in(self.entries(), account)

    def balance_in(self, entries: Sequence[Entry], account: str) -> Balance:
        """Returns the balance after entries that were read before.

        Raises:
            UsageError: Neither the accounts file nor the entries know the account.
            LedgerError: A number in the entries is no decimal.
        """
        if account not in self.accounts and all(e.account != account for e in entries):
            known = sorted({*self.accounts, *(e.account for e in entries)})
            raise UsageError(
                f"account {account!r} is not known; there are {', '.join(known) or 'none'}"
            )
        try:
            return balance_of(entries, account, self.accounts.get(account))
        except UsageError:
            raise self._unsound(problems(entries)) from None

    def verify(self, known_hash: str | None = None) -> list[str]:
        """Returns what is wrong with the ledger, a sentence each; nothing if it is sound.

        Args:
            known_hash: The last hash as it was noted elsewhere at an earlier time. Without one,
                entries removed from the end and a chain computed anew go unnoticed.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        return problems(self.entries(), known_hash)

    def _account(self, name: str) -> Account | None:
        if not self.accounts:
            return None
        if name not in self.accounts:
            raise UsageError(
                f"account {name!r} is not in the accounts file, which has "
                f"{', '.join(sorted(self.accounts))}; have its owner add it"
            )
        return self.accounts[name]

    def _check_sound(self, entries: Sequence[Entry]) -> None:
        found = problems(entries)
        if found:
            raise self._unsound(found)

    def _unsound(self, found: Sequence[str]) -> LedgerError:
        return LedgerError(
            f"{self._database.place} does not say what tracecloak wrote ({found[0]}; problems in "
            f"all: {len(found)}); see `tracecloak ledger verify`, and restore it from a backup"
        )

    def _append(self, steps: Callable[[Sequence[Entry]], list[_Step]]) -> None:
        def append(connection: sa.Connection) -> None:
            entries = self._read(connection)
            last = entries[-1] if entries else None
            for action, columns, details in steps(entries):
                last = Entry.after(last, action, columns, details)
                connection.execute(sa.insert(_TABLE).values(asdict(last)))

        self._database.transact(append, writes=True)

    @staticmethod
    def _read(connection: sa.Connection) -> list[Entry]:
        # One statement sees one state of the table, whatever the isolation level.
        rows = connection.execute(sa.select(_TABLE).order_by(_TABLE.c.seq)).mappings()
        return [Entry(**{name: _as_written(name, row[name]) for name in row}) for row in rows]

    def _is_there(self, connection: sa.Connection) -> bool:
        inspector = sa.inspect(connection)
        names = inspector.get_table_names()
        if _TABLE.name in names:
            columns = {column["name"] for column in inspector.get_columns(_TABLE.name)}
            if columns != set(_TABLE.columns.keys()):
                raise UsageError(
                    f"{self._database.place} is not a ledger of this version: its table "
                    f"{_TABLE.name} has other columns; correct the URL"
                )
            connection.execute(sa.select(_TABLE.c.seq).limit(1))  # may this user read it?
            return True
        if names and not self.is_shared:
            raise UsageError(
                f"{self._database.place} is not a ledger: the database holds other tables; "
                "correct the URL"
            )
        return False

    def _make(self) -> None:
        def make(connection: sa.Connection) -> None:
            if not self._is_there(connection):  # another process may have been first
                _TABLE.create(connection)

        try:
            self._database.transact(make, writes=True)
        except LedgerError:
            # Databases have several errors for two who make one table; what counts is that it is.
            if not self._database.transact(self._is_there, writes=False):
                raise
        _LOG.info("made a new ledger, in which nothing is spent: %s", self._database.place)


def signed(by: str, reason: str) -> dict[str, str]:
    """Returns the details of what somebody does by hand.

    Raises:
        UsageError: One is no printable text, or empty.
    """
    for name, text in (("by", by), ("reason", reason)):
        if not text or not text.isprintable():
            raise UsageError(f"{name} must be printable text and not empty, got {text!r}")
    return {"by": by, "reason": reason}


# What to say of a charge that is no longer open.
_ENDED = {"void": "voided", "forfeit": "forfeited"}


def _as_written(name: str, value: Any) -> Any:
    """Returns a column's value with the type that a ledger writes; SQLite keeps any it gets."""
    if name == "details" and value is None:
        return ""
    if name == "seq" or (value is None and name in ("epsilon", "delta")):
        return value
    return str(value)
