"""The folder of a release on any Beam file system: at once or not at all.

Files are written under `<output>/_incomplete/run_id=<id>/`, which readers of data lakes skip for
its underscore. Committing moves the folder to `<output>/run_id=<id>/`: on a local disk in one
rename with the manifest inside; elsewhere file by file with the manifest last, and what has no
manifest is no release. `<output>/latest.json` is pointed at it afterwards.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME, OutputFile

LATEST_NAME = "latest.json"


@dataclass(frozen=True)
class ReleaseFolder:
    """Where one release is built and where it will lie.

    Attributes:
        output: The folder of all releases.
        release_id: This release's name.
    """

    output: str
    release_id: str

    def __post_init__(self) -> None:
        plain = self.release_id.replace("-", "").replace("_", "").replace(".", "")
        if not plain.isalnum() or not plain.isascii() or self.release_id.startswith("."):
            raise UsageError(
                "release_id must consist of ASCII letters, digits, '.', '_' and '-', "
                f"got {self.release_id!r}"
            )

    @property
    def final(self) -> str:
        """The folder of the finished release."""
        return FileSystems.join(self.output, f"run_id={self.release_id}")

    @property
    def staging(self) -> str:
        """The folder in which it is built."""
        return FileSystems.join(self.output, "_incomplete", f"run_id={self.release_id}")

    def committed(self) -> dict[str, Any] | None:
        """Returns the manifest if this release exists, else None."""
        path = FileSystems.join(self.final, MANIFEST_NAME)
        if not FileSystems.exists(path):
            return None
        with FileSystems.open(path) as stream:
            return cast(dict[str, Any], json.loads(stream.read()))

    def discard(self) -> None:
        """Removes the staging folder, if there is one, as an aborted run leaves it."""
        if FileSystems.exists(self.staging):
            FileSystems.delete([self.staging])

    def write(self, name: str, content: Callable[[BinaryIO], None]) -> OutputFile:
        """Writes a file into the staging folder; the same content gives the same file again.

        Args:
            name: Path relative to the release's folder.
            content: Called with a binary stream to write to.
        """
        hashing = _HashingStream(_create(FileSystems.join(self.staging, name)))
        try:
            content(cast(BinaryIO, hashing))
        finally:
            hashing.close()
        return OutputFile(name, hashing.sha256, hashing.n_bytes)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Opens a file of the staging folder for reading."""
        path = FileSystems.join(self.staging, name)
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            yield stream

    def remove(self, names: Sequence[str]) -> None:
        """Removes files or folders of the staging folder that are not to be released."""
        if names:
            FileSystems.delete([FileSystems.join(self.staging, name) for name in names])

    def commit(self, manifest: dict[str, Any]) -> None:
        """Makes the staged files and the manifest appear as the release."""
        names = [output["path"] for output in manifest["outputs"]]
        text = _json(manifest)
        if FileSystems.get_scheme(self.output) is None:
            self.write(MANIFEST_NAME, lambda stream: _write_all(stream, text))
            FileSystems.rename([self.staging], [self.final])
        else:
            sources = [FileSystems.join(self.staging, name) for name in names]
            FileSystems.rename(sources, [FileSystems.join(self.final, name) for name in names])
            with contextlib.closing(_create(FileSystems.join(self.final, MANIFEST_NAME))) as stream:
                stream.write(text)

    def point_latest(self) -> None:
        """Points `latest.json` at this release."""
        text = _json({"run_id": self.release_id, "path": f"run_id={self.release_id}"})
        target = FileSystems.join(self.output, LATEST_NAME)
        if FileSystems.get_scheme(self.output) is None:
            fresh = FileSystems.join(self.output, f"_incomplete/{LATEST_NAME}")
            with contextlib.closing(_create(fresh)) as stream:
                stream.write(text)
            FileSystems.rename([fresh], [target])  # replaces the old pointer at once
        else:
            with contextlib.closing(_create(target)) as stream:
                stream.write(text)


def write_text(path: str, text: str) -> None:
    """Writes a text file on any Beam file system; what was there is replaced."""
    with contextlib.closing(_create(path)) as stream:
        stream.write(text.encode())


class _HashingStream:
    """A write-only stream that keeps the digest and the size of what passes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.n_bytes = 0

    closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._digest.update(view)
        self._stream.write(view)
        self.n_bytes += view.nbytes
        return view.nbytes

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return self.n_bytes

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def _create(path: str) -> BinaryIO:
    return cast(BinaryIO, FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED))


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _write_all(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
