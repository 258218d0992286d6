"""What people do to a ledger by hand, each with their name and why: caps, ends, and acceptance.

Nothing is given back: of what a ledger has forgotten the most counts that its caps allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from typing import Any, get_args

import sqlalchemy as sa

from tracecloak.pipelines.ledger import caps, database
from tracecloak.pipelines.ledger.balance import COORDINATES, balance_of
from tracecloak.pipelines.ledger.entries import (
    NO_COLUMNS,
    Declaration,
    Entry,
    Reservation,
    Step,
    decimals_of,
    require_text,
    signed,
)
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Adjacency


class OfficersLedger(Ledger):
    """A ledger as its officer has it, who declares, ends and accepts; see `Ledger`."""

    _may_begin_beside_caps = True

    def migrate(self) -> list[str]:
        """Makes what an earlier version did not, all or nothing: tables, and the first checkpoint.

        An earlier version finds that checkpoint, which it does not know, and pays nothing more.

        Returns:
            What was done, a sentence each.

        Raises:
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """

        def make(connection: sa.Connection) -> list[str]:
            whole, done = (
                LedgerSnapshot.of(database.read_entries(database.asks(connection))),
                list[str](),
            )
            self.check_sound(whole)
            for table in database.TABLES:
                table.create(connection, checkfirst=True)
            database.INDEX.create(connection, checkfirst=True)
            if database.read_windows(database.asks(connection)) != whole.rows:
                connection.execute(sa.delete(database.WINDOWS))
                database.insert(connection, {database.WINDOWS: whole.rows})
                done.append(
                    f"table {database.WINDOWS.name} has the {len(whole.rows)} charges of windows"
                )
            if whole.head is not None and whole.seq == whole.n_since_checkpoint:
                first = whole.checkpoint()
                database.insert(connection, {database.TABLE: [asdict(first)]})
                done.append(f"entry {first.seq} is the first checkpoint")
            if connection.dialect.name == "postgresql":
                _let_write(connection)
            return done

        done = self._database.transact(make, writes=True)
        self.is_migrated = True
        return done

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
        self.note(
            "forfeit",
            (output, release_id, key_fingerprint),
            f"release {release_id!r} in {output} has no open reservation in {self.place}; "
            "`tracecloak ledger list-unfinished` lists those that have one",
            signed(by, reason),
        )

    def withdraw(self, output: str, release_id: str, by: str, reason: str) -> None:
        """Notes that a committed release is taken back; it stays spent. Once noted, does nothing.

        Args:
            output: The folder of all releases.
            release_id: The release's name, under whatever keys it was made.
            by: Who takes it back.
            reason: Why.

        Raises:
            UsageError: There is no committed charge of it, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        states = self.states(output, release_id)
        is_open = [state.last for state in states if state.last.is_open]
        if "@" in release_id:
            # An epoch is committed as it begins. Who was cut off in between may be gone for ever.
            for entry in is_open:
                self.commit(*entry.keyed_release)
        remedy = (
            "it is not finished; run it again, or give it up with `tracecloak ledger forfeit`"
            if is_open
            else "correct output, release_id or ledger; `tracecloak ledger show` lists all, "
            "each epoch of a stream as NAME@EPOCH"
        )
        self.note(
            "withdraw",
            (output, release_id, None),
            f"release {release_id!r} in {output} is not committed in {self.place}: {remedy}",
            signed(by, reason),
        )

    def declare_account(
        self,
        account: caps.Account,
        by: str,
        reason: str,
        composition: caps.Composition | None = None,
    ) -> None:
        """Declares what an account may spend; an earlier declaration of it holds no longer.

        How it composes is fixed when it is begun, see `caps.composed`. As soon as a ledger declares
        an account, no other that it does not declare can pay.

        Raises:
            UsageError: A cap is no exact decimal, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        if account.note:
            require_text("note", account.note)
        bounds = decimals_of(epsilon=account.epsilon_cap, delta=account.delta_cap)
        columns = {**NO_COLUMNS, "account": account.name, "unit": account.unit, **bounds}
        details = signed(by, reason)

        def steps(past: LedgerSnapshot) -> list[Step]:
            whole = caps.composed(past, account, composition)
            facts = {
                "max_cases": whole.max_cases, "note": whole.note,
                "caps": whole.three_caps, "largest": whole.largest,
            }  # fmt: skip
            return [("account", columns, {n: f for n, f in facts.items() if f} | details)]

        self.append(steps)

    def bind_dataset(self, dataset: str, account: str, by: str, reason: str) -> None:
        """Binds a data set to one account: releases that name it under another are refused.

        Raises:
            UsageError: The account is not declared where others are, a name is no text, or nobody
                and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        require_text("dataset", dataset)
        require_text("account", account)
        self.declare("dataset", {"account": account}, {"dataset": dataset}, by, reason)

    def declare(
        self,
        action: Declaration,
        columns: Mapping[str, Any],
        details: Mapping[str, Any],
        by: str,
        reason: str,
    ) -> None:
        """Declares something that is no charge.

        Args:
            action: What. `erase`: that notes on releases' cases are erased, before they are.
                `positions`: that somebody sets the positions of a stream, before they are, and not
                where to.
            columns: Those of the entry that are not empty.
            details: What else it has.
            by: Who declares it.
            reason: Why.

        Raises:
            UsageError: Nobody and no reason is named, or the account of a data set is not declared
                where others are.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        facts = {**details, **signed(by, reason)}

        def steps(past: LedgerSnapshot) -> list[Step]:
            if action == "dataset":
                caps.check_declared(past.declared, columns["account"])
            return [(action, {**NO_COLUMNS, **columns}, facts)]

        self.append(steps)

    def accept(self, by: str, reason: str) -> tuple[list[str], list[Entry]]:
        """Notes what happened to a ledger or a key store that has forgotten something.

        What a ledger lost is not known. So of each account that has a cap all that is left counts
        as spent, and an account that was declared and is no longer has caps of 0, until the officer
        declares others; and what is released of windows from now on adds up.

        Args:
            by: Who accepts.
            reason: Why.

        Returns:
            What ledger and key store did not agree on; and what was written into the ledger for it:
            accounts that are shut, and what counts as spent.

        Raises:
            UsageError: Neither has forgotten anything, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        memory, details = self.memory, signed(by, reason)
        nothing = UsageError(f"{self.place} and the key store agree: there is nothing to accept")
        if memory is None:
            raise nothing
        heads, complaints = memory.heads(), list[str]()

        def steps(past: LedgerSnapshot) -> list[Step]:
            nonlocal complaints
            complaints = memory.complaints(past, heads)
            if not complaints:
                raise nothing
            ends: dict[str, Any] = {}  # what ends the complaints
            lost = [head for _, head in memory.lost(past, heads)]
            for head in lost:
                ends["lost"] = {"seq": head.seq, "hash": head.hash}
            if (noted := memory.noted(past)) > memory.store.generation():
                ends |= {"store": memory.store.identity(), "generation": noted}
            if not lost and not caps.is_awaited(past.declared):
                return [("accept", NO_COLUMNS, {**ends, **details})]
            accept: Step = "accept", NO_COLUMNS, {**ends, "counted": True, **details}
            known = caps.declared_accounts(past.declared)
            nothing_left = {**NO_COLUMNS, "epsilon": "0", "delta": "0"}
            shut: list[Step] = [
                ("account", {**nothing_left, "account": name, "unit": unit}, details)
                for head in lost
                for name, unit in head.declares.items()
                if name not in known
            ]
            return [accept, *shut, *self._spends_rest(past, details)]

        _, *counted = self.append(steps)
        memory.accept(self.past())
        return complaints, counted

    def _spends_rest(self, past: LedgerSnapshot, details: Mapping[str, str]) -> list[Step]:
        """Returns charges of what the caps of each account leave."""
        steps: list[Step] = []
        for name in sorted({*self.accounts, *past.accounts()}):
            account, spent = self.account_in(past, name), past.spent(name)
            left = balance_of(spent, name, account)
            rest = left.remaining
            if account is not None and any(rest.values()):
                kinds = (
                    kind for kind in get_args(Adjacency) if (account.unit, kind) in spent.kinds
                )
                epsilon, delta, *lost = (rest.get(one, Fraction(0)) for one in COORDINATES)
                charge = Reservation(
                    name, f"lost-{past.seq + 1}", "lost", epsilon, delta, account.unit,
                    next(kinds, "add_remove"), "lost", (), "lost", "lost",
                ).columns()  # fmt: skip
                facts = {**details, "lost": lost} if any(lost) else details
                steps += [("reserve", charge, facts), ("commit", charge, details)]
        return steps


def _let_write(connection: sa.Connection) -> None:
    """Has who may write entries on PostgreSQL write the rest; see deploy/ledger_roles.sql."""
    pipeline = "policyname = 'pipeline_pays'"
    asked = "SELECT unnest(roles)::text FROM pg_policies WHERE tablename = '{}' AND {}"
    quote = connection.dialect.identifier_preparer.quote
    for which in (pipeline, "policyname = 'officer_declares'"):
        for (role,) in connection.exec_driver_sql(asked.format(database.TABLE.name, which)).all():
            tables = f"{database.WINDOWS.name}, {database.UNITS.name}"
            connection.exec_driver_sql(f"GRANT SELECT, INSERT ON {tables} TO {quote(role)}")
            if which == pipeline:
                actions = "'reserve', 'claim', 'draw', 'commit', 'void', 'step', 'checkpoint'"
                policy = f"ALTER POLICY pipeline_pays ON {database.TABLE.name}"
                connection.exec_driver_sql(f"{policy} WITH CHECK (action IN ({actions}))")
