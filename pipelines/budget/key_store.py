"""The key store: keys of running releases, and receipts of those that were reserved or committed.

A folder that only the operator reads, on a disk that is kept: it holds the key from which all noise
of a running release derives. A key is deleted when its release is committed or provably abandoned;
its receipt stays, and lets a second run under the same id be told from a run on changed input.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.transforms.files import SourceFile, is_on_this_machine
from tracecloak.transforms.keys import KeyReference


class KeyStoreError(TracecloakError):
    """The key store cannot be read or written now, so nothing may be released."""


@dataclass(frozen=True)
class Receipt:
    """What is known of one release.

    Attributes:
        release_id: Its name.
        output: The folder of all releases that it went or goes to.
        input_fingerprint: Keyed digest of the input files, see `KeyStore.fingerprint`.
        config_digest: Digest of the configuration.
        key_fingerprint: Tells release keys apart.
        state: `reserved` while nothing is known to be visible, then `committed`.
        left_machine: Whether some run of it went to a runner elsewhere, where it may go on and
            become visible after its command ended.
    """

    release_id: str
    output: str
    input_fingerprint: str
    config_digest: str
    key_fingerprint: str
    state: Literal["reserved", "committed"]
    left_machine: bool = False

    def check_same(self, input_fingerprint: str, config_digest: str) -> None:
        """Makes sure that a run under this release's id is this release.

        Raises:
            UsageError: The input or the configuration is another.
        """
        changed = []
        if not hmac.compare_digest(self.input_fingerprint, input_fingerprint):
            changed.append("the input")
        if not hmac.compare_digest(self.config_digest, config_digest):
            changed.append("the configuration")
        if changed:
            raise UsageError(
                f"release_id {self.release_id!r} is {self.state} in {self.output}, and "
                f"{' and '.join(changed)} changed since; choose another release_id"
            )


class KeyStore:
    """The store in one folder; see the module."""

    def __init__(self, folder: Path, worker_keys: str | None = None) -> None:
        """Opens a store.

        Args:
            folder: On this machine.
            worker_keys: Folder on any Beam file system where workers that cannot read this one find
                the keys that are in use; whoever reads it can subtract noise.
        """
        self._folder = folder
        self._worker_keys = worker_keys

    @classmethod
    def default_folder(cls) -> Path:
        """Returns TRACECLOAK_KEY_STORE, or a folder for state in the user's home."""
        named = os.environ.get("TRACECLOAK_KEY_STORE")
        return Path(named) if named else Path.home() / ".local" / "state" / "tracecloak"

    @property
    def ledger_url(self) -> str:
        """The ledger beside the keys, for runs on this machine."""
        with self._in_use():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(_private_descriptor(self._folder / "ledger.db"))
        return f"sqlite:///{self._folder.absolute() / 'ledger.db'}"

    def fingerprint(self, files: Sequence[SourceFile]) -> str:
        """Returns a digest of the input files, keyed by a secret of this store.

        Of local files it covers the bytes, in any order of the files; of others what their file
        system tells: name, size and checksum.
        """
        digests = []
        for file in files:
            if is_on_this_machine(file.path):
                with Path(file.path).open("rb") as stream:
                    digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
            else:
                from apache_beam.io.filesystems import FileSystems

                digests.append(f"{file.path}|{file.n_bytes}|{FileSystems.checksum(file.path)}")
        return self.digest("\n".join(sorted(digests)))

    def digest(self, text: str) -> str:
        """Returns 64 hex digits of a text, keyed by a secret of this store."""
        with self._in_use():
            secret = self._secret()
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()

    def receipt(self, output: str, release_id: str) -> Receipt | None:
        """Returns what is known of a release, or None."""
        path = self._path(output, release_id, ".json")
        with self._in_use():
            return Receipt(**json.loads(path.read_text())) if path.exists() else None

    def holds_key(self, output: str, release_id: str) -> bool:
        """Returns whether an earlier run reserved the key that `reserve` would give."""
        return self._reserved(output, release_id) is not None

    @contextlib.contextmanager
    def alone(self, output: str, release_id: str) -> Iterator[None]:
        """Keeps other processes of this machine from making the same release meanwhile.

        The lock ends with the process, however it ends.

        Raises:
            RetryLater: Another process is at it.
        """
        path = self._path(output, release_id, ".lock")
        with self._in_use():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = _private_descriptor(path)
        with os.fdopen(descriptor, "w") as stream:
            try:
                with self._in_use():
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RetryLater(
                    f"another process is making release_id {release_id!r} in {output}; wait until "
                    "it ends, then run this again to see what became of it"
                ) from None
            yield

    def reserve(
        self,
        output: str,
        release_id: str,
        input_fingerprint: str,
        config_digest: str,
        leaves_machine: bool = False,
    ) -> KeyReference:
        """Makes a key for a release, or finds that of an earlier run of it that did not finish.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            input_fingerprint: See `fingerprint`.
            config_digest: Digest of the configuration.
            leaves_machine: Whether this run goes to a runner elsewhere; the receipt remembers it.

        Raises:
            UsageError: The id is reserved for another input or configuration.
            KeyStoreError: The store cannot be used.
        """
        key_path = self._path(output, release_id, ".key")
        found = self._reserved(output, release_id)
        if found is not None:
            found.check_same(input_fingerprint, config_digest)
            if leaves_machine and not found.left_machine:
                self._note(replace(found, left_machine=True))
            return self._reference(key_path)
        key = ReleaseKey.generate()
        with self._in_use():
            _write_private(key_path, key.hex())
        self._note(
            Receipt(
                release_id,
                output,
                input_fingerprint,
                config_digest,
                key.fingerprint,
                "reserved",
                leaves_machine,
            )
        )
        return self._reference(key_path)

    def commit(self, output: str, release_id: str) -> None:
        """Deletes the key of a release, and notes that it is visible.

        In this order: whoever is stopped in between is found reserved, and asked to finish.
        """
        receipt = self.receipt(output, release_id)
        self._forget_for_workers(output, release_id)
        with self._in_use():
            self._path(output, release_id, ".key").unlink(missing_ok=True)
        if receipt is not None:
            self._note(replace(receipt, state="committed"))

    def void(self, output: str, release_id: str) -> None:
        """Forgets a release of which nothing became visible."""
        self._forget_for_workers(output, release_id)
        with self._in_use():
            for ending in (".key", ".json"):
                self._path(output, release_id, ending).unlink(missing_ok=True)

    def _reference(self, key_path: Path) -> KeyReference:
        """Where workers find the key at a path of this machine; puts it there."""
        if self._worker_keys is None:
            return KeyReference(f"file:{key_path}")
        from apache_beam.io.filesystems import FileSystems

        path = FileSystems.join(self._worker_keys, key_path.name)
        with self._in_use():
            if not FileSystems.exists(path):
                if is_on_this_machine(path):
                    _write_private(Path(path), key_path.read_text())
                else:
                    with closing(FileSystems.create(path)) as stream:
                        stream.write(key_path.read_bytes())
        return KeyReference(f"file:{path}")

    def _forget_for_workers(self, output: str, release_id: str) -> None:
        if self._worker_keys is None:
            return
        from apache_beam.io.filesystems import FileSystems

        name = self._path(output, release_id, ".key").name
        path = FileSystems.join(self._worker_keys, name)
        with self._in_use():
            if FileSystems.exists(path):
                FileSystems.delete([path])

    def _reserved(self, output: str, release_id: str) -> Receipt | None:
        """The receipt whose key is there; a run cut off between the two left none."""
        receipt = self.receipt(output, release_id)
        key_path = self._path(output, release_id, ".key")
        if receipt is None or not key_path.exists():
            return None
        key = KeyReference(f"file:{key_path}").resolve()
        return receipt if key.fingerprint == receipt.key_fingerprint else None

    def _note(self, receipt: Receipt) -> None:
        path = self._path(receipt.output, receipt.release_id, ".json")
        with self._in_use():
            _write_private(path, json.dumps(asdict(receipt)))

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Names the store and the mend where its disk fails."""
        try:
            yield
        except BlockingIOError:  # somebody's lock is no fault of the disk
            raise
        except OSError as error:
            raise KeyStoreError(
                f"key store {self._folder} cannot be used: {error.strerror or type(error).__name__}"
                "; mend its disk or its "
                "permissions and run again, or give another key_store for another release"
            ) from error

    def _path(self, output: str, release_id: str, ending: str) -> Path:
        place = hashlib.sha256(f"{output}\n{release_id}".encode()).hexdigest()[:32]
        return self._folder / "releases" / (place + ending)

    def _secret(self) -> bytes:
        path = self._folder / "store.secret"
        if not path.exists():
            _write_private(path, secrets.token_hex(32), replaces=False)
        return bytes.fromhex(path.read_text())


def new_key_file(path: Path) -> None:
    """Writes a fresh release key that only its owner can read.

    Raises:
        UsageError: The file exists.
    """
    if path.exists():
        raise UsageError(f"{path} exists; a key is never overwritten")
    _write_private(path, ReleaseKey.generate().hex(), replaces=False)


def _private_descriptor(path: Path) -> int:
    """Opens a file that only its owner reads, and makes it if it is not there."""
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _write_private(path: Path, text: str, replaces: bool = True) -> None:
    """Writes a file that only its owner reads: it appears whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, fresh = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if replaces:
            os.replace(fresh, path)
        else:
            with contextlib.suppress(FileExistsError):  # another process was first: its text holds
                os.link(fresh, path)
    finally:
        Path(fresh).unlink(missing_ok=True)
