"""Which files a window leaves out because a person decided so: what, who, why and when.

It lies in the operator's folder of the window's release, which nobody else reads. The digest of
what the release reads covers the paths.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.transforms.files import read_if_there, write_anew

_NAME = "left-out.json"


@dataclass(frozen=True)
class LeftOut:
    """A file that is left out.

    Attributes:
        path: Where it is, as `transforms.files.absolute` has it.
        by: Who decided it.
        reason: Why.
        at: When, in UTC, such as 2026-11-23T02:00:00+00:00.
    """

    path: str
    by: str
    reason: str
    at: str

    @classmethod
    def now(cls, path: str, by: str, reason: str) -> LeftOut:
        """Returns one that is decided now."""
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return cls(path, by, reason, at)


def left_out_of(store: KeyStore, output: str, release_id: str) -> tuple[LeftOut, ...]:
    """Returns what the release of a window leaves out, in the order of the decisions.

    Raises:
        KeyStoreError: What was decided cannot be read, so nobody can tell what is to be released.
    """
    path = _path(store, output, release_id)
    text = read_if_there(path)
    try:
        return () if text is None else tuple(LeftOut(**one) for one in json.loads(text))
    except (ValueError, TypeError):
        raise KeyStoreError(
            f"{path} is damaged, which says what files a person decided to leave out; restore it "
            "from a backup, or remove it and decide again"
        ) from None


def note_left_out(
    store: KeyStore, output: str, release_id: str, decided: Sequence[LeftOut]
) -> None:
    """Notes what the release of a window leaves out, in place of what was decided before."""
    body = json.dumps([asdict(one) for one in decided], indent=2)
    write_anew(_path(store, output, release_id), body.encode())


def _path(store: KeyStore, output: str, release_id: str) -> str:
    return f"{store.operator_folder(output, release_id).rstrip('/')}/{_NAME}"
