"""A folder of files that are named after their own SHA-256, `<folder>/<sha256>.units`.

Whoever has a name can tell that what it reads is what was written, wherever it comes from.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tracecloak.transforms.files import is_on_this_machine, read_if_there, write_anew

_ENDING = ".units"
# Files on another file system are read so many at a time.
_N_READERS = 8


@dataclass(frozen=True)
class Damage:
    """A file that is not what its name says.

    Attributes:
        path: Where it should be.
        sha256: Its name.
        error: What kept it from being read; None: it is not there, or was changed.
        is_there: Whether it was changed.
    """

    path: str
    sha256: str
    error: Exception | None = None
    is_there: bool = False


class AddressedFiles:
    """One folder of such files, on this machine or any Beam file system."""

    def __init__(self, folder: str) -> None:
        """Reads nothing yet."""
        self._folder = folder

    def path(self, sha256: str) -> str:
        """Returns where a file is."""
        return f"{self._folder}/{sha256}{_ENDING}"

    def write(self, data: bytes) -> str:
        """Writes a file as a whole, unless it is there; returns its name.

        Two who write one write the same, so neither need know of the other. Where files are not
        written by this machine it is read back.

        Raises:
            OSError: What is read back is not what was written.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        if read_if_there(path) == data:
            return sha256
        write_anew(path, data)
        if not is_on_this_machine(path) and read_if_there(path) != data:
            raise OSError(errno.EIO, "what was written is not what is read back", path)
        return sha256

    def read(self, names: Iterable[str]) -> dict[str, bytes] | Damage:
        """Returns what files hold, each compared with its name; or the first that is damaged."""
        asked = list(dict.fromkeys(names))
        contents: dict[str, bytes] = {}
        with ThreadPoolExecutor(_N_READERS) as readers:
            for sha256, content in zip(asked, readers.map(self._whole, asked), strict=True):
                if isinstance(content, Damage):
                    return content
                contents[sha256] = content
        return contents

    def _whole(self, sha256: str) -> bytes | Damage:
        path = self.path(sha256)
        try:
            data = read_if_there(path)
        except Exception as error:  # each file system has its own
            return Damage(path, sha256, error)
        if data is None:
            return Damage(path, sha256)
        if hashlib.sha256(data).hexdigest() != sha256:
            return Damage(path, sha256, is_there=True)
        return data
