"""Reading a folder from somebody else, and what a check finds in it.

Every command that reads a release reads it here. No link is followed, and whoever opens a file gets
the bytes whose SHA-256 the manifest lists: what changes after that is refused. Folders of this
machine are read without Beam.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import resource
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tracecloak.schemas.errors import InputSchemaError, NoSuchFile, RetryLater, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts import bounded_json, escaped, n_values
from tracecloak.transforms.files import is_on_this_machine, open_raw, require_file_system
from tracecloak.transforms.publish.release_folder import LATEST_NAME

# --- What a check found: it holds, it does not, that cannot be told here, or nothing is to check. -


State = Literal["ok", "failed", "unsure", "not applicable"]

_SHOWN_NAMES = 3
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name.
        state: How it ended.
        sentence: What was found; it names files, and never quotes what is in them.
    """

    check: str
    state: State
    sentence: str


class Wrong(InputSchemaError):  # noqa: N818 - `verify` makes a finding of it
    """Something does not hold; the sentence says what, and the text names the command, too."""

    state: State = "failed"

    def __init__(self, sentence: str) -> None:
        """Takes what a finding says."""
        super().__init__(f"{sentence} `tracecloak verify` lists all that is wrong with a release")
        self.sentence = sentence


class Unsure(InputSchemaError):  # noqa: N818 - likewise
    """This installation cannot tell whether something holds; the text says why."""

    state: State = "unsure"


def is_of_machine(error: BaseException) -> bool:
    """Returns whether an error says something of this machine or a server, and not of a file.

    An OSError of the operating system has a number, and one of a library about bytes has none.
    """
    is_numbered = isinstance(error, OSError) and error.errno is not None
    return is_numbered or isinstance(error, (MemoryError, TimeoutError, RetryLater))


class NotApplicable(Exception):  # noqa: N818 - likewise
    """There is nothing to check; the text says why."""

    state: State = "not applicable"


def quote_names(names: Iterable[str]) -> str:
    """Returns names for a sentence: the first few, without characters that steer a terminal."""
    plain = [escaped(name) for name in names]
    n_more, limit = len(plain) - _SHOWN_NAMES, _SHOWN_CHARACTERS
    shown = (one if len(one) <= limit else f"{one[:limit]}…" for one in plain[:_SHOWN_NAMES])
    return ", ".join(shown) + (f" and {n_more:,} more" if n_more > 0 else "")


# --- Reading a folder that somebody sent: plain files in it alone, as its manifest lists them. ----


