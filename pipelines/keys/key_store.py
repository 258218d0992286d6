"""The key store: keys of running releases, and receipts of all that were begun.

A folder of files that only their owner reads, that appear complete, and are locked. It holds the
key from which all noise of a running release derives. A key is deleted when its release is
committed, given up, or ended before it could draw; the receipt of one that was committed stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, ClassVar, Literal

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.keys.kept_secrets import KeptSecrets
from tracecloak.pipelines.keys.receipts import InputFile, KeyStoreError, Origin, Receipt, today
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms import files
from tracecloak.transforms.keys.sources import check_reference
from tracecloak.transforms.keys.wrapping import KeyReference

_LOG = logging.getLogger("tracecloak")

# Many releases that begin at once wait for each other; one that is stopped stops no other for ever.
_LOCK_SECONDS = 600
_LOCK_PAUSE_SECONDS = 0.01
# The folders of a store, which others have no business in.
_FOLDERS = ("ledgers", "operator", "releases")
# What a stream on this machine knows, in the folder of its operator.
STREAM_STATE = "state.sqlite"
# Who makes a key, or wraps those that are there, holds it.
KEYS_LOCK = "keys.lock"

# Whether the key of a release is there. `none`: neither it nor a receipt that is its. `ended`: the
# receipt alone, as of a release that was committed, or of a store that lost the key.
KeyState = Literal["none", "there", "ended"]
BEING_MADE = "another process is making release_id {1!r} in {0}; run this again when it has ended"


class KeyStore:
    """The store in one folder; see the module."""

    # Whether the folder is a copy of what a database keeps.
    is_in_database: ClassVar[bool] = False

    def __init__(
        self, folder: Path, worker_keys: str | None = None, key_encryption_key: str | None = None
    ) -> None:
        """Reads nothing yet, and asks for no key.

        Args:
            folder: On this machine.
            worker_keys: Folder on any Beam file system where workers that cannot read this one find
                the keys that are in use; whoever reads it can subtract noise, unless they are
                wrapped.
            key_encryption_key: Reference to the key that wraps keys and the store's secret; None:
                they lie in clear. It is asked for when one of them is needed.

        Raises:
            UsageError: That is no reference.
        """
        self.path = folder
        self._worker_keys, self._is_closed = worker_keys, False
        self.secrets = KeptSecrets(folder, key_encryption_key)

    # --- Files of the store, by names relative to its folder.

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

    def write(self, name: str, text: str, replaces: bool = True) -> None:
        """Writes a file of this store, which appears whole or stays as it is.

        Args:
            name: Of the file.
            text: All of it.
            replaces: Whether what is there gives way; else it stays, whoever wrote it.
        """
        with self.in_use():
            self._make()
            files.write_private(self.path / name, text.encode(), replaces)
            self.save()

    def remove(self, *names: str) -> None:
        """Removes files of this store, one after the other, if they are there."""
        with self.in_use():
            for name in names:
                (self.path / name).unlink(missing_ok=True)
                self.save()

    @contextlib.contextmanager
    def locked(self, name: str, refusal: str = "") -> Iterator[None]:
        """Keeps other processes of this machine from the same lock, which ends with ours.

        Args:
            name: Of the lock.
            refusal: What to say at once where another process has it; empty: it is waited for.

        Raises:
            RetryLater: Another one has it, or has had it all the time for ten minutes.
        """
        with self.in_use():
            descriptor = self.descriptor(name)
        with os.fdopen(descriptor, "w") as stream:
            gives_up_s = time.monotonic() + _LOCK_SECONDS
            while not self._is_locked(stream):
                if refusal:
                    raise RetryLater(refusal)
                if time.monotonic() >= gives_up_s:
                    raise RetryLater(
                        f"another process has held {self.path.absolute() / name} for "
                        f"{_LOCK_SECONDS} seconds; end it if it hangs, and run again"
                    )
                time.sleep(_LOCK_PAUSE_SECONDS)
            yield
            self.save()

    def _is_locked(self, stream: IO[str]) -> bool:
        try:
            with self.in_use():
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Names the store and the remedy where its disk fails."""
        try:
            yield
        except BlockingIOError:  # somebody's lock is no fault of the disk
            raise
        except OSError as error:
            raise KeyStoreError(
                f"key store {self.path} cannot be used: {error.strerror or type(error).__name__}; "
                "check its disk and its permissions, and run again"
            ) from error

    def touch(self, name: str) -> None:
        """Makes a file of this store, which only its owner reads, if it is not there."""
        with self.in_use():
            os.close(self.descriptor(name))

    def descriptor(self, name: str) -> int:
        """Opens a file of this store for reading and writing, and makes it if it is not there."""
        path = self.path / name
        self._make()
        files.make_private_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def save(self) -> None:
        """Makes what was written last, where the folder is a copy."""

    def _make(self) -> None:
        """Makes the folder, and takes the rights of others from folders that somebody else made.

        Nobody who uses the store needs them, as its files are for their owner only; so nothing
        stops, and the operator is told. On a volume that belongs to somebody else, as those of
        Kubernetes do, rights cannot be taken: what is made in it is closed all the same.
        """
        files.make_private_folder(self.path)
        if self._is_closed:
            return
        self._is_closed = True
        for folder in (self.path, *(self.path / name for name in _FOLDERS)):
            if not folder.exists():
                continue
            status = folder.stat()
            mode, is_own = stat.S_IMODE(status.st_mode), status.st_uid == os.geteuid()
            if is_own and mode & 0o077:
                folder.chmod(mode & ~0o077)
                told = "others could look into %s of the key store (mode %o); they no longer can"
                _LOG.warning(told, folder, mode)
            elif not is_own and mode & stat.S_IWOTH:
                told = (
                    "anybody can replace what is in %s, which belongs to somebody else (mode %o); "
                    "let its owner run chmod o-rwx, or name another key_store"
                )
                _LOG.warning(told, folder, mode)

    # --- How keys are kept.

    def check_secrets(self) -> bool:
        """Makes sure that every key can be read; returns whether some lie in clear and shall not.

        Raises:
            UsageError: A key is wrapped, and what wrapped it was not named or is not this; or there
                is no such key-encryption key.
            RetryLater: The source of that key does not answer now.
            KeyStoreError: The store cannot be used.
        """
        with self.in_use():
            return self.secrets.check()

    def rewrap(self, before: str | None = None) -> int:
        """Wraps by this store's key what another wrapped, or nobody; returns how many keys.

        Whoever is cut off calls it again: what is done is not done twice.

        Args:
            before: Reference to the other key; None: there is none.

        Raises:
            UsageError: There is no such store, neither key wraps what is there, or one of them is
                not there, or another whenever it is asked for.
            RetryLater: A release is at work, or the source of a key does not answer now.
            KeyStoreError: The store cannot be used.
        """
        if before is not None:
            check_reference(before, "from")
        if not self.path.is_dir():
            raise UsageError(f"there is no key store in {self.path}; correct key_store")
        refusal = f"a release of key store {self.path} is at work; run this again when it has ended"
        # No key is made meanwhile, and no release goes on that has one.
        with self.locked(KEYS_LOCK), contextlib.ExitStack() as held, self.in_use():
            for path in self.secrets.paths():
                if path.suffix == ".key":
                    lock = str(path.with_suffix(".lock").relative_to(self.path))
                    held.enter_context(self.locked(lock, refusal))
            return self.secrets.wrap_all(before)

    @property
    def ledger_url(self) -> str:
        """The ledger beside the keys, for runs on this machine."""
        return f"sqlite:///{self.path.absolute() / 'ledger.db'}"

    @property
    def has_ledger_file(self) -> bool:
        """Whether the file of that ledger was made."""
        return (self.path / "ledger.db").exists()

    def identity(self, makes: bool = True) -> str:
        """Returns what tells this key store from others, and nothing of its secret.

        Args:
            makes: Whether to make the secret where there is none; else the text is empty then.
        """
        return self.digest("the key store")[:16] if makes or self.secrets.own.exists() else ""

    def generation(self) -> int:
        """Returns how many reservations this key store has counted."""
        return int(self.read("generation") or "0")

    def next_generation(self, at_least: int = 0) -> int:
        """Counts a reservation, and returns its number.

        Args:
            at_least: Where the count is below this number, it goes on from there.
        """
        with self.locked("generation.lock"):
            counted = max(self.generation() + 1, at_least)
            self.write("generation", str(counted))
        return counted

    def fingerprint(self, inputs: Sequence[InputFile]) -> str:
        """Returns a digest of the input files, keyed by a secret of this store.

        Of local files it covers the bytes, in any order of the files; of others what their file
        system tells: name, size and checksum.
        """
        digests = [
            file.digest
            if files.is_on_this_machine(file.path)
            else f"{file.path}|{file.n_bytes}|{file.digest}"
            for file in inputs
        ]
        return self.digest("\n".join(sorted(digests)))

    def digest(self, text: str) -> str:
        """Returns 64 hex digits of a text, keyed by a secret of this store."""
        with self.in_use():
            secret = self._secret()
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()

    def own_key(self, purpose: Literal["book", "deployment"]) -> KeyReference:
        """Returns a key that this store makes once, and needs where the operator names none.

        It is of no use to workers elsewhere, and to other key stores that share the ledger. What a
        window counted is found again by that of the `book` alone, so it is never replaced: see
        `pipelines.ledger.case_registry`. Sketches of cases are made with that of the `deployment`.
        """
        path = self.path / f"{purpose}.secret"
        if not path.exists():
            self._write_new(path.name, ReleaseKey.generate(), replaces=False)
        return KeyReference(f"file:{path.absolute()}", wrapped_by=self.secrets.reference)

    def alone(self, output: str, release_id: str) -> contextlib.AbstractContextManager[None]:
        """Keeps other processes of this machine from making the same release meanwhile.

        The lock ends with the process, however it ends.

        Raises:
            RetryLater: Another process is at it.
        """
        refusal = BEING_MADE.format(output, release_id)
        return self.locked(_name(output, release_id, ".lock"), refusal)

    def is_held(self, output: str, release_id: str) -> bool:
        """Returns whether a process makes a release, see `alone`; makes and writes nothing."""
        path = self._path(output, release_id, ".lock")
        if not path.exists():
            return False
        with path.open() as stream:
            return not self._is_locked(stream)

    def receipt(self, output: str, release_id: str) -> Receipt | None:
        """Returns of what a release was begun, or None.

        Raises:
            KeyStoreError: It cannot be read.
        """
        text = self.noted(output, release_id, ".json")
        return None if text is None else Receipt.read(text)

    def key_state(self, receipt: Receipt | None) -> KeyState:
        """Returns whether the key of a release is there.

        A run that was cut off between the two left a key without a receipt, and has drawn nothing.
        """
        if receipt is None:
            return "none"
        path = self._path(receipt.output, receipt.release_id, ".key")
        if not path.exists():
            return "ended"
        with self.in_use():
            key = ReleaseKey(self.secrets.read(path))
        return "there" if key.fingerprint == receipt.key_fingerprint else "ended"

    def unfinished(self, output: str, release_id: str) -> Receipt | None:
        """Returns the receipt whose key is there."""
        receipt = self.receipt(output, release_id)
        return receipt if self.key_state(receipt) == "there" else None

    def key_of(self, receipt: Receipt) -> KeyReference:
        """Returns where this store keeps the key of an unfinished release; writes nothing."""
        path = self._path(receipt.output, receipt.release_id, ".key")
        return KeyReference(f"file:{path}", receipt.key_fingerprint, self.secrets.reference)

    def receipts(self, ending: str = ".json") -> list[Receipt]:
        """Returns the receipts of all releases, or of those with a file of another ending.

        Those with a `.key`, which is not read and may be wrapped, are not finished.
        """
        names = (f"{name.removesuffix(ending)}.json" for name in self.names(f"releases/*{ending}"))
        return [Receipt.read(text) for text in map(self.read, names) if text is not None]

    def reserve(
        self,
        output: str,
        release_id: str,
        input_fingerprint: str,
        config_digest: str,
        origin: Origin | None = None,
    ) -> KeyReference:
        """Makes a key for a release, or returns that of an earlier run of it that did not finish.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            input_fingerprint: See `fingerprint`.
            config_digest: Digest of the configuration.
            origin: What else it is made of; None: nothing.

        Raises:
            UsageError: The id is reserved for another input or configuration; or the keys of this
                store are not wrapped as this one would be.
            RetryLater: The source of the key-encryption key does not answer now.
            KeyStoreError: The store cannot be used.
        """
        begun = self.unfinished(output, release_id)
        if begun is None:
            key = ReleaseKey.generate()
            self._write_new(_name(output, release_id, ".key"), key)
            begun = Receipt(
                release_id, output, input_fingerprint, config_digest, key.fingerprint, today(),
                origin or Origin(),
            )  # fmt: skip
            self.note(output, release_id, ".json", json.dumps(asdict(begun)))
        begun.check_same(input_fingerprint, config_digest)
        return self._for_workers(begun)

    def note(self, output: str, release_id: str, ending: str, text: str) -> str:
        """Writes a note of a release, and returns its path for who may read this store.

        Of an epoch `.names` says which names came to its vocabulary, and when. `.gate` has the
        ledger with which a release goes on, whose password is in no pipeline so. `.result` says
        where the result of its query is.

        Raises:
            KeyStoreError: It cannot be written.
        """
        name = _name(output, release_id, ending)
        self.write(name, text)
        return str(self.path / name)

    def noted(self, output: str, release_id: str, ending: str) -> str | None:
        """Returns what `note` wrote; None: nothing."""
        return self.read(_name(output, release_id, ending))

    def note_step(self, output: str, release_id: str, step: int) -> None:
        """Notes beside the receipt of an epoch that a step is decided. Once noted, does nothing.

        Raises:
            KeyStoreError: There is no receipt, or it cannot be written.
        """
        if self.receipt(output, release_id) is None:  # as in a store that was emptied
            what = f"the receipt of release_id {release_id!r} in {output} is gone"
            raise KeyStoreError(f"{what}; restore the key store from a backup")
        last = self.last_step(output, release_id)
        if last is None or last < step:
            self.note(output, release_id, ".step", str(step))

    def last_step(self, output: str, release_id: str) -> int | None:
        """Returns the last step of an epoch that is decided; None: none is, or this is no epoch."""
        text = self.noted(output, release_id, ".step")
        return None if text is None else int(text)

    def ledger_of(self, output: str, release_id: str) -> str | None:
        """Returns the URL of the ledger that an unfinished release is charged to, if it is known.

        That is from the moment on in which it could draw.
        """
        text = self.noted(output, release_id, ".gate")
        return None if text is None else str(json.loads(text)["ledger"])

    def commit(self, output: str, release_id: str) -> bool:
        """Deletes the key of a release that is visible or taken back, and a stream's state.

        The receipt stays.

        Returns:
            Whether there was a key.
        """
        had_key = self._remove_files(output, release_id, ".gate", ".result", ".key")
        folder = self.operator_folder(output, release_id)
        if files.is_on_this_machine(folder):
            with self.in_use():
                for path in Path(folder).glob(f"{STREAM_STATE}*"):
                    path.unlink()
        return had_key

    def forget(self, output: str, release_id: str) -> bool:
        """Forgets a release that ended before it drew, or was given up: its key is destroyed.

        The receipt goes before the key: a receipt alone would say that the release was committed.

        Returns:
            Whether there was a key.
        """
        endings = (".gate", ".step", ".names", ".json", ".key")
        return self._remove_files(output, release_id, *endings)

    def _remove_files(self, output: str, release_id: str, *endings: str) -> bool:
        """Removes files of a release in their order, and returns whether its key was there."""
        had_key = self._path(output, release_id, ".key").exists()
        self.forget_for_workers(output, release_id)
        self.remove(*(_name(output, release_id, ending) for ending in endings))
        return had_key

    def forget_for_workers(self, output: str, release_id: str) -> None:
        """Deletes the copies of a key that workers find; the key store keeps its own.

        Raises:
            KeyStoreError: The key store cannot be used.
        """
        note = _name(output, release_id, ".workers")
        noted = self.read(note)
        if noted is None:
            return
        with self.in_use():
            files.delete_files([path for path in noted.splitlines() if files.exists(path)])
        self.remove(note)

    def operator_folder(self, output: str, release_id: str) -> str:
        """Returns where what only the operator may read of a release lies.

        That is beside the keys, which nobody else reads; where workers cannot write there, it is
        beside those that they can read.
        """
        name = f"{release_id}-{_place(output, release_id)[:8]}"
        if self._worker_keys is not None and not files.is_on_this_machine(self._worker_keys):
            return f"{self._worker_keys.rstrip('/')}/operator/{name}"
        return str(self.path.absolute() / "operator" / name)

    def _for_workers(self, receipt: Receipt) -> KeyReference:
        """Where workers find a key of this store; puts it there, as it lies here."""
        own, key_path = self.key_of(receipt), self._path(receipt.output, receipt.release_id, ".key")
        if self._worker_keys is None:
            return own
        path = files.join(self._worker_keys, key_path.name)
        # Noted first: whoever ends the release finds the copy, whatever they were configured with.
        note = f"releases/{key_path.stem}.workers"
        noted = (self.read(note) or "").splitlines()
        if path not in noted:
            self.write(note, "".join(f"{one}\n" for one in (*noted, path)))
        with self.in_use():
            content = key_path.read_bytes()
            if files.read_if_there(path) != content:
                files.write_anew(path, content)
        return replace(own, text=f"file:{path}")

    def _path(self, output: str, release_id: str, ending: str) -> Path:
        return self.path / _name(output, release_id, ending)

    def _write_new(self, name: str, key: ReleaseKey, replaces: bool = True) -> None:
        """Writes a key as this store keeps its keys.

        Raises:
            UsageError: They are wrapped in another way since this store was opened.
        """
        with self.locked(KEYS_LOCK), self.in_use():
            self._secret()  # which tells
            self.write(name, self.secrets.kept(bytes.fromhex(key.hex())), replaces)

    def _secret(self) -> bytes:
        own = self.secrets.own
        if not own.exists():
            self.secrets.check_key()
            self.write(own.name, self.secrets.kept(secrets.token_bytes(32)), replaces=False)
        return self.secrets.read(own)


def new_key_file(path: Path) -> None:
    """Writes a fresh release key that only its owner can read.

    Raises:
        UsageError: The file exists.
    """
    if path.exists():
        raise UsageError(f"{path} exists; a key is never overwritten")
    files.write_private(path, ReleaseKey.generate().hex().encode(), replaces=False)


def _place(output: str, release_id: str) -> str:
    """A name for a release that every file system takes."""
    return hashlib.sha256(f"{output}\n{release_id}".encode()).hexdigest()[:32]


def _name(output: str, release_id: str, ending: str) -> str:
    """The file of a release, relative to the folder of the store."""
    return f"releases/{_place(output, release_id)}{ending}"
