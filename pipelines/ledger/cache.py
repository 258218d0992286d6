"""What a key store keeps of the ledgers that it pays with: a copy of the entries it saw.

A ledger that is restored from an old backup has a sound chain, and has forgotten what was spent
since. So has a key store that is restored, of its keys and receipts. Each is told by the other:

* Next to the keys is a copy of all entries that this key store read (`pipelines.ledger.snapshot`).
  The ledger must have the last of them. It may have more: other key stores write into it, and a run
  can be cut off between the ledger and the copy. A ledger that has it not is restored, cut off, or
  written anew. So is one at another place that begins with the same entry: it is a copy of that
  ledger, and an older one. A key store that has made reservations and has no copy lost it.
* Every reservation notes which key store made it, and as which of its reservations. The key store
  counts them, and counts before the ledger notes. One that has counted less than the ledger notes
  is restored, or used in two places.

Neither is noticed where both are restored from backups of one moment: keep them apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.caps import awaited_stores, awaited_text
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot

# The files of the copies of all ledgers, and those that earlier versions made: JSON lines.
_ALL, _OF_EARLIER_VERSIONS = "ledgers/*.db", "ledgers/*.jsonl"
_ACCEPT = "`tracecloak ledger accept [CONFIG] --by NAME --reason TEXT` records what happened"


@dataclass(frozen=True)
class Copy:
    """What a key store saw of one ledger.

    Attributes:
        name: Of the file that has it.
        first_hash: Of the first entry, which tells one ledger from another.
        head: The last entry.
        declares: Whether it declares accounts.
    """

    name: str
    first_hash: str
    head: Entry
    declares: bool


class LedgerCache:
    """What one key store keeps of one ledger."""

    def __init__(self, store: KeyStore, place: str) -> None:
        """Reads nothing yet.

        Args:
            store: The key store.
            place: How messages name the ledger; another name is another ledger.
        """
        self.store = store
        self._place = place
        self._name = f"ledgers/{hashlib.sha256(place.encode()).hexdigest()[:32]}"

    def kept(self, read: Callable[[], Sequence[Entry]]) -> LedgerSnapshot:
        """Opens the copy, which whoever calls closes; it is made where there is none.

        Where it is lost, none is begun, so that everybody is told until `accept`.

        Args:
            read: Returns all entries of the ledger; called where there is no copy.

        Raises:
            LedgerError: The ledger cannot be read.
            KeyStoreError: The key store cannot be used.
        """
        if self.file not in self._names():
            with contextlib.closing(LedgerSnapshot.of(read())) as whole:
                if self.has_lost_copy(whole):
                    return LedgerSnapshot(None)
        return LedgerSnapshot(self.store.touch(self.file))

    def head(self) -> Entry | None:
        """Returns the last entry that this key store saw; None: it saw none.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        return next((copy.head for copy in self.copies() if copy.name == self.file), None)

    def copies(self) -> list[Copy]:
        """Returns what this key store saw of all its ledgers.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        copies = []
        for name in self._names():
            with contextlib.closing(self.opened(name)) as past:
                first, head = past.at(1), past.head
                if first is not None and head is not None:
                    declares = any(one.action == "account" for one in past.declarations())
                    copies.append(Copy(name, first.hash, head, declares))
        return copies

    def accept(self, entries: Sequence[Entry]) -> None:
        """Makes the copy what a ledger says, whatever the copy has, and counts on from there.

        Args:
            entries: All entries of the ledger.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        with contextlib.closing(LedgerSnapshot(self.store.touch(self.file))) as past:
            past.replace(entries)
            self.store.next_generation(at_least=self.noted(past))

    def differs_from(self, entries: Sequence[Entry]) -> bool:
        """Returns whether the copy, and what follows from it, is anything but what a ledger says.

        Args:
            entries: All entries of the ledger, which may have more than the copy.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        if self.file not in self._names():
            return False
        with contextlib.closing(self.opened(self.file)) as past:
            return past.differs_from(entries)

    def complaints(self, past: LedgerSnapshot, copies: Sequence[Copy]) -> list[str]:
        """Returns what ledger and key store do not agree on, a sentence each.

        Args:
            past: What the ledger says.
            copies: What `copies` returned before it was read, as others may write meanwhile.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        complaints = []
        lost = self.lost(past, copies)
        if lost:
            complaints.append(lost_text(self._place, lost[-1].head, lost[-1].name == self.file))
        if self.has_lost_copy(past):
            complaints.append(
                f"this key store has lost its copy of {self._place}, which would show whether the "
                f"ledger lost anything. Nothing is released until {_ACCEPT}, or the key store is "
                "restored from a backup"
            )
        noted = self.noted(past)
        if noted > self.store.generation():
            complaints.append(
                f"this key store has forgotten what it did: {self._place} notes {noted} of its "
                f"reservations, and it counts {self.store.generation()}. It was restored from an "
                f"older backup, or is used in two places. Nothing is released until {_ACCEPT}"
            )
        if awaited := awaited_stores(past.declarations()):
            complaints.append(awaited_text(self._place, awaited))
        return complaints

    @property
    def file(self) -> str:
        """The file of the copy of this ledger."""
        return f"{self._name}.db"

    def has_lost_copy(self, past: LedgerSnapshot) -> bool:
        """Returns whether this key store paid with a ledger of which it has no copy any more.

        A copy is begun before the first reservation.

        Args:
            past: What the ledger says.
        """
        if self.file in self._names():
            return False
        copies, first = self.copies(), past.at(1)
        if first is not None and any(copy.first_hash == first.hash for copy in copies):
            return False  # it was moved
        return self.noted(past) > 0 or (not copies and self.store.generation() > 0)

    def lost(self, past: LedgerSnapshot, copies: Sequence[Copy]) -> list[Copy]:
        """Returns the copies that know more of the ledger than it does; the last knows most."""
        first = past.at(1)
        lost = [
            copy
            for copy in copies
            if (copy.name == self.file or (first is not None and copy.first_hash == first.hash))
            and ((there := past.at(copy.head.seq)) is None or there.hash != copy.head.hash)
            and not _is_accepted(past.declarations(), copy.head, copy.name == self.file)
        ]
        return sorted(lost, key=lambda copy: copy.head.seq)

    def noted(self, past: LedgerSnapshot) -> int:
        """Returns the number of this key store's last reservation in the ledger; 0: it has none."""
        identity = self.store.identity(makes=False)
        return past.reserved_by(identity) if identity else 0

    def opened(self, name: str) -> LedgerSnapshot:
        """Opens a copy by the name of its file; whoever calls closes it."""
        return LedgerSnapshot(self.store.path / name)

    def _names(self) -> list[str]:
        self._take_over()
        return sorted(self.store.names(_ALL))

    def _take_over(self) -> None:
        """Takes over the copies that an earlier version of tracecloak made."""
        for name in self.store.names(_OF_EARLIER_VERSIONS):
            # Who was cut off left a part of a line.
            lines = (self.store.read(name) or "").split("\n")[:-1]
            path = self.store.touch(name.removesuffix("jsonl") + "db")
            with contextlib.closing(LedgerSnapshot(path)) as past:
                past.add([Entry(**json.loads(line)) for line in lines])
            self.store.remove(name)