_BLOCK_BYTES = 256 << 10
_LARGEST_MANIFEST = 16 << 20
_MOST_OF_MANIFEST = 400_000
"""Values of a manifest; a release of 65,536 parts has four each."""
_LARGEST_TEXT = 64 << 20
"""Bytes of a file that is read as a whole."""
_MORE_BYTES = 1 << 30
"""What reading may take beyond what the process has."""
_BATCH_ROWS = 1 << 14
_NO_PLAIN_FILE = (errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENXIO)
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
        if folder._has(LATEST_NAME):
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
            body = strict_json(_read(open_plain(_join(self.path, LATEST_NAME)), 1 << 16))
            name = body["path"]
            if re.fullmatch(r"run_id=[A-Za-z0-9_-][A-Za-z0-9._-]*", name):
                place = _join(self.path, name)
                is_link = is_on_this_machine(place) and os.path.islink(place)
                if not is_link and type(self)(place)._has(MANIFEST_NAME):
                    return str(name)
        except (Wrong, OSError, KeyError, TypeError):
            pass
        raise InputSchemaError(
            f"{LATEST_NAME} of {self.path!r} points at no release in it; name a folder run_id=…"
        )

    @cached_property
    def manifest(self) -> bytes:
        """The bytes of its manifest, which are read once.

        Raises:
            Wrong: It is no plain file, or too long.
        """
        data = _read(open_plain(_join(self.path, MANIFEST_NAME)), _LARGEST_MANIFEST)
        if n_values(data) > _MOST_OF_MANIFEST:
            raise Wrong(f"{MANIFEST_NAME} has more than {_MOST_OF_MANIFEST:,} values.")
        return data

    @property
    def manifest_sha256(self) -> str:
        """The digest of the manifest that is judged, 64 hex digits."""
        return hashlib.sha256(self.manifest).hexdigest()

    @cached_property
    def _outputs(self) -> dict[str, tuple[str, int]]:
        """(SHA-256, bytes) of the files by their path, as far as the manifest lists them."""
        try:
            outputs = strict_json(self.manifest)["outputs"]
            return {file["path"]: (file["sha256"], file["n_bytes"]) for file in outputs}
        except (Wrong, KeyError, TypeError):
            return {}

    @cached_property
    def _blocks(self) -> dict[str, tuple[bytes, ...]]:
        """The digests of the blocks of each file that was opened."""
        return {}

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
        """Opens a file of the folder, whose bytes have the digest that the manifest lists, if any.

        The first time all of it is digested. Whatever is read is compared with that, block by
        block, so nobody can change the file in between.

        Raises:
            Wrong: There is no plain file of that path, or it is not as the manifest lists it.
        """
        n_bytes = self.sizes.get(name)
        if n_bytes is None:
            raise Wrong(f"{quote_names([name])} is not there, or is no plain file.")
        unlike = Wrong(
            f"{quote_names([name])} is not as {MANIFEST_NAME} lists it (size or SHA-256)."
        )
        if name in self._outputs and self._outputs[name][1] != n_bytes:
            raise unlike
        stream = open_plain(_join(self.path, name))
        if name not in self._blocks:
            whole, blocks, n_left = hashlib.sha256(), [], n_bytes + 1
            while block := _read_fully(stream, min(_BLOCK_BYTES, n_left)):
                whole.update(block)
                blocks.append(hashlib.sha256(block).digest())
                n_left -= len(block)
            found = whole.hexdigest(), n_bytes
            if n_left != 1 or self._outputs.get(name, found) != found:
                stream.close()
                raise unlike
            self._blocks[name] = tuple(blocks)
        digested = _DigestedFile(stream, name, n_bytes, self._blocks[name])
        return io.BufferedReader(digested, _BLOCK_BYTES)

    @contextmanager
    def reading(self, name: str) -> Iterator[BinaryIO]:
        """Opens a file, and makes a finding of whatever its bytes make a reader raise.

        Nothing of the error's text is said, which may quote them.

        Raises:
            Wrong: As `open`, or the file cannot be read.
            Unsure: To read it takes more memory than `bounded_memory` allows.
        """
        with self.open(name) as stream, bounded_memory(name):
            try:
                yield stream
            except Exception as error:
                if isinstance(error, (Wrong, Unsure)) or is_of_machine(error):
                    raise
                kind = type(error).__name__
                raise Wrong(f"{quote_names([name])} cannot be read ({kind}).") from None

    def unlike(self, names: Sequence[str]) -> Iterator[str]:
        """Yields the files that have not the size and the digest that the manifest lists."""
        for name in names:
            try:
                self.open(name).close()
            except Wrong:
                yield name

    def read(self, name: str, limit: int = _LARGEST_TEXT) -> bytes:
        """Returns what a file holds.

        Raises:
            Wrong: It is not there, not as the manifest lists it, or longer than it may be.
            Unsure: It is longer than any text that is read here.
        """
        if name == MANIFEST_NAME:
            return self.manifest
        if self.sizes.get(name, 0) > limit:
            if limit == _LARGEST_TEXT:
                raise Unsure(f"Not checked: {quote_names([name])} has more than {limit >> 20} MiB.")
            raise Wrong(f"{quote_names([name])}: {_too_long(limit)}")
        return _read(self.open(name), limit)

    def text(self, name: str) -> str:
        """Returns what a file of text holds.

        Raises:
            Wrong: As `read`, or it is no UTF-8.
        """
        try:
            return self.read(name).decode()
        except UnicodeDecodeError:
            raise Wrong(f"{quote_names([name])} is no text in UTF-8.") from None

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
        """Returns what a JSON file says, see `strict_json`."""
        return strict_json(self.read(name), quote_names([name]))


