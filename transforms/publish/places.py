"""Which folders lie in each other: releases, their output, and what nobody may publish by it."""

from __future__ import annotations

import stat
from pathlib import Path

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.published.manifest import MANIFEST_NAME
from tracecloak.schemas.texts.bounded_json import bounded_json, n_values
from tracecloak.transforms.files import absolute, is_on_this_machine

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
            "whoever withdraws that one would remove this one, too; name a folder of all releases "
            "outside it with --output"
        )
    if dead_letter is None:
        return
    around = output if is_within(dead_letter, output) else release_around(dead_letter, False)
    if around is not None:
        raise UsageError(
            f"dead_letter {dead_letter!r} is or lies in {around}, whose readers would find the "
            "places of malformed records there; name a folder outside it with --dead_letter, or "
            "leave it out, for one beside the keys"
        )


def is_within(path: str, folder: str) -> bool:
    """Returns whether a path is a folder or lies in it, however both are written."""
    return _slashed(path).startswith(_slashed(folder))


def release_around(path: str, by_name: bool = True) -> str | None:
    """Returns the folder of a release that a path is or lies in; None: there is none.

    It is told by its name, `run_id=<id>`, and on this machine also by its manifest, as it may have
    been renamed.

    Args:
        path: On any file system.
        by_name: Whether the name alone is enough.
    """
    path = absolute(path)
    scheme, separator, rest = path.rpartition("://")
    parts = rest.rstrip("/").split("/")
    for n, part in enumerate(parts, 1):
        folder = f"{scheme}{separator}{'/'.join(parts[:n])}"
        if (by_name and part.startswith(_OF_RELEASE)) or _has_manifest(folder or "/"):
            return folder
    return None


def holds_releases(folder: str) -> bool:
    """Returns whether there are releases, or epochs of streams, in a folder as in an output."""
    for names in ((MANIFEST_NAME,), ("epoch=*", MANIFEST_NAME)):
        if is_on_this_machine(folder):
            is_any_there = any(Path(folder).glob("/".join((f"{_OF_RELEASE}*", *names))))
        else:
            from apache_beam.io.filesystems import FileSystems

            pattern = FileSystems.join(folder, f"{_OF_RELEASE}*", *names)
            is_any_there = bool(FileSystems.match([pattern], [1])[0].metadata_list)
        if is_any_there:
            return True
    return False


def _slashed(path: str) -> str:
    return absolute(path).rstrip("/") + "/"


def _has_manifest(folder: str) -> bool:
    """Returns whether a folder of this machine has a manifest of ours, which others have, too."""
    if not is_on_this_machine(folder):
        return False
    try:
        manifest = Path(folder) / MANIFEST_NAME
        about = manifest.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST_MANIFEST:
            return False
        data = manifest.read_bytes()
        is_short = n_values(data) <= _MOST_VALUES
        return is_short and bool(bounded_json(data)["tool"]["name"] == "tracecloak")
    except (OSError, ValueError, TypeError, KeyError):
        return False
