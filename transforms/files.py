"""Finding and opening files: this machine's without Beam, and those of its file systems with it."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import logging
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote_to_bytes

from tracecloak.schemas.errors import InputSchemaError, UsageError, missing_extra
from tracecloak.transforms.tables import (
    FOLDERS,
    Table,
    folders_above,
    patterns_of_markers,
    refuse_tables,
    table_told_by,
)

_LOG = logging.getLogger("tracecloak")

# As long as a path of Linux may be; the expressions below are slow on texts without an end.
_LONGEST_PATTERN = 4096
_SCHEME = re.compile(r"\s*[a-zA-Z][-a-zA-Z0-9+.]*://")
# A folder for the records of one value, as Hive and Spark name them.
_PARTITION = re.compile(r"(?<=/)[^/=]+=[^/]*|^[^/=]+=[^/]*")
# What Hive and Spark write where the value is null, or empty text.
_NULL = ("__HIVE_DEFAULT_PARTITION__", "")
_HIDDEN = re.compile(r"(?:^|/)(?:_|\.(?!\.?(?:/|$)))")
# What stands for other characters in a pattern: as in Beam, ? is any one, a slash too.
_WILDCARD = re.compile(r"\*\*|\*|\?|\[!?+\]?+[^\]]*+\]")


@dataclass(frozen=True)
class SourceFile:
    """One input file.

    Attributes:
        rank: Its place in the sorted list of all inputs, which orders events with equal stamps.
        path: Where it is.
        n_bytes: Its size.
        partitions: The columns that its path gives all of its records, with their value; None: it
            is null. See `partitions_of`.
    """

    rank: int
    path: str
    n_bytes: int
    partitions: tuple[tuple[str, str | None], ...] = ()

    @property
    def folder(self) -> str:
        """The folder that it lies in, with all partitions: what is before the first of them."""
        folder = self.path.rpartition("/")[0]
        partition = _PARTITION.search(folder + "/")
        return folder if partition is None else folder[: partition.start()].rstrip("/")


def partitions_of(path: str) -> tuple[tuple[str, str | None], ...]:
    """Returns the columns that a file's path gives its records, sorted by name.

    Of `lake/claims/day=2026-11-01/hospital=A%2FB/part-0.parquet` these are `day` and `hospital`,
    whose value is `A/B`. `__HIVE_DEFAULT_PARTITION__` is null, and so are empty text and what is no
    UTF-8, as in every other column. Where a name stands in the path twice, the last one counts.
    """
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        column = _unescaped(name)
        if sign and column:
            found[column] = None if value in _NULL else _unescaped(value)
    return tuple(sorted(found.items()))


def _unescaped(text: str) -> str | None:
    """Returns text without its percent signs for bytes; None if that is no UTF-8."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeError:
        return None


def is_on_this_machine(path: str) -> bool:
    """Returns whether a path is one of this machine, and not of another file system of Beam's."""
    return _SCHEME.match(path) is None


def absolute(path: str) -> str:
    """Returns the one path of a folder: locks, receipts and charges are found by it."""
    return str(Path(path).resolve()) if is_on_this_machine(path) else path


def match_files(patterns: Sequence[str], may_be_none: bool = False) -> list[SourceFile]:
    """Returns the files that the patterns match, sorted by path, each once.

    A pattern is a file, a folder, whose files count at any depth, or a glob. In folders and globs,
    what begins with `.` or `_` is passed over unless the glob says so: such as `_SUCCESS`, which
    says that a folder is complete, and no part of it.

    Args:
        patterns: On this machine or any Beam file system.
        may_be_none: Whether a folder or a glob may hold no file, as a partition without events
            does. The folder before its first wildcard, and before its first part that is named
            `column=value`, must be there all the same.

    Raises:
        InputSchemaError: A file is not there, or a folder or a glob holds none and must hold one,
            or what is there is a table of a lake (`tables.py`).
        UsageError: A pattern cannot be listed.
    """
    sizes: dict[str, int] = {}
    looked_into: dict[str, Table | None] = {}  # as many patterns can lie in one folder
    for pattern in patterns:
        if len(pattern) > _LONGEST_PATTERN:
            raise UsageError(
                f"log {pattern[:80]!r}… has {len(pattern):,} characters; a path or a glob has "
                f"{_LONGEST_PATTERN:,} at most, and several are a list"
            )
        listing = (_listed_here if is_on_this_machine(pattern) else _listed_elsewhere)(pattern)
        if not listing.sizes and not (may_be_none and _may_be_empty(pattern)):
            raise InputSchemaError(_nothing_at(pattern, may_be_none))
        around = _tables_around(pattern, listing, looked_into)
        refuse_tables(pattern, listing.root, listing.sizes, listing.tables, around)
        sizes.update(listing.sizes)
    paths = enumerate(sorted(sizes))
    return [SourceFile(i, path, sizes[path], partitions_of(path)) for i, path in paths]