def strict_json(data: bytes, name: str = "JSON") -> Any:
    """Returns JSON values, which no key may have twice and no number may be infinite in.

    Raises:
        Wrong: It is none.
        Unsure: To read it takes more memory than `bounded_memory` allows.
    """
    with bounded_memory(name):
        try:
            return bounded_json(data)
        except ValueError:
            raise Wrong(f"{name} is no JSON in which every key stands once.") from None


_bounds_lock = threading.Lock()
_n_bounds = 0  # how many blocks are bounded now; the first one sets the limit, the last one ends it
_unbounded: tuple[int, int] = resource.getrlimit(resource.RLIMIT_DATA)


@contextmanager
def bounded_memory(name: str) -> Iterator[None]:
    """Has whatever the bytes of a file make a reader allocate fail beyond `_MORE_BYTES`.

    What a small file comes to is told by nothing that can be relied on before it is read. The bound
    is one of the process; a system without /proc, or without the bound, has none.

    Args:
        name: Of the file.

    Raises:
        Unsure: The block took more.
    """
    global _n_bounds, _unbounded
    with _bounds_lock:
        _n_bounds += 1
        if _n_bounds == 1:
            pa.allocate_buffer(1)  # Arrow may take as much for itself when it first needs memory
            _unbounded = resource.getrlimit(resource.RLIMIT_DATA)
            with suppress(OSError, ValueError, TypeError):
                status = Path("/proc/self/status").read_text()
                used = int(cast(re.Match[str], re.search(r"VmData:\s*(\d+)", status))[1]) << 10
                within = (used + _MORE_BYTES, *(b for b in _unbounded[:1] if b >= 0))
                resource.setrlimit(resource.RLIMIT_DATA, (min(within), _unbounded[1]))
    try:
        yield
    except MemoryError:
        raise Unsure(
            f"Not checked: to read {quote_names([name])} takes more than {_MORE_BYTES >> 20} MiB."
        ) from None
    finally:
        with _bounds_lock:
            _n_bounds -= 1
            if not _n_bounds:
                with suppress(OSError, ValueError):
                    resource.setrlimit(resource.RLIMIT_DATA, _unbounded)


