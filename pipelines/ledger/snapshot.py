"""Whether a ledger is sound, and what it said up to an entry: a fold over its entries.

Each entry follows the one before, and says what a ledger writes. What follows from all that were
read is kept in this process and, from time to time, beside the keys: sums, caps, what windows
claimed. So a release reads and checks the entries that came since, however long the ledger is, and
asks the ledger itself for the entries of single releases.

Nobody who writes the ledger alone can change what was folded. Entries of a release that are read
again must have their hashes, and its open charges must end with the entries that were seen.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import sqlalchemy as sa

from tracecloak.anonymizers.accounting.composition import decimal_text
from tracecloak.pipelines.ledger.balance import (
    ChargeState,
    Cost,
    Spent,
    Total,
    added,
    advance,
    charge_states,
    paid_place,
)
from tracecloak.pipelines.ledger.database import NO_STEP, TABLE, LedgerError
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
    KeyedRelease,
    parse_decimal,
)
from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import Adjacency, Unit

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


# --- What a ledger said up to an entry. -----------------------------------------------------------

# Reads entries of the ledger that satisfy conditions, in their order.
Reads = Callable[..., Sequence[Entry]]
Asks = Callable[[sa.Select[Any]], Sequence[Any]]
# Raised with what a snapshot has as JSON: that of another version is read as none.
_VERSION = 2
# Names in one query.
_N_NAMES = 500


class OfWindow(NamedTuple):
    """A charge of a window: the window's label, its last entry, its claim, and the claim's SHA-256.

    The last two are None before it has claimed.
    """

    label: str
    last: int
    claim: int | None
    sha256: str | None


class LedgerSnapshot:
    """What a ledger said up to its `head`; what it said before is never changed.

    Attributes:
        head: The last entry; None: there is none.
        faults: What is wrong with the ledger, a sentence each.
        declared: What people declared: accounts, data sets, what was lost, what was erased.
        reads: Asks the ledger for single entries.
        ask: Asks the database of the ledger for rows of a table.
    """

    def __init__(self) -> None:
        """Begins with no entry."""
        self.head: Entry | None = None
        self.faults: list[str] = []
        self.declared: list[Entry] = []
        self.reads: Reads = lambda *_: ()
        self.ask: Asks = lambda _: ()
        # What follows from the entries, as JSON has it but for its fractions.
        self._state: dict[str, Any] = {
            "version": _VERSION,
            "first_hash": "",
            "stores": {},  # number of the last reservation of each key store
            "kinds": {},  # how many charges count, by account, then by unit and adjacency
            "closed": {},  # what those cost that count for ever, by account, as `balance.Sums`
            "open": {},  # release: {seq of last entry: (its hash, account, cost)} of the others
            "windows": {},  # scope: {seq of reservation: `OfWindow`}
            "steps": {},  # epoch: (last step that is decided, its SHA-256)
        }

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> LedgerSnapshot:
        """Returns what all entries of a ledger say, sound or not."""
        past = cls()
        return past.after(entries, past.reads)

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

    def after(self, new: Sequence[Entry], reads: Reads) -> LedgerSnapshot:
        """Returns what the ledger says with entries that follow the head.

        Args:
            new: These entries.
            reads: Asks the ledger for single entries.
        """
        past = copy.copy(self)
        past.faults, past.declared, past._state = [*self.faults], [*self.declared], {**self._state}
        past.reads = reads
        rows, changed = past._rows({_release_of(entry) for entry in new if entry.release_id})
        past.faults += changed
        states = charge_states(rows)
        committed = {entry.keyed_release for entry in rows if entry.action == "commit"}
        for entry in new:
            past.faults += past._faults_of(entry, states, committed)
            past._take_in(entry, states)
            if entry.action == "commit":
                committed.add(entry.keyed_release)
        return past

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
            **_odd_columns(entry),
        }
        if entry.decided is not None:
            step, _ = entry.decided
            found["step without commit"] = entry.keyed_release not in committed
            is_decided = self.decided(entry.keyed_release, step) is not None
            found[f"step {step} is decided twice"] = is_decided
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
        return [f"entry {entry.seq}: {what}" for what, is_so in found.items() if is_so]

    def _take_in(self, entry: Entry, states: dict[Charge, ChargeState]) -> None:
        """Adds what follows from the entry after the head, whatever it is."""
        if self.head is None:
            self._state["first_hash"] = entry.hash
        self.head = entry
        if entry.is_of_charge:
            self._count(states.get(entry.charge), -1)
            advance(states, entry)
            self._count(states[entry.charge], 1)
            generation = entry.facts.get("generation") if entry.action == "reserve" else None
            if type(generation) is int:
                store, stores = str(entry.facts.get("store")), self._own("stores")
                stores[store] = max(generation, stores.get(store, 0))
        elif entry.decided is not None:
            steps, epoch = self._own("steps"), _name(entry.keyed_release)
            steps[epoch] = max(tuple(steps.get(epoch, entry.decided)), entry.decided)
        elif entry.action in DECLARATIONS:
            self.declared.append(entry)

    def _count(self, state: ChargeState | None, sign: int) -> None:
        """Adds a charge as it is, or takes it away as it was."""
        if state is None:
            return
        last, claim, place = state.last, state.claim, paid_place(state.window)
        if state.window is not None:
            rows = self._own("windows", state.window.scope)
            rows.pop(key := str(state.reserved.seq), None)
            if sign > 0:
                claimed = (None, None) if claim is None else (claim.seq, claim.units_sha256)
                rows[key] = OfWindow(state.window.label, last.seq, *claimed)
        kinds, kind = self._own("kinds", last.account), f"{last.unit} {last.adjacency}"
        if last.action == "void":
            return
        kinds[kind] = kinds.get(kind, 0) + sign
        if last.is_open:
            opened, release = self._own("open"), _name(_release_of(last))
            ends = {
                seq: end for seq, end in opened.pop(release, {}).items() if seq != str(last.seq)
            }
            if sign > 0:
                end = last.hash, last.account, last.epsilon, last.delta, *place
                ends[str(last.seq)] = end
            if ends:
                opened[release] = ends
        else:
            with contextlib.suppress(UsageError):  # of a number that no ledger wrote
                closed = self._own("closed")
                closed[last.account] = added(closed.get(last.account, {}), [state.cost], sign)

    def _own(self, *names: str) -> dict[str, Any]:
        """Returns a part of the state that no other snapshot has."""
        part = self._state
        for name in names:
            part[name] = part = dict(part.get(name, {}))
        return part

    def _rows(self, releases: Collection[tuple[str, str]]) -> tuple[list[Entry], list[str]]:
        """Returns the entries about releases up to the head, without steps, and what is changed.

        That an entry is older than the head hides no change of it: each must have its hash, and
        what is open must end as it was seen.
        """
        rows: list[Entry] = []
        names = sorted({release_id for _, release_id in releases}) if self.head else []
        for at in range(0, len(names), _N_NAMES):
            some = TABLE.c.release_id.in_(names[at : at + _N_NAMES])
            rows += self.reads(some, NO_STEP, TABLE.c.seq <= self.seq)
        rows = [entry for entry in rows if _release_of(entry) in releases]
        changed = [
            f"entry {entry.seq}: it was changed: its hash is not the hash of its columns"
            for entry in rows
            if entry.hash != entry.digest()
        ]
        seen = {
            int(seq): end[0]
            for release in releases
            for seq, end in self._state["open"].get(_name(release), {}).items()
        }
        ends = {s.last.seq: s.last.hash for s in charge_states(rows).values() if s.last.is_open}
        odd = sorted({seq for seq, _ in seen.items() ^ ends.items()})
        return rows, changed + [f"entry {seq}: it is not as it was seen" for seq in odd]

    # --- What is asked of it. ---

    def at(self, seq: int) -> Entry | None:
        """Returns the entry with a number; None: there is none."""
        if self.head is not None and seq == self.seq:
            return self.head
        return next(iter(self.reads(TABLE.c.seq == seq) if seq < self.seq else ()), None)

    def entries(self) -> list[Entry]:
        """Returns all entries in their order, however many."""
        return list(self.reads(TABLE.c.seq <= self.seq))

    def release_entries(self, output: str, release_id: str) -> list[Entry]:
        """Returns all entries about a release, under whatever key, without its steps.

        Raises:
            LedgerError: One was changed.
        """
        rows, changed = self._rows({(output, release_id)})
        if changed:
            raise LedgerError(
                f"the ledger does not say what tracecloak wrote ({changed[0]}); see `tracecloak "
                "ledger verify`, and restore a backup"
            )
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
        steps = self.reads(
            TABLE.c.action == "step", *(TABLE.c[name] == value for name, value in names),
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

    def claims(self, scope: str) -> list[tuple[str, int, str]]:
        """Returns what the windows of a scope claimed: (label, number of the entry, SHA-256)."""
        rows = self._state["windows"].get(scope, {}).values()
        return [(label, seq, sha256) for label, _, seq, sha256 in rows if sha256 is not None]

    def charged(self, scope: str) -> list[tuple[str, Entry]]:
        """Returns (label of the window, last entry) of each charge in a scope, in their order."""
        labels = {row[1]: row[0] for row in self._state["windows"].get(scope, {}).values()}
        seqs = list(labels)
        entries: list[Entry] = []
        for at in range(0, len(seqs), _N_NAMES):
            entries += self.reads(TABLE.c.seq.in_(seqs[at : at + _N_NAMES]))
        return [(labels[entry.seq], entry) for entry in entries]

    def other_claims(self, scope: str, digits: str) -> str | None:
        """Returns another scope with claims whose name begins with the same; None: none has."""
        others = (s for s in self._state["windows"] if s.startswith(digits) and s != scope)
        return next((other for other in others if self.claims(other)), None)

    def spent(self, account: str) -> Spent:
        """Returns what the charges of an account cost.

        Raises:
            UsageError: A number in the ledger is no decimal.
        """
        still_open = [
            Cost(epsilon and parse_decimal(epsilon), delta and parse_decimal(delta), (scope, label))
            for ends in self._state["open"].values()
            for _, payer, epsilon, delta, scope, label in ends.values()
            if payer == account
        ]
        kinds = self._state["kinds"].get(account, {})
        counting = frozenset(tuple(kind.split()) for kind, n in kinds.items() if n)
        return Spent(self._state["closed"].get(account, {}), tuple(still_open), counting)

    def to_json(self) -> str:
        """Returns what a sound ledger said as the text that `read` reads; numbers are exact."""
        entries = {
            "head": None if self.head is None else asdict(self.head),
            "declared": [asdict(entry) for entry in self.declared],
        }
        return json.dumps({**self._state, **entries}, default=decimal_text)

    @classmethod
    def read(cls, text: str | None) -> LedgerSnapshot:
        """Returns what `to_json` wrote; nothing was seen where another version did, or nobody."""
        past = cls()
        try:
            state = json.loads(text or "{}")
            if state["version"] == _VERSION:
                head, declared = state.pop("head"), state.pop("declared")
                for sums in state["closed"].values():
                    for labels in sums.values():
                        for label, (n, n_boundless, *numbers) in labels.items():
                            labels[label] = Total(n, n_boundless, *map(parse_decimal, numbers))
                past.head = None if head is None else Entry(**head)
                past.declared = [Entry(**entry) for entry in declared]
                past._state = state
        except (ValueError, TypeError, KeyError, AttributeError, UsageError):
            return cls()
        return past


def _release_of(entry: Entry) -> tuple[str, str]:
    return entry.output, entry.release_id


def _name(release: Sequence[str]) -> str:
    """Returns one text for the names of a release, in which there are no lines."""
    return "\n".join(release)
