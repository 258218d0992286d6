"""What a key store keeps of the ledgers that it pays with: the last entry that it saw, and where.

A ledger that is restored from an old backup has a sound chain, and has forgotten what was spent
since. So has a key store that is restored, of its keys and receipts. Each is told by the other:

* Next to the keys is the number and the hash of the last entry that this key store saw. The ledger
  must have it. It may have more: other key stores write into it, and a run can be cut off between
  the ledger and the key store. A ledger that has it not is restored, cut off, or written anew. So
  is one at another place that begins with the same entry: it is a copy of that ledger, and an older
  one. A key store that has made reservations and does not know what it saw has lost that.
* Every reservation notes which key store made it, and as which of its reservations. The key store
  counts them, and counts before the ledger notes. One that has counted less than the ledger notes
  is restored, or used in two places.

Neither is noticed where both are restored from backups of one moment: keep them apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import sqlalchemy as sa

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.pipelines.ledger.caps import AWAITS, is_awaited
from tracecloak.pipelines.ledger.database import TABLE, Asks, read_entries
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.snapshot import LedgerSnapshot
from tracecloak.schemas.errors import UsageError

# What 0.1.0 kept of its ledgers, all entries of each.
COPIES = "ledgers/*.jsonl"
_ACCEPT = "`tracecloak ledger accept` records what happened"
# What this process knows of ledgers, by the file of the head.
_KNOWN: dict[Path, LedgerSnapshot] = {}


@dataclass(frozen=True)
class Head:
    """What a key store saw last of one ledger.

    Attributes:
        first_hash: Of the first entry, which tells one ledger from another; empty: there was none.
        seq: Number of the last entry; 0: there was none.
        hash: Its hash.
        recorded_at: When it was written.
        declares: The units of the accounts that the ledger declares, by their names.
    """

    first_hash: str = ""
    seq: int = 0
    hash: str = ""
    recorded_at: str = ""
    declares: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def after(cls, past: LedgerSnapshot) -> Head:
        """Returns the last entry of what a ledger said."""
        declares = {e.account: e.unit for e in past.declared if e.action == "account"}
        last = past.head
        if last is None:
            return cls()
        return cls(past.first_hash, last.seq, last.hash, last.recorded_at, declares)

    def is_in(self, ask: Asks) -> bool:
        """Returns whether a ledger has the entry."""
        hashes = [entry.hash for entry in read_entries(ask, TABLE.c.seq == self.seq)]
        return hashes == ([self.hash] if self.seq else [])


class LedgerCache:
    """What one key store keeps of one ledger.

    Attributes:
        store: The key store.
        name: Of the file that has the head, without its ending.
    """

    def __init__(self, store: KeyStore, place: str) -> None:
        """Reads nothing yet.

        Args:
            store: The key store.
            place: How messages name the ledger; another name is another ledger.
        """
        self.store = store
        self._place = place
        self.name = f"ledgers/{hashlib.sha256(place.encode()).hexdigest()[:32]}"
        self._path = store.path.absolute() / f"{self.name}.head"

    def known(self, ask: Asks) -> LedgerSnapshot:
        """Returns what is known of the ledger without reading all of it; maybe nothing.

        That is what this process read of it. Else it is the last checkpoint at or before the entry
        that this key store saw last, if the ledger has that entry: it was checked then.

        Args:
            ask: Asks the database of the ledger.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        if (known := _KNOWN.pop(self._path, None)) is not None:
            return known  # whoever has it moves it on, and keeps it when that is in the ledger
        seen = self.heads().get(self.name, Head())
        if seen.seq and seen.is_in(ask):
            is_one = TABLE.c.action == "checkpoint", TABLE.c.seq <= seen.seq
            last = sa.select(sa.func.max(TABLE.c.seq)).where(*is_one).scalar_subquery()
            for entry in read_entries(ask, TABLE.c.seq == last):
                return LedgerSnapshot.at_checkpoint(entry, ask) or LedgerSnapshot()
        return LedgerSnapshot()

    def begin(self, past: LedgerSnapshot) -> None:
        """Notes, before anything is paid, that this key store pays with the ledger.

        Where it has lost what it saw, it does not, so that everybody is told until `accept`.

        Args:
            past: What the ledger says.

        Raises:
            KeyStoreError: The key store cannot be used.
        """
        if not self._path.exists() and not self.has_lost_head(past):
            self.store.touch(f"{self.name}.head")

    def keep(self, past: LedgerSnapshot) -> None:
        """Takes in what a ledger says; if it is not sound, nothing is kept.

        A ledger that has not what was seen moves no head.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        if past.faults:
            return
        seen = self.heads().get(self.name)
        if seen is not None and past.seq > seen.seq and seen.is_in(past.ask):
            with self.store.locked(f"{self.name}.lock"):
                if past.seq > self.heads().get(self.name, seen).seq:
                    self._note(past)
        _KNOWN[self._path] = past

    def _note(self, past: LedgerSnapshot) -> None:
        self.store.write(f"{self.name}.head", json.dumps(asdict(Head.after(past))))

    def heads(self) -> dict[str, Head]:
        """Returns what this key store saw last of its ledgers, by the names of their files.

        Raises:
            UsageError: An earlier version left them otherwise.
            KeyStoreError: The key store cannot be read.
        """
        if self.store.names(COPIES):
            raise not_migrated(f"key store {self.store.path}")
        found = {}
        for name in self.store.names("ledgers/*.head"):
            try:
                head = Head(**json.loads(self.store.read(name) or "{}"))
            except (ValueError, TypeError):
                raise damaged(self.store.path / name) from None
            found[name.removesuffix(".head")] = head
        return found

    def accept(self, past: LedgerSnapshot) -> None:
        """Has this key store have seen what a ledger says, whatever it saw, and counts on there.

        Args:
            past: What the ledger says.

        Raises:
            KeyStoreError: The key store cannot be written.
        """
        self._note(past)
        self.store.next_generation(at_least=self.noted(past))

    def complaints(self, past: LedgerSnapshot, heads: Mapping[str, Head]) -> list[str]:
        """Returns what ledger and key store do not agree on, a sentence each.

        Args:
            past: What the ledger says.
            heads: What `heads` returned before it was read, as others may write meanwhile.

        Raises:
            KeyStoreError: The key store cannot be read.
        """
        noted, counted = self.noted(past), self.store.generation()
        has_lost = self.has_lost_head(past)
        lost = (lost_text(self._place, of, n == self.name) for n, of in self.lost(past, heads))
        found = {
            **dict.fromkeys(lost, True),
            f"this key store has lost what it saw of {self._place}, which would show a loss. "
            f"Nothing is released until {_ACCEPT}, or the key store's backup is restored": has_lost,
            f"this key store has forgotten what it did: {self._place} notes {noted} of its "
            f"reservations, and it counts {counted}. It was restored from an older backup, or is "
            f"used in two places. Nothing is released until {_ACCEPT}": noted > counted,
            AWAITS.format(self._place): is_awaited(past.declared),
        }
        return [complaint for complaint, is_so in found.items() if is_so]

    def has_lost_head(self, past: LedgerSnapshot) -> bool:
        """Returns whether this key store paid with a ledger, and does not know what it saw of it.

        Args:
            past: What the ledger says.
        """
        heads = self.heads()
        if self.name in heads or any(h.first_hash == past.first_hash for h in heads.values()):
            return False  # it was moved
        return self.noted(past) > 0 or (not heads and self.store.generation() > 0)

    def lost(self, past: LedgerSnapshot, heads: Mapping[str, Head]) -> list[tuple[str, Head]]:
        """Returns the head with most entries that the ledger should have and has not."""
        lost = (
            (name, head)
            for name, head in heads.items()
            if (name == self.name or head.first_hash == past.first_hash)
            and not head.is_in(past.ask)
            and not _is_accepted(past.declared, head, name == self.name)
        )
        return sorted(lost, key=lambda one: one[1].seq)[-1:]

    def noted(self, past: LedgerSnapshot) -> int:
        """Returns the number of this key store's last reservation in the ledger; 0: it has none."""
        identity = self.store.identity(makes=False)
        return past.reserved_by(identity) if identity else 0


def damaged(path: Path) -> KeyStoreError:
    """Returns the error that a file with what a key store saw of a ledger is damaged."""
    what = f"what the key store saw of a ledger, {path}, is damaged"
    return KeyStoreError(f"{what}; restore the key store from a backup")


def not_migrated(what: str) -> UsageError:
    """Returns the error that an earlier version left something that is taken over first."""
    return UsageError(
        f"{what} is of an earlier version: run `tracecloak ledger migrate` with the same ledger "
        "and key_store, as the owner of its tables"
    )


def lost_text(place: str, head: Head, is_here: bool = True) -> str:
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
        f"{where}: {what}. Nothing is released until ledger names the newer one, or {_ACCEPT}"
    )


def _is_accepted(entries: Sequence[Entry], head: Head, is_here: bool) -> bool:
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
