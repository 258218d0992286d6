"""Reading a folder that somebody sent: only plain files in it, in blocks, and no link is followed.

Folders of this machine are read without Beam.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

from tracecloak.pipelines.verification.findings import Wrong, shown
from tracecloak.schemas.errors import InputSchemaError, NoSuchFile, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts.bounded_json import bounded_json
from tracecloak.transforms.files import is_on_this_machine, open_raw, require_file_system

_LATEST_NAME = "latest.json"
_BLOCK_BYTES = 1 << 20
_LARGEST_TEXT = 64 << 20
"""Bytes of a file that is read as a whole."""
_MOST_FILES = 1_000_000


@dataclass(frozen=True)
class ReceivedFolder:
    """The folder of a release.

    Attributes:
        path: On this machine or any Beam file system.
    """

    path: str

    @classmethod
    def at(cls, path: str) -> ReceivedFolder:
        """Returns the folder that a path means: itself, or its latest release.

        Raises:
            NoSuchFile: It is not there.
            InputSchemaError: It is no folder of a release or of releases.
            UsageError: Nobody knows the file system.
        """
        require_file_system("release", path)
        if is_on_this_machine(path) and not os.path.isdir(path):
            raise NoSuchFile(
                f"No such file: release {path!r} is no folder that is there; correct the path"
            )
        folder = cls(path)
        if folder._has(MANIFEST_NAME):
            return folder
        if folder._has(_LATEST_NAME):
            return cls(_join(path, folder._latest()))
        raise InputSchemaError(
            f"release {path!r} holds no {MANIFEST_NAME}; name the folder of one release, which is "
            "called run_id=…, or of one epoch of a stream, which is called epoch=… and lies in it"
        )

    def _has(self, name: str) -> bool:
        place = _join(self.path, name)
        if is_on_this_machine(self.path):
            return os.path.lexists(place)
        return bool(_listed_elsewhere(place))

    def _latest(self) -> str:
        try:
            body = strict_json(_read(open_plain(_join(self.path, _LATEST_NAME)), 1 << 16))
            name = body["path"]
            if re.fullmatch(r"run_id=[A-Za-z0-9_-][A-Za-z0-9._-]*", name):
                if type(self)(_join(self.path, name))._has(MANIFEST_NAME):
                    return str(name)
        except (Wrong, OSError, KeyError, TypeError):
            pass
        raise InputSchemaError(
            f"{_LATEST_NAME} of {self.path!r} points at no release in that folder; name the folder "
            "of one release, which is called run_id=…"
        )

    @cached_property
    def listed(self) -> tuple[dict[str, int], list[str]]:
        """(sizes of the plain files by path, paths of all else that is no folder with files)."""
        if is_on_this_machine(self.path):
            return _listed_here(self.path)
        start = len(self.path.rstrip("/")) + 1
        files = _listed_elsewhere(_join(self.path, "**"))
        return {path[start:]: size for path, size in files if not path.endswith("/")}, []

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of every plain file by its path in the folder."""
        return self.listed[0]

    def open(self, name: str) -> BinaryIO:
        """Opens a file of the folder.

        Raises:
            Wrong: There is no plain file of that path.
        """
        if name not in self.sizes:
            raise Wrong(f"{shown([name])} is not there, or is no plain file.")
        return open_plain(_join(self.path, name))

    def read(self, name: str, limit: int = _LARGEST_TEXT) -> bytes:
        """Returns what a file holds.

        Raises:
            Wrong: It is not there, or longer than it may be.
        """
        try:
            return _read(self.open(name), limit)
        except Wrong as wrong:
            raise Wrong(f"{shown([name])}: {wrong}") from None

    def beside(self, folder: str, name: str) -> bytes | None:
        """Returns what a file of a folder beside this one holds; None: it is not there.

        Raises:
            Wrong: It is no plain file, or too long for a text.
        """
        above = os.path.dirname(self.path.rstrip("/"))
        if is_on_this_machine(self.path):
            above = os.path.dirname(os.path.abspath(self.path))
        place = _join(_join(above, folder), name)
        if not type(self)(_join(above, folder))._has(name):
            return None
        return _read(open_plain(place), _LARGEST_TEXT)

    def json(self, name: str) -> Any:
        """Returns what a JSON file says.

        Raises:
            Wrong: It is not there, or no JSON that every reader takes for the same.
        """
        data = self.read(name)
        try:
            return strict_json(data)
        except Wrong as wrong:
            raise Wrong(f"{shown([name])} {wrong}") from None

    def sha256(self, name: str) -> str:
        """Returns the digest of a file, read in blocks."""
        digest = hashlib.sha256()
        with self.open(name) as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()


def strict_json(data: bytes) -> Any:
    """Returns JSON values, which no key may have twice and no number may be infinite in.

    Raises:
        Wrong: It is none.
    """
    try:
        return bounded_json(data)
    except ValueError:
        raise Wrong("is no JSON in which every key stands once.") from None


def open_plain(path: str) -> BinaryIO:
    """Opens a plain file for reading; on this machine no link, pipe or device.

    Raises:
        Wrong: It is none.
    """
    if not is_on_this_machine(path):
        return open_raw(path)
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        number = os.open(path, flags)
    except OSError as error:
        raise Wrong(f"cannot be opened ({error.strerror}).") from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise Wrong("is no plain file.")
    return os.fdopen(number, "rb")


def _read(stream: BinaryIO, limit: int) -> bytes:
    with stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise Wrong(f"is longer than {limit >> 10:,} KiB, which nothing of its kind is.")
    return data


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder.rstrip("/") else f"/{name}"


def _listed_here(folder: str) -> tuple[dict[str, int], list[str]]:
    sizes: dict[str, int] = {}
    odd: list[str] = []
    for name, entry in _entries(folder):
        if entry is not None and entry.is_file(follow_symlinks=False):
            sizes[name] = entry.stat(follow_symlinks=False).st_size
        else:
            odd.append(name)
        if len(sizes) + len(odd) > _MOST_FILES:
            raise Wrong(f"The folder holds more than {_MOST_FILES:,} files.")
    return sizes, sorted(odd)


def _entries(folder: str) -> Iterator[tuple[str, os.DirEntry[str] | None]]:
    """Yields (path, entry) of each file; with None, folders that are empty or cannot be read."""
    left = [""]
    while left:
        under = left.pop()
        try:
            with os.scandir(os.path.join(folder, under)) as scanned:
                entries = list(scanned)
        except OSError:
            yield under, None
            continue
        if under and not entries:
            yield f"{under}/", None
        for entry in entries:
            name = f"{under}/{entry.name}" if under else entry.name
            if entry.is_dir(follow_symlinks=False):
                left.append(name)
            else:
                yield name, entry


def _listed_elsewhere(pattern: str) -> list[tuple[str, int]]:
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    try:
        files = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, ValueError, OSError) as error:
        raise UsageError(f"release {pattern!r} cannot be listed: {type(error).__name__}") from None
    return [(file.path, file.size_in_bytes) for file in files]
