"""Keys that are wrapped by others, and files that a key seals."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from tracecloak.anonymizers.noise.randomness import KEY_BYTES, ReleaseKey
from tracecloak.schemas.errors import TracecloakError, UsageError
from tracecloak.transforms.files import read_if_there, write_new
from tracecloak.transforms.keys.sources import check_reference, no_key, shown, text_at

# --- Keys that wrap keys: a key in a file is of no use without the key that wraps it. -------------
# A secret of 32 bytes is wrapped by AES-256 key wrap (RFC 3394), which also tells whether what is
# unwrapped is what was wrapped. In a file it stands as `wrapped:FINGERPRINT:DIGITS`, with the
# fingerprint of the key-encryption key and 80 hex digits; in clear it is 64 hex digits.
#
# A pipeline has a reference to a key, by which a worker finds it, and never the key itself.


_MARK = "wrapped:"
_FINGERPRINT_BYTES = 8


class KeyEncryptionKey:
    """A key of a key management service that wraps those of a key store; it does not pickle.

    Attributes:
        reference: Where it was found.
        fingerprint: 16 hex digits that tell such keys apart and say nothing else about them.
    """

    __slots__ = ("_secret", "fingerprint", "reference")

    def __init__(self, secret: bytes, reference: str) -> None:
        self._secret = secret
        self.reference = reference
        self.fingerprint = (
            HKDF(SHA256(), _FINGERPRINT_BYTES, salt=None, info=b"tracecloak/1/key-encryption-key")
            .derive(secret)
            .hex()
        )

    @classmethod
    def at(cls, reference: str) -> KeyEncryptionKey:
        """Returns the key that a reference leads to.

        Raises:
            UsageError: There is none, or it is not 64 hex digits.
            RetryLater: Its source does not answer now.
        """
        check_reference(reference)
        return cls(secret_of(text_at(reference), reference), reference)

    def wrap(self, secret: bytes) -> str:
        """Returns what stands in a file for a secret of 32 bytes."""
        return f"{_MARK}{self.fingerprint}:{aes_key_wrap(self._secret, secret).hex()}"

    def unwrap(self, text: str, place: str) -> bytes:
        """Returns the secret that `wrap` wrapped.

        Args:
            text: What `wrap` returned.
            place: Where it was found, for errors: a reference.

        Raises:
            UsageError: Another key wrapped it, or it is damaged.
        """
        if wrapped_by(text) != self.fingerprint:
            raise UsageError(
                f"the key at {shown(place)} is encrypted by another than {shown(self.reference)}; "
                "correct key_encryption_key, or run an interrupted `tracecloak key rewrap` again"
            )
        try:
            return aes_key_unwrap(self._secret, bytes.fromhex(text.strip().rpartition(":")[2]))
        except (InvalidUnwrap, ValueError):
            raise UsageError(
                f"the encrypted key at {shown(place)} is damaged; restore it from a backup"
            ) from None

    def __repr__(self) -> str:
        return f"KeyEncryptionKey({self.fingerprint})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key-encryption key does not pickle; pass a reference to it")


def wrapped_by(text: str) -> str | None:
    """Returns the fingerprint of the key that wrapped a secret; None: the secret is in clear."""
    return text.split(":")[1] if text.startswith(_MARK) else None


def secret_of(text: str, reference: str) -> bytes:
    """Returns a secret that is in clear.

    Args:
        text: 64 hex digits.
        reference: Where they were found, for errors.

    Raises:
        UsageError: They are not; the text is not shown.
    """
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError as error:
        raise no_key(reference, type(error).__name__) from None
    if len(secret) != KEY_BYTES:
        raise no_key(reference, f"{len(secret)} bytes, not {KEY_BYTES}")
    return secret


def opened(text: str, reference: str, key_of: Callable[[], KeyEncryptionKey | None]) -> bytes:
    """Returns a secret, whether it is in clear or wrapped.

    Args:
        text: What was found.
        reference: Where.
        key_of: Returns what wraps it, if anything may; what is in clear needs no service.

    Raises:
        UsageError: It is wrapped, and by another key or by one that nobody named; or it is damaged.
    """
    if wrapped_by(text) is None:
        return secret_of(text, reference)
    if (key := key_of()) is None:
        raise UsageError(
            f"the key at {shown(reference)} is encrypted; name the key that encrypted it with "
            "key_encryption_key or TRACECLOAK_KEY_ENCRYPTION_KEY"
        )
    return key.unwrap(text, reference)


@dataclass(frozen=True)
class KeyReference:
    """`file:PATH` (any Beam file system), `env:NAME` or `command:WORDS`, holding 64 hex digits.

    Other sources come from other distributions, see `sources.KEY_SOURCES`.

    Attributes:
        text: The reference as written.
        fingerprint: Of the key that is meant; empty: whichever is there. A release that was given
            up and begun again has another key in the same place, which a run that still goes on
            must not use.
        wrapped_by: Reference to the key-encryption key that wraps what is found, in the same form;
            empty: it is in clear. It is looked for where the reference is resolved, too.
    """

    text: str
    fingerprint: str = ""
    wrapped_by: str = ""

    def __post_init__(self) -> None:
        check_reference(self.text)
        if self.wrapped_by:
            check_reference(self.wrapped_by)

    def resolve(self) -> ReleaseKey:
        """Returns the key.

        Raises:
            UsageError: There is none, or another, or it is not 64 hex digits, or wrapped by a key
                that is not there; the text found is not shown.
            RetryLater: The source does not answer now.
        """
        text = text_at(self.text)
        wraps = self.wrapped_by
        secret = opened(text, self.text, lambda: KeyEncryptionKey.at(wraps) if wraps else None)
        key = ReleaseKey(secret)
        if self.fingerprint and key.fingerprint != self.fingerprint:
            raise UsageError(
                f"the release key at {shown(self.text)} is not that of this run, whose release was "
                "abandoned; run the command again, which reserves anew"
            )
        return key


# --- Files of decisions, which can be written only with the release's key. ------------------------
# They are authenticated and not encrypted, so they lie where only the operator reads.


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


def read_sealed(path: str, key: ReleaseKey, purpose: str, remedy: str) -> bytes | None:
    """Returns the message that `write_sealed` wrote, or None: there is no file.

    Args:
        path: As of `write_sealed`, and so are those that follow.
        key: See there.
        purpose: See there.
        remedy: What to do where the file was changed, for the error.

    Raises:
        TracecloakError: The file is not what was written under this key for this purpose.
    """
    sealed = read_if_there(path)
    if sealed is None:
        return None
    mac, message = sealed[:_N_MAC], sealed[_N_MAC:]
    if not hmac.compare_digest(mac, _mac(key, purpose, message)):
        raise TracecloakError(f"{path} is not what tracecloak wrote there, so {remedy}")
    return message


def _mac(key: ReleaseKey, purpose: str, message: bytes) -> bytes:
    return hmac.digest(key.derive(b"decision/" + purpose.encode()), message, hashlib.sha256)
