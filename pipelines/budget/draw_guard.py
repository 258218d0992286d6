"""The draw guard: the ledger notes, before noise is drawn, that nothing is given back.

On this machine the gate is passed where the first round decides, so that a run that fails while it
reads, or whose input changes meanwhile, costs nothing. It is a file beside the keys, and workers in
other processes find the ledger by it. A run on a cluster passes before it is submitted: it may
outlive whoever started it. What goes in must be as it was where its digest was taken: `Unchanged`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracecloak.pipelines.keys.key_store import KeyStore
from tracecloak.pipelines.ledger.entries import UNDRAWN, KeyedRelease
from tracecloak.pipelines.ledger.ledger import Ledger
from tracecloak.schemas.errors import RetryLater, UsageError
from tracecloak.transforms.files import is_on_this_machine
from tracecloak.transforms.inputs.source_files import SourceFile


@dataclass(frozen=True)
class Unchanged:
    """Calling it makes sure that files are as they were; it pickles.

    A release notes digests of its input before it reads it. A file that is written meanwhile would
    be released as it is then, under the digest of what it was. So whoever made this before the
    digests were taken calls it once everything is read. That a file was changed is told by its
    size, its time of change and which file it is, as digests of large files take long; elsewhere by
    what their file system tells.

    Attributes:
        states: Each file's path and what was found there.
    """

    states: tuple[tuple[str, str], ...]

    @classmethod
    def since_now(cls, files: Sequence[SourceFile]) -> Unchanged:
        """Returns what tells later whether a file changed since this call."""
        # Workers may be elsewhere in the tree of folders; links stay links, as others may move
        # them.
        paths = [
            os.path.abspath(f.path) if is_on_this_machine(f.path) else f.path
            for f in files
            if f.digest is None  # others cannot change
        ]
        return cls(tuple((path, _state(path)) for path in paths))

    def changed(self) -> str | None:
        """Returns the first file that is not as it was; None: all are."""
        return next((path for path, state in self.states if _state(path) != state), None)

    def __call__(self) -> None:
        """Makes sure that all are.

        Raises:
            RetryLater: One is not.
        """
        if (path := self.changed()) is not None:
            raise RetryLater(
                f"input {path!r} changed while it was read, before anything was drawn: nothing was "
                "released or paid. Run again once nobody writes to it, or of a copy"
            )


@dataclass(frozen=True)
class DrawGuard:
    """Calling it notes in the ledger that noise is drawn from now on; it pickles.

    Attributes:
        path: A file of the key store with the ledger's URL, whose password is in no pipeline so.
        output: The folder of all releases.
        release_id: The release's name.
        key_fingerprint: Tells release keys apart.
        inputs: What is to be as it was where the gate is passed first; None: nobody looks.
    """

    path: str
    output: str
    release_id: str
    key_fingerprint: str
    inputs: Unchanged | None = None

    def __call__(self) -> None:
        """Passes the gate; passed once, does nothing.

        Raises:
            UsageError: The reservation was given back or given up meanwhile: nothing is drawn.
            RetryLater: An input changed: nothing is drawn.
            LedgerError: The ledger cannot be used.
        """
        ledger = self.ledger()
        # What changes after the first round decided is no longer read.
        if self.inputs is not None:
            last = ledger.states(*self.keyed_release)[-1:]
            if any(state.last.action in UNDRAWN for state in last):
                self.inputs()
        ledger.draw(*self.keyed_release)

    def check_open(self) -> None:
        """Makes sure, before the release appears, that nobody gave it up meanwhile.

        Raises:
            UsageError: Somebody did, with whatever key store: nothing appears.
            LedgerError: The ledger cannot be used.
        """
        states = self.ledger().states(*self.keyed_release)
        if not states or states[-1].last.action in ("void", "forfeit", "withdraw"):
            raise self._ended()

    @property
    def keyed_release(self) -> KeyedRelease:
        """Whose release under which key it is the gate of."""
        return self.output, self.release_id, self.key_fingerprint

    def store(self) -> KeyStore:
        """Returns the key store that the gate is of."""
        return KeyStore(Path(self.path).parents[1])

    def ledger(self) -> Ledger:
        """Returns the ledger that pays.

        Raises:
            UsageError: The release was ended meanwhile.
            LedgerError: The ledger cannot be used.
        """
        if (url := self.store().ledger_of(self.output, self.release_id)) is None:
            raise self._ended()
        return Ledger(url, store=self.store())

    def _ended(self) -> UsageError:
        what = f"release {self.release_id!r} in {self.output}"
        return UsageError(f"{what} was ended meanwhile; run again, which reserves anew")


def draw_guard_of(
    store: KeyStore, keyed_release: KeyedRelease, ledger_url: str, inputs: Unchanged | None = None
) -> DrawGuard:
    """Returns what a run passes before it draws, and puts it where its workers find it.

    Args:
        store: The key store.
        keyed_release: The folder of releases, the release's name, the fingerprint of its key.
        ledger_url: Of the ledger that pays.
        inputs: What is to be as it was where the gate is passed first; None: nobody looks.
    """
    path = store.note(*keyed_release[:2], ".gate", json.dumps({"ledger": ledger_url}))
    return DrawGuard(path, *keyed_release, inputs)


def _state(path: str) -> str:
    if is_on_this_machine(path):
        try:
            status = os.stat(path)
        except OSError:
            return ""
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
    from apache_beam.io.filesystems import FileSystems

    return str(FileSystems.checksum(path)) if FileSystems.exists(path) else ""
