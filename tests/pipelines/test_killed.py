"""A run killed at any step leaves nothing that a reader could take for a release, or all of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.releasing import csv_log, digests, manifest, small_rows

# Runs the command in a process that kills itself just before or after a step.
_KILLING = """
import os, signal, sys
from anonymizers.randomness import ReleaseKey
from pipelines import cli, release
from pipelines.key_store import KeyStore
from transforms.release_folder import ReleaseFolder
import transforms.release_files as files

ReleaseKey.generate = classmethod(lambda cls: cls(b"k" * 32))
STEPS = {
    "reserve": (KeyStore, "reserve"),
    "write": (ReleaseFolder, "write"),
    "commit": (ReleaseFolder, "commit"),
    "latest": (ReleaseFolder, "point_latest"),
    "receipt": (KeyStore, "commit"),
}

def dying(original, when):
    def step(*arguments, **named):
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)
    return step

when, _, name = sys.argv[1].partition("-")
if name:
    owner, attribute = STEPS[name]
    setattr(owner, attribute, dying(getattr(owner, attribute), when))
sys.exit(cli.main(sys.argv[2:]))
"""


def run(kill: str, log: Path, out: Path, runner: str) -> int:
    arguments = [
        "release", "--input", log, "--output", out, "--key_store", out.parent / f"{out.name}-keys",
        "--method", "amun", "--release_id", "r", "--runner", runner, "--parts", "2",
    ]  # fmt: skip
    command = [sys.executable, "-c", _KILLING, kill, *map(str, arguments)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, timeout=120
    )
    return done.returncode


def visible(out: Path) -> list[Path]:
    """What a reader of the data lake sees: files outside folders that begin with an underscore."""
    return [
        path
        for path in out.rglob("*")
        if path.is_file() and not any(part.startswith("_") for part in path.relative_to(out).parts)
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return csv_log(tmp_path / "log.csv", list(small_rows()))


STEPS = ("reserve", "write", "commit", "latest", "receipt")
KILLS = [f"{when}-{step}" for step in STEPS for when in ("before", "after")]


@pytest.mark.parametrize("kill", KILLS)
def test_a_killed_run_shows_all_or_nothing_and_the_next_one_completes_it(
    tmp_path: Path, log: Path, kill: str
) -> None:
    assert run("none", log, tmp_path / "whole", "InMemory") == 0
    expected = digests(tmp_path / "whole" / "run_id=r")

    out = tmp_path / "out"
    assert run(kill, log, out, "InMemory") == -signal.SIGKILL
    committed = kill in (
        "after-commit",
        "before-latest",
        "after-latest",
        "before-receipt",
        "after-receipt",
    )
    if committed:
        assert digests(out / "run_id=r") == expected
        assert manifest(out / "run_id=r")["release_id"] == "r"
    else:
        assert visible(out) == []
    # The same run again: the noise is keyed, so it is the same release and not a second draw.
    assert run("none", log, out, "InMemory") == 0
    assert digests(out / "run_id=r") == expected
    assert sorted(p.name for p in out.iterdir() if not p.name.startswith("_")) == [
        "latest.json",
        "run_id=r",
    ]
    assert not list((tmp_path / "out-keys").rglob("*.key"))


@pytest.mark.parametrize("kill", ["after-write", "before-commit", "after-commit"])
def test_a_killed_pipeline_on_beam_shows_all_or_nothing(
    tmp_path: Path, log: Path, kill: str
) -> None:
    out = tmp_path / "out"
    assert run(kill, log, out, "FnApiRunner") == -signal.SIGKILL
    assert bool(visible(out)) == (kill == "after-commit")
    assert run("none", log, out, "FnApiRunner") == 0
    assert manifest(out / "run_id=r")["release_id"] == "r"


def test_after_a_kill_a_changed_input_is_refused_under_the_same_id(
    tmp_path: Path, log: Path
) -> None:
    out = tmp_path / "out"
    assert run("before-commit", log, out, "InMemory") == -signal.SIGKILL
    csv_log(log, list(small_rows(11)))
    assert run("none", log, out, "InMemory") == 2
    assert visible(out) == []
