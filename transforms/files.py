"""Reading and writing files: local files without Beam, others by its file systems."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tracecloak.schemas.errors import UsageError, import_extra

if TYPE_CHECKING:
    from apache_beam.io.filesystems import FileSystems

# --- Beam's file systems elsewhere: whether they can be reached, and what their errors may tell. --


# The module that a file system of Beam's needs, and what installs it, by the scheme of its paths.
_FILE_SYSTEMS = {
    "azfs": ("azure.storage.blob", "azure-storage-blob", "azure"),
    "gs": ("google.cloud.storage", "google-cloud-storage", "gcp"),
    "s3": ("boto3", "boto3", "aws"),
}
# Beam moves a blob by a copy that Azure may still be making when it deletes what is copied, so
# these are what may lie there.
_OF_AZURE = ("log", "release")
_HDFS = "pip install 'apache-beam[hadoop]', `--hdfs_host`, `--hdfs_port` and `--hdfs_user`"
_OFFERED = "name one on this machine, such as where it is mounted, or one of gs:// and s3://"


def _beam() -> type[FileSystems]:
    """Returns Beam's file systems, which what is on this machine does not load."""
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def class_of(error: BaseException) -> str:
    """Returns the class of an error of a file system, which Beam wraps: its text could be data."""
    while details := getattr(error, "exception_details", None):
        error = next(iter(details.values()))
    return type(error).__name__


# --- Reading and writing files: this machine's without Beam, those of its file systems with it. ---


_SCHEME = re.compile(r"\s*[a-zA-Z][-a-zA-Z0-9+.]*://")


def is_on_this_machine(path: str) -> bool:
    """Returns whether a path is one of this machine, and not of another file system of Beam's."""
    return _SCHEME.match(path) is None


def absolute(path: str) -> str:
    """Returns the one path of a folder: locks, receipts and charges are found by it."""
    return str(Path(path).resolve()) if is_on_this_machine(path) else path


def join(folder: str, *names: str) -> str:
    """Returns the path of what lies in a folder, on any file system."""
    if is_on_this_machine(folder):
        return os.path.join(folder, *names)
    return str(_beam().join(folder, *names))


def exists(path: str) -> bool:
    """Returns whether a file is there, or on this machine a folder."""
    if is_on_this_machine(path):
        return os.path.exists(path)
    return bool(_beam().exists(path))


def are_on_one(path: str, other: str) -> bool:
    """Returns whether the schemes of two paths are those of one file system."""
    if is_on_this_machine(path) or is_on_this_machine(other):
        return is_on_this_machine(path) and is_on_this_machine(other)
    return bool(_beam().get_scheme(path) == _beam().get_scheme(other))


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
    if scheme == "azfs" and name not in _OF_AZURE:
        raise UsageError(
            f"{name} {path!r}: on azfs:// logs are read and nothing is written; {_OFFERED}"
        )
    if scheme in _FILE_SYSTEMS:
        module, library, extra = _FILE_SYSTEMS[scheme]
        import_extra(module, f"{name} {path!r}", library, extra)
    try:
        FileSystems.get_filesystem(path)
    except (ValueError, OSError, ImportError):
        hint = f", or try (untested) {_HDFS}" if scheme == "hdfs" else ""
        raise UsageError(
            f"{name} {path!r} is on a file system that Beam cannot open here; {_OFFERED}{hint}"
        ) from None
    if FileSystems._pipeline_options is None:
        # Without any, some file systems cannot be asked before there is a pipeline.
        FileSystems.set_options(PipelineOptions([]))


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
            reason = class_of(error)
    raise UsageError(f"{name} {folder!r} cannot be written: {reason}; name another")


def require_folder_of(name: str, path: str) -> None:
    """Makes sure that a file of this machine can be made where it is named: its folder is there.

    Raises:
        UsageError: It is not; names the key.
    """
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"{name}: the folder of {path!r} is not there; make it first")


def open_raw(path: str) -> BinaryIO:
    """Opens a file for reading, as it is."""
    if is_on_this_machine(path):
        return Path(path).open("rb")
    from apache_beam.io.filesystem import CompressionTypes

    return _beam().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def read_if_there(path: str) -> bytes | None:
    """Returns the content of a file, or None if it does not exist."""
    if not exists(path):
        return None
    with open_raw(path) as stream:
        return stream.read()


def create(path: str) -> BinaryIO:
    """Opens a file for writing, in place of what is there, and makes the folders on the way."""
    if is_on_this_machine(path):
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
        return Path(path).open("wb")
    from apache_beam.io.filesystem import CompressionTypes

    return _beam().create(path, compression_type=CompressionTypes.UNCOMPRESSED)


def rename(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Moves files within a file system; on this machine each appears at once, a folder as well."""
    if all(map(is_on_this_machine, sources)):
        for source, target in zip(sources, targets, strict=True):
            os.rename(source, target)
        return
    _beam().rename(list(sources), list(targets))


def remove_folder(folder: str) -> None:
    """Removes a folder with all that is in it, if it is there."""
    if is_on_this_machine(folder):
        if os.path.isdir(folder):
            shutil.rmtree(folder)
        return
    files = _beam().match([_beam().join(folder, "**")])[0].metadata_list
    if files:
        _beam().delete([file.path for file in files])


def holds(folder: str, *names: str) -> bool:
    """Returns whether there is something in a folder, by patterns of one name after the other."""
    if is_on_this_machine(folder):
        return any(Path(folder).glob("/".join(names)))
    return bool(_beam().match([_beam().join(folder, *names)], [1])[0].metadata_list)


def holds_files(folder: str) -> bool:
    """Returns whether there is a file in a folder, at any depth."""
    if is_on_this_machine(folder):
        return any(names for _, _, names in os.walk(folder))
    return holds(folder, "**")


def names_in(folder: str) -> list[str]:
    """Returns the names of the files that lie in a folder itself; none: it is not there."""
    if is_on_this_machine(folder):
        with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_file()]
        return []
    listed = _beam().match([f"{folder.rstrip('/')}/*"])[0].metadata_list
    return [file.path.rpartition("/")[2] for file in listed]


def delete_files(paths: Sequence[str]) -> None:
    """Deletes files, those that are gone aside."""
    here = [path for path in paths if is_on_this_machine(path)]
    for path in here:
        Path(path).unlink(missing_ok=True)
    elsewhere = [path for path in paths if path not in here]
    if elsewhere:
        _beam().delete(elsewhere)


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
    with closing(create(path)) as stream:
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


def sync_folder(folder: Path) -> None:
    """Makes sure that the names in a folder of this machine survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_private(path: Path, data: bytes, replaces: bool = True, mode: int = 0o600) -> None:
    """Writes a file of this machine that only its owner reads: it appears whole, or not at all.

    Args:
        path: Where; folders that are not there are made, for the owner only.
        data: All of it.
        replaces: Whether what is there gives way; else it stays, whoever wrote it.
        mode: Its rights, for a file that others read, too.
    """
    make_private_folder(path.parent)
    descriptor, fresh = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(fresh, mode)
        if replaces:
            os.replace(fresh, path)
        else:
            with contextlib.suppress(FileExistsError):  # another process was first: its text holds
                os.link(fresh, path)
    finally:
        Path(fresh).unlink(missing_ok=True)
