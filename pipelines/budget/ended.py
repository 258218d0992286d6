"""A release that somebody ends by hand: where each of its keys is, and where it was built with it.

The ledger says both, to whoever ends it, as the key store that made it may be on another machine.

Taking a release back: its files go, what it spent stays, and the ledger says who and why.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.ledger.officers_ledger import OfficersLedger
from tracecloak.transforms.files import absolute, is_on_this_machine, remove_folder
from tracecloak.transforms.publish.release_folder import ReleaseFolder
from tracecloak.transforms.stream.step_files import epoch_folder, epoch_workplace


@dataclass(frozen=True)
class Ended:
    """How a release was ended.

    Attributes:
        folder: Where it was, or would have been.
        had_key: Whether its key was in this key store, which destroyed it.
        elsewhere: The key stores, by their names in the ledger, that made it and have no receipt
            here. Their keys, and the copies of these for workers, nobody here can reach.
        was_reserved: Whether anything was paid for it.
    """

    folder: str
    had_key: bool
    elsewhere: tuple[str, ...] = ()
    was_reserved: bool = True


@dataclass(frozen=True)
class Making:
    """With what a release was made under one of its keys, as the ledger says.

    Attributes:
        store: The key store, see `KeyStore.identity`; empty: the ledger names none.
        staging_area: Where it was built; None: beside the output.
    """

    store: str
    staging_area: str | None

    def folder(self, output: str, release_id: str) -> ReleaseFolder:
        """Returns where a release was built so."""
        return ReleaseFolder(output, release_id, self.staging_area, store=self.store)


def makings(entries: Sequence[Entry], output: str, release_id: str) -> dict[str, Making]:
    """Returns with what a release was made, by the fingerprints of its keys.

    Args:
        entries: All entries of the ledger.
        output: The folder of all releases.
        release_id: The release's name.
    """
    return {
        entry.key_fingerprint: Making(
            str(entry.facts.get("store", "")), entry.facts.get("staging_area")
        )
        for entry in entries
        if entry.action == "reserve" and entry.of_key[:2] == (output, release_id)
    }


def elsewhere(
    making_by_key: Mapping[str, Making], key_fingerprints: Iterable[str], receipt: Receipt | None
) -> tuple[str, ...]:
    """Returns which key stores made what is ended, without the one that has its receipt.

    That one is known by the receipt and not by its own name, since the name needs a secret that may
    be wrapped in a key that is lost.

    Args:
        making_by_key: As `makings` returns them.
        key_fingerprints: The keys of what is ended.
        receipt: What this key store has of it; None: nothing.
    """
    stores = {key: making.store for key, making in making_by_key.items()}
    of_receipt = None if receipt is None else stores.get(receipt.key_fingerprint)
    return tuple(sorted({stores[key] for key in key_fingerprints} - {of_receipt}))


def withdraw(
    store: KeyStore, ledger: OfficersLedger, output: str, release_id: str, by: str, reason: str
) -> Ended:
    """Takes a committed release back; what was cut off is finished by the same call again.

    The ledger first, then the receipt, then the files: so nothing is gone of which nobody says why,
    and no run takes what is still there for a release.

    Args:
        store: The key store; whether it made the release is of no account.
        ledger: The ledger that the release was charged to.
        output: The folder of all releases.
        release_id: The release's name; of a stream that of one epoch, `NAME@EPOCH`, which goes with
            all its steps. It must have been stopped: what runs elsewhere goes on publishing.
        by: Who takes it back.
        reason: Why.

    Returns:
        What became of it: whether its key was here still, and who else made it.

    Raises:
        UsageError: The ledger knows no such release, or it is not committed.
        RetryLater: A run of this release is at work.
        LedgerError: The ledger cannot be used.
    """
    place = absolute(output)
    with store.alone(place, release_id):
        receipt = store.receipt(place, release_id)
        ledger.withdraw(place, release_id, by, reason)
        # The key of a stream, which may have steps to publish, goes as well.
        had_key = receipt is not None and store.commit(place, release_id)
        making_by_key = makings(ledger.entries(), place, release_id)
        others = elsewhere(making_by_key, making_by_key, receipt)
        internal = store.operator_folder(place, release_id)
        name, at, epoch = release_id.partition("@")
        if at:
            areas = {making.staging_area for making in making_by_key.values()}
            built = [epoch_workplace(place, name, epoch, area) for area in areas]
            return Ended(_remove_epoch(place, name, epoch, *built, internal), had_key, others)
        for making in making_by_key.values():
            folder = making.folder(place, release_id)
            folder.withdraw(_newest(ledger, folder), internal)
    return Ended(ReleaseFolder(place, release_id).final, had_key, others)


def _remove_epoch(output: str, name: str, epoch: str, *others: str) -> str:
    """Removes what an epoch of a stream published, and others, and returns where that was."""
    published = epoch_folder(output, name, epoch)
    for folder in (published, *others):
        remove_folder(folder)
    if is_on_this_machine(output):
        with contextlib.suppress(OSError):  # unless it has other epochs, or is gone
            Path(published).parent.rmdir()
    return published


def _newest(ledger: Ledger, withdrawn: ReleaseFolder) -> str | None:
    """Returns the release of the same folder that was committed last and is there."""
    for entry in reversed(ledger.entries()):
        is_other = entry.output == withdrawn.output and entry.release_id != withdrawn.release_id
        if is_other and entry.action == "commit" and "@" not in entry.release_id:
            folder = ReleaseFolder(entry.output, entry.release_id)
            if folder.committed() is not None:
                return folder.release_id
    return None