@dataclass(frozen=True)
class ReceivedParquet:
    """A Parquet file that is read in `ReceivedFolder.reading`, which bounds what it may take.

    Attributes:
        stream: Its bytes, seekable.
        max_rows: How many rows it may have.
    """

    stream: BinaryIO
    max_rows: int

    @cached_property
    def file(self) -> pq.ParquetFile:
        """The file, by its footer.

        Raises:
            Wrong: It has more rows than it may.
            pa.ArrowException, OSError: It is no Parquet file.
        """
        file = pq.ParquetFile(self.stream)
        if file.metadata.num_rows > self.max_rows:
            raise Wrong(f"A Parquet file has more than the {self.max_rows:,} rows that it may.")
        return file

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields its rows.

        Raises:
            Wrong: They are not as many as its footer has.
            pa.ArrowException, OSError: They are damaged.
        """
        n_left = self.file.metadata.num_rows
        for rows in self.file.iter_batches(_BATCH_ROWS, use_threads=False):
            n_left -= rows.num_rows
            rows.validate(full=True)
            yield rows.replace_schema_metadata(None)
        if n_left:
            raise Wrong("A Parquet file has other rows than its footer says.")


def open_plain(path: str) -> BinaryIO:
    """Opens a plain file for reading; on this machine no link, pipe or device.

    Raises:
        Wrong: It is none.
    """
    if not is_on_this_machine(path):
        return open_raw(path)
    name = quote_names([os.path.basename(path)])
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        number = os.open(path, flags)
    except OSError as error:
        if error.errno not in _NO_PLAIN_FILE:
            raise
        raise Wrong(f"{name} cannot be opened ({error.strerror}).") from None
    if not stat.S_ISREG(os.fstat(number).st_mode) or _has_hole(number):
        os.close(number)
        raise Wrong(f"{name} is no plain file, or has holes where there are no bytes.")
    return cast(BinaryIO, os.fdopen(number, "rb", buffering=0))


def _has_hole(number: int) -> bool:
    """Whether a file has bytes that are not on the disk, where the system tells."""
    try:
        n_bytes = os.lseek(number, 0, os.SEEK_END)
        return os.lseek(number, 0, os.SEEK_HOLE) < n_bytes
    except (AttributeError, OSError):  # a system that knows no holes, or an empty file
        return False
    finally:
        os.lseek(number, 0, os.SEEK_SET)


def _read(stream: BinaryIO, limit: int) -> bytes:
    with stream:
        data = _read_fully(stream, limit + 1)
    if len(data) > limit:
        raise Wrong(f"A file {_too_long(limit)}")
    return data


def _too_long(limit: int) -> str:
    return f"is longer than {limit >> 10:,} KiB, which nothing of its kind is."


def _read_fully(stream: BinaryIO, n_bytes: int) -> bytes:
    """Reads so many bytes, less only at the end; some streams return fewer at once."""
    data = stream.read(n_bytes)
    while data and len(data) < n_bytes and (more := stream.read(n_bytes - len(data))):
        data += more
    return data


class _DigestedFile(io.RawIOBase):
    """A file whose blocks must have the digests that they had when all of it was digested."""

    def __init__(self, stream: BinaryIO, name: str, n_bytes: int, blocks: Sequence[bytes]) -> None:
        self._stream, self._name, self._n_bytes, self._blocks = stream, name, n_bytes, blocks
        self._at, self._number, self._block = 0, -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence, self._n_bytes)
        return self._at

    def readinto(self, buffer: Any) -> int:
        number, begin = divmod(self._at, _BLOCK_BYTES)
        if number >= len(self._blocks):
            return 0
        if number != self._number:
            self._stream.seek(number * _BLOCK_BYTES)
            block = _read_fully(self._stream, _BLOCK_BYTES)
            if hashlib.sha256(block).digest() != self._blocks[number]:
                raise Wrong(f"{quote_names([self._name])} was changed while it was read.")
            self._number, self._block = number, block
        part = self._block[begin : begin + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder.rstrip("/") else f"/{name}"


def _listed_here(folder: str) -> tuple[dict[str, int], list[str]]:
    """Lists plain files with their sizes; all else, empty folders and those that cannot be read."""
    sizes: dict[str, int] = {}
    odd: list[str] = []
    for under, folders, names in os.walk(folder, onerror=lambda e: odd.append(str(e.filename))):
        if not folders and not names and under != folder:
            odd.append(f"{under}/")
        links = [name for name in folders if os.path.islink(os.path.join(under, name))]
        for path in (os.path.join(under, name) for name in (*names, *links)):
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                sizes[os.path.relpath(path, folder)] = status.st_size
            else:
                odd.append(path)
        if len(sizes) + len(odd) > _MOST_FILES:
            raise Wrong(f"The folder holds more than {_MOST_FILES:,} files.")
    return sizes, sorted(path.removeprefix(folder).lstrip("/") for path in odd)


def _listed_elsewhere(pattern: str) -> list[tuple[str, int]]:
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    try:
        files = FileSystems.match([pattern])[0].metadata_list
    except (BeamIOError, ValueError, OSError) as error:
        raise UsageError(f"release {pattern!r} cannot be listed: {type(error).__name__}") from None
    return [(file.path, file.size_in_bytes) for file in files]
