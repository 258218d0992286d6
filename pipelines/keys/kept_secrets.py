"""The secrets of a key store as files: in clear, or wrapped by a key-encryption key.

They are the store's own secret, `store.secret`, the key of the sketches of cases,
`deployment.secret`, that of the book of counted units, `book.secret`, and the keys of releases that
are not finished, `releases/*.key`. Each file is
replaced whole, so that whoever is cut off leaves some files as they were and some as they shall be,
and none in between. Nobody here locks anything: `key_store` does.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

from tracecloak.schemas.errors import UsageError
from tracecloak.transforms.files import write_private
from tracecloak.transforms.keys.sources import check_reference, shown
from tracecloak.transforms.keys.wrapping import KeyEncryptionKey, opened, wrapped_by


class KeptSecrets:
    """The secrets in the folder of one key store.

    Attributes:
        own: The file of the store's own secret.
        reference: To the key that wraps what is written; empty: it is written in clear.
    """

    def __init__(self, folder: Path, key_encryption_key: str | None = None) -> None:
        """Reads nothing yet, and asks for no key.

        Args:
            folder: Of the key store.
            key_encryption_key: Reference to the key that wraps what is written, and unwraps what is
                read; None: what is written is in clear.

        Raises:
            UsageError: That is no reference.
        """
        if key_encryption_key is not None:
            check_reference(key_encryption_key, "key_encryption_key")
        self.own = folder / "store.secret"
        self._folder = folder
        self.reference = key_encryption_key or ""

    @functools.cached_property
    def _key(self) -> KeyEncryptionKey | None:
        return KeyEncryptionKey.at(self.reference) if self.reference else None

    def paths(self) -> list[Path]:
        """Returns the files that are there."""
        folder = self._folder
        return sorted([*folder.glob("*.secret"), *folder.glob("releases/*.key")])

    def read(self, path: Path) -> bytes:
        """Returns the secret in a file.

        Raises:
            UsageError: It is wrapped, and the key that wrapped it was not named or is not this
                store's; or there is no such key, or the file is damaged.
            RetryLater: The source of the key does not answer now.
            OSError: The file cannot be read.
        """
        return self._opened(path, path.read_text("ascii", "replace"))

    def kept(self, secret: bytes) -> str:
        """Returns what is written into a file for a secret of 32 bytes.

        Raises:
            UsageError: There is no such key.
            RetryLater: The source of the key does not answer now.
        """
        return secret.hex() if self._key is None else self._key.wrap(secret)

    def check(self) -> bool:
        """Makes sure that every secret can be read, and the key be had that wraps further ones.

        Returns:
            Whether some are in clear that shall not be.

        Raises:
            UsageError: One cannot, see `read`.
            RetryLater: The source of the key does not answer now.
            OSError: A file cannot be read.
        """
        if not self.own.exists():
            self.check_key()
        some_in_clear = False
        for path in self.paths():
            with contextlib.suppress(FileNotFoundError):  # its release was finished meanwhile
                text = path.read_text("ascii", "replace")
                self._opened(path, text)
                some_in_clear |= wrapped_by(text) is None
        return some_in_clear and bool(self.reference)

    def check_key(self) -> None:
        """Makes sure that the key-encryption key is the same whenever it is asked for.

        What is wrapped by a key that a program makes up is never read again. So it is asked twice
        before the first file of a store is wrapped by it.

        Raises:
            UsageError: It is another one now.
        """
        key = self._key
        if key is not None and KeyEncryptionKey.at(self.reference).fingerprint != key.fingerprint:
            what = f"{shown(self.reference)} gives another key whenever it is asked"
            raise UsageError(f"{what}; name a key that a service keeps")

    def wrap_all(self, before: str | None = None) -> int:
        """Wraps by this store's key what is in clear, or wrapped by another key.

        Nothing is written before all is read.

        Args:
            before: Reference to the other key; None: there is none.

        Returns:
            How many files were replaced; what this key wraps already stays as it is.

        Raises:
            UsageError: Neither key wraps what is in a file, one of them is not there, or this
                store's is another whenever it is asked for.
            RetryLater: The source of a key does not answer now.
            OSError: A file cannot be read or written.
        """
        self.check_key()
        fingerprint = "" if self._key is None else self._key.fingerprint
        secrets, other = {}, None
        for path in self.paths():
            text = path.read_text("ascii", "replace")
            wrapping = wrapped_by(text)
            if wrapping == fingerprint or wrapping is None:
                secret = self._opened(path, text)
            else:
                other = other or (KeyEncryptionKey.at(before) if before else None)
                if other is None or other.fingerprint != wrapping:
                    raise UsageError(
                        f"the key at {path} is encrypted by neither the key of from nor that of "
                        "to; give as from the key that encrypted it"
                    )
                secret = other.unwrap(text, f"file:{path}")
            if wrapping != fingerprint:
                secrets[path] = secret
        for path, secret in secrets.items():
            write_private(path, self.kept(secret).encode())
        return len(secrets)

    def _opened(self, path: Path, text: str) -> bytes:
        return opened(text, f"file:{path}", lambda: self._key)
