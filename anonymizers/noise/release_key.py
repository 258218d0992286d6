"""The secret of one release: whoever has it can subtract the noise."""

from __future__ import annotations

import secrets
from typing import NoReturn

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tracecloak.schemas.errors import UsageError

KEY_BYTES = 32


class ReleaseKey:
    """256 secret bits of one release. Does not print, pickle or compare by accident."""

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise UsageError(f"a release key has {KEY_BYTES} bytes, got {len(secret)}")
        self._secret = secret

    @classmethod
    def generate(cls) -> ReleaseKey:
        """Draws a key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def fingerprint(self) -> str:
        """16 hex digits that tell keys apart and say nothing else about them."""
        return self.derive(b"fingerprint")[:8].hex()

    def hex(self) -> str:
        """The secret as 64 hex digits, for the key store alone."""
        return self._secret.hex()

    def derive(self, purpose: bytes) -> bytes:
        """Returns 32 bytes that are independent for different purposes (HKDF-SHA256)."""
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"tracecloak/1/" + purpose).derive(
            self._secret
        )

    def __repr__(self) -> str:
        return "ReleaseKey(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a release key does not pickle; pass a reference that the worker resolves")
