"""An older build of tracecloak, out of the history of this checkout: it leaves state behind."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from tests.engines.fetching import UnavailableError
from tests.support.releasing import ROOT

# What says how the state of a stream on Beam, and all that is under way in it, becomes bytes.
STATE = (
    "transforms/stream/beam_stages.py",
    "transforms/stream/read_kafka.py",
    "transforms/arrow_coder.py",
    "schemas/arrays/columnar.py",
    "schemas/streams",
)


def before_last_change(folder: Path, *paths: str) -> Path:
    """Puts the checkout as it was before the last commit that changed some paths into a folder."""
    (change,) = _git("log", "-1", "--format=%H", "--", *paths).decode().split() or [""]
    if not change:
        raise UnavailableError(f"no commit of this checkout changed {', '.join(paths)}")
    archive = _git("archive", "--format=tar", f"{change}^")
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(folder, filter="data")
    return folder


def _git(*arguments: str) -> bytes:
    try:
        ended = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    except FileNotFoundError:
        raise UnavailableError("there is no git on this machine") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise UnavailableError(f"git knows no older build here: {said[:300]}") from None
    return ended.stdout
