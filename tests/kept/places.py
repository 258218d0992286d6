"""What each version left behind, put where it lay when it was recorded.

Receipts, charges and the names of keys hold the absolute path of an output, so what is kept of a
version is found again only there. Each scenario has a folder of its own under HOME, which one test
at a time unpacks, uses and removes.
"""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOME = Path("/tmp/tracecloak-kept")
"""Fixed, as it stands in what is recorded."""
ARCHIVES = Path(__file__).parent
ENDING = ".tar.xz"


def versions() -> list[str]:
    """The versions of which something is kept, by their names."""
    return sorted(path.name.removesuffix(ENDING) for path in ARCHIVES.glob(f"*{ENDING}"))


def archive_of(version: str) -> Path:
    """Where is kept what a version left behind."""
    return ARCHIVES / f"{version}{ENDING}"


@contextmanager
def scenario(version: str, name: str) -> Iterator[Path]:
    """Unpacks one scenario of a version where it lay, for as long as the block runs."""
    with alone(version, name) as folder, tarfile.open(archive_of(version)) as archive:
        members = [m for m in archive.getmembers() if Path(m.name).parts[0] == name]
        archive.extractall(folder.parent, members, filter="tar")
        yield folder


@contextmanager
def alone(version: str, name: str) -> Iterator[Path]:
    """The empty place of a scenario, which nobody else on this machine uses meanwhile."""
    place = HOME / version
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = place / name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
