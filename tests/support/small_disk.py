"""A disk that is soon full."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 8 MB; the test is skipped where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place))
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(("umount", "--lazy", str(place)), check=True)
