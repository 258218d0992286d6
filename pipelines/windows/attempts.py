"""How the last try to release a window ended, noted where the operator alone reads.

A refusal leaves nothing in the ledger, and whoever looks at the calendar wants to know of it.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.transforms.files import read_if_there, write_anew

_NAME = "attempt.json"


@dataclass(frozen=True)
class Attempt:
    """One try.

    Attributes:
        at: When it ended, in UTC, such as 2026-11-23T02:00:00+00:00.
        exit_code: That of the command; 0: it was released.
        reason: What the command said, which never holds data; empty if it was released.
    """

    at: str
    exit_code: int
    reason: str = ""

    @classmethod
    def now(cls, exit_code: int, reason: str = "") -> Attempt:
        """Returns one that ends now."""
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(at, exit_code, reason)

    def note(self, store: KeyStore, output: str, release_id: str) -> None:
        """Notes this try in place of the one before."""
        write_anew(_path(store, output, release_id), json.dumps(asdict(self)).encode())


def last_attempt(store: KeyStore, output: str, release_id: str) -> Attempt | None:
    """Returns the last try that was noted; None: none was, or its file is damaged."""
    text = read_if_there(_path(store, output, release_id))
    try:
        return None if text is None else Attempt(**json.loads(text))
    except (ValueError, TypeError):
        return None


def _path(store: KeyStore, output: str, release_id: str) -> str:
    return f"{store.operator_folder(output, release_id).rstrip('/')}/{_NAME}"
