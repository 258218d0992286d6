"""What a ledger said up to an entry: whether its chain is sound.

Aand a copy that is cheap to query.

Each entry follows the one before, and says what a ledger writes. The copy is an SQLite database
beside the keys, or in memory: it has all entries, found by the release that they are about, and
what follows from them, so that one more release reads little of the ledger.
"""

from __future__ import annotations

import contextlib
import operator
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.balance import ChargeState, Cost, Spent, charge_states, charges
from tracecloak.pipelines.ledger.entries import (
    ACTIONS,
    DECLARATIONS,
    FIRST_HASH,
    NOTES,
    OPEN,
    UNDRAWN,
    Action,
    Charge,
    Entry,
    OfKey,
    WindowCharge,
    parse_decimal,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Adjacency, Unit

# --- Whether a ledger is sound: each entry follows the one before, and says what a ledger writes. -


class Chain:
    """A chain of entries that is checked one after the other."""

    def __init__(
        self,
        previous: Entry | None = None,
        past: Sequence[Entry] = (),
        was_decided: Callable[[OfKey, int], bool] = lambda *_: False,
    ) -> None:
        """Begins after entries that were checked before.

        Args:
            previous: The last of them; None: there are none.
            past: Those of them, without steps, about the releases that are checked now.
            was_decided: Whether a step of an epoch is among them.
        """
        self._previous = previous
        self._was_decided = was_decided
        self._states: dict[Charge, list[Action]] = defaultdict(list)
        self._of_windows: set[Charge] = set()
        self._committed: set[OfKey] = set()
        self._decided: set[tuple[OfKey, int]] = set()
        for entry in past:
            self._note(entry)

    def problems(self, entries: Sequence[Entry]) -> list[str]:
        """Returns what is wrong with the next entries, a sentence each; nothing if they are sound.

        Args:
            entries: In the order of their seq.
        """
        faults = []
        for entry in entries:
            faults += [f"entry {entry.seq}: {what}" for what in self._problems_of(entry)]
            self._note(entry)
            self._previous = entry
        return faults

    def _note(self, entry: Entry) -> None:
        if not entry.is_of_charge:
            return
        self._states[entry.charge].append(entry.action)
        if entry.action == "commit":
            self._committed.add(entry.of_key)
        if entry.action == "reserve":
            is_of_window = entry.window is not None
            (self._of_windows.add if is_of_window else self._of_windows.discard)(entry.charge)

    def _problems_of(self, entry: Entry) -> list[str]:
        faults = []
        previous = self._previous
        if entry.seq != (1 if previous is None else previous.seq + 1):
            faults.append("entries before it are missing")
        if entry.hash != entry.digest():
            faults.append("it was changed: its hash is not the hash of its columns")
        if entry.previous_hash != (FIRST_HASH if previous is None else previous.hash):
            faults.append("it does not follow the entry before it")
        faults += _odd_columns(entry)
        if entry.decided is not None:
            faults += self._problems_of_step(entry.of_key, entry.decided[0])
        if not entry.is_of_charge:
            return faults
        charge = entry.charge
        past = self._states[charge]
        if not may_follow(entry.action, past):
            faults.append(f"{entry.action} {f'after {past[-1]}' if past else 'without reserve'}")
        if entry.action == "claim" and charge not in self._of_windows:
            faults.append("claim without a window")
        elif entry.action == "draw" and charge in self._of_windows and past[-1:] != ["claim"]:
            faults.append("draw without claim")
        return faults

    def _problems_of_step(self, of_key: OfKey, step: int) -> Iterator[str]:
        if of_key not in self._committed:
            yield "step without commit"
        if (of_key, step) in self._decided or self._was_decided(of_key, step):
            yield f"step {step} is decided twice"
        self._decided.add((of_key, step))


def problems(entries: Sequence[Entry], known_hash: str | None = None) -> list[str]:
    """Returns what is wrong with a ledger, a sentence each; nothing if it is sound.

    Args:
        entries: All entries in the order of their seq.
        known_hash: The hash of an entry as it was noted elsewhere at an earlier time.
    """
    faults = Chain().problems(entries)
    if known_hash is not None and known_hash not in {FIRST_HASH, *(e.hash for e in entries)}:
        faults.append(
            "the known hash is of no entry: entries were removed from the end, or the chain was "
            "computed anew"
        )
    return faults


def may_follow(action: Action, past: Sequence[Action]) -> bool:
    """Returns whether an action on a charge can come after those that were before."""
    if action == "reserve":
        return not past or past[-1] == "void"
    if action == "commit":
        # Also after void: one of two runs of a release may fail while the other one succeeds.
        return bool(past) and past[-1] not in ("commit", "withdraw")
    if action == "withdraw":
        return bool(past) and past[-1] == "commit"
    before = {"claim": ("reserve",), "forfeit": OPEN}.get(action, UNDRAWN)
    return bool(past) and past[-1] in before


def _odd_columns(entry: Entry) -> list[str]:
    faults = []
    for name in ("epsilon", "delta"):
        text = getattr(entry, name)
        if text is not None and (what := _odd_decimal(text)):
            faults.append(f"{name} {what}")
    if entry.action not in ACTIONS:
        faults.append(f"action is not one of {', '.join(ACTIONS)}")
    known = {"unit": get_args(Unit), "adjacency": get_args(Adjacency)}
    if entry.is_of_charge:
        if entry.epsilon is not None and entry.delta is None:
            faults.append("delta is missing")
        if entry.action == "claim" and entry.units_sha256 is None:
            faults.append("units is not a SHA-256")
        if entry.details and "window" in entry.facts and entry.window is None:
            faults.append("window is not valid")
    elif entry.action in NOTES:
        known = {}
        if entry.decided is None:
            faults.append("step or sha256 is not valid")
    else:
        faults += [f"{name} is missing" for name in ("by", "reason") if name not in entry.facts]
        known = {"unit": known["unit"]} if entry.action == "account" else {}
    for name, values in known.items():
        if getattr(entry, name) not in values:
            faults.append(f"{name} is not one of {', '.join(values)}")
    return faults


@lru_cache(maxsize=1024)
def _odd_decimal(text: str) -> str:
    """Returns what is wrong with an exact decimal; empty: nothing. Ledgers repeat the same few."""
    try:
        return "" if decimal_text(parse_decimal(text)) == text else "is not in its one form"
    except UsageError:
        return "is no decimal"


# --- What a ledger said up to an entry, in a form in which one more release reads little of it. ---
# It is an SQLite database: beside the keys, where it is what the key store saw of the ledger, or
# in memory, of a ledger that no key store follows. It has all entries, found by the release that
# they are about, and what follows from them: the sums of each account, which releases are not
# finished, and what the windows of each schedule claimed. So a release reads and checks the
# entries that came since, and asks for the rest; however long the ledger is, that takes the same
# time.
#
# Nobody who writes the ledger alone can change it. An entry of the ledger that is older than the
# last one here is not read again by releases, so a change of it there changes nothing; `ledger
# verify` reads all, and tells it.
#
# Sums follow from charges that can no longer be given back: each adds to its window, and what a
# window costs only grows. So the dearest window of a schedule is the dearest so far.


_NAMES = tuple(field.name for field in fields(Entry))
_columns_of = operator.attrgetter(*_NAMES)
# Stands for the window of a scope that is the dearest by epsilon, and the one that is by delta.
_DEAREST = "the dearest"
_LOCK_SECONDS = 60
# Raised with any table but that of the entries: what follows from them is then computed again.
VERSION = 2
_TABLES = ("entries", "steps", "sums", "dearest", "closed", "unfinished", "windows", "reservations")
_SCHEMA = f"""
    CREATE TABLE entries (seq INTEGER PRIMARY KEY, {" TEXT, ".join(_NAMES[1:])} TEXT);
    CREATE INDEX entries_of_release ON entries (release_id, output) WHERE action <> 'step';
    CREATE INDEX entries_that_declare ON entries (action) WHERE release_id = '';
    CREATE TABLE steps (release_id TEXT, output TEXT, key_fingerprint TEXT, step INTEGER,
        sha256 TEXT, PRIMARY KEY (release_id, output, key_fingerprint, step)) WITHOUT ROWID;
    CREATE TABLE sums (account TEXT, scope TEXT, label TEXT, is_finite INTEGER, epsilon TEXT,
        delta TEXT, PRIMARY KEY (account, scope, label, is_finite)) WITHOUT ROWID;
    CREATE TABLE dearest (account TEXT, scope TEXT, is_finite INTEGER, epsilon TEXT, delta TEXT,
        PRIMARY KEY (account, scope, is_finite)) WITHOUT ROWID;
    CREATE TABLE closed (account TEXT, unit TEXT, adjacency TEXT, n INTEGER,
        PRIMARY KEY (account, unit, adjacency)) WITHOUT ROWID;
    CREATE TABLE unfinished (account TEXT, release_id TEXT, output TEXT,
        PRIMARY KEY (account, release_id, output)) WITHOUT ROWID;
    CREATE TABLE windows (scope TEXT, label TEXT, sha256 TEXT, last INTEGER, release_id TEXT,
        output TEXT);
    CREATE INDEX windows_of_scope ON windows (scope);
    CREATE INDEX windows_with_claims ON windows (scope, last) WHERE sha256 IS NOT NULL;
    CREATE INDEX windows_of_claim ON windows (sha256);
    CREATE INDEX windows_of_release ON windows (release_id, output);
    CREATE TABLE reservations (store TEXT PRIMARY KEY, generation INTEGER) WITHOUT ROWID;
    PRAGMA user_version = {VERSION};
"""


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
                ":memory:" if path is None else path,
                timeout=_LOCK_SECONDS,
                isolation_level=None,
            )
            if self._version != VERSION:
                with whole_change(self._database):
                    if self._version != VERSION:  # nobody was first
                        self._begin()

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
        found = self._entries("ORDER BY seq DESC LIMIT 1")
        return found[0] if found else None

    def at(self, seq: int) -> Entry | None:
        """Returns the entry with a number; None: there is none."""
        found = self._entries("WHERE seq = ?", seq)
        return found[0] if found else None

    def entries(self) -> list[Entry]:
        """Returns all entries in their order, however many."""
        return self._entries("ORDER BY seq")

    def of_release(self, output: str, release_id: str) -> list[Entry]:
        """Returns all entries about a release, under whatever key, without its steps."""
        return self._entries(
            "WHERE release_id = ? AND output = ? AND action <> 'step' ORDER BY seq",
            release_id,
            output,
        )

    def declarations(self) -> list[Entry]:
        """Returns what people declared: accounts, data sets, what was lost, what was erased."""
        of = ", ".join(f"'{action}'" for action in DECLARATIONS)
        return self._entries(f"WHERE release_id = '' AND action IN ({of}) ORDER BY seq")

    def decided(self, of_key: OfKey, step: int) -> str | None:
        """Returns the digest of what a step of an epoch released; None: it is not decided."""
        found = self._rows("sha256", "steps", **_named(of_key), step=step)
        return str(found[0][0]) if found else None

    def last_decided(self, of_key: OfKey) -> int | None:
        """Returns the number of the last step of an epoch that is decided; None: none is."""
        [(last,)] = self._rows("max(step)", "steps", **_named(of_key))
        return None if last is None else int(last)

    def reserved_by(self, store: str) -> int:
        """Returns the number of a key store's last reservation; 0: it has none."""
        found = self._rows("generation", "reservations", store=store)
        return int(found[0][0]) if found else 0

    def knows_account(self, account: str) -> bool:
        """Returns whether any charge or declaration names an account."""
        tables = ("closed", "unfinished", "entries")
        return any(self._rows("1", table, account=account) for table in tables)

    def claims(self, scope: str, since: int = 0) -> list[tuple[str, str]]:
        """Returns what the windows of a scope claimed: (label, SHA-256 of the file) of each.

        Args:
            scope: The scope.
            since: Number of an entry; of the claims up to it, only those whose charges changed
                since are returned.
        """
        return self._all(
            "SELECT label, sha256 FROM windows WHERE scope = ? AND last > ? AND sha256 IS NOT NULL "
            "ORDER BY last",
            scope,
            since,
        )

    def last_claim(self, scope: str) -> tuple[str, str] | None:
        """Returns the claim of a scope whose charge changed last, as `claims` does; None: none."""
        found = self._all(
            "SELECT label, sha256 FROM windows WHERE scope = ? AND sha256 IS NOT NULL "
            "ORDER BY last DESC LIMIT 1",
            scope,
        )
        return found[0] if found else None

    def window_of(self, scope: str, sha256: str) -> str | None:
        """Returns the label of the window of a scope that claimed a file; None: none has it now."""
        found = self._rows("label", "windows", sha256=sha256, scope=scope)
        return str(found[0][0]) if found else None

    def charged(self, scope: str) -> list[tuple[str, Entry]]:
        """Returns (label of the window, last entry) of each charge in a scope, in their order."""
        rows = self._all(
            f"SELECT label, {', '.join(f'entries.{name}' for name in _NAMES)} FROM windows JOIN "
            "entries ON seq = last WHERE scope = ? ORDER BY windows.rowid",
            scope,
        )
        return [(label, Entry(*row)) for label, *row in rows]

    def scopes_between(self, after: str, before: str) -> list[str]:
        """Returns the first scope with claims in an open interval of their names, if there is."""
        found = self._all(
            "SELECT scope FROM windows WHERE scope > ? AND scope < ? AND sha256 IS NOT NULL "
            "ORDER BY scope LIMIT 1",
            after, before,
        )  # fmt: skip
        return [scope for (scope,) in found]

    def spent(self, account: str, window: WindowCharge | None = None) -> Spent:
        """Returns what the charges of an account cost, of the windows of a scope the dearest.

        Args:
            account: The account's name.
            window: One that is to be charged, which may come to be the dearest; None: none is.
        """
        still_open: list[Cost] = []
        kinds = set()
        n_closed = 0
        for output, release_id in self._rows("output, release_id", "unfinished", account=account):
            for state in charge_states(self.of_release(output, release_id)).values():
                entry = state.last
                if entry.account == account and entry.is_open:
                    still_open.append(state.cost)
                    kinds.add((entry.unit, entry.adjacency))
        for unit, adjacency, n in self._rows("unit, adjacency, n", "closed", account=account):
            kinds.add((unit, adjacency))
            n_closed += n
        sums = "is_finite, epsilon, delta"
        closed = [
            _cost(scope, _DEAREST, *summed)
            for scope, *summed in self._rows(f"scope, {sums}", "dearest", account=account)
        ]
        counted = {cost[2].place for cost in still_open if cost[2] is not None}
        if window is not None and not window.adds_up:
            counted.add(window.place)
        for scope, label in sorted(counted):
            of_window = self._rows(sums, "sums", account=account, scope=scope, label=label)
            closed += [_cost(scope, label, *summed) for summed in of_window]
        return Spent(tuple(closed), tuple(still_open), n_closed, frozenset(kinds))

    def problems(self, new: Sequence[Entry]) -> list[str]:
        """Returns what is wrong with entries that follow the head, a sentence each."""
        releases = dict.fromkeys((entry.output, entry.release_id) for entry in new)
        head = self.head
        past = [] if head is None else [e for one in releases for e in self.of_release(*one)]
        chain = Chain(head, past, lambda *step: self.decided(*step) is not None)
        return chain.problems(new)

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
            if entry.action == "reserve" and "store" in (facts := entry.facts):
                store, number = str(facts["store"]), int(facts.get("generation", 0))
                self._insert("reservations", [(store, max(number, self.reserved_by(store)))])
        for release, entries in by_release.items():
            past = [] if head is None else self.of_release(*release)
            self._follow(*release, past, [*past, *entries])
        self._insert("entries", [_columns_of(entry) for entry in rest])
        decided = [entry for entry in rest if entry.decided is not None]
        self._insert(
            "steps",
            [(e.release_id, e.output, e.key_fingerprint, *(e.decided or ())) for e in decided],
        )

    def replace(self, entries: Sequence[Entry]) -> None:
        """Makes it what other entries say.

        Raises:
            KeyStoreError: The file cannot be written.
        """
        with self._told(), whole_change(self._database):
            for table in _TABLES:
                self._database.execute(f"DELETE FROM {table}")
            self._add(entries)

    def differs_from(self, entries: Sequence[Entry]) -> bool:
        """Returns whether this is anything but what entries say, up to the last that is here."""
        head = self.head
        other = LedgerSnapshot(None)
        try:
            other.add([entry for entry in entries if head is not None and entry.seq <= head.seq])
            return any(self._content(table) != other._content(table) for table in _TABLES)
        finally:
            other.close()

    def _follow(
        self, output: str, release_id: str, before: Sequence[Entry], after: Sequence[Entry]
    ) -> None:
        """Notes what follows from further entries about a release.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            before: The entries about it that are noted.
            after: The same and the further ones.
        """
        was_closed = {c for c, entry in charges(before).items() if _is_closed(entry)}
        unfinished, windows = set(), []
        for charge, state in charge_states(after).items():
            if state.last.is_open:
                unfinished.add((state.last.account, release_id, output))
            elif _is_closed(state.last) and charge not in was_closed:
                self._close(state)
            if state.window is not None:
                sha256 = None if state.claim is None else state.claim.units_sha256
                windows.append((*state.window.place, sha256, state.last.seq, release_id, output))
        for table, rows in (("unfinished", sorted(unfinished)), ("windows", windows)):
            if before:
                self._database.execute(
                    f"DELETE FROM {table} WHERE release_id = ? AND output = ?",
                    (release_id, output),
                )
            self._insert(table, rows)

    def _close(self, state: ChargeState) -> None:
        """Adds a charge that counts for ever to the sums of its account."""
        entry = state.last
        try:
            epsilon, delta, window = state.cost
        except UsageError:  # of a ledger that is not sound, whose sums nobody asks for
            return
        is_finite = epsilon is not None
        scope, label = ("", "") if window is None else window.place
        cost = (epsilon or Fraction(0), delta or Fraction(0))
        of_scope = {"account": entry.account, "scope": scope, "is_finite": is_finite}
        of_window = {"account": entry.account, "scope": scope, "label": label,
                     "is_finite": is_finite}  # fmt: skip
        summed = tuple(map(operator.add, self._numbers("sums", of_window), cost))
        dearest = map(max, self._numbers("dearest", of_scope), summed)
        self._insert("sums", [(*of_window.values(), *map(decimal_text, summed))])
        self._insert("dearest", [(*of_scope.values(), *map(decimal_text, dearest))])
        kind = {"account": entry.account, "unit": entry.unit, "adjacency": entry.adjacency}
        [n] = [n for (n,) in self._rows("n", "closed", **kind)] or [0]
        self._insert("closed", [(*kind.values(), n + 1)])

    def _numbers(self, table: str, place: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
        [(epsilon, delta)] = self._rows("epsilon, delta", table, **place) or [("0", "0")]
        return parse_decimal(epsilon), parse_decimal(delta)

    def _insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            values = ", ".join("?" * len(rows[0]))
            self._database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({values})", rows)

    def _content(self, table: str) -> list[Any]:
        return sorted(self._all(f"SELECT * FROM {table}"), key=repr)

    def _entries(self, which: str, *values: Any) -> list[Entry]:
        rows = self._all(f"SELECT {', '.join(_NAMES)} FROM entries {which}", *values)
        return [Entry(*row) for row in rows]

    def _rows(self, what: str, table: str, **named: Any) -> list[Any]:
        where = " AND ".join(f"{name} = ?" for name in named)
        return self._all(f"SELECT {what} FROM {table} WHERE {where}", *named.values())

    def _all(self, asked: str, *values: Any) -> list[Any]:
        with self._told():
            return self._database.execute(asked, values).fetchall()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Names the file and the mend where it cannot be used."""
        try:
            yield
        except sqlite3.Error as error:
            raise KeyStoreError(
                f"the key store's copy of the ledger, {self._path}, cannot be used: {error}; mend "
                "its disk or its permissions and run again, or restore the key store from a backup"
            ) from error


def _named(of_key: OfKey) -> dict[str, str]:
    return dict(zip(("output", "release_id", "key_fingerprint"), of_key, strict=True))


def _is_closed(entry: Entry) -> bool:
    """Whether a charge counts for ever."""
    return entry.action in ("commit", "forfeit", "withdraw")


def _cost(scope: str, label: str, is_finite: int, epsilon: str, delta: str) -> Cost:
    return (
        parse_decimal(epsilon) if is_finite else None,
        parse_decimal(delta) if is_finite else None,
        WindowCharge(scope, label) if scope else None,
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
