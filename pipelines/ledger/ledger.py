"""The privacy budget's ledger: an append-only table of what was reserved, released and voided.

It is kept in any database that SQLAlchemy reaches. SQLite, a file, serves one machine; a server
serves all. Give the pipeline's login no more than SELECT and INSERT on the table, and INSERT of no
declaration (`deploy/ledger_roles.sql`): then the pipeline can neither forget what it spent nor
raise a cap.

A release reserves before it runs, says so before it draws its first noise, and commits when it is
visible. Only what ended before it could draw is given back; all else counts as spent, whatever
became of it, as noise that nobody was meant to see may have been seen.

Appending is optimistic: a process reads what is new, decides, and inserts the entry with the next
number. If another process has inserted that number in between, the database refuses it; then the
process reads and decides again. So a cap holds for any number of processes on any database.
`pipelines.ledger.entries` says what the entries mean and how they are chained, and
`pipelines.ledger.snapshot` what a process knows of those that were read before.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tracecloak.pipelines.ledger import caps
from tracecloak.pipelines.ledger.balance import (
    Balance,
    ChargeState,
    balance_of,
)
from tracecloak.pipelines.ledger.cache import Head, LedgerCache, lost_text
from tracecloak.pipelines.ledger.database import (
    TABLE,
    TABLES,
    UNITS,
    WINDOWS,
    Database,
    LedgerError,
    LedgerUnavailable,
    asks,
    insert,
    is_there,
    read_entries,
)
from tracecloak.pipelines.ledger.entries import (
    NO_COLUMNS,
    UNDRAWN,
    Action,
    Entry,
    KeyedRelease,
    Reservation,
    Step,
)
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot, may_follow
from tracecloak.schemas.errors import GuaranteeError, UsageError

if TYPE_CHECKING:
    from tracecloak.pipelines.keys.key_store import KeyStore

_LOG = logging.getLogger("tracecloak")
# A checkpoint is due after so many entries, and is appended together with the last of them.
_N_ENTRIES = 64


class NoLedger(UsageError, section=LedgerError.section):  # noqa: N818 - what there is
    """There is no ledger at the URL, and none is to be begun."""


class Ledger:
    """The ledger at one URL; safe for any number of processes and threads.

    No connection is held between calls, so a ledger survives a fork and a long run. With a key
    store, a call reads of the ledger what came since the key store saw it last.

    Attributes:
        url: Where it is, with what else the URL has.
        place: Where it is, for people; never its password.
        is_shared: Whether other machines reach it, too: whether it is anything but SQLite.
        ask: Returns rows of its tables.
        accounts: Caps by account of the accounts file.
        memory: What the key store keeps of it; None: nothing.
        is_migrated: Whether it has all its tables, as an earlier version does not make them.
    """

    # Whether one may be made though accounts are declared in another one that the key store pays
    # with; no configuration of a pipeline says so.
    _may_begin_beside_caps = False
    is_migrated: bool

    def __init__(
        self,
        url: str,
        accounts: Mapping[str, caps.Account] | None = None,
        patience_seconds: float = 30.0,
        new: bool = False,
        store: KeyStore | None = None,
        after_loss: bool = False,
    ) -> None:
        """Connects to a ledger.

        Args:
            url: SQLAlchemy URL, `sqlite:////absolute/path/ledger.sqlite` or a server's. Its
                password appears in no message.
            accounts: Caps by account that hold beside those that the ledger declares; see
                `pipelines.ledger.caps.load_accounts`. None or empty: there are no others.
            patience_seconds: How long a call tries while others write or hold a lock.
            new: Whether to make a ledger, in which nothing is spent, where there is none.
            store: The key store that keeps a copy of what is written, and is noted with what it
                reserves; None: none does, and a ledger that is restored from a backup goes
                unnoticed.
            after_loss: Whether to make one where this key store saw one that is gone, for `accept`.

        Raises:
            UsageError: There is no ledger, or it may not be used or made, or something else is
                there.
            LedgerUnavailable: It does not answer, or others have it locked.
            LedgerError: There is none any more, and the key store saw one.
        """
        self.url = url
        self.accounts = dict(accounts or {})
        self._database = Database(url, patience_seconds)
        self.place, self.is_shared = self._database.place, self._database.is_shared
        self.ask = self._database.ask
        self.memory = None if store is None else LedgerCache(store, self.place)
        with _told_as_usage():
            if not self._database.is_missing and self._database.transact(
                lambda connection: is_there(self._database, connection), writes=False
            ):
                self.is_migrated = self._database.holds(WINDOWS)
                if not self.is_migrated and not read_entries(self.ask, TABLE.c.seq == 1):
                    self.make_tables()
                return
        heads = {} if self.memory is None else self.memory.heads()
        seen = Head() if self.memory is None else heads.pop(self.memory.name, Head())
        if seen.seq and not after_loss:
            raise LedgerError(lost_text(self.place, seen))
        if not seen.seq and not new:
            raise NoLedger(
                f"{self.place} does not exist: correct ledger or key_store, or begin an empty one "
                "with `tracecloak ledger begin`, or with new_ledger at the first release"
            )
        if not self._may_begin_beside_caps and any(other.declares for other in heads.values()):
            raise UsageError(
                f"{self.place} does not exist, and caps of another ledger of this key store would "
                "not hold in a fresh one: correct ledger, or have the privacy officer begin it"
            )
        with _told_as_usage():
            self._database.make_file()
            self.make_tables()
        _LOG.info("made a new ledger, in which nothing is spent: %s", self.place)
        if heads:
            _LOG.warning(
                "%s does not contain what this key store spent in another ledger", self.place
            )

    def make_tables(self) -> None:
        """Makes the tables that are not there.

        Raises:
            LedgerError: This user may not.
        """
        for table in TABLES:
            self._database.make(table)
        self.is_migrated = True

    def __repr__(self) -> str:
        return f"Ledger({self.place})"

    def reserve(self, reservation: Reservation) -> None:
        """Takes a release's epsilon and delta from its account before the release runs.

        A charge that is open or committed already is not added again: the same account, output,
        release id, key, configuration, epsilon, delta, unit and adjacency. The same release under
        another configuration is another draw of noise, and adds up.

        Raises:
            UsageError: The account is not declared, in the ledger or in the accounts file, where
                any is. Or its caps are about another unit or adjacency, or the release has no
                finite epsilon and the account a cap. Or the data set is bound to another account,
                or the release was withdrawn, or is reserved for another window.
            BudgetExhausted: The account has too little left.
            MadeByAnother: Another key store has begun it, whatever account pays there. Nothing is
                paid here.
            LedgerError: The ledger cannot be used, or somebody changed what it said, or it was
                restored from a backup and nobody said what was paid since.
        """
        if self.accounts and reservation.account not in self.accounts:
            raise UsageError(
                f"account {reservation.account!r} is not in the accounts file, which has "
                f"{', '.join(sorted(self.accounts))}; have its owner add it"
            )
        columns = reservation.columns()

        def steps(past: LedgerSnapshot) -> list[Step]:
            if caps.is_charged(
                past.states(reservation.output, reservation.release_id), reservation
            ):
                return []
            if caps.is_awaited(past.declared):
                raise LedgerError(caps.AWAITS.format(self.place))
            charged = reservation
            if reservation.window is not None and caps.has_lost(past.declared):
                # Its units may be in a window that was lost, so it costs as if of none.
                charged = replace(reservation, window=replace(reservation.window, adds_up=True))
            begun = caps.check_caps(past, charged, self.accounts.get(reservation.account))
            details = charged.facts()
            if begun is not None:
                details["begins"] = {
                    "epsilon": begun.epsilon_cap, "delta": begun.delta_cap, "note": begun.note
                }  # fmt: skip
            if self.memory is not None:
                store = self.memory.store
                details |= {"store": store.identity(), "generation": store.next_generation()}
            return [("reserve", columns, details)]

        self.append(steps)

    def commit(self, output: str, release_id: str, key_fingerprint: str) -> None:
        """Notes that a release is visible. If the ledger notes it already, this does nothing.

        Raises:
            UsageError: It was never reserved.
            LedgerError: The ledger cannot be used.
        """

        def steps(past: LedgerSnapshot) -> list[Step]:  # right whatever the ledger says
            states = past.states(output, release_id, key_fingerprint)
            if not states and caps.has_lost(past.declared):
                return []  # what it cost is counted with what was lost
            if not states:
                raise UsageError(
                    f"release {release_id!r} in {output} was never reserved under this key in "
                    f"{self.place}; use the ledger and the key_store of that run"
                )
            ended = [state for state in states if state.last.is_open]
            if not ended and all(s.last.action not in ("commit", "withdraw") for s in states):
                ended = states[-1:]  # one of them is visible, and most likely the last one
            return steps_of("commit", ended)

        self.append(steps, is_sound=False)

    def draw(self, output: str, release_id: str, key_fingerprint: str) -> None:
        """Notes that a release draws noise from now on, after which nothing is given back.

        Whoever draws asks this first: it is refused to a run whose reservation was voided or given
        up meanwhile, and to a release of a window that has not claimed its units. Once noted, does
        nothing.

        Raises:
            UsageError: There is no such reservation, or no longer, or units are not claimed.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """

        def steps(past: LedgerSnapshot) -> list[Step]:
            live = self.live(past, (output, release_id, key_fingerprint))
            undrawn = [state for state in live if state.last.action in UNDRAWN]
            for state in undrawn:
                if state.window is not None and state.claim is None:
                    raise UsageError(
                        f"release {release_id!r} in {output} is of window {state.window.label} "
                        "and has not claimed the units that it counts; run the command again"
                    )
            return steps_of("draw", undrawn)

        self.append(steps)

    def note_step(self, keyed_release: KeyedRelease, step: int, sha256: str) -> None:
        """Notes that a step of an epoch is decided. If it is noted already, this does nothing.

        It is called before the step is published: if two runs with one key decide it differently,
        only the first of them goes on.

        Args:
            keyed_release: The folder of releases, the epoch's name, the fingerprint of its key.
            step: Number of the step, from 0.
            sha256: Digest of all that it releases.

        Raises:
            UsageError: The epoch was never paid for, or was withdrawn.
            GuaranteeError: The step was decided otherwise before.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        output, release_id, key_fingerprint = keyed_release

        def steps(past: LedgerSnapshot) -> list[Step]:
            account = self.live(past, keyed_release)[-1].last.account
            noted = past.decided(keyed_release, step)
            if noted is None and caps.has_lost(past.declared) and self.memory is not None:
                last = self.memory.store.last_step(output, release_id)
                noted = None if last is None or last < step else "lost"
            if noted not in (None, sha256):
                raise GuaranteeError(
                    f"step {step} of {release_id!r} in {output} was decided before, with another "
                    "result: two machines run one epoch, or a restart lost input. Publishing it "
                    "would release its cases twice: end one run, or begin another epoch"
                )
            # Whose it is, and nothing that could be added up.
            columns = {
                **NO_COLUMNS, "account": account, "output": output, "release_id": release_id,
                "key_fingerprint": key_fingerprint,
            }  # fmt: skip
            return [("step", columns, {"step": step, "sha256": sha256})] if noted is None else []

        self.append(steps)

    def live(self, past: LedgerSnapshot, keyed_release: KeyedRelease) -> list[ChargeState]:
        """Returns the charges of a release that are open or committed, of which there is one.

        Raises:
            UsageError: No charge of it is open or committed.
            LedgerError: Somebody changed what the ledger said.
        """
        states = past.states(*keyed_release)
        live = [one for one in states if one.last.is_open or one.last.action == "commit"]
        if not live:
            ended = f"is {_ENDED[states[-1].last.action]}" if states else "was never reserved"
            raise UsageError(
                f"release {keyed_release[1]!r} in {keyed_release[0]} {ended} in {self.place}: "
                "run the command again, which reserves anew"
            )
        return live

    def states(
        self, output: str, release_id: str, key_fingerprint: str | None = None
    ) -> list[ChargeState]:
        """Returns the charges of a release, under a key or whatever key, the latest one last.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        return self.past().states(output, release_id, key_fingerprint)

    def void(self, output: str, release_id: str, key_fingerprint: str) -> bool:
        """Gives back what a release reserved, if it ended before it could draw noise.

        Returns:
            Whether nothing of it counts as spent now. What was voided before, or never reserved,
            stays as it is; what may have drawn stays spent.

        Raises:
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """
        keyed_release = output, release_id, key_fingerprint
        self.note("void", keyed_release)
        return all(state.last.action == "void" for state in self.states(*keyed_release))

    def note(
        self,
        action: Action,
        release: tuple[str, str, str | None],
        refusal: str = "",
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Notes an action on each charge of a release after which it may come.

        Args:
            action: What is noted. Once noted, nothing is noted again.
            release: The folder of all releases, the release's name, and the fingerprint of its key;
                None: whatever its key.
            refusal: What to say if it may come after none, and came after none before; empty:
                nothing.
            details: Who does it, and why.

        Raises:
            UsageError: The refusal.
            LedgerError: The ledger cannot be used, or somebody changed what it said.
        """

        def steps(past: LedgerSnapshot) -> list[Step]:
            states = past.states(*release)
            found = [one for one in states if may_follow(action, one.last.action)]
            if refusal and not found and all(one.last.action != action for one in states):
                raise UsageError(refusal)
            return steps_of(action, found, details)

        self.append(steps)

    def complaints(self) -> list[str]:
        """Returns what the ledger and its key store do not agree on, a sentence each.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        if self.memory is None:
            return []
        heads = self.memory.heads()
        return self.memory.complaints(self.past(), heads)

    def check_remembered(self) -> None:
        """Makes sure that neither the ledger nor its key store has forgotten anything.

        Raises:
            LedgerError: One was restored from an old backup, as it seems, or cannot be read.
        """
        if complaints := self.complaints():
            raise LedgerError(". ".join(complaints))

    def past(self, is_sound: bool = False) -> LedgerSnapshot:
        """Returns what the ledger says, with what came since it was read last.

        Args:
            is_sound: Whether it must be sound.

        Raises:
            LedgerError: The ledger cannot be read, or is not sound and must be.
            KeyStoreError: The key store cannot be used.
        """
        past = self._kept(self._database.transact(self._read, writes=False))
        if is_sound:
            self.check_sound(past)
        return past

    def _kept(self, past: LedgerSnapshot) -> LedgerSnapshot:
        """Returns it as it is asked outside of the transaction, and known the next time."""
        past.ask = self.ask
        if self.memory is not None:
            self.memory.keep(past)
        return past

    def _read(self, connection: sa.Connection) -> LedgerSnapshot:
        """Returns what the ledger says.

        What is known counts as far as the ledger goes on from it; else all is read.
        """
        ask = asks(connection)
        known = LedgerSnapshot() if self.memory is None else self.memory.known(ask)
        entries = read_entries(ask, TABLE.c.seq >= known.seq)
        if not known.is_in(entries):
            known, entries = LedgerSnapshot(), read_entries(ask)
        known.take_in([entry for entry in entries if entry.seq > known.seq], ask)
        if self.memory is not None:
            self.memory.begin(known)
        return known

    def entries(self) -> list[Entry]:
        """Reads all entries, however many, and returns them in their order.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        return read_entries(self.ask)

    def balance(self, account: str, past: LedgerSnapshot | None = None) -> Balance:
        """Returns what an account's charges add up to, and what its caps leave.

        Args:
            account: Its name.
            past: What the ledger says, sound or not; None: it is read, and must be sound.

        Raises:
            UsageError: Neither the accounts file nor the ledger knows the account, or they have it
                per different units.
            LedgerError: The ledger cannot be read, or a number in it is no decimal.
        """
        past = past or self.past(is_sound=True)
        if account not in (known := sorted({*self.accounts, *past.accounts()})):
            raise UsageError(
                f"account {account!r} is not known; there are {', '.join(known) or 'none'}"
            )
        return balance_of(past.spent(account), account, self.account_in(past, account))

    def account_in(self, past: LedgerSnapshot, account: str) -> caps.Account | None:
        """Returns the caps of an account: the lower one where ledger and file have one each.

        Raises:
            UsageError: Ledger and file have it per different units.
            LedgerError: A number in the ledger is no decimal.
        """
        if any(fault.endswith("is no decimal") for fault in past.faults):
            self.check_sound(past)
        declared = caps.declared_accounts(past.declared).get(account)
        return caps.both_bounds(declared, self.accounts.get(account))

    def check_sound(self, past: LedgerSnapshot) -> None:
        """Makes sure that all that is known of the ledger is as a ledger wrote it.

        Raises:
            LedgerError: Somebody changed what it said.
        """
        if past.faults:
            raise LedgerError(
                f"{self.place} does not say what tracecloak wrote ({past.faults[0]}; problems: "
                f"{len(past.faults)}); see `tracecloak ledger verify`, and restore a backup"
            )

    def append(
        self,
        steps: Callable[[LedgerSnapshot], list[Step]],
        is_sound: bool = True,
        units: Callable[[int], list[dict[str, Any]]] | None = None,
    ) -> list[Entry]:
        """Appends what the ledger's past asks for, and returns what was appended.

        Args:
            steps: Returns what is to be appended; it is called again where others were first.
            is_sound: Whether the ledger must be sound.
            units: Returns the rows of units that an entry brings, by its number.

        Raises:
            LedgerError: It is not, or cannot be used.
        """

        def append(connection: sa.Connection) -> tuple[LedgerSnapshot, list[Entry]]:
            past, new = self._read(connection), list[Entry]()
            if is_sound:
                self.check_sound(past)
            for step in steps(past):
                new.append(Entry.after(new[-1] if new else past.head, *step))
            past.take_in(new, past.ask)
            is_due = past.n_since_checkpoint >= _N_ENTRIES and new and not past.faults
            further = [past.checkpoint()] if is_due else []
            rows = [asdict(entry) for entry in (*new, *further)]
            counted = [row for entry in new if units is not None for row in units(entry.seq)]
            insert(connection, {TABLE: rows, UNITS: counted, WINDOWS: past.rows})
            past.take_in(further, past.ask)
            return past, new

        # The ledger comes first: if a run ends in between, it is ahead of the key store.
        past, appended = self._database.transact(append, writes=True)
        self._kept(past)
        return appended


@contextlib.contextmanager
def _told_as_usage() -> Iterator[None]:
    """Has a ledger that cannot be used at all, and will not be, be a mistake of who named it."""
    try:
        yield
    except LedgerUnavailable:
        raise
    except LedgerError as error:
        raise UsageError(str(error)) from None


def steps_of(
    action: Action, states: Iterable[ChargeState], details: Mapping[str, Any] | None = None
) -> list[Step]:
    """Returns the entries of an action on charges, with what they have beside."""
    return [(action, asdict(state.last), details) for state in states]


# What to say of a charge that is no longer open.
_ENDED = {"void": "voided", "forfeit": "forfeited", "withdraw": "withdrawn"}
