"""The key store: keys of running releases, and receipts of those that were reserved or committed.

A folder that only the operator reads, on a disk that is kept: it holds the key from which all noise
of a running release derives. A key is deleted when its release is committed, given up, or ended
before it could draw; the receipt of one that was committed stays, and lets a second run under the
same id be told from a run on changed input. With a key-encryption key, keys and the store's own
secret lie wrapped in it (`kept_secrets`).
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
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, BinaryIO, Literal

from tracecloak.anonymizers.noise.randomness import ReleaseKey
from tracecloak.pipelines.budget.entries import today
from tracecloak.pipelines.budget.gate import Gate, Unchanged
from tracecloak.pipelines.budget.kept_secrets import KeptSecrets
from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.schemas.published.manifest import TOOL_VERSION
from tracecloak.transforms.files import (
    SourceFile,
    absolute,
    is_on_this_machine,
    make_private_folder,
    read_if_there,
    write_anew,
    write_private,
)
from tracecloak.transforms.keys.reference import KeyReference
from tracecloak.transforms.keys.sources import check_reference

# What a stream on this machine knows, in the folder of its operator.
STREAM_STATE = "state.sqlite"
_LOG = logging.getLogger("tracecloak")

_KEYS_LOCK = "keys.lock"
# Many releases that begin at once wait for each other; one that is stopped stops no other for ever.
_LOCK_SECONDS = 600
_LOCK_PAUSE_SECONDS = 0.01
# The folders of a store, which others have no business in.
_FOLDERS = ("ledgers", "operator", "releases")
# So many bytes are looked through at a time for the end of a line.
_N_LOOKED_AT = 1 << 16


class KeyStoreError(TracecloakError):
    """The key store cannot be read or written now, so nothing may be released."""


@dataclass(frozen=True)
class InputFile:
    """A file that a release reads, as it was when the release was reserved.

    Attributes:
        path: Where it is, however that was written; see `transforms.files.absolute`.
        n_bytes: Its size.
        digest: SHA-256 of a file of this machine; of others what their file system tells.
    """

    path: str
    n_bytes: int
    digest: str


@dataclass(frozen=True)
class Receipt:
    """What is known of one release.

    Attributes:
        release_id: Its name.
        output: The folder of all releases that it went or goes to.
        input_fingerprint: Keyed digest of the input files, see `KeyStore.fingerprint`.
        config_digest: Digest of the configuration.
        key_fingerprint: Tells release keys apart.
        state: `reserved` while nothing is known to be visible, then `committed`; `withdrawn` once
            its files were taken back.
        left_machine: Whether version 0.1 sent a run of it to a runner elsewhere, which may have
            drawn noise though the ledger does not say so.
        files: What it reads; None where nobody noted it, as version 0.1 did not.
        tool_version: The version that reserved it, whose mechanism it is; empty: 0.1.
        staging_area: Where it is built; None: beside the output.
        reserved_on: The day in UTC on which it was reserved, such as 2026-11-23; empty where an
            earlier version did not note it.
        last_step: Of an epoch of a stream the last step that is decided; None: there is none, or an
            earlier version did not note it.
    """

    release_id: str
    output: str
    input_fingerprint: str
    config_digest: str
    key_fingerprint: str
    state: Literal["reserved", "committed", "withdrawn"]
    left_machine: bool = False
    files: tuple[InputFile, ...] | None = None
    tool_version: str = ""
    staging_area: str | None = None
    reserved_on: str = ""
    last_step: int | None = None

    def is_same(self, input_fingerprint: str, config_digest: str) -> bool:
        """Returns whether a run is this release, and this version of tracecloak made it."""
        return (
            hmac.compare_digest(self.input_fingerprint, input_fingerprint)
            and hmac.compare_digest(self.config_digest, config_digest)
            and self.tool_version == TOOL_VERSION
        )

    @classmethod
    def read(cls, text: str) -> Receipt:
        """Returns a receipt as it was written, by this version or an earlier one.

        Raises:
            KeyStoreError: It was written by a later version, or by none.
        """
        try:
            body = json.loads(text)
            unknown = sorted(body.keys() - {field.name for field in fields(cls)})
            if not unknown:
                if body.get("files") is not None:
                    # An earlier version noted paths as they were written.
                    body["files"] = tuple(
                        InputFile(**{**file, "path": absolute(file["path"])})
                        for file in body["files"]
                    )
                return cls(**body)
        except (ValueError, TypeError, AttributeError, KeyError):
            raise KeyStoreError(
                "a receipt in the key store is damaged; restore the key store from a backup"
            ) from None
        raise KeyStoreError(
            f"a receipt in the key store has {unknown[0]}, which this version of tracecloak does "
            "not know; use the version that wrote it, or a later one"
        )

    def check_not_withdrawn(self) -> None:
        """Makes sure that the release was not taken back.

        Raises:
            UsageError: It was.
        """
        if self.state == "withdrawn":
            raise UsageError(
                f"release_id {self.release_id!r} in {self.output} was withdrawn, and is not "
                "released again; choose another release_id, which is another spend"
            )

    def gone_from(self, place: str) -> UsageError:
        """Returns the error that a release which was committed is not where it was.

        Args:
            place: Its folder.
        """
        return UsageError(
            f"release_id {self.release_id!r} was committed, and {place} is not there any more: its "
            "disk may not be mounted, somebody may have moved it, or a retention rule deleted it. "
            "What it spent stays spent, and the same id is not drawn and paid for again. Mount the "
            "disk or restore the files, and run again; or, if they are gone for good, write that "
            f"down with `tracecloak ledger withdraw --output {self.output} --release_id "
            f"{self.release_id} --by NAME --reason TEXT`; or choose another release_id, which is "
            "another spend"
        )

    def check_same(self, input_fingerprint: str, config_digest: str) -> None:
        """Makes sure that a run under this release's id is this release.

        Raises:
            UsageError: The input or the configuration is another, or it was withdrawn.
        """
        self.check_not_withdrawn()
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

    def same_files(self, found: Sequence[InputFile]) -> tuple[InputFile, ...]:
        """Returns which of the files that are there now a run reads that goes on with this release.

        Files that came later are not among them.

        Args:
            found: The files of the source, as they are now.

        Raises:
            UsageError: One that it read changed or vanished.
        """
        if self.files is None:
            return tuple(found)
        now = {file.path: file for file in found}
        gone = [file.path for file in self.files if file.path not in now]
        changed = [file.path for file in self.files if file.path in now and now[file.path] != file]
        if gone or changed:
            first, what = (gone[0], "gone") if gone else (changed[0], "changed")
            more = f", and so are others, {len(gone) + len(changed)} in all"
            raise self.cannot_go_on(
                f"input {first!r} is {what}{more if len(gone) + len(changed) > 1 else ''}"
            )
        return self.files

    def cannot_go_on(self, reason: str) -> UsageError:
        """Returns the error that a release which drew noise cannot be finished."""
        return UsageError(
            f"release_id {self.release_id!r} in {self.output} drew noise before it was cut off, "
            f"and {reason} since. The same noise on other counts would tell their difference, so "
            "restore it and run again, or give the release up, which leaves its budget spent, with "
            "`tracecloak ledger "
            f"forfeit --output {self.output} --release_id {self.release_id} --by NAME --reason "
            "TEXT`, and pay for another"
        )


class KeyStore:
    """The store in one folder; see the module."""

    def __init__(
        self,
        folder: Path,
        worker_keys: str | None = None,
        key_encryption_key: str | None = None,
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
        self._folder = folder
        self._worker_keys = worker_keys
        self._secrets = KeptSecrets(folder, key_encryption_key)
        self._is_closed = False

    @classmethod
    def default_folder(cls) -> Path:
        """Returns TRACECLOAK_KEY_STORE, or a folder for state in the user's home."""
        named = os.environ.get("TRACECLOAK_KEY_STORE")
        return Path(named) if named else Path.home() / ".local" / "state" / "tracecloak"

    def check_secrets(self) -> None:
        """Makes sure that every key can be read, and wraps those that lie in clear and shall not.

        Raises:
            UsageError: A key is wrapped, and what wrapped it was not named or is not this; or there
                is no such key-encryption key.
            RetryLater: The source of that key does not answer now, or a release is at work whose
                key lies in clear and shall not.
            KeyStoreError: The store cannot be used.
        """
        with self._in_use():
            in_clear = self._secrets.check()
        if not in_clear:
            return
        with self._nobody_at_work(), self._in_use():
            n_wrapped = self._secrets.wrap_all()
        _LOG.warning(
            "key store %s: %d keys lay in clear and are encrypted from now on, so every command "
            "that reads them needs key_encryption_key; copies of the folder that were made before "
            "have them in clear still",
            self._folder,
            n_wrapped,
        )

    def rewrap(self, before: str, after: str) -> int:
        """Wraps by a key-encryption key what another wrapped, or nobody.

        Whoever is cut off calls it again: what is done is not done twice.

        Args:
            before: Reference to the other key.
            after: Reference to the key that is asked for from now on.

        Returns:
            How many keys were wrapped anew.

        Raises:
            UsageError: There is no such store, neither key wraps what is there, or one of them is
                not there.
            RetryLater: A release is at work, or the source of a key does not answer now.
            KeyStoreError: The store cannot be used.
        """
        check_reference(before, "--from")
        kept = KeptSecrets(self._folder, after, "--to")
        if not self._folder.is_dir():
            raise UsageError(f"there is no key store in {self._folder}; correct key_store")
        with self._nobody_at_work(), self._in_use():
            return kept.wrap_all(before)

    @property
    def ledger_url(self) -> str:
        """The ledger beside the keys, for runs on this machine."""
        return f"sqlite:///{self._folder.absolute() / 'ledger.db'}"

    @property
    def has_ledger_file(self) -> bool:
        """Whether the file of that ledger was made."""
        return (self._folder / "ledger.db").exists()

    def make_ledger_file(self) -> None:
        """Makes the file of that ledger, which only its owner reads, where there is none."""
        with self._in_use():
            os.close(self._descriptor("ledger.db"))

    def identity(self, makes: bool = True) -> str:
        """Returns what tells this key store from others, and nothing of its secret.

        Args:
            makes: Whether to make the secret where there is none; else the text is empty then.
        """
        if not makes and not self._secrets.own.exists():
            return ""
        return self.digest("the key store")[:16]

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

    def fingerprint(self, files: Sequence[InputFile]) -> str:
        """Returns a digest of the input files, keyed by a secret of this store.

        Of local files it covers the bytes, in any order of the files; of others what their file
        system tells: name, size and checksum.
        """
        digests = [
            file.digest
            if is_on_this_machine(file.path)
            else f"{file.path}|{file.n_bytes}|{file.digest}"
            for file in files
        ]
        return self.digest("\n".join(sorted(digests)))

    def digest(self, text: str) -> str:
        """Returns 64 hex digits of a text, keyed by a secret of this store."""
        with self._in_use():
            secret = self._secret()
        return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()

    def deployment_key(self) -> KeyReference:
        """Returns the key of sketches of cases where none is named; makes it where there is none.

        It is of no use to workers elsewhere, and to other key stores that share the ledger.
        """
        path = self._secrets.of_deployment
        if not path.exists():
            self._write_new(path, ReleaseKey.generate(), replaces=False)
        return KeyReference(f"file:{path.absolute()}", wrapped_by=self._secrets.reference)

    @property
    def book_folder(self) -> str:
        """Where the book of counted units is, of runs on this machine."""
        return str(self._folder.absolute() / "book")

    def book_key(self) -> KeyReference:
        """Returns the key of the book of counted units where none is named; makes it where none is.

        What a window counted is found again by this key alone, so it is never replaced: the book
        refuses to go on under another; see `pipelines.budget.unit_book`. It is of no use to workers
        elsewhere, and to other key stores that share the ledger.
        """
        path = self._secrets.of_book
        if not path.exists():
            self._write_new(path, ReleaseKey.generate(), replaces=False)
        return KeyReference(f"file:{path.absolute()}", wrapped_by=self._secrets.reference)

    @property
    def has_book_key(self) -> bool:
        """Whether that key was made here."""
        return self._secrets.of_book.exists()

    @property
    def has_deployment_key(self) -> bool:
        """Whether that key was made here."""
        return self._secrets.of_deployment.exists()

    def receipt(self, output: str, release_id: str) -> Receipt | None:
        """Returns what is known of a release, or None."""
        return self._read(self._path(output, release_id, ".json"))

    @contextlib.contextmanager
    def alone(self, output: str, release_id: str) -> Iterator[None]:
        """Keeps other processes of this machine from making the same release meanwhile.

        The lock ends with the process, however it ends.

        Raises:
            RetryLater: Another process is at it.
        """
        told = (
            f"another process is making release_id {release_id!r} in {output}; wait until it ends, "
            "then run this again to see what became of it"
        )
        with self._held(self._path(output, release_id, ".lock"), told):
            yield

    @contextlib.contextmanager
    def _held(self, path: Path, told: str) -> Iterator[None]:
        with self._in_use():
            descriptor = self._descriptor(str(path.relative_to(self._folder)))
        with os.fdopen(descriptor, "w") as stream:
            try:
                with self._in_use():
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RetryLater(told) from None
            yield

    @contextlib.contextmanager
    def _nobody_at_work(self) -> Iterator[None]:
        """Keeps keys from being made, and every release that has one from going on, meanwhile.

        Raises:
            RetryLater: One is at work.
        """
        with self.locked(_KEYS_LOCK), contextlib.ExitStack() as held:
            for path in self._secrets.paths():
                if path.suffix == ".key":
                    told = (
                        f"a release of key store {self._folder} is at work, and its key would be "
                        "encrypted anew under it; wait until it ends, then run this again"
                    )
                    held.enter_context(self._held(path.with_suffix(".lock"), told))
            yield

    def reserve(
        self,
        output: str,
        release_id: str,
        input_fingerprint: str,
        config_digest: str,
        files: Sequence[InputFile] = (),
        staging_area: str | None = None,
    ) -> KeyReference:
        """Makes a key for a release, or finds that of an earlier run of it that did not finish.

        Args:
            output: The folder of all releases.
            release_id: The release's name.
            input_fingerprint: See `fingerprint`.
            config_digest: Digest of the configuration.
            files: What the release reads.
            staging_area: Where it is built; None: beside the output.

        Raises:
            UsageError: The id is reserved for another input or configuration, or was withdrawn; or
                the keys of this store are not wrapped as this one would be.
            RetryLater: The source of the key-encryption key does not answer now.
            KeyStoreError: The store cannot be used.
        """
        key_path = self._path(output, release_id, ".key")
        receipt = self.receipt(output, release_id)
        if receipt is not None:
            receipt.check_not_withdrawn()
        found = self.unfinished(output, release_id)
        if found is not None:
            found.check_same(input_fingerprint, config_digest)
            return self._reference(key_path, found.key_fingerprint)
        key = ReleaseKey.generate()
        self._write_new(key_path, key)
        self._note(
            Receipt(
                release_id,
                output,
                input_fingerprint,
                config_digest,
                key.fingerprint,
                "reserved",
                files=tuple(files),
                tool_version=TOOL_VERSION,
                staging_area=staging_area,
                reserved_on=today(),
            )
        )
        return self._reference(key_path, key.fingerprint)

    def reserved(self, output: str, release_id: str) -> Receipt:
        """Returns the receipt of a release that was reserved.

        Raises:
            KeyStoreError: There is none, or it cannot be read.
        """
        receipt = self.receipt(output, release_id)
        if receipt is None:
            raise KeyStoreError(
                f"the receipt of release_id {release_id!r} in {output} is gone from the key store; "
                "restore the key store from a backup"
            )
        return receipt

    def note_step(self, output: str, release_id: str, step: int) -> None:
        """Notes in the receipt of an epoch that a step is decided. Once noted, does nothing.

        Raises:
            KeyStoreError: There is no receipt, or it cannot be written.
        """
        receipt = self.reserved(output, release_id)
        if receipt.last_step is None or receipt.last_step < step:
            self._note(replace(receipt, last_step=step))

    def gate(
        self,
        output: str,
        release_id: str,
        key_fingerprint: str,
        ledger_url: str,
        inputs: Unchanged | None = None,
    ) -> Gate:
        """Returns what a run passes before it draws, and puts it where its workers find it."""
        path = self._path(output, release_id, ".gate")
        with self._in_use():
            write_private(path, json.dumps({"ledger": ledger_url}).encode())
        return Gate(str(path), output, release_id, key_fingerprint, inputs)

    def ledger_of(self, output: str, release_id: str) -> str | None:
        """Returns the URL of the ledger that an unfinished release is charged to, if it is known.

        That is from the moment on in which it could draw.
        """
        text = self.read(str(self._path(output, release_id, ".gate").relative_to(self._folder)))
        return None if text is None else str(json.loads(text)["ledger"])

    def all_unfinished(self) -> list[Receipt]:
        """Returns the receipts whose keys are there."""
        receipts = []
        for name in self.names("releases/*.key"):
            body = self._read((self._folder / name).with_suffix(".json"))
            if body is not None and self.unfinished(body.output, body.release_id) is not None:
                receipts.append(body)
        return receipts

    def commit(self, output: str, release_id: str) -> None:
        """Deletes the key of a release, notes that it is visible, and deletes a stream's state.

        In this order: whoever is stopped in between is found reserved, and asked to finish, or
        without a key that anything could be drawn with.
        """
        receipt = self.receipt(output, release_id)
        self._forget_for_workers(output, release_id)
        with self._in_use():
            for ending in (".gate", ".key"):
                self._path(output, release_id, ending).unlink(missing_ok=True)
        if receipt is None:
            return
        self._note(replace(receipt, state="committed"))
        folder = self.operator_folder(output, release_id)
        if is_on_this_machine(folder):
            with self._in_use():
                for path in Path(folder).glob(f"{STREAM_STATE}*"):
                    path.unlink()

    def withdraw(self, output: str, release_id: str) -> None:
        """Notes that a release is taken back; nothing where this key store did not make it.

        The key of a stream, which may have steps to publish, is destroyed, and so is its state.
        """
        receipt = self.receipt(output, release_id)
        if receipt is not None:
            self.commit(output, release_id)
            self._note(replace(receipt, state="withdrawn"))

    def forget(self, output: str, release_id: str) -> None:
        """Forgets a release that ended before it drew, or was given up: its key is destroyed."""
        self._forget_for_workers(output, release_id)
        with self._in_use():
            for ending in (".gate", ".key", ".json"):
                self._path(output, release_id, ending).unlink(missing_ok=True)

    def operator_folder(self, output: str, release_id: str) -> str:
        """Returns where what only the operator may read of a release lies.

        That is beside the keys, which nobody else reads; where workers cannot write there, it is
        beside those that they can read.
        """
        name = f"{release_id}-{_place(output, release_id)[:8]}"
        if self._worker_keys is not None and not is_on_this_machine(self._worker_keys):
            return f"{self._worker_keys.rstrip('/')}/operator/{name}"
        return str(self._folder.absolute() / "operator" / name)

    def _reference(self, key_path: Path, fingerprint: str) -> KeyReference:
        """Where workers find the key at a path of this machine; puts it there, as it lies here."""
        if self._worker_keys is None:
            return KeyReference(f"file:{key_path}", fingerprint, self._secrets.reference)
        from apache_beam.io.filesystems import FileSystems

        path = FileSystems.join(self._worker_keys, key_path.name)
        with self._in_use():
            kept = key_path.read_bytes()
            if read_if_there(path) != kept:
                write_anew(path, kept)
        return KeyReference(f"file:{path}", fingerprint, self._secrets.reference)

    def _forget_for_workers(self, output: str, release_id: str) -> None:
        if self._worker_keys is None:
            return
        from apache_beam.io.filesystems import FileSystems

        name = self._path(output, release_id, ".key").name
        path = FileSystems.join(self._worker_keys, name)
        with self._in_use():
            if FileSystems.exists(path):
                FileSystems.delete([path])

    def unfinished(self, output: str, release_id: str) -> Receipt | None:
        """Returns the receipt whose key is there; a run cut off between the two left none."""
        receipt = self.receipt(output, release_id)
        key_path = self._path(output, release_id, ".key")
        if receipt is None or not key_path.exists():
            return None
        with self._in_use():
            key = ReleaseKey(self._secrets.read(key_path))
        return receipt if key.fingerprint == receipt.key_fingerprint else None

    def _note(self, receipt: Receipt) -> None:
        path = self._path(receipt.output, receipt.release_id, ".json")
        with self._in_use():
            write_private(path, json.dumps(asdict(receipt)).encode())

    def _read(self, path: Path) -> Receipt | None:
        with self._in_use():
            if not path.exists():
                return None
            return Receipt.read(path.read_text())

    # Notes of others about this store's work, by names relative to its folder.

    def read(self, name: str) -> str | None:
        """Returns the text of a file of this store; None: there is none."""
        path = self._folder / name
        with self._in_use():
            return path.read_text() if path.exists() else None

    def ends(self, name: str) -> tuple[str, str] | None:
        """Returns the first and the last whole line of a file of this store; None: there is none.

        However long the file is, little of it is read.
        """
        path = self._folder / name
        with self._in_use():
            if not path.exists():
                return None
            with path.open("rb") as stream:
                end = _end_of_lines(stream)
                if end == 0:
                    return None
                begin = _end_of_lines(stream, end - 1)
                stream.seek(begin)
                last = stream.read(end - 1 - begin)
                stream.seek(0)
                return stream.readline().decode().rstrip("\n"), last.decode()

    def names(self, pattern: str) -> list[str]:
        """Returns the names of files of this store that a glob matches."""
        with self._in_use():
            return [str(path.relative_to(self._folder)) for path in self._folder.glob(pattern)]

    def write(self, name: str, text: str) -> None:
        """Writes a file of this store, which appears whole or stays as it is."""
        with self._in_use():
            self._make_folder()
            write_private(self._folder / name, text.encode())

    def append(self, name: str, text: str) -> None:
        """Adds lines to a file of this store, after its last whole line."""
        if not text:
            return
        with self._in_use(), os.fdopen(self._descriptor(name), "r+b") as stream:
            stream.truncate(_end_of_lines(stream))
            stream.seek(0, os.SEEK_END)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Keeps other processes of this machine waiting, which ask for the same lock.

        Raises:
            RetryLater: Another one has had it all the time, for ten minutes.
        """
        with self._in_use():
            descriptor = self._descriptor(name)
        with os.fdopen(descriptor, "w") as stream:
            gives_up_s = time.monotonic() + _LOCK_SECONDS
            while not self._is_locked(stream):
                if time.monotonic() >= gives_up_s:
                    raise RetryLater(
                        f"another process holds {self._folder.absolute() / name}, and has not let "
                        f"it go for {_LOCK_SECONDS} seconds; run the same command again, or end "
                        "that process if it hangs"
                    )
                time.sleep(_LOCK_PAUSE_SECONDS)
            yield

    def _is_locked(self, stream: IO[str]) -> bool:
        try:
            with self._in_use():
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

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
        return self._folder / "releases" / (_place(output, release_id) + ending)

    def _make_folder(self) -> None:
        make_private_folder(self._folder)
        if not self._is_closed:
            self._is_closed = True
            self._close_to_others()

    def _close_to_others(self) -> None:
        """Takes the rights of others from folders that somebody, or an earlier version, made.

        Nobody who uses the store needs them, as its files are for their owner only; so nothing
        stops, and the operator is told. On a volume that belongs to somebody else, as those of
        Kubernetes do, rights cannot be taken: what is made in it is closed all the same.
        """
        for folder in (self._folder, *(self._folder / name for name in _FOLDERS)):
            if not folder.exists():
                continue
            found = folder.stat()
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid == os.geteuid() and mode & 0o077:
                folder.chmod(mode & ~0o077)
                _LOG.warning(
                    "others could look into %s of the key store (mode %o); they no longer can",
                    folder,
                    mode,
                )
            elif found.st_uid != os.geteuid() and mode & stat.S_IWOTH:
                _LOG.warning(
                    "anybody can replace what is in %s, which belongs to somebody else (mode %o); "
                    "let its owner run chmod o-rwx, or name another key_store",
                    folder,
                    mode,
                )

    def _descriptor(self, name: str) -> int:
        """Opens a file of this store for reading and writing, and makes it if it is not there."""
        path = self._folder / name
        self._make_folder()
        make_private_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def _write_new(self, path: Path, key: ReleaseKey, replaces: bool = True) -> None:
        """Writes a key as this store keeps its keys.

        Raises:
            UsageError: They are wrapped in another way since this store was opened.
        """
        with self.locked(_KEYS_LOCK), self._in_use():
            self._secret()  # which tells
            write_private(path, self._secrets.kept(bytes.fromhex(key.hex())), replaces)

    def _secret(self) -> bytes:
        path = self._secrets.own
        if not path.exists():
            self._secrets.check_key()
            write_private(path, self._secrets.kept(secrets.token_bytes(32)), replaces=False)
        return self._secrets.read(path)


def _end_of_lines(stream: BinaryIO, before: int | None = None) -> int:
    """Returns where the last whole line of a file ends, looking from its end; 0: it has none.

    Args:
        stream: The file.
        before: Where it is taken to end; None: where it does.
    """
    at = stream.seek(0, os.SEEK_END) if before is None else before
    while at > 0:
        begin = max(0, at - _N_LOOKED_AT)
        stream.seek(begin)
        found = stream.read(at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return 0


def _place(output: str, release_id: str) -> str:
    """A name for a release that every file system takes."""
    return hashlib.sha256(f"{output}\n{release_id}".encode()).hexdigest()[:32]


def snapshot_of(files: Sequence[SourceFile]) -> tuple[InputFile, ...]:
    """Returns the files of a source with sizes and digests: what a release may be finished with."""
    found = []
    for file in files:
        n_bytes = file.n_bytes
        if is_on_this_machine(file.path):
            with Path(file.path).open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                n_bytes = stream.tell()  # it may have grown since it was found
        else:
            from apache_beam.io.filesystems import FileSystems

            digest = str(FileSystems.checksum(file.path))
        found.append(InputFile(absolute(file.path), n_bytes, digest))
    return tuple(found)


def new_key_file(path: Path) -> None:
    """Writes a fresh release key that only its owner can read.

    Raises:
        UsageError: The file exists.
    """
    if path.exists():
        raise UsageError(f"{path} exists; a key is never overwritten")
    write_private(path, ReleaseKey.generate().hex().encode(), replaces=False)