def _nothing_at(pattern: str, may_be_none: bool) -> str:
    if _first_wildcard(pattern) is not None:
        return f"log {pattern!r} matches no file; correct the glob or its folder"
    if os.path.isdir(pattern):
        return f"log {pattern!r} is a folder without files"
    told = f"log {pattern!r} is not there; correct the path"
    if may_be_none:
        told += (
            ", or end it with / if it is a partition that may be missing, such as day=2026-11-22/"
        )
    return told


def _may_be_empty(pattern: str) -> bool:
    """Returns whether a pattern that matches nothing is a source without cases."""
    is_here = is_on_this_machine(pattern)
    if is_here and os.path.isdir(pattern):
        return True
    wildcard = _first_wildcard(pattern)
    if wildcard is None and not pattern.endswith("/"):
        return False
    folder = pattern if wildcard is None else pattern[:wildcard].rpartition("/")[0]
    partition = _PARTITION.search(folder)
    if partition is not None:
        folder = folder[: partition.start()]
    if is_here:
        # In a pattern such as *.csv the folder is that at work; before /*.csv it is the root.
        return os.path.isdir(folder or ("/" if pattern.startswith("/") else os.curdir))
    # There, folders are but the beginnings of names: one is there if anything is in it.
    return any(_told_by_beam(pattern, [f"{folder.rstrip('/')}/**"], 1))


def _first_wildcard(pattern: str) -> int | None:
    found = re.search(r"[*?[]", pattern)
    return None if found is None else found.start()


def _is_passed_over(path: str, folder: str, pattern: str) -> bool:
    """Whether a name below the folder is hidden, and the rest of the pattern says no such name."""
    hidden = _HIDDEN.search(path[len(folder) :]) is not None
    return hidden and _HIDDEN.search(pattern[len(folder) :]) is None


@dataclass
class _Listing:
    """What one look at a pattern finds.

    Attributes:
        root: The folder that was listed with all below it; of a single file the one it lies in.
        sizes: The size of each file that matches, by its path.
        tables: What tells of tables, wherever it lies.
        is_root_seen: Whether a table that is the root would be among them.
    """

    root: str
    sizes: dict[str, int] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    is_root_seen: bool = True

    def note(self, path: str) -> None:
        """Takes in the path of a file, or of a folder with a slash at its end."""
        table = table_told_by(path)
        if table is not None:
            self.tables.append(table)


def _listed_here(pattern: str) -> _Listing:
    """Lists the files that Beam would find, whose wildcards are not those of a shell."""
    first = _first_wildcard(pattern)
    if first is None:
        if os.path.isdir(pattern):
            return _below(pattern)
        is_there = os.path.exists(pattern)
        sizes = {pattern: os.path.getsize(pattern)} if is_there else {}
        return _Listing(os.path.dirname(pattern), sizes, is_root_seen=False)
    if pattern.endswith(("/", "\\")):  # what lies in the folders that match
        pattern += "*"
    try:
        test = re.compile(_expression(pattern), re.DOTALL)
    except re.error as error:  # such as [z-a]
        raise UsageError(f"log {pattern!r} cannot be listed: {error}") from None
    folder = os.path.dirname(pattern[:first])
    listing = _Listing(folder.rstrip("/"))

    def path_of(parent: str, name: str) -> str:
        return os.path.join(parent, name) if folder else os.path.relpath(f"{parent}/{name}")

    for parent, folders, names in os.walk(folder or os.curdir):
        for name in folders:
            if name in FOLDERS:
                listing.note(f"{path_of(parent, name)}/")
        for name in names:
            path = path_of(parent, name)
            listing.note(path)
            if (
                test.fullmatch(path)
                and os.path.isfile(path)
                and not _is_passed_over(path, folder, pattern)
            ):
                listing.sizes[path] = os.path.getsize(path)
    return listing


def _below(folder: str) -> _Listing:
    """Lists all files in a folder, those that are hidden aside."""
    listing = _Listing(folder.rstrip("/"))
    for parent, folders, names in os.walk(folder):
        for name in folders:
            if name in FOLDERS:
                listing.note(os.path.join(parent, name, ""))
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            path = os.path.join(parent, name)
            listing.note(path)
            if not name.startswith((".", "_")) and os.path.isfile(path):
                listing.sizes[path] = os.path.getsize(path)
    return listing


