"""A release that somebody ends by hand: where each of its keys is, and where it was built with it.

The ledger says both, to whoever ends it, as the key store that made it may be on another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.entries import Entry
from tracecloak.transforms.publish.release_folder import ReleaseFolder


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
