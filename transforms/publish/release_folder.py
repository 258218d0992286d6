"""The folder of a release: its place, its files, and the one commit."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

from tracecloak.schemas.errors import RetryLater, TracecloakError, UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME, SIGNATURE_NAMES, OutputFile
from tracecloak.schemas.texts import bounded_json, n_values
from tracecloak.transforms import files
from tracecloak.transforms.formats.registry import FORMATS

# --- Where releases lie, and what their files are called. -----------------------------------------


# --- What the files of a release are called. ------------------------------------------------------


# The format of the parts of a log, from which the files of all others are written.
PARTS = "parquet"
DFG_NAME = "dfg.json"
STATEMENT_NAME = "statement.md"
REPORT_NAME = "report.html"


def part_name(number: int) -> str:
    """Returns the path of one part of the log."""
    return f"log/part-{number:05d}.parquet"


def log_name(kind: str) -> str:
    """Returns the path of the whole log in a format of releases that is not PARTS."""
    return f"log{FORMATS[kind].log_ending}"


# --- Which folders lie in each other: releases, their output, and what nobody may publish by it. --


_OF_RELEASE = "run_id="
_LARGEST_MANIFEST, _MOST_VALUES = 16 << 20, 1_000_000  # of what is asked, and of nothing else


def check_places(output: str, dead_letter: str | None) -> None:
    """Makes sure that no release lies in another, and that no rejects are published.

    Args:
        output: The folder of all releases.
        dead_letter: Folder for the places of malformed records, if one is named.

    Raises:
        UsageError: The output lies in a release, or the other one in either.
    """
    around = release_around(output)
    if around is not None:
        raise UsageError(
            f"output {output!r} is or lies in {around}, which is the folder of one release: "
            "whoever withdraws that one would remove this one, too; name as output a folder "
            "of all releases outside it"
        )
    if dead_letter is None:
        return
    around = output if is_within(dead_letter, output) else release_around(dead_letter, False)
    if around is not None:
        raise UsageError(
            f"dead_letter {dead_letter!r} is or lies in {around}, whose readers would find the "
            "places of malformed records there; name a folder outside it, or leave "
            "dead_letter out, for one beside the keys"
        )


def is_within(path: str, folder: str) -> bool:
    """Returns whether a path is a folder or lies in it, however both are written."""
    path, folder = (f"{files.absolute(one).rstrip('/')}/" for one in (path, folder))
    return path.startswith(folder)


def release_around(path: str, by_name: bool = True) -> str | None:
    """Returns the folder of a release that a path is or lies in; None: there is none.

    It is told by its name, `run_id=<id>`, and on this machine also by its manifest, as it may have
    been renamed.

    Args:
        path: On any file system.
        by_name: Whether the name alone is enough.
    """
    path = files.absolute(path)
    scheme, separator, rest = path.rpartition("://")
    parts = rest.rstrip("/").split("/")
    for n, part in enumerate(parts, 1):
        folder = f"{scheme}{separator}{'/'.join(parts[:n])}"
        if (by_name and part.startswith(_OF_RELEASE)) or _has_manifest(folder or "/"):
            return folder
    return None


def holds_releases(folder: str) -> bool:
    """Returns whether there are releases, or epochs of streams, in a folder as in an output."""
    release = f"{_OF_RELEASE}*"
    manifests = (release, MANIFEST_NAME), (release, "epoch=*", MANIFEST_NAME)
    return any(files.holds(folder, *names) for names in manifests)


def _has_manifest(folder: str) -> bool:
    """Returns whether a folder of this machine has a manifest of ours, which others have, too."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        about = (manifest := Path(folder) / MANIFEST_NAME).lstat()
        is_plain = stat.S_ISREG(about.st_mode) and about.st_size <= _LARGEST_MANIFEST
        if files.is_on_this_machine(folder) and is_plain:
            data = manifest.read_bytes()
            is_short = n_values(data) <= _MOST_VALUES
            return is_short and bool(bounded_json(data)["tool"]["name"] == "tracecloak")
    return False


