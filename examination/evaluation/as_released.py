"""The log that a release is judged by: its tables at the versions that the release read."""

from __future__ import annotations

from pathlib import Path

from tracecloak.pipelines.configuration.config import SourceConfig
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.verification.received import Received
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import absolute


def as_released(config: SourceConfig, release: Received | None, store: KeyStore) -> SourceConfig:
    """Returns how the log of a release is read, with a version of each table.

    A version that is not named is that of the receipt, as the table may have changed since.

    Args:
        config: How the log is read.
        release: The release; None: it is not one release that is judged.
        store: The key store that may have the release's receipt.

    Raises:
        UsageError: A table has no version, and no receipt says which one the release read.
        KeyStoreError: The receipt cannot be read.
    """
    tables = config.tables
    if not tables:
        return config
    from tracecloak.transforms.lakes.tables import address_of, at_version_read

    read = () if release is None else _tables_of(release, store)

    def pinned(text: str) -> str:
        address = at_version_read(address_of(text), read)
        if address.version is None:
            raise UsageError(
                f"log {text!r} names no version, and this key store does not say which one the "
                f"release read; name it as {text}@VERSION, which the operator's statement has, or "
                "name the key_store of the release"
            )
        return str(address)

    log = tuple(pinned(text) if text in tables else text for text in config.log)
    return config.model_copy(update={"log": log})


def _tables_of(release: Received, store: KeyStore) -> tuple[str, ...]:
    home = str(Path(absolute(release.folder.path)).parent)
    receipt = store.receipt(home, release.body["release_id"])
    return () if receipt is None else receipt.origin.tables
