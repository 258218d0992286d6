"""The name of a release of a frame that was given none: that of the same one, or a new one."""

from __future__ import annotations

import hmac
import secrets

from tracecloak.pipelines.budget.books import Books
from tracecloak.pipelines.budget.standing import State
from tracecloak.pipelines.configuration.config import ReleaseConfig
from tracecloak.pipelines.frames.frame_source import FrameSource
from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.keys.receipts import snapshot_of
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.pipelines.release.opening import fingerprint_of
from tracecloak.transforms.files import absolute
from tracecloak.transforms.publish.release_folder import ReleaseFolder

# In these states the same command goes on with a release, or finds it.
_GOES_ON: tuple[State, ...] = ("reserved", "drawn", "visible", "released")


def name_of(config: ReleaseConfig, source: FrameSource, store: KeyStore, ledger: Ledger) -> str:
    """Returns the name of a release of the same events and configuration, or a new one.

    A new name is drawn at random, and the method's stands before it: a digest of the events would
    tell a reader whether the log changed.

    Args:
        config: What is to be released, without a name.
        source: Of what; with its digest.
        store: Whose receipts say what was begun.
        ledger: Which says what became of it.

    Raises:
        TracecloakError: They cannot be read.
    """
    output = absolute(config.output)
    fingerprint = fingerprint_of(config, store, snapshot_of(source.files))
    for receipt in store.receipts_in(output):
        is_same = hmac.compare_digest(receipt.input_fingerprint, fingerprint)
        if is_same and receipt.config_digest == config.digest:
            folder = ReleaseFolder(
                output, receipt.release_id, config.staging_area, store=store.identity()
            )
            if Books(store, ledger, folder).look().state in _GOES_ON:
                return receipt.release_id
    return f"{config.method}-{secrets.token_hex(4)}"