# --- The folder of a release on any Beam file system: at once or not at all. ----------------------
# Files are written in a workplace of the run beside the output, `_incomplete-<name of the
# output>/<id>-<digest of output and key store>/`, which readers of data lakes skip for its
# underscore, and which on this machine only its owner can read. Its name is never that of a
# release, nor that of a workplace for another output, or of another key store: what is removed
# there was made for this release by this key store. Committing moves its folder `release` to
# `<output>/run_id=<id>/`: on a local disk in one rename with the manifest inside; elsewhere file
# by file with the manifest last, and what has no manifest is no release. `<output>/latest.json`
# is pointed at it afterwards.


LATEST_NAME = "latest.json"

Sign = Callable[[bytes], tuple[bytes, bytes]]


@dataclass(frozen=True)
class ReleaseFolder:
    """Where one release is built and where it will lie.

    Attributes:
        output: The folder of all releases.
        release_id: This release's name.
        staging_area: Folder of the workplaces of runs, on the file system of the output; None: one
            beside the output.
        attempt: Tells runs apart whose jobs may go on elsewhere when another run begins: each
            builds in a folder of its own. Empty: no earlier run is at work.
        store: Tells key stores apart that may release to one output under one id, see
            `KeyStore.identity`. Empty: nothing is built with a key, or by one key store alone.
    """

    output: str
    release_id: str
    staging_area: str | None = None
    attempt: str = ""
    store: str = ""

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
        return files.join(self.output, f"run_id={self.release_id}")

    @property
    def workplace(self) -> str:
        """The folder of what its runs need until it is finished or given up."""
        # Several outputs can share a staging area, several key stores an output, and their releases
        # can have the same id, so the folder's name has a digest of both.
        whose = f"{self.output}\n{self.store}" if self.store else self.output
        name = f"{self.release_id}-{hashlib.sha256(whose.encode()).hexdigest()[:8]}"
        return files.join(self.staging_area or beside(self.output), name)

    @property
    def staging(self) -> str:
        """The folder in which it is built."""
        name = f"release-{self.attempt}" if self.attempt else "release"
        return files.join(self.workplace, name)

    @property
    def decisions(self) -> str:
        """The folder of what its rounds decided."""
        return files.join(self.workplace, "decisions")

    @property
    def input(self) -> str:
        """The folder of what was fetched to be its input, where that lies nowhere else."""
        return files.join(self.workplace, "input")

    def prepare(self) -> None:
        """Makes the workplace, on this machine for its owner only, and looks whether it will do.

        Raises:
            UsageError: It cannot be made, belongs to somebody else, is among what was released, or
                is on another file system than the output, so that a release could not appear at
                once.
        """
        place = self.staging_area or beside(self.output)
        files.require_writable("staging_area", place)
        self.check_apart()
        if not files.is_on_this_machine(self.output):
            if not files.are_on_one(place, self.output):
                raise _unfit(place, "is on another file system than the output")
            return
        path = Path(self.workplace)
        try:
            while True:
                os.makedirs(path.parent, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # others removed it, being empty
                    path.mkdir(mode=0o700)
                    break
        except FileExistsError:
            if path.is_symlink() or not path.is_dir() or path.stat().st_uid != os.geteuid():
                raise _unfit(str(path), "belongs to somebody else") from None
            path.chmod(0o700)
        there = Path(self.output)
        while not there.exists():
            there = there.parent
        if there.stat().st_dev != path.stat().st_dev:
            path.rmdir()
            raise _unfit(place, "is on another file system than the output")

    def check_apart(self) -> None:
        """Makes sure that the staging area and the releases lie outside of each other.

        Raises:
            UsageError: They do not.
        """
        place = self.staging_area or beside(self.output)
        if self.staging_area is not None:
            if is_within(place, self.output):
                raise _unfit(place, "is the output or lies in it")
            if is_within(self.output, place):
                raise _unfit(place, "has the output in it")
        if release_around(place) is not None:
            raise _unfit(place, "lies in the folder of a release")
        if holds_releases(place):
            raise _unfit(place, "holds releases")

    def note_at_work(self) -> None:
        """Notes in the workplace that a job elsewhere may commit; the note goes with it."""
        note = b"A job elsewhere looks for this file before its release appears.\n"
        files.write_anew(self._note, note)

    def check_at_work(self) -> None:
        """Makes sure that the note is there still: workers elsewhere do not reach the ledger.

        Raises:
            UsageError: The workplace was cleared, as of a release that is given up or finished.
        """
        if not files.exists(self._note):
            raise UsageError(
                f"release {self.release_id!r} in {self.output} was ended meanwhile, so nothing of "
                "this job appears; run the command again, which says what became of it"
            )

    @property
    def _note(self) -> str:
        return files.join(self.workplace, "at-work")

    def committed(self) -> dict[str, Any] | None:
        """Returns the manifest if this release exists, else None."""
        data = files.read_if_there(files.join(self.final, MANIFEST_NAME))
        return None if data is None else cast(dict[str, Any], json.loads(data))

    def is_committed_with(self, key_fingerprint: str | None) -> bool:
        """Returns whether this release is there, made with a key.

        Raises:
            RetryLater: One is there that was made with another key, which is not replaced.
        """
        manifest = self.committed()
        if manifest is None:
            return False
        if key_fingerprint_of(manifest) != key_fingerprint:
            raise RetryLater(
                f"{self.final} has a release of another key store, which is not replaced; choose "
                "another release_id"
            )
        return True

    def discard(self) -> None:
        """Removes the files of a run that was cut off, and keeps what it decided."""
        files.remove_folder(self.staging)

    def clear(self, keeps_input: bool = False) -> None:
        """Removes the workplace: the release is finished, given up, or never drew anything.

        Args:
            keeps_input: Whether what was fetched stays, as a release of it is begun anew.
        """
        if keeps_input and files.exists(self.input):
            files.remove_folder(self.staging)
            files.remove_folder(self.decisions)
            return
        files.remove_folder(self.workplace)
        if self.staging_area is None and files.is_on_this_machine(self.output):
            with contextlib.suppress(OSError):  # others are at work in it
                os.rmdir(beside(self.output))

    def write(self, name: str, content: bytes | Callable[[BinaryIO], object]) -> OutputFile:
        """Writes a file into the staging folder; the same content gives the same file again.

        Args:
            name: Path relative to the release's folder.
            content: Its bytes, or what is called with a binary stream to write to.
        """
        with _HashingStream(files.create(files.join(self.staging, name))) as hashing:
            if isinstance(content, bytes):
                hashing.write(content)
            else:
                content(cast(BinaryIO, hashing))
        return OutputFile(name, hashing.digest.hexdigest(), hashing.n_bytes)

    def open(self, name: str) -> BinaryIO:
        """Opens a file of the staging folder for reading."""
        return files.open_raw(files.join(self.staging, name))

    def remove(self, names: Sequence[str]) -> None:
        """Removes files of the staging folder that are not to be released, and emptied folders."""
        paths = [files.join(self.staging, name) for name in names]
        files.delete_files(paths)
        if files.is_on_this_machine(self.staging):
            for folder in {os.path.dirname(path) for path in paths}:
                with contextlib.suppress(OSError):  # more is in it
                    os.rmdir(folder)

    def commit(self, manifest: dict[str, Any], sign: Sign | None = None) -> None:
        """Makes the staged files and the manifest appear as the release.

        Args:
            manifest: As JSON values.
            sign: Returns the signature of the manifest's bytes and the public key of who signs,
                each a file of its own beside it; None: nobody does.

        Raises:
            RetryLater: A release of another key is there, which stays.
        """
        if self.is_committed_with(key_fingerprint_of(manifest)):
            return
        names = [output["path"] for output in manifest["outputs"]]
        text = _json(manifest)
        signed = {} if sign is None else dict(zip(SIGNATURE_NAMES, sign(text), strict=True))
        for name, data in signed.items():
            self.write(name, data)
        names.extend(signed)
        if files.is_on_this_machine(self.output):
            if not all(os.path.exists(files.join(self.staging, name)) for name in names):
                raise TracecloakError(
                    f"files of the release vanished from {self.staging} before its commit; nothing "
                    "is released. Run the same command again"
                )
            self.write(MANIFEST_NAME, text)
            os.makedirs(self.output, exist_ok=True)
            files.rename([self.staging], [self.final])
        else:
            sources = [files.join(self.staging, name) for name in names]
            files.rename(sources, [files.join(self.final, name) for name in names])
            files.write_anew(files.join(self.final, MANIFEST_NAME), text)

    def point_latest(self) -> None:
        """Points `latest.json` at this release, unless it points at a later window."""
        other = self._latest()
        if other is not None and other != self.release_id:
            ours, others = (
                (folder.committed() or {}).get("window")
                for folder in (self, replace(self, release_id=other))
            )
            if ours and others and ours["begin"] < others["begin"]:
                return
        self._point_latest(self.release_id)

    def _latest(self) -> str | None:
        """Returns the release that `latest.json` points at; None: it points at none."""
        data = files.read_if_there(files.join(self.output, LATEST_NAME))
        release_id = None if data is None else json.loads(data).get("run_id")
        return None if release_id is None else str(release_id)

    def _point_latest(self, release_id: str) -> None:
        text = _json({"run_id": release_id, "path": f"run_id={release_id}"})
        target = files.join(self.output, LATEST_NAME)
        is_here = files.is_on_this_machine(self.output)
        fresh = files.join(self.workplace, LATEST_NAME) if is_here else target
        with contextlib.closing(files.create(fresh)) as stream:
            stream.write(text)
        if is_here:
            files.rename([fresh], [target])  # replaces the old pointer at once

    def withdraw(self, successor: str | None, internal: str) -> None:
        """Removes the release, what is internal of it, and what an earlier try left of both.

        Args:
            successor: The release that `latest.json` points at from now on if it points at this
                one; None: there is none, and it is removed.
            internal: Folder of what only the operator may read of it.
        """
        if self._latest() == self.release_id:
            if successor is None:
                files.delete_files([files.join(self.output, LATEST_NAME)])
            else:
                self._point_latest(successor)
        manifest = files.join(self.final, MANIFEST_NAME)
        if files.exists(manifest):  # without which the rest is no release
            files.delete_files([manifest])
        # Where version 0.1 kept what is internal.
        earlier = files.join(self.output, "_internal", f"run_id={self.release_id}")
        for folder in (self.final, internal, earlier):
            files.remove_folder(folder)
        self.clear()


def key_fingerprint_of(manifest: dict[str, Any]) -> str | None:
    """Returns which key a release was made with, by its manifest; None: it has none."""
    return cast("str | None", manifest.get("randomness", {}).get("key_fingerprint"))


def beside(output: str) -> str:
    """Returns where workplaces are unless a configuration says otherwise.

    Of an output that is all of a file system or of a bucket there is no place beside it.
    """
    scheme, separator, rest = output.rpartition("://")
    folder, slash, name = rest.rstrip("/").rpartition("/")
    if not name or (separator and not folder):
        return f"{output.rstrip('/')}/_incomplete"
    return f"{scheme}{separator}{folder}{slash}_incomplete-{name}"


def _unfit(place: str, what: str) -> UsageError:
    return UsageError(
        f"{place}, where releases are built before they are seen, {what}; name another folder on "
        "the file system of the output as staging_area"
    )


class _HashingStream(io.RawIOBase):
    """A write-only stream that keeps the digest and the size of what passes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.n_bytes = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.digest.update(view)
        self._stream.write(view)
        self.n_bytes += view.nbytes
        return view.nbytes

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.n_bytes

    def close(self) -> None:
        super().close()
        self._stream.close()


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
