"""Builds the distributions, and tries the wheel where nothing else is.

`python -m deploy.check_wheel` builds the sdist and the wheel of the files of the checkout, and a
second wheel of the sdist. Both distributions are checked as an index checks them, and the wheels
must hold every file of the package's folders that git knows, as `tracecloak/…`, and nothing else.
The wheel is then installed in a fresh environment and used in a folder in which somebody else has
packages with the names of our folders.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.oldest import distribution

ROOT = Path(__file__).parents[1]
_MOST_KEYS = 3
# A released frame in three lines, with what the wheel installs alone.
_OF_FRAME = """\
import sys, tracecloak, pyarrow.csv
frame = pyarrow.csv.read_csv("hospital.csv")
released = tracecloak.release(frame, method="private-log", epsilon=1, vocabulary="activities.txt")
assert released.log.num_rows and released.log.schema.names == frame.schema.names
assert "apache_beam" not in sys.modules
"""
# A release within a pipeline of somebody's own; its first argument is the key store.
_IN_BEAM = """\
import sys
import apache_beam as beam
from tracecloak import AnonymizeEventLog
claims = [
    {"claim": f"c-{claim}", "step": step, "at": f"2026-03-02T{hour:02d}:00:00Z"}
    for claim in range(5) for hour, step in enumerate(("Register", "Check", "Pay"), 9)
]
anonymize = AnonymizeEventLog(
    "amun", guessing_advantage=0.4, release_id="claims", case_id="claim", activity="step",
    timestamp="at", key_store=sys.argv[1], new_ledger=True,
)
with beam.Pipeline(runner="FnApiRunner") as pipeline:
    lines = pipeline | beam.Create(claims) | anonymize | beam.Map(lambda event: event.activity)
    _ = lines | beam.io.WriteToText(sys.argv[2], file_name_suffix=".txt")
"""
# What a type checker finds by the wheel alone: the last line is wrong.
_TYPED = """\
from typing import Any
import tracecloak
def released(frame: Any) -> tracecloak.Released[Any]:
    return tracecloak.release(frame, method="private-log", epsilon=1)
def misspelt(frame: Any) -> tracecloak.Released[Any]:
    return tracecloak.release(frame, method="private-log", epsilonn=1)
"""
_OF_SOMEBODY_ELSE = (
    *("schemas", "anonymizers", "transforms", "pipelines", "examination", "tests"),
)


def copied(to: Path) -> list[str]:
    """Copies what git knows or would know of the checkout, and returns the names.

    What earlier builds and installs left in it, `build/` and `*.egg-info`, would come into the
    distributions.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    # One that was deleted and not committed is neither.
    names = [n for n in listed.split("\0") if (ROOT / n).is_file() or (ROOT / n).is_symlink()]
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, to / name, follow_symlinks=False)
    return names


def built(source: Path, folder: Path, temporary: Path) -> Path:
    """Builds the sdist and the wheel into a folder and returns the wheel.

    Raises:
        SystemExit: A build failed, or the wheel of the sdist differs from that of the checkout.
    """
    shutil.rmtree(folder, ignore_errors=True)
    _build(source, folder, "--sdist", "--wheel")
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    shutil.unpack_archive(sdist, temporary / "unpacked", filter="data")
    (unpacked,) = (temporary / "unpacked").iterdir()
    _build(unpacked, temporary / "again", "--wheel")
    (again,) = (temporary / "again").glob("*.whl")
    if _contents(again) != _contents(wheel):
        different = dict(_contents(again).items() ^ _contents(wheel).items())
        raise SystemExit(f"the wheel of the sdist has other contents: {sorted(different)}")
    return wheel


def _build(source: Path, folder: Path, *forms: str) -> None:
    """Builds in environments of their own, which download setuptools.

    So the distributions are made by what pyproject.toml names, not by what is installed here.
    """
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, *forms, source],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"the build of {' '.join(forms)} failed:\n{done.stderr[-4000:]}")


def check_index(folder: Path) -> None:
    """Asks of the distributions what a package index asks: metadata, and a README that renders.

    Raises:
        SystemExit: One would be refused.
    """
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *sorted(folder.iterdir())],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"an index would refuse the distributions:\n{done.stdout[-4000:]}")


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def of_the_package(names: Sequence[str], source: Path) -> dict[str, Path]:
    """Returns the files that a wheel must hold, by their names in it.

    Args:
        names: What git knows of the checkout.
        source: A copy of it.
    """
    folders = {"tracecloak": "tracecloak", **distribution().package_dir}
    places = {f"{folder}/": f"{name.replace('.', '/')}/" for name, folder in folders.items()}
    links = {place.rstrip("/") for place in places.values()}
    return {
        f"{place}{name.removeprefix(folder)}": source / name
        for folder, place in places.items()
        for name in names
        if name.startswith(folder) and name not in links
    }


