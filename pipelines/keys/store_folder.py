"""The folder of a key store: files that only their owner reads, appear whole, and are locked."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tracecloak.pipelines.keys.receipts import KeyStoreError
from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.files import make_private_folder, write_private

_LOG = logging.getLogger("tracecloak")

# Many releases that begin at once wait for each other; one that is stopped stops no other for ever.
_LOCK_SECONDS = 600
_LOCK_PAUSE_SECONDS = 0.01
# The folders of a store, which others have no business in.
_FOLDERS = ("ledgers", "operator", "releases", "units")


class StoreFolder:
    """Files of one key store, by names relative to its folder."""

    def __init__(self, folder: Path) -> None:
        """Reads nothing yet.

        Args:
            folder: On this machine.
        """
        self.path = folder
        self._is_closed = False

    def read(self, name: str) -> str | None:
        """Returns the text of a file of this store; None: there is none."""
        with self.in_use():
            try:
                return (self.path / name).read_text()
            except FileNotFoundError:
                return None

    def names(self, pattern: str) -> list[str]:
        """Returns the names of files of this store that a glob matches."""
        with self.in_use():
            return [str(path.relative_to(self.path)) for path in self.path.glob(pattern)]

    def write(self, name: str, text: str) -> None:
        """Writes a file of this store, which appears whole or stays as it is."""
        with self.in_use():
            self._make()
            self.put(self.path / name, text.encode())

    def put(self, path: Path, data: bytes, replaces: bool = True) -> None:
        """Writes a file at a path of this store; see `transforms.files.write_private`."""
        write_private(path, data, replaces)

    def remove(self, *names: str) -> None:
        """Removes files of this store, one after the other, if they are there."""
        with self.in_use():
            for name in names:
                (self.path / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keeps other processes of this machine waiting, which ask for the same lock.

        Raises:
            RetryLater: Another one has had it all the time, for ten minutes.
        """
        with self.in_use():
            descriptor = self.descriptor(name)
        with os.fdopen(descriptor, "w") as stream:
            gives_up_s = time.monotonic() + _LOCK_SECONDS
            while not self._is_locked(stream):
                if time.monotonic() >= gives_up_s:
                    raise RetryLater(
                        f"another process holds {self.path.absolute() / name}, and has not let "
                        f"it go for {_LOCK_SECONDS} seconds; run the same command again, or end "
                        "that process if it hangs"
                    )
                time.sleep(_LOCK_PAUSE_SECONDS)
            yield

    @contextlib.contextmanager
    def held(self, name: str, refusal: str) -> Iterator[None]:
        """Keeps other processes of this machine from holding the same lock, which ends with ours.

        Raises:
            RetryLater: Another process holds it, in the words of the refusal.
        """
        with self.in_use():
            descriptor = self.descriptor(name)
        with os.fdopen(descriptor, "w") as stream:
            if not self._is_locked(stream):
                raise RetryLater(refusal)
            yield

    def _is_locked(self, stream: IO[str]) -> bool:
        try:
            with self.in_use():
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Names the store and the mend where its disk fails."""
        try:
            yield
        except BlockingIOError:  # somebody's lock is no fault of the disk
            raise
        except OSError as error:
            raise KeyStoreError(
                f"key store {self.path} cannot be used: {error.strerror or type(error).__name__}"
                "; mend its disk or its "
                "permissions and run again, or give another key_store for another release"
            ) from error

    def descriptor(self, name: str) -> int:
        """Opens a file of this store for reading and writing, and makes it if it is not there."""
        path = self.path / name
        self._make()
        make_private_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def _make(self) -> None:
        make_private_folder(self.path)
        if not self._is_closed:
            self._is_closed = True
            self._close_to_others()

    def _close_to_others(self) -> None:
        """Takes the rights of others from folders that somebody else made.

        Nobody who uses the store needs them, as its files are for their owner only; so nothing
        stops, and the operator is told. On a volume that belongs to somebody else, as those of
        Kubernetes do, rights cannot be taken: what is made in it is closed all the same.
        """
        for folder in (self.path, *(self.path / name for name in _FOLDERS)):
            if not folder.exists():
                continue
            status = folder.stat()
            mode = stat.S_IMODE(status.st_mode)
            if status.st_uid == os.geteuid() and mode & 0o077:
                folder.chmod(mode & ~0o077)
                _LOG.warning(
                    "others could look into %s of the key store (mode %o); they no longer can",
                    folder,
                    mode,
                )
            elif status.st_uid != os.geteuid() and mode & stat.S_IWOTH:
                _LOG.warning(
                    "anybody can replace what is in %s, which belongs to somebody else (mode %o); "
                    "let its owner run chmod o-rwx, or name another key_store",
                    folder,
                    mode,
                )
