"""Files of decisions, which can be written only with the release's key.

They are authenticated and not encrypted, so they lie where only the operator reads.
"""

from __future__ import annotations

import hashlib
import hmac

from tracecloak.anonymizers.noise.release_key import ReleaseKey
from tracecloak.schemas.errors import TracecloakError
from tracecloak.transforms.files import read_if_there, write_new

_N_MAC = 32


def write_sealed(path: str, key: ReleaseKey, purpose: str, message: bytes) -> None:
    """Writes a message, whole; on this machine one that is there already stays.

    Args:
        path: On any Beam file system.
        key: The release's.
        purpose: What the message is; of another purpose it is not taken.
        message: Any bytes.
    """
    write_new(path, _mac(key, purpose, message) + message)


def read_sealed(path: str, key: ReleaseKey, purpose: str, mend: str) -> bytes | None:
    """Returns the message that `write_sealed` wrote, or None: there is no file.

    Args:
        path: As of `write_sealed`, and so are those that follow.
        key: See there.
        purpose: See there.
        mend: What to do where the file was changed, for the error.

    Raises:
        TracecloakError: The file is not what was written under this key for this purpose.
    """
    sealed = read_if_there(path)
    if sealed is None:
        return None
    mac, message = sealed[:_N_MAC], sealed[_N_MAC:]
    if not hmac.compare_digest(mac, _mac(key, purpose, message)):
        raise TracecloakError(f"{path} is not what tracecloak wrote there, so {mend}")
    return message


def _mac(key: ReleaseKey, purpose: str, message: bytes) -> bytes:
    return hmac.digest(key.derive(b"decision/" + purpose.encode()), message, hashlib.sha256)
