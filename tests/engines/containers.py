"""tracecloak's image as `deploy/Dockerfile` builds it, without a registry of images, and run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines import fetching
from tests.support.releasing import ROOT

_BASE, _IMAGE = "localhost/base:latest", "localhost/tracecloak:latest"
_BUILD_SECONDS, _RUN_SECONDS = 900, 300
# No capabilities, nothing to write to but what is mounted and /tmp, and no more open files and
# processes than a sandbox may give: podman asks for a million.
_LOCKED = (
    "--rm", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges",
    "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024",
)  # fmt: skip


@dataclass(frozen=True)
class Image:
    """The image, in a storage of its own."""

    podman: tuple[str, ...]

    def run(
        self,
        *words: object,
        entrypoint: str = "tracecloak",
        mounts: Mapping[Path, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program in a container, and returns how it ended."""
        options = [*_mounted(mounts or {}), "--network=none", f"--entrypoint={entrypoint}"]
        return subprocess.run(
            [*self.podman, "run", *_LOCKED, *options, _IMAGE, *map(str, words)],
            capture_output=True, text=True, timeout=_RUN_SECONDS,
        )  # fmt: skip


@contextmanager
def tracecloak_image(folder: Path) -> Iterator[Image]:
    """Builds the image of this checkout, and removes it behind the block."""
    if shutil.which("podman") is None:
        raise fetching.UnavailableError("there is no podman on this machine")
    base = fetching.image_base()
    storage = ["--root", str(folder / "storage"), "--runroot", str(folder / "run")]
    # Podman's own choice, crun, refuses machines that have both versions of control groups.
    runtime = ["--runtime", "runc"] if shutil.which("runc") else []
    podman = ("podman", *storage, *runtime)
    settings = folder / "pip.conf"
    settings.write_text(_pip_settings())
    mounted = {settings: "/etc/pip.conf:ro"}
    for certificates in re.findall(r"^cert=(.+)$", settings.read_text(), re.MULTILINE):
        mounted[Path(certificates)] = f"{certificates}:ro"
    try:
        _build(*podman, "import", str(base), _BASE)
        _build(
            *podman, "build", "--isolation=chroot", f"--from={_BASE}",
            f"--build-arg=BEAM_DIGEST=sha256:{'0' * 64}", *_mounted(mounted),
            f"--tag={_IMAGE}", f"--file={ROOT / 'deploy' / 'Dockerfile'}", str(ROOT),
        )  # fmt: skip
        yield Image(podman)
    finally:
        subprocess.run([*podman, "rmi", "--all", "--force"], capture_output=True)
        shutil.rmtree(folder / "storage", ignore_errors=True)


def _mounted(mounts: Mapping[Path, str]) -> list[str]:
    return [f"--volume={source}:{target}" for source, target in mounts.items()]


def _pip_settings() -> str:
    """The settings of this machine's pip, such as where its registry is, as a file of them."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    settings = dict(re.findall(r"^[\w:-]+\.([\w-]+)='(.*)'$", listed.stdout, re.MULTILINE))
    return "\n".join(["[global]", *(f"{name}={value}" for name, value in settings.items()), ""])


def _build(*command: str) -> None:
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", timeout=_BUILD_SECONDS,
    )  # fmt: skip
    if ended.returncode:
        raise RuntimeError(f"podman failed:\n{ended.stdout[-4_000:]}")