def lost_text(place: str, head: Entry, is_here: bool = True) -> str:
    """Returns what to say of a ledger that has not the last entry that was seen of it.

    Args:
        place: How messages name the ledger.
        head: The entry.
        is_here: Whether it was seen at this place.
    """
    where, what = "it", "it was restored from an older backup, cut off, or begun anew"
    if not is_here:
        where, what = "this ledger at another place", "it is an older copy of it"
    return (
        f"{place} lacks entry {head.seq} of {head.recorded_at[:19]}Z, which this key store saw in "
        f"{where}: {what}. Nothing is released until the configuration names the newer ledger, or "
        f"{_ACCEPT}"
    )


def differs_text(place: str) -> str:
    """Returns what to say of a copy that does not say what the ledger says."""
    return (
        f"the key store's copy of {place} was changed: it differs from the ledger, which is sound. "
        f"Restore the key store from a backup; or, if the ledger is right, {_ACCEPT}"
    )


def _is_accepted(entries: Sequence[Entry], head: Entry, is_here: bool) -> bool:
    """Returns whether an entry says that another, which was seen, is lost.

    Args:
        entries: What the ledger declares.
        head: The one that was seen.
        is_here: Whether it was seen at this place. If it was seen at another place, an entry that
            names a later one is enough, since each entry names only the last one that was lost.
    """
    lost = [entry.facts.get("lost") or {} for entry in entries if entry.action == "accept"]
    return any(
        named.get("hash") == head.hash or (not is_here and named.get("seq", 0) >= head.seq)
        for named in lost
    )
