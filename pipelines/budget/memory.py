"""What a key store keeps of the ledgers that it pays with: a copy of the entries it saw.

A ledger that is restored from an old backup has a sound chain, and has forgotten what was spent
since. So has a key store that is restored, of its keys and receipts. Each is told by the other:

* Beside the keys lies a copy of all entries that this key store saw. The ledger must have the last
  of them. It may have more: other key stores write into it, and a run can be cut off between the
  ledger and the copy. A ledger that has it not is restored, cut off, or written anew. So is one at
  another place that begins with the same entry: it is a copy of that ledger, and an older one.
* Every reservation notes which key store made it, and as which of its reservations. The key store
  counts them, and counts before the ledger notes. One that has counted less than the ledger notes
  is restored, or used in two places.

Neither is noticed where both are restored from backups of one moment: keep them apart.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tracecloak.pipelines.budget.entries import (
    Action,
    Charge,
    Entry,
    decided_of,
    may_follow,
    windowed,
)
from tracecloak.pipelines.budget.key_store import KeyStore

# An action, the columns of what it is about, and its details.
Step = tuple[Action, Mapping[str, Any], Mapping[str, Any] | None]

# How a charge came to be what it is, at least: `may_follow` leaves out what is there already.
_WAYS: Mapping[str, Sequence[Action]] = {
    "reserve": ("reserve",),
    "claim": ("reserve",),
    "draw": ("reserve", "draw"),
    "commit": ("reserve", "commit"),
    "forfeit": ("reserve", "forfeit"),
    "withdraw": ("reserve", "commit", "withdraw"),
}

# The files of the copies of all ledgers.
_ALL = "ledgers/*.jsonl"
_ACCEPT = "`tracecloak ledger accept --by NAME --reason TEXT` records what happened"


@dataclass(frozen=True)
class Copy:
    """What a key store saw of one ledger.

    Attributes:
        name: Of the file that has it.
        first_hash: Of the first entry, which tells one ledger from another.
        head: The last entry.
    """

    name: str
    first_hash: str
    head: Entry


class LedgerMemory:
    """What one key store keeps of one ledger."""

    def __init__(self, store: KeyStore, place: str) -> None:
        """Reads nothing yet.

        Args:
            store: The key store.
            place: How messages name the ledger; another name is another ledger.
        """
        self._store = store
        self._place = place
        self._name = f"ledgers/{hashlib.sha256(place.encode()).hexdigest()[:32]}"

    def head(self) -> Entry | None:
        """Returns the last entry that this key store saw; None: it saw none.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        found = self._copy(self._own)
        return None if found is None else found.head

    def copies(self) -> list[Copy]:
        """Returns what this key store saw of all its ledgers.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        found = (self._copy(name) for name in sorted(self._store.names(_ALL)))
        return [copy for copy in found if copy is not None]

    def knows_others(self) -> bool:
        """Returns whether this key store paid with other ledgers.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        return any(self._others())

    def knows_others_with_caps(self) -> bool:
        """Returns whether accounts are declared in other ledgers of this key store.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        return any(
            entry.action == "account" for name in self._others() for entry in self._entries(name)
        )

    def remember(self, entries: Sequence[Entry], is_accepted: bool = False) -> None:
        """Adds to the copy what a ledger has beyond it.

        A ledger that has not what the copy has is left alone: another process may have remembered
        more meanwhile, or it was restored, which `complaints` tells.

        Args:
            entries: All entries of the ledger.
            is_accepted: Whether the ledger holds, whatever the copy has.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        with self._store.locked(f"{self._name}.lock"):
            head = self.head()
            if is_accepted:
                self._store.write(self._own, _written(entries))
            elif has(entries, head):
                self._store.append(self._own, _written(entries[0 if head is None else head.seq :]))

    def stamp(self) -> dict[str, Any]:
        """Returns what a reservation notes of the key store that makes it.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        return {"store": self._store.identity(), "generation": self._store.next_generation()}

    def complaints(self, entries: Sequence[Entry], copies: Sequence[Copy]) -> list[str]:
        """Returns what ledger and key store do not agree on, a sentence each.

        Args:
            entries: All entries of the ledger.
            copies: What `copies` returned before they were read, as others may write meanwhile.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        found = []
        lost = self._lost(entries, copies)
        if lost:
            is_here = lost[-1].name == self._own
            found.append((lost_text if is_here else _older_text)(self._place, lost[-1].head))
        noted = self._noted(entries)
        if noted > self._store.generation():
            found.append(
                f"this key store has forgotten what it did: {self._place} notes {noted} of its "
                f"reservations, and it counts {self._store.generation()}. It was restored from an "
                f"older backup, or is used in two places. Nothing is released until {_ACCEPT}"
            )
        return found

    def accepting(self, entries: Sequence[Entry], copies: Sequence[Copy]) -> dict[str, Any]:
        """Returns the details of an entry `accept`, which end the complaints."""
        noted = self._noted(entries)
        details: dict[str, Any] = {}
        for copy in self._lost(entries, copies)[-1:]:
            details["lost"] = {"seq": copy.head.seq, "hash": copy.head.hash}
        if noted > self._store.generation():
            details |= {"store": self._store.identity(), "generation": noted}
        return details

    def accepted(self, entries: Sequence[Entry]) -> None:
        """Takes a ledger with its entry `accept` for what holds.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        self.remember(entries, is_accepted=True)
        self._store.next_generation(at_least=self._noted(entries))

    def forgotten(self, entries: Sequence[Entry], copies: Sequence[Copy]) -> list[Step]:
        """Returns what to write into a ledger so that it knows again what the copy knows.

        What counts as spent in the copy counts again, and what was declared later than what the
        ledger has is declared again. Nothing is taken away. Of several copies that know more, it is
        the one that knows most.

        What a window counted is claimed again, too. Where others claimed units of the same scope
        while that was forgotten, one unit may be in two windows: so it adds up from then on.
        """
        lost = self._lost(entries, copies)
        seen = self._entries(lost[-1].name if lost else self._own)
        marked = {"again": True}
        steps: list[Step] = [
            (entry.action, asdict(entry), {**entry.facts, **marked})
            for name, entry in _declarations(seen).items()
            if name not in (now := _declarations(entries))
            or now[name].recorded_at < entry.recorded_at
        ]
        pasts = _actions(entries)
        claims = {charge: one.claim for charge, one in windowed(seen).items()}
        overtaken = _scopes_claimed_since(entries, seen)
        for charge, actions in _actions(seen).items():
            reserved, last = _ends(seen, charge)
            claim, window = claims.get(charge), reserved.window
            past = pasts[charge]
            for action in _way(actions[-1], claim is not None):
                if may_follow(action, past):
                    past.append(action)
                    facts = reserved.facts if action == "reserve" else {}
                    facts = last.facts if action == last.action != "reserve" else facts
                    if action == "claim" and claim is not None:
                        facts = claim.facts
                        if window is not None and window.scope in overtaken:
                            facts = {**facts, **replace(window, adds_up=True).facts()}
                    steps.append((action, asdict(last), {**facts, **marked}))
        of_keys = {entry.of_key for entry in seen if entry.decided is not None}
        known = {of_key: decided_of(entries, of_key) for of_key in of_keys}
        for entry in seen:
            if entry.decided is not None and entry.decided[0] not in known[entry.of_key]:
                steps.append((entry.action, asdict(entry), {**entry.facts, **marked}))
        return steps

    @property
    def _own(self) -> str:
        """The file of the copy of this ledger."""
        return f"{self._name}.jsonl"

    def _others(self) -> Iterator[str]:
        """Yields the files of the copies of other ledgers."""
        yield from (name for name in self._store.names(_ALL) if name != self._own)

    def _lost(self, entries: Sequence[Entry], copies: Sequence[Copy]) -> list[Copy]:
        """Returns the copies that know more of the ledger than it does; the last knows most."""
        first_hash = entries[0].hash if entries else ""
        lost = [
            copy
            for copy in copies
            if (copy.name == self._own or copy.first_hash == first_hash)
            and not has(entries, copy.head)
            and not _is_accepted(entries, copy.head, copy.name == self._own)
        ]
        return sorted(lost, key=lambda copy: copy.head.seq)

    def _copy(self, name: str) -> Copy | None:
        ends = self._store.ends(name)
        if ends is None:
            return None
        return Copy(name, json.loads(ends[0])["hash"], Entry(**json.loads(ends[1])))

    def _entries(self, name: str) -> list[Entry]:
        return [Entry(**json.loads(line)) for line in self._lines(name)]

    def _lines(self, name: str) -> list[str]:
        """Returns a copy's whole lines: who was cut off left a part of one, or of its entry."""
        text = self._store.read(name) or ""
        return text.split("\n")[:-1]

    def _noted(self, entries: Sequence[Entry]) -> int:
        """Returns as which reservation of this key store the ledger notes its last."""
        own = self._store.identity(makes=False)
        return max(
            (
                int(entry.facts.get("generation", 0))
                for entry in entries
                if entry.action == "reserve" and own and own in entry.details
                if entry.facts.get("store") == own
            ),
            default=0,
        )


