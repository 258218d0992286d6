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
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.entries import Entry

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
        self.store = store
        self._place = place
        self._name = f"ledgers/{hashlib.sha256(place.encode()).hexdigest()[:32]}"

    def head(self) -> Entry | None:
        """Returns the last entry that this key store saw; None: it saw none.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        copy = self._copy(self.file)
        return None if copy is None else copy.head

    def copies(self) -> list[Copy]:
        """Returns what this key store saw of all its ledgers.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        copies = (self._copy(name) for name in sorted(self.store.names(_ALL)))
        return [copy for copy in copies if copy is not None]

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
            entry.action == "account" for name in self._others() for entry in self.entries_in(name)
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
        with self.store.locked(f"{self._name}.lock"):
            head = self.head()
            if is_accepted:
                self.store.write(self.file, _written(entries))
            elif has(entries, head):
                self.store.append(self.file, _written(entries[0 if head is None else head.seq :]))

    def stamp(self) -> dict[str, Any]:
        """Returns what a reservation notes of the key store that makes it.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        return {"store": self.store.identity(), "generation": self.store.next_generation()}

    def complaints(self, entries: Sequence[Entry], copies: Sequence[Copy]) -> list[str]:
        """Returns what ledger and key store do not agree on, a sentence each.

        Args:
            entries: All entries of the ledger.
            copies: What `copies` returned before they were read, as others may write meanwhile.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        complaints = []
        lost = self.lost(entries, copies)
        if lost:
            is_here = lost[-1].name == self.file
            complaints.append((lost_text if is_here else _older_text)(self._place, lost[-1].head))
        noted = self.noted(entries)
        if noted > self.store.generation():
            complaints.append(
                f"this key store has forgotten what it did: {self._place} notes {noted} of its "
                f"reservations, and it counts {self.store.generation()}. It was restored from an "
                f"older backup, or is used in two places. Nothing is released until {_ACCEPT}"
            )
        return complaints

    @property
    def file(self) -> str:
        """The file of the copy of this ledger."""
        return f"{self._name}.jsonl"

    def _others(self) -> Iterator[str]:
        """Yields the files of the copies of other ledgers."""
        yield from (name for name in self.store.names(_ALL) if name != self.file)

    def lost(self, entries: Sequence[Entry], copies: Sequence[Copy]) -> list[Copy]:
        """Returns the copies that know more of the ledger than it does; the last knows most."""
        first_hash = entries[0].hash if entries else ""
        lost = [
            copy
            for copy in copies
            if (copy.name == self.file or copy.first_hash == first_hash)
            and not has(entries, copy.head)
            and not _is_accepted(entries, copy.head, copy.name == self.file)
        ]
        return sorted(lost, key=lambda copy: copy.head.seq)

    def _copy(self, name: str) -> Copy | None:
        ends = self.store.ends(name)
        if ends is None:
            return None
        return Copy(name, json.loads(ends[0])["hash"], Entry(**json.loads(ends[1])))

    def entries_in(self, name: str) -> list[Entry]:
        """Returns the entries of a copy, by the name of its file."""
        return [Entry(**json.loads(line)) for line in self._lines(name)]

    def _lines(self, name: str) -> list[str]:
        """Returns a copy's whole lines: who was cut off left a part of one, or of its entry."""
        text = self.store.read(name) or ""
        return text.split("\n")[:-1]

    def noted(self, entries: Sequence[Entry]) -> int:
        """Returns the number of this key store's last reservation in the ledger; 0: it has none."""
        identity = self.store.identity(makes=False)
        return max(
            (
                int(entry.facts.get("generation", 0))
                for entry in entries
                if entry.action == "reserve" and identity and identity in entry.details
                if entry.facts.get("store") == identity
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
        is_here: Whether it was seen at this place. If it was seen at another place, an entry that
            names a later one is enough, since each entry names only the last one that was lost.
    """
    lost = [entry.facts.get("lost") or {} for entry in entries if entry.action == "accept"]
    return any(
        named.get("hash") == head.hash or (not is_here and named.get("seq", 0) >= head.seq)
        for named in lost
    )


def _written(entries: Sequence[Entry]) -> str:
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
