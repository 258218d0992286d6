"""Who signs a release: the key is asked for before anything is paid, and looked at once it is."""

from __future__ import annotations

from typing import Literal

from tracecloak.pipelines.release.config import ReleaseConfig
from tracecloak.pipelines.runners.names import is_local
from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import is_on_this_machine
from tracecloak.transforms.publish.release_folder import ReleaseFolder

Signature = Literal["none", "there", "by another key"]


def check_signer(config: ReleaseConfig) -> None:
    """Makes sure that the key is there which signs, if one is named.

    Raises:
        UsageError: It is not, or is of another kind, or lies on this machine only while the release
            is committed by a worker elsewhere.
        RetryLater: Its source does not answer now.
    """
    if config.signer is None:
        return
    scheme, _, path = config.signer.text.partition(":")
    if not is_local(config.runner) and scheme == "file" and is_on_this_machine(path):
        raise UsageError(
            f"sign names a file of this machine, and with runner {config.runner} a worker "
            "elsewhere commits the release and signs it: name a key that it can ask for, as "
            "command:WORDS or env:NAME, or a file on a file system that it can read"
        )
    config.signer.key()


def signature_of(config: ReleaseConfig, folder: ReleaseFolder) -> Signature:
    """Returns whether a release is signed, and by which key if the configuration names one.

    Raises:
        UsageError: That key is not there any more.
        RetryLater: Its source does not answer now.
    """
    found = folder.read_signature()
    if found is None:
        return "none"
    if config.signer is None or config.signer.signed(*found):
        return "there"
    return "by another key"
