"""Whether input files are still as they were when their digests were taken."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tracecloak.schemas.errors import RetryLater
from tracecloak.transforms.files import SourceFile, is_on_this_machine


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
        paths = [os.path.abspath(f.path) if is_on_this_machine(f.path) else f.path for f in files]
        return cls(tuple((path, _state(path)) for path in paths))

    def changed(self) -> str | None:
        """Returns the first file that is not as it was; None: all are."""
        return next((path for path, state in self.states if _state(path) != state), None)

    def __call__(self) -> None:
        """Makes sure that all are.

        Raises:
            RetryLater: One is not.
        """
        path = self.changed()
        if path is not None:
            raise RetryLater(
                f"input {path!r} changed while it was read, before anything was drawn: nothing was "
                "released, and nothing is paid. Run the same command again once nobody writes to "
                "it, or of a copy"
            )


def _state(path: str) -> str:
    if is_on_this_machine(path):
        try:
            found = os.stat(path)
        except OSError:
            return ""
        return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
    from apache_beam.io.filesystems import FileSystems

    return str(FileSystems.checksum(path)) if FileSystems.exists(path) else ""
