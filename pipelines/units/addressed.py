"""A folder of files that are named after their own SHA-256, and packs of many of them.

Whoever has a name can tell that what it reads is what was written, wherever it comes from. So a
pack, many files one after the other in one, is trusted with nothing: it is read since one file is
read faster than thousands, and each part of it is compared with its name. A pack that is missing,
cut off or changed is passed over, and the files themselves are read.

    <folder>/<sha256>.units     a file
    <folder>/<sha256>.pack      a line of JSON, [[sha256, n_bytes], ...], then these files
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tracecloak.transforms.files import (
    FileState,
    delete_files,
    is_on_this_machine,
    listed_in,
    open_raw,
    read_if_there,
    write_anew,
)

_ENDING, _PACK = ".units", ".pack"
# Files that are in no pack are packed once there are so many.
_N_PACKED = 64
# Files on another file system are read so many at a time; fewer are read without a listing.
_N_READERS = 8

# Name and length of each file in a pack, in their order.
_Members = list[tuple[str, int]]


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
    """One folder of such files, on this machine or any Beam file system, for one process."""

    def __init__(self, folder: str) -> None:
        """Reads nothing yet."""
        self._folder = folder
        # What was read and compared, and how its file looked then.
        self._read: dict[str, tuple[FileState | None, memoryview]] = {}

    def path(self, sha256: str) -> str:
        """Returns where a file is."""
        return f"{self._folder}/{_name(sha256)}"

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

    def read(
        self, names: Iterable[str], every_file: bool = False
    ) -> dict[str, memoryview] | Damage:
        """Returns what files hold, each compared with its name; or the first that is damaged.

        A few are read whole each time. Where many are asked for, all must be there by a listing of
        the folder, and what this process has compared is not compared again while size and time of
        its file are as they were. Of what it has not, the copy in a pack is taken where there is
        one that is right and as long as the file, else the file.

        Args:
            names: Which.
            every_file: Whether to read the files themselves, all of them, and no packs.
        """
        asked = list(dict.fromkeys(names))
        there: Mapping[str, FileState] = {}
        contents: dict[str, memoryview] = {}
        if len(asked) > _N_READERS:
            try:
                there = listed_in(self._folder)
            except Exception as error:  # each file system has its own
                return Damage(self.path(asked[0]), asked[0], error)
            gone = [sha256 for sha256 in asked if _name(sha256) not in there]
            if gone:
                return Damage(self.path(gone[0]), gone[0])
            if not every_file:
                contents = self._known(asked, there)
        left = [sha256 for sha256 in asked if sha256 not in contents]
        with ThreadPoolExecutor(_N_READERS) as readers:
            for sha256, got in zip(left, readers.map(self._whole, left), strict=True):
                if isinstance(got, Damage):
                    return got
                self._read[sha256] = there.get(_name(sha256)), got
                contents[sha256] = got
        return contents

    def _known(self, asked: Sequence[str], there: Mapping[str, FileState]) -> dict[str, memoryview]:
        """Returns what needs no reading of the files themselves: read before, or in a pack."""
        contents = {}
        left = []
        for sha256 in asked:
            state, data = self._read.get(sha256, (None, None))
            if data is not None and state == there[_name(sha256)]:
                contents[sha256] = data
            else:
                left.append(sha256)
        if len(left) < _N_PACKED:
            return contents
        wanted = set(left)
        for name in there:
            for sha256, part in self._parts(name) if name.endswith(_PACK) else ():
                entry = there.get(_name(sha256))
                if sha256 in wanted and entry is not None and entry.n_bytes == len(part):
                    if hashlib.sha256(part).hexdigest() == sha256:
                        self._read[sha256] = entry, part
                        contents[sha256] = part
        return contents

    def _parts(self, name: str) -> list[tuple[str, memoryview]]:
        """Returns the files of a pack, not compared with anything; none: it cannot be read."""
        try:
            whole = read_if_there(f"{self._folder}/{name}") or b""
            end = whole.index(b"\n")
            parts, data, at = [], memoryview(whole), end + 1
            for sha256, n_bytes in _members(whole[:end]):
                parts.append((sha256, data[at : at + n_bytes]))
                at += n_bytes
            return parts
        except Exception:  # whatever a file system does, or whoever changed it
            return []

    def _whole(self, sha256: str) -> memoryview | Damage:
        path = self.path(sha256)
        try:
            data = read_if_there(path)
        except Exception as error:  # each file system has its own
            return Damage(path, sha256, error)
        if data is None:
            return Damage(path, sha256)
        if hashlib.sha256(data).hexdigest() != sha256:
            return Damage(path, sha256, is_there=True)
        return memoryview(data)

    def pack(self, names: Sequence[str]) -> None:
        """Puts files that were read here, and are in no pack, into one, if they are many.

        Packs that are no larger go into the new one, so that each file is copied a few times at
        most. What fails is left as it is, since files are complete without packs.

        Args:
            names: Files that are to be read again.
        """
        with contextlib.suppress(Exception):  # whatever a file system does
            heads = self._heads(listed_in(self._folder))
            packed = {sha256 for _, members in heads for sha256, _ in members}
            new = [n for n in names if n in self._read and n not in packed]
            if len(new) < _N_PACKED:
                return
            given_up = []
            for path, members in sorted(heads, key=lambda head: len(head[1])):
                if len(members) > len(new):
                    break
                wanted = {sha256 for sha256, _ in members} & set(names)
                if not wanted <= self._read.keys():
                    break
                new += sorted(wanted - set(new))
                given_up.append(path)
            parts = [self._read[sha256][1] for sha256 in new]
            head = [[sha256, len(part)] for sha256, part in zip(new, parts, strict=True)]
            data = b"".join([json.dumps(head).encode(), b"\n", *parts])
            path = f"{self._folder}/{hashlib.sha256(data).hexdigest()}{_PACK}"
            write_anew(path, data)
            delete_files([old for old in given_up if old != path])

    def _heads(self, there: Mapping[str, FileState]) -> list[tuple[str, _Members]]:
        """Returns the packs that can be read, each with what it says that it holds."""
        heads = []
        for name in there:
            if name.endswith(_PACK):
                path = f"{self._folder}/{name}"
                with contextlib.suppress(Exception), open_raw(path) as stream:
                    heads.append((path, _members(stream.readline())))
        return heads


def _name(sha256: str) -> str:
    return f"{sha256}{_ENDING}"


def _members(line: bytes) -> _Members:
    return [(str(sha256), int(n_bytes)) for sha256, n_bytes in json.loads(line)]
