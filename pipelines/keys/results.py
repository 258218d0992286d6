"""Where results of queries lie: noted before a database is asked, so that none is lost sight of.

A run that is killed while it asks has reserved nothing, so neither the ledger nor a receipt knows
of it. A note may outlive its result, and says nothing then.
"""

from __future__ import annotations

import json
from pathlib import Path

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.transforms.files import exists
from tracecloak.transforms.publish.release_folder import ReleaseFolder


def note_result(store: KeyStore, folder: ReleaseFolder) -> None:
    """Notes that the workplace of a release may hold the result of its query from now on.

    Raises:
        KeyStoreError: It cannot be written.
    """
    names = ("output", "release_id", "staging_area", "store")
    store.write(_name(folder), json.dumps({name: getattr(folder, name) for name in names}))


def forget_result(store: KeyStore, folder: ReleaseFolder) -> None:
    """Takes the note back, once the result is deleted."""
    store.remove(_name(folder))


def noted_results(store: KeyStore) -> list[ReleaseFolder]:
    """Returns the releases whose workplace holds a result, as far as one was noted.

    Raises:
        KeyStoreError: The key store cannot be read.
    """
    texts = map(store.read, store.names("releases/*.result"))
    folders = [ReleaseFolder(**json.loads(text)) for text in texts if text is not None]
    return [folder for folder in folders if exists(folder.input)]


def _name(folder: ReleaseFolder) -> str:
    """The note of a release, wherever it is built: relative to the folder of the store."""
    return f"releases/{Path(folder.workplace).name}.result"
