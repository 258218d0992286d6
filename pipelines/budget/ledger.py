"""The privacy budget's ledger: an append-only table of what was reserved, released and voided.

It is kept in any database that SQLAlchemy reaches. SQLite, a file, serves one machine; a server
serves all. Give the pipeline's login no more than SELECT and INSERT on the table, and INSERT of no
declaration (`deploy/ledger_roles.sql`): then the pipeline can neither forget what it spent nor
raise a cap.

A release reserves before it runs, says so before it draws its first noise, and commits when it is
visible. Only what ended before it could draw is given back; all else counts as spent, whatever
became of it, as noise that nobody was meant to see may have been seen.

Appending is optimistic: read everything, decide, insert the next seq. Who comes second finds the
seq taken, reads again and decides again, so a cap holds for any number of processes on any
database. `pipelines.budget.entries` says what the entries mean and how they are chained.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar

import sqlalchemy as sa

from tracecloak.pipelines.budget.accounts import Account
from tracecloak.pipelines.budget.balance import (
    Balance,
    balance_of,
    charges,
    charges_of,
    check_affordable,
    counting,
)
from tracecloak.pipelines.budget.database import Database, LedgerError, LedgerUnavailable
from tracecloak.pipelines.budget.declarations import (
    account_columns,
    both_bounds,
    check_dataset,
    check_declared,
    dataset_columns,
    declared_accounts,
    nothing_columns,
    step_columns,
)
from tracecloak.pipelines.budget.entries import (
    UNDRAWN,
    Action,
    Chain,
    Declaration,
    Entry,
    Reservation,
    WindowCharge,
    decided_of,
    problems,
    signed,
    windowed,
)
from tracecloak.pipelines.budget.key_store import KeyStore
from tracecloak.pipelines.budget.memory import LedgerMemory, Step, lost_text
from tracecloak.pipelines.budget.noted_cases import NotedCases
from tracecloak.pipelines.budget.table import TABLE, EntriesRead, is_there, read_entries
from tracecloak.schemas.errors import GuaranteeError, RetryLater, UsageError

__all__ = [
    "Balance", "Entry", "Ledger", "LedgerError", "LedgerUnavailable", "Reservation", "WindowCharge",
]  # fmt: skip

_LOG = logging.getLogger("tracecloak")

_T = TypeVar("_T")


# Of how many ledgers a process remembers what it read.
_N_KNOWN = 4


class _Known:
    """What this process read of a ledger, and how much of it was found to be sound."""

    def __init__(self) -> None:
        self.read: EntriesRead | None = None
        self._chain = Chain()
        self._lock = threading.Lock()

    def problems(self, entries: Sequence[Entry]) -> list[str]:
        """Returns what is wrong, of which only what came since the last call is looked for."""
        with self._lock:
            return self._chain.problems(entries)


@lru_cache(maxsize=_N_KNOWN)
def _known_of(url: str) -> _Known:
    """What is known of the ledger at a URL: one release opens it several times."""
    return _Known()


class MadeElsewhere(RetryLater):
    """Another key store paid for the same release of a window, or the same epoch of a stream."""


@dataclass(frozen=True)
class Accepted:
    """What an entry `accept` ended.

    Attributes:
        complaints: What ledger and key store did not agree on.
        again: What was written into the ledger again, as it is now in it.
    """

    complaints: Sequence[str]
    again: Sequence[Entry]


class Ledger:
    """The ledger at one URL; safe for any number of processes and threads.

    No connection is held between calls, so a ledger survives a fork and a long run.
    """

    def __init__(
        self,
        url: str,
        accounts: Mapping[str, Account] | None = None,
        patience_seconds: float = 30.0,
        new: bool = False,
        store: KeyStore | None = None,
        after_loss: bool = False,
        is_by_officer: bool = False,
    ) -> None:
        """Connects to a ledger.

        Args:
            url: SQLAlchemy URL, `sqlite:////absolute/path/ledger.sqlite` or a server's. Its
                password appears in no message.
            accounts: Caps by account that hold beside those that the ledger declares; see
                `pipelines.budget.accounts.load_accounts`. None or empty: there are no others.
            patience_seconds: How long a call tries while others write or hold a lock.
            new: Whether to make a ledger, in which nothing is spent, where there is none.
            store: The key store that keeps a copy of what is written, and is noted with what it
                reserves; None: none does, and a ledger that is restored from a backup goes
                unnoticed.
            after_loss: Whether to make one where this key store saw one that is gone, for `accept`.
            is_by_officer: Whether one may be made though accounts are declared in another one that
                this key store pays with; no configuration of a pipeline says so.

        Raises:
            UsageError: There is no ledger, or it may not be used or made, or something else is
                there.
            LedgerUnavailable: It does not answer, or others have it locked.
            LedgerError: There is none any more, and the key store saw one.
        """
        self.url = url
        self.accounts = dict(accounts or {})
        self._database = Database(url, patience_seconds)
        self._memory = None if store is None else LedgerMemory(store, self._database.place)
        try:
            is_there = not self._database.is_missing and self._database.transact(
                self._is_there, writes=False
            )
        except LedgerUnavailable:
            raise
        except LedgerError as error:
            raise UsageError(str(error)) from None
        if is_there:
            return
        seen = None if self._memory is None else self._memory.head()
        if seen is not None and not after_loss:
            raise LedgerError(lost_text(self._database.place, seen))
        if seen is None and not new:
            raise UsageError(
                f"{self._database.place} does not exist, so what was spent before is not known: "
                "correct ledger or key_store, or begin a ledger in which nothing is spent with "
                "`tracecloak ledger new`, or with --new_ledger at the first release"
            )
        if self._memory is not None and not is_by_officer and self._memory.knows_others_with_caps():
            raise UsageError(
                f"{self._database.place} does not exist, and accounts are declared in another "
                "ledger that this key store paid with: their caps would not hold in a fresh one. "
                "Correct ledger, or have the privacy officer begin it with `tracecloak ledger new`"
            )
        try:
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
            UsageError: The account is not declared, in the ledger or in the accounts file, where
                any is. Or its caps are about another unit or adjacency, or the release has no
                finite epsilon and the account a cap. Or the data set is bound to another account,
                or the release was withdrawn, or is reserved for another window.
            BudgetExhausted: The account has too little left.
            MadeElsewhere: It is of a window, or an epoch of a stream, and another key store has
                begun it, whatever account pays there. Nothing is paid here.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        in_file = self._account_in_file(reservation.account)
        charge, columns = reservation.charge, reservation.columns()

        def steps(entries: Sequence[Entry]) -> list[Step]:
            self._check_sound(entries)
            _check_not_withdrawn(entries, reservation.output, reservation.release_id)
            _check_not_elsewhere(entries, reservation)
            past = counting(entries, reservation.account)
            if any(entry.charge == charge for entry in past):
                _check_same_window(entries, reservation)
                return []
            check_dataset(entries, reservation.dataset, reservation.account)
            declared = check_declared(entries, reservation.account)
            for account in (declared, in_file):
                if account is not None:
                    check_affordable(entries, reservation, account)
            details = {} if self._memory is None else self._memory.stamp()
            if reservation.dataset is not None:
                details["dataset"] = reservation.dataset
            if reservation.window is not None:
                details |= reservation.window.facts()
            return [("reserve", columns, details)]

        self._append(steps)

    def commit(self, output: str, release_id: str, key_fingerprint: str) -> None:
        """Notes that a release is visible. Once noted, does nothing.

        Raises:
            UsageError: It was never reserved.
            LedgerError: The ledger cannot be used.
        """

        def steps(entries: Sequence[Entry]) -> list[Step]:
            found = charges_of(entries, output, release_id, key_fingerprint)
            if not found:
                raise UsageError(
                    f"release {release_id!r} in {output} was never reserved under this key in "
                    f"{self._database.place}; use the ledger and the key_store of that run"
                )
            ended = [entry for entry in found if entry.is_open]
            if not ended and all(e.action not in ("commit", "withdraw") for e in found):
                ended = found[-1:]  # one is visible after all, and the last is the likeliest
            return [("commit", asdict(entry), None) for entry in ended]

        self._append(steps)

    def draw(self, output: str, release_id: str, key_fingerprint: str) -> None:
        """Notes that a release draws noise from now on, after which nothing is given back.

        Whoever draws asks this first: it is refused to a run whose reservation was voided or given
        up meanwhile, and to a release of a window that has not claimed its units. Once noted, does
        nothing.

        Raises:
            UsageError: There is no such reservation, or no longer, or units are not claimed.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """

        def steps(entries: Sequence[Entry]) -> list[Step]:
            self._check_sound(entries)
            found = self._not_ended(entries, output, release_id, key_fingerprint)
            undrawn = [entry for entry in found if entry.action in UNDRAWN]
            of_windows = windowed(entries)
            for entry in undrawn:
                charged = of_windows.get(entry.charge)
                if charged is not None and charged.claim is None:
                    raise UsageError(
                        f"release {release_id!r} in {output} is of window {charged.window.label} "
                        "and has not claimed the units that it counts, so nothing is drawn for it; "
                        "run the command again"
                    )
            return [("draw", asdict(entry), None) for entry in undrawn]

        self._append(steps)

    def note_step(
        self, output: str, release_id: str, key_fingerprint: str, step: int, sha256: str
    ) -> None:
        """Notes that a step of an epoch is decided. Once noted, does nothing.

        Whoever publishes the step asks this first: of two who decided it otherwise, with one key,
        only the first goes on.

        Args:
            output: The folder of all releases.
            release_id: The epoch's name.
            key_fingerprint: Tells release keys apart.
            step: Number of the step, from 0.
            sha256: Digest of all that it releases.

        Raises:
            UsageError: The epoch was never paid for, or was withdrawn.
            GuaranteeError: The step was decided otherwise before.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        of_key = output, release_id, key_fingerprint

        def steps(entries: Sequence[Entry]) -> list[Step]:
            self._check_sound(entries)
            found = self._not_ended(entries, *of_key)
            noted = decided_of(entries, of_key).get(step)
            if noted not in (None, sha256):
                raise GuaranteeError(
                    f"step {step} of {release_id!r} in {output} was decided before, and came out "
                    "otherwise, as where two machines run one epoch, or a restart forgot what was "
                    "there: to publish it once more would be a second release of its cases. End "
                    "one of the two, or begin another epoch, which is another spend"
                )
            columns = step_columns(found[-1].account, of_key)
            details = {"step": step, "sha256": sha256}
            return [("step", columns, details)] if noted is None else []

        self._append(steps)

    def claim(
        self,
        output: str,
        release_id: str,
        key_fingerprint: str,
        freeze: Callable[[Sequence[Entry], WindowCharge], str],
    ) -> str:
        """Notes which units a release of a window counts. Once noted, they stay.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            key_fingerprint: Tells release keys apart.
            freeze: Is given all entries and the release's window; writes the units that no other
                window has claimed into a file that lasts, and returns its SHA-256. It is called
                while nobody else can claim, or again where somebody did meanwhile.

        Returns:
            The SHA-256 of the file with the units of this release.

        Raises:
            UsageError: There is no such reservation, or no longer, or it is of no window.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        sha256 = ""

        def steps(entries: Sequence[Entry]) -> list[Step]:
            nonlocal sha256
            self._check_sound(entries)
            found = self._not_ended(entries, output, release_id, key_fingerprint)
            window, claimed = self._window_of(entries, found)
            sha256 = freeze(entries, window) if claimed is None else claimed
            undrawn = [entry for entry in found if entry.action == "reserve"]
            return [("claim", asdict(entry), {"units": sha256}) for entry in undrawn]

        self._append(steps)
        return sha256

    def _window_of(
        self, entries: Sequence[Entry], found: Sequence[Entry]
    ) -> tuple[WindowCharge, str | None]:
        """Returns the one window of a release's charges, and what it claimed, if it did."""
        of_windows = windowed(entries)
        of_release = [of_windows.get(entry.charge) for entry in found]
        windows = {None if one is None else _place_of(one.window) for one in of_release}
        first = next((one for one in of_release if one is not None), None)
        if first is None or len(windows) > 1:
            raise UsageError(
                f"release {found[-1].release_id!r} in {found[-1].output} is reserved "
                f"{'for no window' if first is None else 'for several windows'} in "
                f"{self._database.place}; give it up with `tracecloak ledger forfeit`, and choose "
                "another release_id"
            )
        claims = [one.claim for one in of_release if one is not None and one.claim is not None]
        return first.window, claims[-1].units_sha256 if claims else None

    def _not_ended(
        self, entries: Sequence[Entry], output: str, release_id: str, key_fingerprint: str
    ) -> list[Entry]:
        """Returns the last entries of a release's charges, of which one is open or committed.

        Raises:
            UsageError: None is.
        """
        found = charges_of(entries, output, release_id, key_fingerprint)
        alive = [entry for entry in found if entry.is_open or entry.action == "commit"]
        if not alive:
            ended = f"is {_ENDED[found[-1].action]}" if found else "was never reserved"
            raise UsageError(
                f"release {release_id!r} in {output} {ended} in {self._database.place}, so "
                "nothing is drawn for it; run the command again, which reserves anew"
            )
        return alive

    def check_not_withdrawn(self, output: str, release_id: str) -> None:
        """Makes sure that a release was not taken back.

        Raises:
            UsageError: It was.
            LedgerError: The ledger cannot be read.
        """
        _check_not_withdrawn(self.entries(), output, release_id)

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

        def steps(entries: Sequence[Entry]) -> list[Step]:
            nonlocal is_free
            self._check_sound(entries)
            found = charges_of(entries, output, release_id, key_fingerprint)
            is_free = all(entry.action in (*UNDRAWN, "void") for entry in found)
            return [("void", asdict(entry), None) for entry in found if entry.action in UNDRAWN]

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

        def unfit(found: Sequence[Entry]) -> str:
            return (
                f"release {release_id!r} in {output} has no open reservation in "
                f"{self._database.place}; `tracecloak ledger resume` lists those that have one"
            )

        def charged(entries: Sequence[Entry]) -> list[Entry]:
            return charges_of(entries, output, release_id, key_fingerprint)

        self._end_by_hand("forfeit", charged, lambda entry: entry.is_open, unfit, by, reason)

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

        def unfit(found: Sequence[Entry]) -> str:
            mend = (
                "it is not finished; run it again, or give it up with `tracecloak ledger forfeit`"
                if any(entry.is_open for entry in found)
                else "correct output, release_id or ledger; `tracecloak ledger show` lists all, "
                "each epoch of a stream as NAME@EPOCH"
            )
            return (
                f"release {release_id!r} in {output} is not committed in {self._database.place}: "
                f"{mend}"
            )

        def charged(entries: Sequence[Entry]) -> list[Entry]:
            return [
                entry
                for entry in charges(entries).values()
                if (entry.output, entry.release_id) == (output, release_id)
            ]

        def committed(entry: Entry) -> bool:
            return entry.action == "commit"

        if "@" in release_id:
            # An epoch is committed as it begins. Who was cut off in between may be gone for ever.
            for entry in charged(self.entries()):
                if entry.is_open:
                    self.commit(output, release_id, entry.key_fingerprint)
        self._end_by_hand("withdraw", charged, committed, unfit, by, reason)

    def _end_by_hand(
        self,
        action: Literal["forfeit", "withdraw"],
        charged: Callable[[Sequence[Entry]], Sequence[Entry]],
        can_end: Callable[[Entry], bool],
        unfit: Callable[[Sequence[Entry]], str],
        by: str,
        reason: str,
    ) -> None:
        """Ends charges as somebody says who signs for it. Once noted, does nothing.

        Args:
            action: What is noted.
            charged: Returns which charges it is about.
            can_end: Tells whether a charge is as it must be, to be ended so.
            unfit: Returns what to say if none of the charges is, and none was ended so before.
            by: Who ends them.
            reason: Why.
        """
        details = signed(by, reason)

        def steps(entries: Sequence[Entry]) -> list[Step]:
            self._check_sound(entries)
            found = charged(entries)
            ended = [entry for entry in found if can_end(entry)]
            if not ended and all(entry.action != action for entry in found):
                raise UsageError(unfit(found))
            return [(action, asdict(entry), details) for entry in ended]

        self._append(steps)

    def declare_account(self, account: Account, by: str, reason: str) -> None:
        """Declares what an account may spend; an earlier declaration of it holds no longer.

        As soon as a ledger declares an account, no other that it does not declare can pay.

        Raises:
            UsageError: A cap is no exact decimal, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        columns, details = account_columns(account)
        self._declare("account", columns, {**details, **signed(by, reason)})

    def bind_dataset(self, dataset: str, account: str, by: str, reason: str) -> None:
        """Binds a data set to one account: releases that name it under another are refused.

        Raises:
            UsageError: The account is not declared where others are, a name is no text, or nobody
                and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        columns, details = dataset_columns(dataset, account)
        self._declare("dataset", columns, {**details, **signed(by, reason)})

    def note_erasure(self, what: Mapping[str, str], by: str, reason: str) -> None:
        """Notes that what is noted of releases' cases is erased, before it is.

        Args:
            what: Which of it, by name.
            by: Who erases it.
            reason: Why.

        Raises:
            UsageError: Nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        self._declare("erase", nothing_columns(), {**what, **signed(by, reason)})

    def complaints(self) -> list[str]:
        """Returns what the ledger and its key store do not agree on, a sentence each.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        if self._memory is None:
            return []
        copies = self._memory.copies()
        return self._memory.complaints(self.entries(), copies)

    def check_remembered(self) -> None:
        """Makes sure that neither the ledger nor its key store has forgotten anything.

        Raises:
            LedgerError: One was restored from an old backup, as it seems, or cannot be read.
        """
        if found := self.complaints():
            raise LedgerError(" ".join(found))

    def accept(self, by: str, reason: str) -> Accepted:
        """Notes what happened to a ledger or a key store that has forgotten something.

        What the key store's copy has beyond the ledger counts again: charges as spent, and
        declarations. Nothing is given back.

        Raises:
            UsageError: Neither has forgotten anything, or nobody and no reason is named.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        memory, details = self._memory, signed(by, reason)
        copies = [] if memory is None else memory.copies()
        complaints: list[str] = []
        n_before = 0

        def steps(entries: Sequence[Entry]) -> list[Step]:
            nonlocal complaints, n_before
            self._check_sound(entries)
            complaints = [] if memory is None else memory.complaints(entries, copies)
            if memory is None or not complaints:
                raise UsageError(
                    f"{self._database.place} and the key store agree: there is nothing to accept"
                )
            n_before = len(entries) + 1
            accepted = {**memory.accepting(entries, copies), **details}
            return [("accept", nothing_columns(), accepted), *memory.forgotten(entries, copies)]

        entries = self._append(steps)
        if memory is not None:
            memory.accepted(entries)
        return Accepted(complaints, entries[n_before:])

    def sound_entries(self) -> list[Entry]:
        """Returns all entries in their order.

        Raises:
            LedgerError: The ledger cannot be read, or somebody changed what it said.
        """
        entries = self.entries()
        self._check_sound(entries)
        return entries

    def entries(self, account: str | None = None) -> list[Entry]:
        """Returns the entries in their order, of one account or all; see `table.read_entries`.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        known = _known_of(self.url)
        read = self._database.transact(
            lambda connection: read_entries(connection, known.read), writes=False
        )
        known.read = read
        return [entry for entry in read.entries if account is None or entry.account == account]

    def balance(self, account: str) -> Balance:
        """Returns what an account's charges add up to, and what its caps leave.

        Raises:
            UsageError: Neither the accounts file nor the ledger knows the account, or they have it
                per different units.
            LedgerError: The ledger cannot be read, or a number in it is no decimal.
        """
        return self.balance_in(self.entries(), account)

    def balance_in(self, entries: Sequence[Entry], account: str) -> Balance:
        """Returns the balance after entries that were read before.

        Raises:
            UsageError: Neither the accounts file nor the entries know the account, or they have it
                per different units.
            LedgerError: A number in the entries is no decimal.
        """
        if account not in self.accounts and all(e.account != account for e in entries):
            known = sorted({*self.accounts, *(e.account for e in entries)})
            raise UsageError(
                f"account {account!r} is not known; there are {', '.join(known) or 'none'}"
            )
        caps = self.account_in(entries, account)
        try:
            return balance_of(entries, account, caps)
        except UsageError:
            raise self._unsound(problems(entries)) from None

    def account_in(self, entries: Sequence[Entry], account: str) -> Account | None:
        """Returns the caps of an account: the lower one where ledger and file have one each.

        Raises:
            UsageError: Ledger and file have it per different units.
            LedgerError: A number in the entries is no decimal.
        """
        try:
            declared = declared_accounts(entries).get(account)
        except UsageError:
            raise self._unsound(problems(entries)) from None
        return both_bounds(declared, self.accounts.get(account))

    def verify(self, known_hash: str | None = None) -> list[str]:
        """Returns what is wrong with the ledger, a sentence each; nothing if it is sound.

        Args:
            known_hash: The last hash as it was noted elsewhere at an earlier time. Without one,
                entries removed from the end and a chain computed anew go unnoticed.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        return problems(self._database.transact(read_entries, writes=False).entries, known_hash)

    def _account_in_file(self, name: str) -> Account | None:
        if not self.accounts:
            return None
        if name not in self.accounts:
            raise UsageError(
                f"account {name!r} is not in the accounts file, which has "
                f"{', '.join(sorted(self.accounts))}; have its owner add it"
            )
        return self.accounts[name]

    def _check_sound(self, entries: Sequence[Entry]) -> None:
        found = _known_of(self.url).problems(entries)
        if found:
            raise self._unsound(found)

    def _unsound(self, found: Sequence[str]) -> LedgerError:
        return LedgerError(
            f"{self._database.place} does not say what tracecloak wrote ({found[0]}; problems in "
            f"all: {len(found)}); see `tracecloak ledger verify`, and restore it from a backup"
        )

    def _declare(
        self, action: Declaration, columns: Mapping[str, Any], details: Mapping[str, Any]
    ) -> None:
        def steps(entries: Sequence[Entry]) -> list[Step]:
            self._check_sound(entries)
            if action == "dataset":
                check_declared(entries, columns["account"])
            return [(action, columns, details)]

        self._append(steps)

    def _append(self, steps: Callable[[Sequence[Entry]], list[Step]]) -> list[Entry]:
        """Appends what the entries ask for, and returns all entries with it."""

        def append(connection: sa.Connection) -> EntriesRead:
            read = read_entries(connection, known.read)
            entries = list(read.entries)
            for action, columns, details in steps(list(entries)):
                last = Entry.after(entries[-1] if entries else None, action, columns, details)
                connection.execute(sa.insert(TABLE).values(asdict(last)))
                entries.append(last)
            return EntriesRead(entries, read.whole_at)

        known = _known_of(self.url)
        # The ledger first: who is cut off in between leaves a ledger that is ahead of the copy.
        known.read = self._database.transact(append, writes=True)
        entries = known.read.entries
        if self._memory is not None:
            self._memory.remember(entries)
        return entries

    def _is_there(self, connection: sa.Connection) -> bool:
        return is_there(self._database, connection)

    def _make(self) -> None:
        def make(connection: sa.Connection) -> None:
            if not self._is_there(connection):  # another process may have been first
                TABLE.create(connection)

        self._database.make_file()
        try:
            self._database.transact(make, writes=True)
        except LedgerError:
            # Databases have several errors for two who make one table; what counts is that it is.
            if not self._database.transact(self._is_there, writes=False):
                raise
        NotedCases(self.url).make()
        _LOG.info("made a new ledger, in which nothing is spent: %s", self._database.place)
        if self._memory is not None and self._memory.knows_others():
            _LOG.warning(
                "this key store paid with another ledger before, and %s knows nothing of what was "
                "spent there",
                self._database.place,
            )


def _check_not_withdrawn(entries: Sequence[Entry], output: str, release_id: str) -> None:
    for entry in charges(entries).values():
        is_same = (entry.output, entry.release_id) == (output, release_id)
        if is_same and entry.action == "withdraw":
            raise UsageError(
                f"release {entry.release_id!r} in {entry.output} was withdrawn on "
                f"{entry.recorded_at[:10]}, and is not released again; choose another release_id, "
                "which is another spend"
            )


def _check_same_window(entries: Sequence[Entry], reservation: Reservation) -> None:
    """Makes sure that a release that is reserved again is of the window that it was reserved for.

    Raises:
        UsageError: It is of another, or its price was not to add up and now is.
    """
    charged = windowed(entries).get(reservation.charge)
    was, now = None if charged is None else charged.window, reservation.window
    if _place_of(was) != _place_of(now) or (was and now and now.adds_up and not was.adds_up):
        raise UsageError(
            f"release {reservation.release_id!r} in {reservation.output} is charged to "
            f"{'no window' if was is None else f'window {was.label} of scope {was.scope}'}, and "
            f"this run is of {'none' if now is None else f'window {now.label} of {now.scope}'}; "
            "choose another release_id, or set the schedule as it was"
        )


def _check_not_elsewhere(entries: Sequence[Entry], reservation: Reservation) -> None:
    """Makes sure that nobody else makes a release of a window, or an epoch, that is paid once.

    Two machines with key stores of their own may be told to do the same at the same time, and one
    may have ended while the other looked.

    Raises:
        MadeElsewhere: The same release is reserved or visible under another key.
    """
    window = reservation.window
    is_epoch = "@" in reservation.release_id
    if window is None and not is_epoch:
        return
    for entry in charges(entries).values():
        is_same = (entry.output, entry.release_id) == (reservation.output, reservation.release_id)
        is_ours = entry.key_fingerprint == reservation.key_fingerprint
        if not is_same or is_ours or entry.action in ("void", "forfeit"):
            continue
        begun = (
            f"release {entry.release_id!r} in {entry.output} was begun on "
            f"{entry.recorded_at[:19]}Z with another key store, which paid for"
        )
        if window is None:
            raise MadeElsewhere(
                f"{begun} the whole epoch, so nothing is paid here. To go on with it here, end it "
                "there and bring that key store, with the state of the stream in it; or begin "
                "another epoch, which is another spend"
            )
        raise MadeElsewhere(
            f"{begun} window {window.label}: wait until it ends and run again, which finds it. If "
            "it was cut off, run it again with that key store, which finishes it for nothing, "
            "or give it up with `tracecloak ledger forfeit`. If it was visible and is gone, "
            "restore it, or choose another release_id, which is another spend"
        )


def _place_of(window: WindowCharge | None) -> tuple[str, str] | None:
    return None if window is None else (window.scope, window.label)


# What to say of a charge that is no longer open.
_ENDED = {"void": "voided", "forfeit": "forfeited", "withdraw": "withdrawn"}