def _tables_around(
    pattern: str, listing: _Listing, looked_into: dict[str, Table | None]
) -> list[Table]:
    """Returns the tables that hold the root of a listing, as far as the listing did not see them.

    Args:
        pattern: The input, for what is said of it.
        listing: What was found of it.
        looked_into: What is known of folders from other patterns; what is found is added.
    """
    is_here = is_on_this_machine(pattern)
    root = listing.root
    if is_here:  # of links and of `..` the folder that they lead to
        root = os.path.realpath(root or ("/" if pattern.startswith("/") else os.curdir))
    folders = [*([] if listing.is_root_seen else [root]), *folders_above(root)]
    new = [folder for folder in folders if folder not in looked_into]
    looked_into.update((_tables_here if is_here else _tables_elsewhere)(pattern, new))
    return [table for folder in folders if (table := looked_into[folder]) is not None]


def _tables_here(pattern: str, folders: Sequence[str]) -> dict[str, Table | None]:
    found: dict[str, Table | None] = {}
    for folder in folders:
        marks = [f"{folder}/{name}/" for name in FOLDERS if os.path.isdir(f"{folder}/{name}")]
        with contextlib.suppress(OSError):  # it is not there, or not for this user to see
            marks += [f"{folder}/metadata/{name}" for name in os.listdir(f"{folder}/metadata")]
        found[folder] = next(filter(None, map(table_told_by, marks)), None)
    return found


def _tables_elsewhere(pattern: str, folders: Sequence[str]) -> dict[str, Table | None]:
    """Asks for one file of each kind of marker: above an input can lie a whole lake."""
    marks = [mark for folder in folders for mark in patterns_of_markers(folder)]
    try:
        paths = [path for path, _ in _told_by_beam(pattern, marks, 1)]
    except UsageError:  # who may read an input need not be allowed to list what is around it
        _LOG.warning(
            "the folders around log %r cannot be listed, so it is not known whether it is a part "
            "of a table of Delta, Iceberg or Hudi, whose files hold deleted rows",
            pattern,
        )
        paths = []
    tables = {table.folder: table for table in map(table_told_by, paths) if table is not None}
    return {folder: tables.get(folder) for folder in folders}


def _expression(pattern: str) -> str:
    made, end = "", 0
    for wildcard in _WILDCARD.finditer(pattern):
        made += re.escape(pattern[end : wildcard.start()])
        end = wildcard.end()
        sign = wildcard[0]
        if sign.startswith("["):
            inside = sign[1:-1].replace("\\", r"\\")
            mark = {"!": "^", "^": r"\^"}.get(inside[0])
            made += f"[{inside}]" if mark is None else f"[{mark}{inside[1:]}]"
        else:
            made += {"**": ".*", "*": r"[^/\\]*", "?": "."}[sign]
    return made + re.escape(pattern[end:])


def _listed_elsewhere(pattern: str) -> _Listing:
    """Lists what Beam would for a pattern, by one question of its file system.

    What is left out by the pattern, or hidden, is looked at, too: it can tell of a table.
    """
    require_file_system("log", pattern)
    first = _first_wildcard(pattern)
    if first is None and not pattern.endswith("/"):
        found = dict(_told_by_beam(pattern, [pattern]))
        if found:
            return _Listing(pattern.rpartition("/")[0], found, is_root_seen=False)
    folder = (pattern if first is None else pattern[:first].rpartition("/")[0]).rstrip("/")
    whole = f"{folder}/**" if first is None else pattern
    if whole.endswith("/"):  # what lies in the folders that match
        whole += "*"
    listed = whole if first is None else f"{pattern[:first]}**"
    test = _expression_of_beam(pattern, whole)
    listing = _Listing(folder, is_root_seen=listed == f"{folder}/**")
    for path, n_bytes in _told_by_beam(pattern, [listed]):
        listing.note(path)
        is_file = test.match(path) and not path.endswith("/")
        if is_file and not _is_passed_over(path, folder, whole):
            listing.sizes[path] = n_bytes
    return listing


def _expression_of_beam(pattern: str, whole: str) -> re.Pattern[str]:
    from apache_beam.io.filesystem import FileSystem

    try:
        return re.compile(FileSystem.translate_pattern(whole))
    except re.error as error:  # such as [z-a]
        raise UsageError(f"log {pattern!r} cannot be listed: {error}") from None


