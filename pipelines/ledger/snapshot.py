"""Whether a ledger is sound, and what it said up to an entry, in a form that is cheap to query.

Each entry follows the one before, and says what a ledger writes. What was read is in an SQLite
database beside the keys, or in memory: all entries, found by the release that they are about, and
the state of each charge, so that one more release reads little of the ledger.
"""

from __future__ import annotations

import contextlib
import operator
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.balance import (
    ChargeState,
    Cost,
    Spent,
    advance,
    charge_states,
    paid_place,
)
from tracecloak.pipelines.ledger.entries import (
    ACTIONS,
    DECLARATIONS,
    FIRST_HASH,
    NOTES,
    OPEN,
    UNDRAWN,
    Action,
    Entry,
    KeyedRelease,
    WindowCharge,
    parse_decimal,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Adjacency, Unit

# --- Whether a ledger is sound: each entry follows the one before, and says what a ledger writes. -


def problems(
    entries: Sequence[Entry],
    previous: Entry | None = None,
    past: Sequence[Entry] = (),
    was_decided: Callable[[KeyedRelease, int], bool] = lambda *_: False,
) -> list[str]:
    """Returns what is wrong with entries of a ledger, a sentence each; nothing if they are sound.

    Args:
        entries: In the order of their seq, all of a ledger or those after others.
        previous: The last of the others, which were checked before; None: there are none.
        past: Those of them, without steps, about the same releases.
        was_decided: Whether a step of an epoch is among them.
    """
    states = charge_states(past)
    committed = {entry.keyed_release for entry in past if entry.action == "commit"}
    decided: set[tuple[KeyedRelease, int]] = set()
    faults = []
    for entry in entries:
        found = {
            "entries before it are missing": entry.seq != (previous.seq if previous else 0) + 1,
            "it was changed: its hash is not the hash of its columns": entry.hash != entry.digest(),
            "it does not follow the entry before it": entry.previous_hash
            != (FIRST_HASH if previous is None else previous.hash),
            **_odd_columns(entry),
        }
        if entry.decided is not None:
            step = entry.keyed_release, entry.decided[0]
            found["step without commit"] = entry.keyed_release not in committed
            found[f"step {step[1]} is decided twice"] = step in decided or was_decided(*step)
            decided.add(step)
        if entry.is_of_charge:
            state = states.get(entry.charge)
            last = None if state is None else state.last.action
            is_of_window = state is not None and state.window is not None
            where = "without reserve" if last is None else f"after {last}"
            found[f"{entry.action} {where}"] = not may_follow(entry.action, last)
            found["claim without a window"] = entry.action == "claim" and not is_of_window
            found["draw without claim"] = (
                entry.action == "draw" and is_of_window and last != "claim"
            )
        if entry.action == "commit":
            committed.add(entry.keyed_release)
        faults += [f"entry {entry.seq}: {what}" for what, is_so in found.items() if is_so]
        advance(states, entry)
        previous = entry
    return faults


# The last actions on a charge after which each may come; None: there was none.
_MAY_FOLLOW: Mapping[Action, tuple[Action | None, ...]] = {
    "reserve": (None, "void"),
    "claim": ("reserve",),
    "draw": UNDRAWN,
    "void": UNDRAWN,
    "forfeit": OPEN,
    # Also after void: one of two runs of a release may fail while the other one succeeds.
    "commit": (*OPEN, "void", "forfeit"),
    "withdraw": ("commit",),
}


_ODD_ACTION = f"action is not one of {', '.join(ACTIONS)}"
_KNOWN = {"unit": get_args(Unit), "adjacency": get_args(Adjacency)}


def may_follow(action: Action, last: Action | None) -> bool:
    """Returns whether an action on a charge can come after the last one; None: there was none."""
    return last in _MAY_FOLLOW.get(action, ())


def _odd_columns(entry: Entry) -> dict[str, bool]:
    """Returns what can be wrong with the columns of an entry, and whether it is."""
    numbers = {name: getattr(entry, name) for name in ("epsilon", "delta")}
    found = {f"{n} {what}": True for n, text in numbers.items() if (what := _odd_decimal(text))}
    found[_ODD_ACTION] = entry.action not in ACTIONS
    known = _KNOWN if entry.is_of_charge else {}
    if entry.is_of_charge:
        found["delta is missing"] = entry.epsilon is not None and entry.delta is None
        found["units is not a SHA-256"] = entry.action == "claim" and entry.units_sha256 is None
        found["window is not valid"] = "window" in entry.facts and entry.window is None
    elif entry.action in NOTES:
        found["step or sha256 is not valid"] = entry.decided is None
    else:
        known = {"unit": _KNOWN["unit"]} if entry.action == "account" else {}
        found |= {f"{name} is missing": name not in entry.facts for name in ("by", "reason")}
    for name, values in known.items():
        if getattr(entry, name) not in values:
            found[f"{name} is not one of {', '.join(values)}"] = True
    return found


@lru_cache(maxsize=1024)
def _odd_decimal(text: str | None) -> str:
    """Returns what is wrong with an exact decimal; empty: nothing. Ledgers repeat the same few."""
    try:
        is_odd = text is not None and decimal_text(parse_decimal(text)) != text
        return "is not in its one form" if is_odd else ""
    except UsageError:
        return "is no decimal"


# --- What a ledger said up to an entry, in a form in which one more release reads little of it. ---
# It is an SQLite database: beside the keys, where it is what the key store saw of the ledger, or
# in memory, of a ledger that no key store follows. It has all entries, found by the release that
# they are about, and the state of each charge, which follows from them. So a release reads and
# checks the entries that came since, and asks for the rest; however long the ledger is, that takes
# nearly the same time.
#
# Nobody who writes the ledger alone can change it. An entry of the ledger that is older than the
# last one here is not read again by releases, so a change of it there changes nothing; `ledger
# verify` reads all, and tells it.
#

_NAMES = tuple(field.name for field in fields(Entry))
_columns_of = operator.attrgetter(*_NAMES)
_LOCK_SECONDS = 60
# Raised with any table: the states of charges are then computed again of the entries.
VERSION = 3
_DETAIL = "json_extract(details, '$.{}')".format
_STEPS = "action = 'step' AND json_valid(details)"
_RESERVATIONS = "action = 'reserve' AND json_valid(details)"
# A charge that is void has no `is_open`; `paid_scope` and `paid_label` are those of `paid_place`.
_SCHEMA = f"""
    CREATE TABLE entries (seq INTEGER PRIMARY KEY, {" TEXT, ".join(_NAMES[1:])} TEXT);
    CREATE INDEX entries_of_release ON entries (release_id, output) WHERE action <> 'step';
    CREATE INDEX entries_that_declare ON entries (action) WHERE release_id = '';
    CREATE INDEX steps ON entries (release_id, output, key_fingerprint, {_DETAIL("step")})
        WHERE {_STEPS};
    CREATE INDEX reservations ON entries ({_DETAIL("store")}, {_DETAIL("generation")})
        WHERE {_RESERVATIONS};
    CREATE TABLE charges (release_id TEXT, output TEXT, account TEXT, is_open INTEGER,
        epsilon TEXT, delta TEXT, unit TEXT, adjacency TEXT, paid_scope TEXT, paid_label TEXT,
        scope TEXT, label TEXT, sha256 TEXT, last INTEGER);
    CREATE INDEX charges_of_release ON charges (release_id, output);
    CREATE INDEX charges_of_account ON charges
        (account, is_open, paid_scope, epsilon, delta, unit, adjacency);
    CREATE INDEX charges_of_window ON charges (account, is_open, paid_scope, paid_label);
    CREATE INDEX charges_of_scope ON charges (scope, last);
    CREATE INDEX claims_of_scope ON charges (scope, last) WHERE sha256 IS NOT NULL;
    CREATE INDEX charges_of_claim ON charges (sha256) WHERE sha256 IS NOT NULL;
    PRAGMA user_version = {VERSION};
"""

_OF_EPOCH = f"FROM entries WHERE {_STEPS} AND output = ? AND release_id = ? AND key_fingerprint = ?"


class LedgerSnapshot:
    """What is known of one ledger; safe for any number of processes, each with its own.

    Attributes:
        faults: What is wrong with the ledger, of one in memory; that of a key store is sound.
    """

    def __init__(self, path: Path | None) -> None:
        """Opens it, and makes it where it is empty.

        Args:
            path: A file of a key store, which is there; None: in memory.

        Raises:
            KeyStoreError: The file cannot be used.
        """
        self.faults: list[str] = []
        self._path = path
        with self._told():
            self._database = sqlite3.connect(
                ":memory:" if path is None else path, timeout=_LOCK_SECONDS, isolation_level=None
            )
            if self._version != VERSION:
                with whole_change(self._database):
                    if self._version != VERSION:  # nobody was first
                        self._begin()

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> LedgerSnapshot:
        """Returns what all entries of a ledger say, sound or not, in memory."""
        snapshot = cls(None)
        snapshot.faults = problems(entries)
        snapshot.add(entries)
        return snapshot

    @property
    def _version(self) -> int:
        return int(self._all("PRAGMA user_version")[0][0])

    def _begin(self) -> None:
        """Makes the tables, of the entries that are there, if another version made it."""
        entries = self.entries() if self._version else []
        for (table,) in self._all("SELECT name FROM sqlite_master WHERE type = 'table'"):
            self._database.execute(f"DROP TABLE {table}")
        for statement in _SCHEMA.split(";"):
            self._database.execute(statement)
        self._add(entries)

    def close(self) -> None:
        """Ends it; one in memory is gone."""
        self._database.close()

    @property
    def head(self) -> Entry | None:
        """The last entry; None: there is none."""
        return next(iter(self._entries("ORDER BY seq DESC LIMIT 1")), None)

    def at(self, seq: int) -> Entry | None:
        """Returns the entry with a number; None: there is none."""
        return next(iter(self._entries("WHERE seq = ?", seq)), None)

    def entries(self) -> list[Entry]:
        """Returns all entries in their order, however many."""
        return self._entries("ORDER BY seq")

    def release_entries(self, output: str, release_id: str) -> list[Entry]:
        """Returns all entries about a release, under whatever key, without its steps."""
        return self._entries(
            "WHERE release_id = ? AND output = ? AND action <> 'step' ORDER BY seq",
            release_id,
            output,
        )

    def states(
        self, output: str, release_id: str, key_fingerprint: str | None = None
    ) -> list[ChargeState]:
        """Returns the charges of a release, under a key or whatever key, the latest one last."""
        return [
            state
            for state in charge_states(self.release_entries(output, release_id)).values()
            if key_fingerprint in (None, state.last.key_fingerprint)
        ]

    def declarations(self) -> list[Entry]:
        """Returns what people declared: accounts, data sets, what was lost, what was erased."""
        of = ", ".join(f"'{action}'" for action in DECLARATIONS)
        return self._entries(f"WHERE release_id = '' AND action IN ({of}) ORDER BY seq")

    def decided(self, keyed_release: KeyedRelease, step: int) -> str | None:
        """Returns the digest of what a step of an epoch released; None: it is not decided."""
        digest, wanted = _DETAIL("sha256"), f"AND {_DETAIL('step')} = ?"
        return self._value(f"SELECT {digest} {_OF_EPOCH} {wanted}", *keyed_release, step)

    def last_decided(self, keyed_release: KeyedRelease) -> int | None:
        """Returns the number of the last step of an epoch that is decided; None: none is."""
        return self._value(f"SELECT max({_DETAIL('step')}) {_OF_EPOCH}", *keyed_release)

    def reserved_by(self, store: str) -> int:
        """Returns the number of a key store's last reservation; 0: it has none."""
        asked = f"FROM entries WHERE {_RESERVATIONS} AND {_DETAIL('store')} = ?"
        return self._value(f"SELECT max({_DETAIL('generation')}) {asked}", store) or 0

    def accounts(self) -> list[str]:
        """Returns the names of all accounts that a charge or a declaration names, in order."""
        named = self._all("SELECT DISTINCT account FROM entries WHERE account <> ''")
        return sorted(account for (account,) in named)

    def claims(self, scope: str, since: int = 0) -> list[tuple[str, str]]:
        """Returns what the windows of a scope claimed: (label, SHA-256 of the file) of each.

        Args:
            scope: The scope.
            since: Number of an entry; of the claims up to it, only those whose charges changed
                since are returned.
        """
        return self._all(
            "SELECT label, sha256 FROM charges WHERE scope = ? AND last > ? AND sha256 IS NOT NULL "
            "ORDER BY last",
            scope,
            since,
        )

    def window_of(self, scope: str, sha256: str) -> str | None:
        """Returns the label of the window of a scope that claimed a file; None: none has it now."""
        return self._value(
            "SELECT label FROM charges WHERE sha256 = ? AND scope = ?", sha256, scope
        )

    def charged(self, scope: str) -> list[tuple[str, Entry]]:
        """Returns (label of the window, last entry) of each charge in a scope, in their order."""
        rows = self._all(
            f"SELECT label, {', '.join(f'entries.{name}' for name in _NAMES)} FROM charges JOIN "
            "entries ON seq = last WHERE scope = ? ORDER BY last",
            scope,
        )
        return [(label, Entry(*row)) for label, *row in rows]

    def other_claims(self, scope: str, after: str, before: str) -> str | None:
        """Returns another scope with claims in an open interval of names around one; None: none."""
        asked = (
            "SELECT scope FROM charges WHERE sha256 IS NOT NULL AND "
            "((scope > ? AND scope < ?) OR (scope > ? AND scope < ?)) LIMIT 1"
        )
        return self._value(asked, after, scope, scope, before)

    def spent(self, account: str, window: WindowCharge | None = None) -> Spent:
        """Returns what the charges of an account cost, of the windows of a scope the dearest.

        Args:
            account: The account's name.
            window: One that is to be charged, which may come to be the dearest; None: none is.
        """
        by_account = "FROM charges WHERE account = ? AND"
        rows = self._all(
            f"SELECT unit, adjacency, paid_scope, paid_label, epsilon, delta {by_account} "
            "is_open = 1",
            account,
        )
        kinds = {(unit, adjacency) for unit, adjacency, *_ in rows}
        still_open = [_cost(*row) for _, _, *row in rows]
        # Each window as if it had but one charge. Of those with the same there may be thousands,
        # which are one cost here, with a label that is none of a window.
        closed = []
        for *kind, scope, epsilon, delta, n in self._all(
            "SELECT unit, adjacency, paid_scope, epsilon, delta, count(*) "
            f"{by_account} is_open = 0 GROUP BY paid_scope, epsilon, delta, unit, adjacency",
            account,
        ):
            kinds.add(tuple(kind))
            label = scope and f"\n{epsilon} {delta}"
            closed.append(_cost(scope, label, epsilon, delta, 1 if scope else n)._replace(n=n))
        # Those with several charges, each counted above, cost what these add up to.
        several = self._all(
            f"SELECT paid_scope, paid_label {by_account} is_open = 0 AND paid_scope > '' "
            "GROUP BY paid_scope, paid_label HAVING count(*) > 1",
            account,
        )
        places = {*several, *(cost.place for cost in still_open), paid_place(window)}
        for scope, label in places - {("", "")}:
            rows = self._all(
                f"SELECT epsilon, delta {by_account} is_open = 0 AND paid_scope = ? "
                "AND paid_label = ?",
                account,
                scope,
                label,
            )
            closed += [_cost(scope, label, *row)._replace(n=0) for row in rows]
        return Spent(tuple(closed), tuple(still_open), frozenset(kinds))

    def problems(self, new: Sequence[Entry]) -> list[str]:
        """Returns what is wrong with entries that follow the head, a sentence each."""
        releases = dict.fromkeys((entry.output, entry.release_id) for entry in new)
        head = self.head
        past = [] if head is None else [e for one in releases for e in self.release_entries(*one)]
        return problems(new, head, past, lambda *step: self.decided(*step) is not None)

    def add(self, new: Sequence[Entry]) -> None:
        """Adds entries that follow; those that another process added meanwhile are left out.

        Raises:
            KeyStoreError: The file cannot be written.
        """
        if not new:
            return
        with self._told(), whole_change(self._database):
            self._add(new)

    def _add(self, new: Sequence[Entry]) -> None:
        head = self.head
        rest = [entry for entry in new if head is None or entry.seq > head.seq]
        by_release: dict[tuple[str, str], list[Entry]] = {}
        for entry in rest:
            if entry.is_of_charge:
                by_release.setdefault((entry.output, entry.release_id), []).append(entry)
        for (output, release_id), entries in by_release.items():
            past = [] if head is None else self.release_entries(output, release_id)
            if past:
                self._database.execute(
                    "DELETE FROM charges WHERE release_id = ? AND output = ?", (release_id, output)
                )
            states = charge_states([*past, *entries])
            self._insert("charges", [_row_of(state) for state in states.values()])
        self._insert("entries", [_columns_of(entry) for entry in rest])

    def replace(self, entries: Sequence[Entry]) -> None:
        """Makes it what other entries say.

        Raises:
            KeyStoreError: The file cannot be written.
        """
        with self._told(), whole_change(self._database):
            for table in ("entries", "charges"):
                self._database.execute(f"DELETE FROM {table}")
            self._add(entries)

    def differs_from(self, entries: Sequence[Entry]) -> bool:
        """Returns whether this is anything but what entries say, up to the last that is here."""
        head = self.head
        other = LedgerSnapshot(None)
        other.add([entry for entry in entries if head is not None and entry.seq <= head.seq])
        with contextlib.closing(other):
            tables = [f"SELECT * FROM {name}" for name in ("entries", "charges")]
            return any(
                sorted(self._all(table), key=repr) != sorted(other._all(table), key=repr)
                for table in tables
            )

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            values = ", ".join("?" * len(rows[0]))
            self._database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({values})", rows)

    def _entries(self, which: str, *values: Any) -> list[Entry]:
        rows = self._all(f"SELECT {', '.join(_NAMES)} FROM entries {which}", *values)
        return [Entry(*row) for row in rows]

    def _value(self, asked: str, *values: Any) -> Any:
        """Returns the one value of the first row; None: there is no row."""
        return next((value for (value,) in self._all(asked, *values)), None)

    def _all(self, asked: str, *values: Any) -> list[Any]:
        with self._told():
            return self._database.execute(asked, values).fetchall()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Names the file and the remedy where it cannot be used."""
        try:
            yield
        except sqlite3.Error as error:
            raise KeyStoreError(
                f"the key store's copy of the ledger, {self._path}, cannot be used: {error}; mend "
                "its disk or its permissions and run again, or restore the key store from a backup"
            ) from error


def _row_of(state: ChargeState) -> tuple[Any, ...]:
    """Returns a charge as the table of charges has it."""
    last, claim = state.last, state.claim
    return (
        last.release_id, last.output, last.account,
        None if last.action == "void" else last.is_open,
        last.epsilon, last.delta, last.unit, last.adjacency, *paid_place(state.window),
        *(("", "") if state.window is None else state.window.place),
        None if claim is None else claim.units_sha256, last.seq,
    )  # fmt: skip


def _cost(scope: str, label: str, epsilon: str | None, delta: str | None, n: int = 1) -> Cost:
    """Returns what charges of one price cost in a window.

    Raises:
        UsageError: A number is no decimal.
    """
    return Cost(
        None if epsilon is None else n * parse_decimal(epsilon),
        None if epsilon is None or delta is None else n * parse_decimal(delta),
        (scope, label),
        n,
    )


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