def check_contents(wheel: Path, names: Sequence[str], source: Path) -> None:
    """Compares the wheel with what git knows of the package.

    Raises:
        SystemExit: A file lacks, is too many or is not the one of the checkout.
    """
    expected = {name: path.read_bytes() for name, path in of_the_package(names, source).items()}
    found = {name: data for name, data in _contents(wheel).items() if ".dist-info/" not in name}
    if found != expected:
        different = sorted(dict(found.items() ^ expected.items()))
        raise SystemExit(f"the wheel is not the package's folders: {different}")
    if tops := {name.split("/")[0] for name in found} - {"tracecloak"}:
        raise SystemExit(f"the wheel installs other top-level names: {sorted(tops)}")


def needed(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """Returns the installed distributions that requirements ask for, and those that these ask for.

    Raises:
        PackageNotFoundError: One is not installed.
    """
    environment = {name: str(value) for name, value in default_environment().items()}
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [(Requirement(text), "") for text in requirements]
    while left:
        requirement, extra = left.pop()
        if requirement.marker and not requirement.marker.evaluate({**environment, "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        found[name] = metadata.distribution(name)
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                left += [(Requirement(text), wanted) for text in found[name].requires or ()]
    return found


def environment(wheel: Path, folder: Path) -> Path:
    """Makes an environment with the wheel and what it needs, and returns its Python.

    It has links to the files of the distributions that the wheel asks for, and to no others of the
    environment that this runs in: a fresh download would take minutes and say the same, but for
    what the package index gives today, which the environment of the checkout says.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    (packages,) = folder.glob("lib/python*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
         "--disable-pip-version-check", "--no-deps", "--no-index", wheel],
        check=True,
    )  # fmt: skip
    (installed,) = packages.glob("tracecloak-*.dist-info")
    for one in needed(metadata.Distribution.at(installed).requires or []).values():
        for file in one.files or ():
            if ".." in file.parts:  # a command or a man page
                continue
            (packages / file).parent.mkdir(parents=True, exist_ok=True)
            (packages / file).symlink_to(Path(str(one.locate_file(file))).resolve())
    return python


def check_use(python: Path, folder: Path) -> None:
    """Uses the installed wheel as somebody would who has folders of the same names.

    Raises:
        CalledProcessError: A command failed.
        SystemExit: A command left something out, or the version is another.
    """
    for name in _OF_SOMEBODY_ELSE:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(
            f"raise ImportError('{name} of somebody else')\n"
        )
    key_store = {"TRACECLOAK_KEY_STORE": str(folder / "key-store"), "HOME": str(folder)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [python, "-m", *arguments],
            cwd=folder, env={**kept, **key_store}, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode != code:
            raise SystemExit(
                f"python -m {' '.join(arguments)} ended with {done.returncode}, not {code}:\n"
                f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            )
        return done.stdout + done.stderr

    version = distribution().get_version()
    if version not in run("tracecloak", "--version"):
        raise SystemExit(f"python -m tracecloak --version does not say {version}")
    log = ("--log", "hospital.xes.gz", "--vocabulary", "activities.txt", "--epsilon", "1")
    run("tracecloak", "sample", "--cases", "200", "--output", log[1], *log[2:4])
    run(
        "tracecloak", "release", *log, "--method", "private-log", "--output", "releases",
        "--release_id", "r1", "--direct_running_mode", "multi_processing",
        "--direct_num_workers", "2", "--new_ledger",
    )  # fmt: skip
    for name in ("manifest.json", "statement.md", "log.xes.gz"):
        if not (folder / "releases" / "run_id=r1" / name).is_file():
            raise SystemExit(f"the release has no {name}")
    run("tracecloak", "sample", "--cases", "400", "--output", "hospital.csv")
    (folder / "of_frame.py").write_text(_OF_FRAME)
    run("of_frame")
    (folder / "in_beam.py").write_text(_IN_BEAM)
    # Of its few cases noise may leave none under some keys.
    for number in range(_MOST_KEYS):
        written = f"claims-{number}"
        run("in_beam", f"keys-{number}", written)
        if any(path.read_text() for path in folder.glob(f"{written}*.txt")):
            break
    else:
        raise SystemExit("the pipeline wrote nothing")
    # The environment has no extras, and what needs one says how to get it.
    said = run(
        "tracecloak", "evaluate", "--log", log[1], "releases",
        "--output", "evaluation.json", code=2,
    )  # fmt: skip
    if "run pip install 'POT" not in said:
        raise SystemExit(f"evaluate does not name the extra that it needs:\n{said}")


def check_types(python: Path, folder: Path) -> None:
    """Makes sure that the installed wheel is typed.

    Raises:
        SystemExit: Mypy finds another error than the one that is there, or none.
    """
    (folder / "typed.py").write_text(_TYPED)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "typed.py"]
    found = subprocess.run(mypy, cwd=folder, capture_output=True, text=True).stdout
    if "typed.py:6: error: " not in found or "Found 1 error in 1 file" not in found:
        raise SystemExit(f"mypy finds by the wheel:\n{found}")


def main() -> None:
    """Builds, checks, and leaves the distributions in the folder that `--output` names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "dist")
    folder = parser.parse_args().output
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        names = copied(temporary / "source")
        wheel = built(temporary / "source", folder, temporary)
        check_index(folder)
        check_contents(wheel, names, temporary / "source")
        python = environment(wheel, temporary / "venv")
        check_use(python, temporary / "elsewhere")
        check_types(python, temporary)
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


if __name__ == "__main__":
    main()
