"""A checkout in which git made text files of the links of the package, as an archive has them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.check_wheel import check_contents, copied, environment
from tests.support.reach import LAYERS as PACKAGES

ROOT = Path(__file__).parents[1]
# What an import finds, and what it must not although it lies next to the folders.
FOUND = [f"tracecloak.{name}" for name in PACKAGES]
OTHERS = [f"tracecloak.{name}" for name in ("tests", "deploy", "docs", "setup")]
PROBE = """\
import importlib.resources, importlib.util, pickle, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
import tracecloak
from tracecloak.schemas.errors import UsageError
assert importlib.resources.files("tracecloak.schemas.files").joinpath("event.avsc").is_file()
assert pickle.loads(pickle.dumps(UsageError)) is UsageError
print(found, tracecloak.METHODS["private-dfg"].version, sys.modules[UsageError.__module__].__file__)
"""


def run(*words: object, cwd: Path, code: int = 0, **settings: str) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd, capture_output=True, text=True, timeout=240,
        env={n: v for n, v in os.environ.items() if not n.startswith("PYTHON")} | settings,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A repository with the files of this checkout, also those not committed, and their names."""
    source = tmp_path_factory.mktemp("repository")
    found = copied(source)
    run("git", "init", "--quiet", cwd=source)
    run("git", "add", "--all", "--force", cwd=source)
    run("git", "-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x", cwd=source)
    return source, found


@pytest.fixture(scope="module")
def clone(names: tuple[Path, list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cloned") / "checkout"
    run("git", "clone", "-qc", "core.symlinks=false", names[0], folder, cwd=ROOT)
    assert all((folder / "tracecloak" / name).is_file() for name in PACKAGES)
    return folder


def wheel_of(checkout: Path, folder: Path, kind: str = "wheel") -> Path:
    code = f"import sys; from setuptools.build_meta import build_{kind} as b; b(sys.argv[1])"
    run(sys.executable, "-c", code, folder, cwd=checkout)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_a_clone_is_built_installed_and_does_what_the_readme_says(
    clone: Path, names: tuple[Path, list[str]], tmp_path: Path
) -> None:
    """Where it is, as a wheel, and as an editable install in the same environment."""
    asked = (sys.executable, "-c", PROBE, *FOUND, *OTHERS)
    told = run(*asked, cwd=tmp_path, PYTHONPATH=str(clone))
    assert told.startswith(f"{FOUND} ") and told.endswith(f" {clone}/schemas/errors.py\n")
    wheel = wheel_of(clone, tmp_path)
    check_contents(wheel, names[1], names[0])
    python = environment(wheel, tmp_path / "venv")
    home = {"HOME": str(tmp_path), "PATH": f"{python.parent}:{os.environ['PATH']}"}
    readme = (clone / "README.md").read_text()
    (commands,) = (
        block
        for block in re.findall(r"^```bash\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
        if "tracecloak release" in block
    )
    run("sh", "-ec", commands, cwd=tmp_path, **home)
    run("tracecloak", "verify", "releases/run_id=graph-1", cwd=tmp_path, **home)
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--force-reinstall")
    (tmp_path / "editable").mkdir()
    editable = wheel_of(clone, tmp_path / "editable", "editable")
    run(*pip, "--no-deps", "--no-index", editable, cwd=tmp_path)
    told = run(python, "-c", PROBE, *FOUND, *OTHERS, *PACKAGES, cwd=tmp_path)
    assert told.startswith(f"{FOUND} ") and told.endswith(f" {clone}/schemas/errors.py\n")
    assert run("git", "status", "--porcelain", cwd=clone) == ""
