"""A release that somebody ended by hand: which key stores made it, and what is left with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracecloak.pipelines.keys.receipts import Receipt
from tracecloak.pipelines.ledger.entries import Entry


@dataclass(frozen=True)
class Ended:
    """How a release was ended.

    Attributes:
        folder: Where it was, or would have been.
        had_key: Whether its key was in this key store, which destroyed it.
        elsewhere: The key stores, by their names in the ledger, that made it and have no receipt
            here. Their keys, and the copies of these for workers, nobody here can reach.
    """

    folder: str
    had_key: bool
    elsewhere: tuple[str, ...] = ()


def stores_of(entries: Sequence[Entry], output: str, release_id: str) -> dict[str, str]:
    """Returns the key stores that reserved a release, see `KeyStore.identity`, by its keys.

    Args:
        entries: All entries of the ledger.
        output: The folder of all releases.
        release_id: The release's name.
    """
    return {
        entry.key_fingerprint: str(entry.facts.get("store", ""))
        for entry in entries
        if entry.action == "reserve" and entry.of_key[:2] == (output, release_id)
    }


def elsewhere(
    stores: Mapping[str, str], key_fingerprints: Iterable[str], receipt: Receipt | None
) -> tuple[str, ...]:
    """Returns which key stores made what is ended, without the one that has its receipt.

    By the receipt, and not by the key store's own name: that asks for a secret that may be wrapped
    in a key that is lost.

    Args:
        stores: As `stores_of` returns them.
        key_fingerprints: The keys of what is ended.
        receipt: What this key store has of it; None: nothing.
    """
    own = None if receipt is None else stores.get(receipt.key_fingerprint)
    return tuple(sorted({stores.get(key, "") for key in key_fingerprints} - {own}))
