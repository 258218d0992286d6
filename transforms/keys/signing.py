"""Signatures of releases: ed25519 (RFC 8032) over the bytes of the manifest, and who may be meant.

A signature is the 64 bytes of RFC 8032 as they are, in a file beside the manifest, and the public
key of whoever signed lies beside it as PEM, so that `openssl pkeyutl` checks both. The manifest has
the digests of all other files, so it is enough to sign it. The same key gives the same bytes again.

A private key is found where a reference says (`sources`), used, and kept nowhere: what travels to
workers is the reference. That a public key lies beside a release says nothing on whose it is.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import write_private
from tracecloak.transforms.keys.sources import KEY_SOURCES, shown, text_at

SIGNATURE_BYTES = 64
_MAKE_ONE = "make a pair with `tracecloak key make-pair` or `openssl genpkey -algorithm ed25519`"
_PRIVATE, _PUBLIC = "private key in PEM", "public key in PEM"


@dataclass(frozen=True)
class SigningReference:
    """Where a private key is that signs: as of other keys, or the path of its file alone.

    Attributes:
        text: `file:PATH`, `env:NAME` or `command:WORDS`, which lead to a private key of ed25519 in
            PEM, as `openssl` and `ssh-keygen` write it.

    Raises:
        UsageError: It is the key itself, which is not shown.
    """

    text: str

    @classmethod
    def given(cls, text: str) -> SigningReference:
        """Returns what somebody typed: a reference, or the path of a file.

        Raises:
            UsageError: It is the key itself, which is not shown.
        """
        return cls(_reference("sign", text))

    def key(self) -> Ed25519PrivateKey:
        """Returns the key.

        Raises:
            UsageError: There is none, it is of another kind, or has a passphrase.
            RetryLater: Its source does not answer now.
        """
        return _private_key(text_at(self.text, _PRIVATE).encode(), shown(self.text))

    def sign(self, data: bytes) -> tuple[bytes, bytes]:
        """Returns the signature of some bytes, and the public key as PEM.

        Raises:
            UsageError: As of `key`.
            RetryLater: As of `key`.
        """
        key = self.key()
        return key.sign(data), PublicKey(key.public_key()).pem


@dataclass(frozen=True)
class PublicKey:
    """A public key of ed25519."""

    key: Ed25519PublicKey

    @classmethod
    def given(cls, text: str) -> PublicKey:
        """Returns the key that somebody means: by a reference, or by the path of its file.

        Raises:
            UsageError: There is none, or it is of another kind.
            RetryLater: Its source does not answer now.
        """
        reference = _reference("key", text)
        return cls.from_text(text_at(reference, _PUBLIC).encode(), shown(reference))

    @classmethod
    def from_text(cls, data: bytes, place: str) -> PublicKey:
        """Returns the key in a text: PEM, or a line as `ssh-keygen` writes it.

        Args:
            data: The text.
            place: Where it was found, for errors.

        Raises:
            UsageError: It is none, or of another kind.
        """
        if b"PRIVATE KEY" in data:
            raise UsageError(
                f"the key at {place} is private; give that of `openssl pkey -in KEY -pubout`"
            )
        load = load_ssh_public_key if data.startswith(b"ssh-") else load_pem_public_key
        try:
            key = load(data)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise UsageError(f"no public key in PEM at {place} ({type(error).__name__})") from None
        if not isinstance(key, Ed25519PublicKey):
            raise UsageError(
                f"the key at {place} is of another kind than ed25519, by which releases are signed"
            )
        return cls(key)

    @property
    def pem(self) -> bytes:
        """The key as PEM (SubjectPublicKeyInfo), as it lies beside a signature."""
        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key as DER (SubjectPublicKeyInfo), 64 hex digits."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()

    def signed(self, data: bytes, signature: bytes) -> bool:
        """Returns whether a signature of some bytes is by this key."""
        try:
            self.key.verify(signature, data)
        except InvalidSignature:
            return False
        return True


def new_pair(private: Path, public: Path) -> PublicKey:
    """Writes a fresh pair of keys, the private one for its owner only.

    Raises:
        UsageError: One of the files exists, or cannot be written.
    """
    for path in (private, public):
        if os.path.lexists(path):
            raise UsageError(f"{path} exists; a key is never overwritten")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        write_private(private, pem, replaces=False)
        public.write_bytes(PublicKey(key.public_key()).pem)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from None
    return PublicKey(key.public_key())


def _reference(name: str, text: str) -> str:
    if "PRIVATE KEY" in text or "\n" in text:
        raise UsageError(
            f"{name} is where a key is, not the key itself, which is not shown here: name its "
            "file, env:NAME or command:WORDS, and take another key, as this one may have been seen"
        )
    scheme, separator, rest = text.partition(":")
    is_reference = bool(separator) and not rest.startswith("//") and scheme in KEY_SOURCES
    return text if is_reference else f"file:{text}"


def _private_key(data: bytes, place: str) -> Ed25519PrivateKey:
    if b"BEGIN PUBLIC KEY" in data or data.startswith(b"ssh-"):
        raise UsageError(f"the key at {place} is a public one; sign with the private one")
    load = load_ssh_private_key if b"BEGIN OPENSSH" in data else load_pem_private_key
    try:
        key = load(data, None)
    except TypeError:
        raise UsageError(
            f"the key at {place} has a passphrase; write it without one, or name a command that "
            "prints it, as command:WORDS"
        ) from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(
            f"no private key in PEM at {place} ({type(error).__name__}); {_MAKE_ONE}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key at {place} is of another kind than ed25519; {_MAKE_ONE}")
    return key
