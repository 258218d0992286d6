"""Whether a ledger is sound, and what it said up to an entry: a fold over its entries.

Each entry follows the one before, and says what a ledger writes. What follows from all that were
read is kept in this process: sums, caps, what windows claimed. After so many entries it is written
into the ledger, as an entry `checkpoint`. A key store knows the last entry that it saw; a release
takes the last checkpoint before that one, checks the entries that came since, and compares each
further checkpoint with what follows from them, however long the ledger is. It asks the ledger
itself for the entries of single releases. Only a key store that saw nothing reads all.

A checkpoint is small. Of the windows of a scope it has the dearest, and a digest of all; what each
cost is in a table beside the ledger, which is read and compared with the digest where a window of
that scope is charged.

Nobody who writes the ledger alone can change what was folded. Entries of a release that are read
again must have their hashes, and its open charges must end with the entries that were seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any, cast

import sqlalchemy as sa

from tracecloak.pipelines.ledger.balance import (
    ChargeState,
    KnownCharge,
    Spent,
    advance,
    charge_states,
    claims_of,
    dearest,
)
from tracecloak.pipelines.ledger.database import (
    NO_STEP,
    TABLE,
    WINDOWS,
    Asks,
    LedgerError,
    read_entries,
)
from tracecloak.pipelines.ledger.entries import (
    DECLARATIONS,
    FIRST_HASH,
    NO_COLUMNS,
    OPEN,
    UNDRAWN,
    Action,
    Charge,
    Entry,
    KeyedRelease,
    WindowCharge,
    canonical_json,
    odd_columns,
    parse_decimal,
)
from tracecloak.pipelines.runners.memory import without_collections
from tracecloak.schemas.errors import UsageError

# --- Whether a ledger is sound: each entry follows the one before, and says what a ledger writes. -


def problems(entries: Sequence[Entry]) -> list[str]:
    """Returns what is wrong with all entries of a ledger, a sentence each; nothing: it is sound."""
    return LedgerSnapshot.of(entries).faults


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


def may_follow(action: Action, last: Action | None) -> bool:
    """Returns whether an action on a charge can come after the last one; None: there was none."""
    return last in _MAY_FOLLOW.get(action, ())


# --- What a ledger said up to an entry. -----------------------------------------------------------

# Of what a checkpoint says: one of another version is no checkpoint.
_VERSION = 1
# Names in one query.
_N_NAMES = 500
_CHANGED = (
    "the ledger does not say what tracecloak wrote ({}); see `tracecloak ledger verify`, and "
    "restore a backup"
)


class LedgerSnapshot:
    """What a ledger says up to its `head`, which `take_in` moves on.

    Attributes:
        head: The last entry; None: there is none.
        faults: What is wrong with the ledger, a sentence each.
        declared: What people declared: accounts, data sets, what was lost, what was erased; and
            reservations that begin an account.
        rows: What the entries that were read last add to the table of windows.
        ask: Asks its database for rows of a table.
    """

    def __init__(self) -> None:
        """Begins with no entry."""
        self.head: Entry | None = None
        self.faults: list[str] = []
        self.declared: list[Entry] = []
        self.rows: list[dict[str, Any]] = []
        self.ask: Asks = lambda _: ()
        # What follows from the entries, as JSON has it but for its fractions.
        self._state: dict[str, Any] = {
            "version": _VERSION,
            "first_hash": "",
            "checkpoint": 0,  # number of the last entry that is one
            "stores": {},  # number of the last reservation of each key store
            "kinds": {},  # how many charges count, by account, then by unit and adjacency
            "closed": {},  # what those cost that count for ever, by account, as `balance.Sums`
            "open": {},  # release: {seq of reservation: `KnownCharge`} of the others
            "scopes": {},  # scope: digest of the rows of the table of windows
            "windows": {},  # scope whose rows were read: {seq of reservation: `KnownCharge`}
            "steps": {},  # epoch: (last step that is decided, its SHA-256)
        }

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> LedgerSnapshot:
        """Returns what all entries of a ledger say, sound or not."""
        past = cls()
        past.take_in(entries, past.ask)
        return past

    @classmethod
    def at_checkpoint(cls, entry: Entry, ask: Asks) -> LedgerSnapshot | None:
        """Returns what a ledger said up to a checkpoint; None: it is none of this version."""
        past, state = cls(), entry.facts
        if state.get("version") != _VERSION or entry.hash != entry.digest():
            return None
        declared = state.pop("declared")
        past.declared = _entries_in(ask, TABLE.c.seq, [seq for seq, _ in declared])
        if declared != [[e.seq, e.digest()] for e in past.declared]:
            return None
        for labels in chain.from_iterable(map(dict.values, state["closed"].values())):
            for label, total in labels.items():
                labels[label] = {
                    name: parse_decimal(number) if isinstance(number, str) else number
                    for name, number in total.items()
                }
        for ends in state["open"].values():
            ends.update({seq: KnownCharge(*known) for seq, known in ends.items()})
        past.head, past._state = entry, {**state, "checkpoint": entry.seq, "windows": {}}
        return past

    def checkpoint(self) -> Entry:
        """Returns the next entry, which says what follows from all before it.

        Of the windows of a scope it has the dearest, and those with charges that are open; what the
        others cost is in the table of windows, whose digest it has.
        """
        opened = self._open()
        closed = {
            account: {
                scope: dearest(labels, {one.label for one in opened if one.scope == scope})
                if scope
                else labels
                for scope, labels in sums.items()
            }
            for account, sums in self._state["closed"].items()
        }
        state = {name: part for name, part in self._state.items() if name != "windows"}
        details = {"closed": closed, "declared": [(e.seq, e.hash) for e in self.declared]}
        return Entry.after(self.head, "checkpoint", NO_COLUMNS, {**state, **details})

    @property
    def n_since_checkpoint(self) -> int:
        """How many entries came since the last checkpoint."""
        return self.seq - int(self._state["checkpoint"])

    @property
    def seq(self) -> int:
        """The number of the last entry; 0: there is none."""
        return 0 if self.head is None else self.head.seq

    @property
    def first_hash(self) -> str:
        """The hash of the first entry, which tells one ledger from another."""
        return str(self._state["first_hash"])

    def is_in(self, entries: Sequence[Entry]) -> bool:
        """Returns whether entries of a ledger, in their order, hold the head as it was."""
        at = next((entry for entry in entries if entry.seq == self.seq), None)
        return at == self.head and (at is None or at.hash == at.digest())

    def take_in(self, new: Sequence[Entry], ask: Asks) -> None:
        """Has it be what the ledger says with entries that follow the head.

        Args:
            new: These entries.
            ask: Asks its database for rows of a table.
        """
        self.ask, self.rows = ask, []
        rows, changed = self._rows({_release_of(entry) for entry in new if entry.release_id})
        self.faults += changed
        states = charge_states(rows)
        committed = {entry.keyed_release for entry in rows if entry.action == "commit"}
        for entry in new:
            self.faults += self._faults_of(entry, states, committed)
            self._take_in(entry, states)
            if entry.action == "commit":
                committed.add(entry.keyed_release)

    def _faults_of(
        self,
        entry: Entry,
        states: Mapping[Charge, ChargeState],
        committed: Collection[KeyedRelease],
    ) -> list[str]:
        """Returns what is wrong with the entry after the head."""
        found = {
            "entries before it are missing": entry.seq != self.seq + 1,
            "it was changed: its hash is not the hash of its columns": entry.hash != entry.digest(),
            "it does not follow the entry before it": entry.previous_hash
            != (FIRST_HASH if self.head is None else self.head.hash),
            **dict.fromkeys(odd_columns(entry), True),
        }
        if entry.action == "checkpoint" and entry.facts.get("version") == _VERSION:
            is_right = entry.details == self.checkpoint().details
            found["it does not follow from all entries before it"] = not is_right
        if entry.decided is not None:
            step, _ = entry.decided
            found["step without commit"] = entry.keyed_release not in committed
            is_decided = self.decided(entry.keyed_release, step) is not None
            found[f"step {step} is decided twice"] = is_decided
        if entry.is_of_charge:
            is_second = bool(entry.of_account) and self.is_begun(entry.account)
            found["it begins an account that there is"] = is_second
            state = states.get(entry.charge)
            last = None if state is None else state.last.action
            is_of_window = state is not None and state.window is not None
            where = "without reserve" if last is None else f"after {last}"
            found[f"{entry.action} {where}"] = not may_follow(entry.action, last)
            found["claim without a window"] = entry.action == "claim" and not is_of_window
            found["draw without claim"] = (
                entry.action == "draw" and is_of_window and last != "claim"
            )
        return [f"entry {entry.seq}: {what}" for what, is_so in found.items() if is_so]

    def _take_in(self, entry: Entry, states: dict[Charge, ChargeState]) -> None:
        """Adds what follows from the entry after the head, whatever it is."""
        if self.head is None:
            self._state["first_hash"] = entry.hash
        if entry.is_of_charge:
            self._charge(entry, states)
            generation = entry.facts.get("generation") if entry.action == "reserve" else None
            if type(generation) is int:
                store, stores = str(entry.facts.get("store")), self._state["stores"]
                stores[store] = max(generation, stores.get(store, 0))
        elif entry.decided is not None:
            steps, epoch = self._state["steps"], _name(entry.keyed_release)
            steps[epoch] = max(tuple(steps.get(epoch, entry.decided)), entry.decided)
        elif entry.action == "checkpoint":
            self._state["checkpoint"] = entry.seq
        if entry.action in DECLARATIONS or entry.of_account:
            self.declared.append(entry)
        self.head = entry

    def _charge(self, entry: Entry, states: dict[Charge, ChargeState]) -> None:
        """Takes in an entry on a charge."""
        before, release = states.get(entry.charge), _name(_release_of(entry))
        was = None if before is None else before.last.action
        opened = self._state["open"]
        ends = opened.pop(release, {})
        if before is not None:
            ends.pop(str(before.reserved.seq), None)
        advance(states, entry)
        state = states[entry.charge]
        known, key = KnownCharge.of(state), str(state.reserved.seq)
        kind, kinds = f"{entry.unit} {entry.adjacency}", self._state["kinds"]
        kinds = kinds.setdefault(entry.account, {})
        kinds[kind] = kinds.get(kind, 0) + (entry.action != "void") - (was not in (None, "void"))
        try:
            self._charges(known.scope)
        except LedgerError:
            self.faults.append(f"entry {entry.seq}: windows of its scope are not as they were")
        if entry.is_open:
            ends[key] = known
        elif entry.action != "void":
            if was is None or was in (*OPEN, "void"):
                self._add([known])
            if known.scope:
                self._state["windows"].setdefault(known.scope, {})[key] = known
                scopes, body = self._state["scopes"], canonical_json((key, *known))
                scopes[known.scope] = _chained(scopes.get(known.scope, ""), body)
                self.rows.append({"seq": entry.seq, "scope": known.scope, "body": body})
        if ends:
            opened[release] = ends

    def _add(self, charges: Iterable[KnownCharge]) -> None:
        """Adds what charges cost that count for ever."""
        for known in charges:
            with contextlib.suppress(UsageError):  # of a number that no ledger wrote
                scope, label = known.place
                labels = self._state["closed"].setdefault(known.account, {}).setdefault(scope, {})
                labels[label] = known.beside(labels.get(label))

    def _charges(self, scope: str) -> Mapping[str, KnownCharge]:
        """Returns the charges of the windows of a scope that count for ever, which it reads once.

        Raises:
            LedgerError: They are not as they were seen.
        """
        if scope and scope not in self._state["windows"]:
            digest, rows = self._state["scopes"].get(scope, ""), WINDOWS.c
            asked = sa.select(rows.body).where(rows.scope == scope, rows.seq <= self.seq)
            bodies = [row[0] for row in self.ask(asked.order_by(rows.seq))] if digest else []
            with without_collections():  # of thousands of rows, which all stay
                charges = {k: KnownCharge(*one) for k, *one in json.loads(f"[{','.join(bodies)}]")}
            if reduce(_chained, bodies, "") != digest:  # then the entries tell
                whole = LedgerSnapshot.of(read_entries(self.ask, TABLE.c.seq <= self.seq))._state
                if whole["scopes"].get(scope) != digest:
                    raise LedgerError(_CHANGED.format(f"windows of {scope} are not as they were"))
                charges = whole["windows"][scope]
            self._state["windows"][scope] = charges
            for sums in self._state["closed"].values():
                sums.pop(scope, None)
            self._add(known for known in charges.values() if not known.adds_up)
        return cast(Mapping[str, KnownCharge], self._state["windows"].get(scope, {}))

    def _open(self) -> list[KnownCharge]:
        return [known for ends in self._state["open"].values() for known in ends.values()]

    def _rows(self, releases: Collection[tuple[str, str]]) -> tuple[list[Entry], list[str]]:
        """Returns the entries about releases up to the head, without steps, and what is changed.

        That an entry is older than the head hides no change of it: each must have its hash, and
        what is open must end as it was seen.
        """
        names = sorted({release_id for _, release_id in releases}) if self.head else []
        found = _entries_in(self.ask, TABLE.c.release_id, names, NO_STEP, TABLE.c.seq <= self.seq)
        rows = [entry for entry in found if _release_of(entry) in releases]
        changed = [
            f"entry {entry.seq}: it was changed: its hash is not the hash of its columns"
            for entry in rows
            if entry.hash != entry.digest()
        ]
        opened = (self._state["open"].get(_name(release), {}) for release in releases)
        seen = {known.last: known.hash for known in chain.from_iterable(map(dict.values, opened))}
        ends = {s.last.seq: s.last.hash for s in charge_states(rows).values() if s.last.is_open}
        odd = sorted({seq for seq, _ in seen.items() ^ ends.items()})
        return rows, changed + [f"entry {seq}: it is not as it was seen" for seq in odd]

    # --- What is asked of it. ---

    def release_entries(self, output: str, release_id: str) -> list[Entry]:
        """Returns all entries about a release, under whatever key, without its steps.

        Raises:
            LedgerError: One was changed.
        """
        rows, changed = self._rows({(output, release_id)})
        if changed:
            raise LedgerError(_CHANGED.format(changed[0]))
        return rows

    def states(
        self, output: str, release_id: str, key_fingerprint: str | None = None
    ) -> list[ChargeState]:
        """Returns the charges of a release, under a key or whatever key, the latest one last."""
        return [
            state
            for state in charge_states(self.release_entries(output, release_id)).values()
            if key_fingerprint in (None, state.last.key_fingerprint)
        ]

    def decided(self, epoch: KeyedRelease, step: int) -> str | None:
        """Returns the digest of what a step of an epoch released; None: it is not decided."""
        last, sha256 = self._state["steps"].get(_name(epoch), (-1, None))
        if step >= last:
            return sha256 if step == last else None
        names = zip(("output", "release_id", "key_fingerprint"), epoch, strict=True)
        steps = read_entries(
            self.ask, TABLE.c.action == "step", *(TABLE.c[name] == value for name, value in names),
            TABLE.c.details.like(f'%"step":{step}}}'), TABLE.c.seq <= self.seq,
        )  # fmt: skip
        return next((entry.decided[1] for entry in steps if entry.decided is not None), None)

    def last_decided(self, epoch: KeyedRelease) -> int | None:
        """Returns the number of the last step of an epoch that is decided; None: none is."""
        last: int | None = self._state["steps"].get(_name(epoch), (None,))[0]
        return last

    def reserved_by(self, store: str) -> int:
        """Returns the number of a key store's last reservation; 0: it has none."""
        return int(self._state["stores"].get(store, 0))

    def accounts(self) -> list[str]:
        """Returns the names of all accounts that a charge or a declaration names, in order."""
        return sorted({*self._state["kinds"], *(e.account for e in self.declared if e.account)})

    def is_begun(self, account: str) -> bool:
        """Returns whether an account is declared or was charged before."""
        of_people = any(e.of_account and e.account == account for e in self.declared)
        return of_people or account in self._state["kinds"]

    def payer_of(self, dataset: str) -> str | None:
        """Returns the account that paid last for releases of a data set; None: none did."""
        named = f'%"dataset":{json.dumps(dataset)}%'
        paid = read_entries(
            self.ask, TABLE.c.action == "reserve", TABLE.c.details.like(named),
            TABLE.c.seq <= self.seq,
        )  # fmt: skip
        return next((e.account for e in paid[::-1] if e.facts.get("dataset") == dataset), None)

    def _of_scope(self, scope: str) -> list[KnownCharge]:
        """Returns the charges of windows of a scope that count, those that are open last."""
        return [*self._charges(scope).values(), *(k for k in self._open() if k.scope == scope)]

    def claims(self, scope: str) -> list[KnownCharge]:
        """Returns the charges of windows of a scope that claimed units, the first claim first."""
        return claims_of(self._of_scope(scope))

    def charged(self, scope: str) -> list[tuple[str, Entry]]:
        """Returns (label of the window, last entry) of each charge in a scope that counts."""
        labels = {known.last: known.label for known in self._of_scope(scope)}
        return [
            (labels[entry.seq], entry) for entry in _entries_in(self.ask, TABLE.c.seq, [*labels])
        ]

    def other_claims(self, scope: str, digits: str) -> str | None:
        """Returns another scope with claims whose name begins with the same; None: none has."""
        scopes = {*self._state["scopes"], *(known.scope for known in self._open())} - {scope}
        alike = (other for other in sorted(scopes) if other.startswith(digits))
        return next((other for other in alike if self.claims(other)), None)

    def spent(self, account: str, window: WindowCharge | None = None) -> Spent:
        """Returns what the charges of an account cost.

        Args:
            account: Its name.
            window: In which more is to be charged; None: in any that has charges that are open.

        Raises:
            UsageError: A number in the ledger is no decimal.
        """
        if window is not None:
            self._charges(window.scope)
        still_open = tuple(known for known in self._open() if known.account == account)
        kinds = self._state["kinds"].get(account, {})
        counting = frozenset(tuple(kind.split()) for kind, n in kinds.items() if n)
        return Spent(self._state["closed"].get(account, {}), still_open, counting)


def _entries_in(
    ask: Asks, column: sa.Column[Any], values: Sequence[Any], *conditions: sa.ColumnElement[bool]
) -> list[Entry]:
    """Returns the entries with these values of a column, however many."""
    pieces = (values[at : at + _N_NAMES] for at in range(0, len(values), _N_NAMES))
    return [one for piece in pieces for one in read_entries(ask, column.in_(piece), *conditions)]


def _chained(digest: str, body: str) -> str:
    return hashlib.sha256(f"{digest}{body}".encode()).hexdigest()


def _release_of(entry: Entry) -> tuple[str, str]:
    return entry.output, entry.release_id


def _name(release: Sequence[str]) -> str:
    """Returns one text for the names of a release, in which there are no lines."""
    return "\n".join(release)
