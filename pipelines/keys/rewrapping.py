"""Wrapping the keys of a key store by a key-encryption key, while no release is at work."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.keys.kept_secrets import KeptSecrets
from tracecloak.pipelines.keys.key_store import KEYS_LOCK, KeyStore
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import write_private
from tracecloak.transforms.keys.sources import check_reference

_LOG = logging.getLogger("tracecloak")


def wrap_what_is_in_clear(store: KeyStore) -> None:
    """Wraps the keys of a store that lie in clear and shall not.

    Raises:
        UsageError: The key-encryption key is another whenever it is asked for.
        RetryLater: A release is at work, or the source of that key does not answer now.
        KeyStoreError: The store cannot be used.
    """
    with _nobody_at_work(store), store.in_use():
        n_wrapped = store.secrets.wrap_all()
    _LOG.warning(
        "key store %s: %d keys lay in clear and are encrypted from now on, so every command "
        "that reads them needs key_encryption_key; copies of the folder that were made before "
        "have them in clear still",
        store.path,
        n_wrapped,
    )


def rewrap(store: KeyStore, before: str, after: str) -> int:
    """Wraps by a key-encryption key what another wrapped, or nobody.

    Whoever is cut off calls it again: what is done is not done twice.

    Args:
        store: The key store, whose own key-encryption key is not asked for.
        before: Reference to the other key.
        after: Reference to the key that is asked for from now on.

    Returns:
        How many keys were wrapped anew.

    Raises:
        UsageError: There is no such store, neither key wraps what is there, or one of them is
            not there.
        RetryLater: A release is at work, or the source of a key does not answer now.
        KeyStoreError: The store cannot be used.
    """
    check_reference(before, "--from")
    secrets = KeptSecrets(store.path, after, "--to")
    if not store.path.is_dir():
        raise UsageError(f"there is no key store in {store.path}; correct key_store")
    with _nobody_at_work(store), store.in_use():
        return secrets.wrap_all(before)


@contextlib.contextmanager
def _nobody_at_work(store: KeyStore) -> Iterator[None]:
    """Keeps keys from being made, and every release that has one from going on, meanwhile.

    Raises:
        RetryLater: One is at work.
    """
    with store.locked(KEYS_LOCK), contextlib.ExitStack() as held:
        for path in store.secrets.paths():
            if path.suffix == ".key":
                refusal = (
                    f"a release of key store {store.path} is at work, and its key would be "
                    "encrypted anew under it; wait until it ends, then run this again"
                )
                lock = path.with_suffix(".lock").relative_to(store.path)
                held.enter_context(store.locked(str(lock), refusal))
        yield


def new_key_file(path: Path) -> None:
    """Writes a fresh release key that only its owner can read.

    Raises:
        UsageError: The file exists.
    """
    if path.exists():
        raise UsageError(f"{path} exists; a key is never overwritten")
    write_private(path, ReleaseKey.generate().hex().encode(), replaces=False)