def _told_by_beam(
    pattern: str, listed: Sequence[str], limit: int | None = None
) -> Iterator[tuple[str, int]]:
    """Yields the paths and sizes of the files that match one of the patterns in `listed`."""
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    if not listed:
        return
    try:
        limits = None if limit is None else [limit] * len(listed)
        results = FileSystems.match(list(listed), limits)
    except (BeamIOError, ValueError) as error:
        raise UsageError(
            f"log {pattern!r} cannot be listed: {_reason(error)}; correct the path, or mend this "
            "machine's rights and credentials there"
        ) from error
    for found in results:
        yield from ((file.path, file.size_in_bytes) for file in found.metadata_list)


# The module that a file system of Beam's needs, and what installs it, by the scheme of its paths.
_FILE_SYSTEMS = {
    "gs": ("google.cloud.storage", "google-cloud-storage", "gcp"),
    "s3": ("boto3", "boto3", "aws"),
}
# Those that Beam can open with an extra of its own, which tracecloak has not been tried with.
_OF_BEAM = {
    "azfs": ("azure.storage.blob", "azure-storage-blob", "azure"),
    "hdfs": ("hdfs", "hdfs", "hadoop"),
}
_OFFERED = "name one on this machine, such as where it is mounted, or one of gs:// and s3://"


def require_file_system(name: str, path: str) -> None:
    """Makes sure that files at a path can be reached, as far as this machine can tell.

    Args:
        name: The flag that the path was given with, for the error.
        path: On this machine or any file system.

    Raises:
        UsageError: Nobody knows the file system, or its library is not installed.
    """
    if is_on_this_machine(path):
        return
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    scheme = str(FileSystems.get_scheme(path)).strip()
    if scheme in _FILE_SYSTEMS:
        module, library, extra = _FILE_SYSTEMS[scheme]
        try:
            importlib.import_module(module)
        except ImportError:
            raise missing_extra(f"{name} {path!r}", library, extra) from None
    if scheme in _OF_BEAM:
        module, library, extra = _OF_BEAM[scheme]
        try:
            importlib.import_module(module)
        except ImportError:
            raise UsageError(
                f"{name} {path!r} needs {library}, which is not installed, and tracecloak is not "
                f"tested with {scheme}://; {_OFFERED}, or try Beam's own extra with "
                f"pip install 'apache-beam[{extra}]'"
            ) from None
    try:
        FileSystems.get_filesystem(path)
    except (ValueError, OSError, ImportError):
        flags = ", or give --hdfs_host, --hdfs_port and --hdfs_user" if scheme == "hdfs" else ""
        raise UsageError(
            f"{name} {path!r} is on a file system that Beam does not know or cannot open here; "
            f"{_OFFERED}{flags}"
        ) from None
    if FileSystems._pipeline_options is None:
        # Without any, some file systems cannot be asked before there is a pipeline.
        FileSystems.set_options(PipelineOptions([]))