def lost_text(place: str, head: Entry) -> str:
    """Returns what to say of a ledger that has not the last entry that was seen of it."""
    return (
        f"{place} lacks entry {head.seq} of {head.recorded_at[:19]}Z, which this key store saw in "
        "it: it was restored from an older backup, cut off, or begun anew. Nothing is released "
        f"until {_ACCEPT}, or the newer ledger is back"
    )


def _older_text(place: str, head: Entry) -> str:
    return (
        f"{place} lacks entry {head.seq} of {head.recorded_at[:19]}Z, which this key store saw in "
        "this ledger at another place: it is an older copy of it. Nothing is released until the "
        f"configuration names the newer one, or {_ACCEPT} if that is lost"
    )


def has(entries: Sequence[Entry], head: Entry | None) -> bool:
    """Returns whether a ledger has an entry that was seen of it, or nothing was seen."""
    return head is None or (len(entries) >= head.seq and entries[head.seq - 1].hash == head.hash)


def _is_accepted(entries: Sequence[Entry], head: Entry, is_here: bool) -> bool:
    """Returns whether an entry says that another, which was seen, is lost.

    Args:
        entries: Of the ledger.
        head: The one that was seen.
        is_here: Whether it was seen at this place. Of one that was seen at another place it is
            enough that the entry speaks of a later one, as only the last that was lost is named.
    """
    lost = [entry.facts.get("lost") or {} for entry in entries if entry.action == "accept"]
    return any(
        found.get("hash") == head.hash or (not is_here and found.get("seq", 0) >= head.seq)
        for found in lost
    )


