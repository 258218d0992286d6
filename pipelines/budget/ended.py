"""A release that somebody ended by hand: which key stores made it, and what is left with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.pipelines.ledger.entries import Entry


@dataclass(frozen=True)
class Ended:
    """How a release was ended.

    Attributes:
        folder: Where it was, or would have been.
        had_key: Whether its key was in this key store, which destroyed it.
        elsewhere: The key stores, by their names in the ledger, that made it and are not this one.
            Their keys, and the copies of these for workers, nobody here can reach.
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