def _reason(error: BaseException) -> str:
    """Returns the class of an error of a file system, which Beam wraps: its text could be data."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    return type(error).__name__


def require_writable(name: str, folder: str) -> None:
    """Makes sure that files can be written into a folder, which need not be there yet.

    On this machine nothing is made for it; elsewhere a small hidden file is written and deleted.

    Args:
        name: The flag that the folder was given with, for the error.
        folder: On this machine or any file system.

    Raises:
        UsageError: They cannot.
    """
    if is_on_this_machine(folder):
        there = Path(folder).absolute()
        while not os.path.lexists(there):
            there = there.parent
        if not os.path.isdir(there):
            reason = f"{there} is no folder"
        elif not os.access(there, os.W_OK | os.X_OK):
            reason = f"this user may not write into {there}"
        else:
            return
    else:
        from apache_beam.io.filesystems import FileSystems

        require_file_system(name, folder)
        path = FileSystems.join(folder, ".tracecloak-can-write")
        try:
            with closing(FileSystems.create(path)) as stream:
                stream.write(b"\n")
            FileSystems.delete([path])
            return
        except Exception as error:  # each file system has its own
            reason = _reason(error)
    raise UsageError(
        f"{name} {folder!r} cannot be written: {reason}; mend that, or name another folder with "
        f"--{name}"
    )


def open_raw(path: str) -> BinaryIO:
    """Opens a file for reading, as it is."""
    if is_on_this_machine(path):
        return Path(path).open("rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def read_if_there(path: str) -> bytes | None:
    """Returns what a file holds, or None if there is none."""
    if is_on_this_machine(path):
        if not os.path.exists(path):
            return None
    else:
        from apache_beam.io.filesystems import FileSystems

        if not FileSystems.exists(path):
            return None
    with open_raw(path) as stream:
        return stream.read()


@dataclass(frozen=True)
class FileState:
    """How a file looks from outside; two that differ are not the same file as it was.

    Attributes:
        n_bytes: Its size.
        stamp: When it was written, as exactly as its file system tells, and which file it is.
    """

    n_bytes: int
    stamp: tuple[float, int]


def listed_in(folder: str) -> dict[str, FileState]:
    """Returns the files that lie in a folder itself, by name; none: it is not there."""
    if is_on_this_machine(folder):
        found = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file():
                    told = entry.stat()
                    found[entry.name] = FileState(told.st_size, (told.st_mtime_ns, told.st_ino))
        return found
    from apache_beam.io.filesystems import FileSystems

    listed = FileSystems.match([f"{folder.rstrip('/')}/*"])[0].metadata_list
    return {
        file.path.rpartition("/")[2]: FileState(
            file.size_in_bytes, (file.last_updated_in_seconds, 0)
        )
        for file in listed
    }


def delete_files(paths: Sequence[str]) -> None:
    """Deletes files, those that are gone aside."""
    here = [path for path in paths if is_on_this_machine(path)]
    for path in here:
        Path(path).unlink(missing_ok=True)
    elsewhere = [path for path in paths if path not in here]
    if elsewhere:
        from apache_beam.io.filesystems import FileSystems

        FileSystems.delete(elsewhere)


def write_new(path: str, data: bytes) -> None:
    """Writes a file that appears whole or not at all.

    On this machine only its owner can read it, and one that is there already stays as it is.
    """
    if is_on_this_machine(path):
        write_private(Path(path), data, replaces=False)
    else:
        write_anew(path, data)


def write_anew(path: str, data: bytes) -> None:
    """Writes a file in place of what is there; on this machine whole, and for its owner only."""
    if is_on_this_machine(path):
        write_private(Path(path), data)
        return
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    stream = FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED)
    with closing(stream):
        stream.write(data)


def make_private_folder(folder: Path) -> None:
    """Makes a folder of this machine, and those on the way to it, for the owner only.

    What is there already keeps its rights.
    """
    # Of a mode that is given with `parents`, only the last folder would have it.
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)  # which tells what is in the way


def keep_private(path: Path) -> None:
    """Makes an empty file for its owner only, or takes the rights of others from one that is there.

    What is written into it afterwards was never open to others.
    """
    path.touch(mode=0o600)
    path.chmod(0o600)


def write_private(path: Path, data: bytes, replaces: bool = True) -> None:
    """Writes a file of this machine that only its owner reads: it appears whole, or not at all.

    Args:
        path: Where; folders that are not there are made, for the owner only.
        data: All of it.
        replaces: Whether what is there gives way; else it stays, whoever wrote it.
    """
    make_private_folder(path.parent)
    descriptor, fresh = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if replaces:
            os.replace(fresh, path)
        else:
            with contextlib.suppress(FileExistsError):  # another process was first: its text holds
                os.link(fresh, path)
    finally:
        Path(fresh).unlink(missing_ok=True)


def open_source(path: str) -> BinaryIO:
    """Opens a file for reading, decompressed if its name ends in `.gz`.

    Beam's own decompression takes a file that ends too early for a whole one, so it is not used.
    """
    raw = open_raw(path)
    return _Gunzipped(raw) if path.endswith(".gz") else raw


def position_in(stream: BinaryIO) -> int:
    """Returns how many bytes of a file were read, as they lie there, of one that is open.

    Args:
        stream: What `open_source` returned.
    """
    return stream.packed.tell() if isinstance(stream, _Gunzipped) else stream.tell()


class _Gunzipped(io.BufferedReader):
    """A gzip stream that says what is wrong with a damaged file in our own words."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__(_GunzippedRaw(raw), buffer_size=1 << 18)
        self.packed = raw


class _GunzippedRaw(io.RawIOBase):
    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._file = gzip.GzipFile(fileobj=raw, mode="rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            return self._file.readinto(buffer)
        except EOFError as error:
            raise InputSchemaError(
                "the gzip stream ends too early: the file is truncated"
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InputSchemaError("the file is no intact gzip stream") from error

    def close(self) -> None:
        with closing(self._raw):
            super().close()