def _written(entries: Sequence[Entry]) -> str:
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)


def _declarations(entries: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    """Returns the last declaration of each account and each data set."""
    return {
        (entry.action, str(entry.facts.get("dataset", "")) or entry.account): entry
        for entry in entries
        if entry.action in ("account", "dataset")
    }


def _actions(entries: Sequence[Entry]) -> dict[Charge, list[Action]]:
    """Returns what happened to each charge, in order."""
    actions: dict[Charge, list[Action]] = defaultdict(list)
    for entry in entries:
        if entry.is_of_charge:
            actions[entry.charge].append(entry.action)
    return actions


def _way(last: Action, has_claim: bool) -> Sequence[Action]:
    """Returns how a charge came to be what it is, at least."""
    way = _WAYS.get(last, ())
    return ("reserve", "claim", *way[1:]) if way and has_claim else way


def _scopes_claimed_since(entries: Sequence[Entry], seen: Sequence[Entry]) -> set[str]:
    """Returns the scopes in which a ledger has claims that were not seen of it."""

    def claims(of: Sequence[Entry]) -> set[tuple[Charge, str | None, str]]:
        return {
            (charge, one.claim.units_sha256, one.window.scope)
            for charge, one in windowed(of).items()
            if one.claim is not None
        }

    return {scope for _, _, scope in claims(entries) - claims(seen)}


def _ends(entries: Sequence[Entry], charge: Charge) -> tuple[Entry, Entry]:
    """Returns the last entry that reserved a charge, and its last entry of all."""
    own = [entry for entry in entries if entry.is_of_charge and entry.charge == charge]
    reserved = [entry for entry in own if entry.action == "reserve"]
    return reserved[-1], own[-1]
