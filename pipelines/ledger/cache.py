"""What a key store keeps of the ledgers that it pays with: the entries that it saw.

A ledger that is restored from an old backup has a sound chain, and has forgotten what was spent
since. So has a key store that is restored, of its keys and receipts. Each is told by the other:

* Next to the keys is a copy of all entries that this key store saw. The ledger must have the last
  of them. It may have more: other key stores write into it, and a run can be cut off between the
  ledger and the copy. A ledger that has it not is restored, cut off, or written anew. So is one at
  another place that begins with the same entry: it is a copy of that ledger, and an older one. A
  key store that has made reservations and has no copy lost it.
* Every reservation notes which key store made it, and as which of its reservations. The key store
  counts them, and counts before the ledger notes. One that has counted less than the ledger notes
  is restored, or used in two places.

Neither is noticed where both are restored from backups of one moment: keep them apart.

The copy is a file of JSON lines, to which lines are added and nothing else, and `accept` and
`verify` alone read all of it. Beside it is what follows from the entries up to one of them
(`pipelines.ledger.snapshot`), so that a run reads what came since; without that, it reads all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.caps import awaited_stores, awaited_text
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot

_ACCEPT = "`tracecloak ledger accept [CONFIG] --by NAME --reason TEXT` records what happened"
# What follows from the entries is written after so many more.
_N_ENTRIES = 64
# No entry is longer.
_LONGEST = 1 << 20
# What this process knows of ledgers, by their copies, and up to which entry that is written.
_KNOWN: dict[Path, tuple[LedgerSnapshot, int]] = {}


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

    @property
    def file(self) -> str:
        """The file of the copy of this ledger."""
        return f"{self._name}.jsonl"

    @property
    def _path(self) -> Path:
        return self.store.path.absolute() / self.file

    def known(self) -> LedgerSnapshot:
        """Returns what this key store knows of the ledger without reading it; maybe nothing.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        if self._path not in _KNOWN:
            past = LedgerSnapshot.read(self.store.read(f"{self._name}.json"))
            _KNOWN[self._path] = past, past.seq
        return _KNOWN[self._path][0]

    def begin(self, past: LedgerSnapshot) -> None:
        """Makes the copy, before anything is paid, where there is none.

        Where it is lost, none is begun, so that everybody is told until `accept`.

        Args:
            past: What the ledger says.

        Raises:
            KeyStoreError: The key store cannot be used.
        """
        if not self._path.exists() and not self.has_lost_copy(past):
            self.store.touch(self.file)

    def keep(self, past: LedgerSnapshot, entries: Sequence[Entry]) -> None:
        """Takes in what was read of a ledger, where the copy is not lost.

        Args:
            past: What it says. If it is not sound, nothing is kept.
            entries: Those that the copy lacks, or has from another process meanwhile.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        if past.faults:
            return
        if entries and self._path.exists():
            with self.store.locked(f"{self._name}.lock"), self.store.in_use():
                self._append(entries)
        _, n_written = _KNOWN.get(self._path, (past, 0))
        if past.seq >= n_written + _N_ENTRIES:
            self.store.write(f"{self._name}.json", past.to_json())
            n_written = past.seq
        _KNOWN[self._path] = past, n_written

    def _append(self, entries: Sequence[Entry]) -> None:
        head = self.head()
        n_seen = 0 if head is None else head.seq
        rest = [entry for entry in entries if entry.seq > n_seen]
        if rest and rest[0].seq == n_seen + 1:
            with self._path.open("r+b") as stream:
                # Who was cut off left a part of a line.
                stream.seek(-len(self._tail(self.file)[-1]), os.SEEK_END)
                stream.truncate()
                stream.write(_lines(rest).encode())
                stream.flush()
                os.fsync(stream.fileno())

    def head(self) -> Entry | None:
        """Returns the last entry that this key store saw; None: it saw none.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        return next((copy.head for copy in self.copies(self.file)), None)

    def copies(self, which: str = "ledgers/*.jsonl") -> list[Copy]:
        """Returns what this key store saw of its ledgers.

        Args:
            which: Files of copies, as a glob; by default all.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        copies = []
        for name in sorted(self.store.names(which)):
            with self.store.in_use(), (self.store.path / name).open("rb") as stream:
                line = stream.readline()
            if line.endswith(b"\n"):
                first, last = self._entry(name, line), self._entry(name, self._tail(name)[-2])
                copies.append(Copy(name, first.hash, last))
        return copies

    def seen(self, name: str) -> list[Entry]:
        """Returns all entries of a copy, by the name of its file.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        return [self._entry(name, line) for line in (self.store.read(name) or "").split("\n")[:-1]]

    def accept(self, entries: Sequence[Entry]) -> None:
        """Makes the copy what a ledger says, whatever the copy has, and counts on from there.

        Args:
            entries: All entries of the ledger.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        past = LedgerSnapshot.of(entries)
        self.store.write(self.file, _lines(entries))
        self.store.write(f"{self._name}.json", past.to_json())
        _KNOWN[self._path] = past, past.seq
        self.store.next_generation(at_least=self.noted(past))

    def differs_from(self, entries: Sequence[Entry]) -> bool:
        """Returns whether the copy, and what follows from it, is anything but what a ledger says.

        Args:
            entries: All entries of the ledger, which may have more than the copy.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        seen = self.seen(self.file)
        known = LedgerSnapshot.read(self.store.read(f"{self._name}.json"))
        follows = LedgerSnapshot.of(entries[: known.seq]).to_json()
        return seen != [*entries[: len(seen)]] or known.to_json() != follows

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
        if awaited := awaited_stores(past.declared):
            complaints.append(awaited_text(self._place, awaited))
        return complaints

    def has_lost_copy(self, past: LedgerSnapshot) -> bool:
        """Returns whether this key store paid with a ledger of which it has no copy any more.

        A copy is begun before the first reservation.

        Args:
            past: What the ledger says.
        """
        if self._path.exists():
            return False
        copies = self.copies()
        if any(copy.first_hash == past.first_hash for copy in copies):
            return False  # it was moved
        return self.noted(past) > 0 or (not copies and self.store.generation() > 0)

    def lost(self, past: LedgerSnapshot, copies: Sequence[Copy]) -> list[Copy]:
        """Returns the copies that know more of the ledger than it does; the last knows most."""
        lost = [
            copy
            for copy in copies
            if (copy.name == self.file or copy.first_hash == past.first_hash)
            and ((there := past.at(copy.head.seq)) is None or there.hash != copy.head.hash)
            and not _is_accepted(past.declared, copy.head, copy.name == self.file)
        ]
        return sorted(lost, key=lambda copy: copy.head.seq)

    def noted(self, past: LedgerSnapshot) -> int:
        """Returns the number of this key store's last reservation in the ledger; 0: it has none."""
        identity = self.store.identity(makes=False)
        return past.reserved_by(identity) if identity else 0

    def _tail(self, name: str) -> list[bytes]:
        """Returns the last lines of a copy; the very last is empty, or a part of one."""
        with self.store.in_use(), (self.store.path / name).open("rb") as stream:
            stream.seek(max(stream.seek(0, os.SEEK_END) - _LONGEST, 0))
            return stream.read().split(b"\n")

    def _entry(self, name: str, line: str | bytes) -> Entry:
        try:
            return Entry(**json.loads(line))
        except (ValueError, TypeError):
            raise KeyStoreError(
                f"the key store's copy of the ledger, {self.store.path / name}, is damaged; "
                "restore the key store from a backup"
            ) from None


def _lines(entries: Sequence[Entry]) -> str:
    return "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)


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
