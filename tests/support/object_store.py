"""A file system of Beam's that is none of this machine: objects://."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem


class ObjectStore(LocalFileSystem):
    """Objects in this process, as a store in a cloud keeps them: no folders, no move of many."""

    # Of the class: Beam makes an instance for every call.
    fail_at = ""
    root = Path()

    @classmethod
    def scheme(cls) -> str:
        return "objects"

    def _there(self, path: str) -> str:
        return str(self.root / path.removeprefix("objects://"))

    def join(self, base: str, *paths: str) -> str:
        return "/".join([base.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def has_dirs(self) -> bool:
        return False

    def _list(self, prefix: str) -> Iterator[FileMetadata]:
        bucket = prefix.removeprefix("objects://").partition("/")[0]
        for path in sorted((self.root / bucket).rglob("*")):
            name = f"objects://{path.relative_to(self.root)}"
            if path.is_file() and name.startswith(prefix):
                yield FileMetadata(name, path.stat().st_size)

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> Any:
        self._maybe_fail(f"create {path}")
        Path(self._there(path)).parent.mkdir(parents=True, exist_ok=True)
        return open(self._there(path), "wb")

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> Any:
        return open(self._there(path), "rb")

    def rename(self, sources: list[str], targets: list[str]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._maybe_fail(f"rename {source}")
            Path(self._there(target)).parent.mkdir(parents=True, exist_ok=True)
            Path(self._there(source)).rename(self._there(target))

    def exists(self, path: str) -> bool:
        return Path(self._there(path)).is_file()

    def size(self, path: str) -> int:
        return Path(self._there(path)).stat().st_size

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            Path(self._there(path)).unlink()

    @classmethod
    def _maybe_fail(cls, what: str) -> None:
        if cls.fail_at and what.endswith(cls.fail_at):
            raise BeamIOError("no", {what: OSError(errno.EIO, "x")})
