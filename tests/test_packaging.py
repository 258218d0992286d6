"""The package, the image and the documents name what is there."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from tracecloak.schemas.published.guarantee import Kind

ROOT = Path(__file__).parents[1]


def packages() -> list[str]:
    found = re.search(r"packages=\[(.*?)\]", (ROOT / "setup.py").read_text(), re.DOTALL)
    assert found
    return re.findall(r'"([\w.]+)"', found[1])


def test_every_package_is_installed() -> None:
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for top in ("schemas", "anonymizers", "transforms", "pipelines")
        for path in (ROOT / top).rglob("__init__.py")
    }
    assert set(packages()) == folders


@pytest.mark.parametrize("package", ["schemas", "transforms"])
def test_the_data_files_of_a_package_are_installed(package: str) -> None:
    setup = (ROOT / "setup.py").read_text()
    patterns = re.search(rf'package_data=\{{.*?"{package}": \[(.*?)\]', setup, re.DOTALL)
    assert patterns
    globs = re.findall(r'"(.+?)"', patterns[1])
    covered = {path for glob in globs for path in (ROOT / package).glob(glob)}
    others = {
        path
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert covered == others


def test_the_image_is_pinned_to_the_tested_beam_and_runs_without_privileges() -> None:
    """A linter of the few rules that matter here; there is no engine to build with."""
    lines = [
        line
        for line in (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    steps = [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]
    assert {name for name, _ in steps} <= {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT"}
    version = re.search(r"apache-beam>=([\d.]+),", (ROOT / "setup.py").read_text())
    assert version
    assert steps[0] == ("FROM", f"apache/beam_python3.11_sdk:{version[1]}.0")
    sources = [word for name, rest in steps if name == "COPY" for word in rest.split()[:-1]]
    assert all((ROOT / source).exists() for source in sources)
    assert {package.split(".")[0] for package in packages()} <= set(sources)
    users = [rest for name, rest in steps if name == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    assert steps[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')


def test_every_command_of_the_readme_exists() -> None:
    from tracecloak.pipelines.commands.table import COMMANDS

    text = (ROOT / "README.md").read_text()
    commands = set(re.findall(r"(?:`|^ +)tracecloak ([a-z]+)", text, re.MULTILINE))
    assert commands
    assert commands <= COMMANDS.keys()


def test_every_method_is_documented_with_its_guarantee() -> None:
    """In a row of the README's table, and under a heading of its own in METHODS.md."""
    from tracecloak.anonymizers.registry import METHODS

    rows = {}
    for line in (ROOT / "README.md").read_text().splitlines():
        if line.startswith("| `") and line.count("|") == 4:
            names, guarantee, _ = line.strip("|").split("|")
            rows |= dict.fromkeys(re.findall(r"`([a-z-]+)`", names), guarantee)
    headings = re.findall(r"^### (.*)$", (ROOT / "METHODS.md").read_text(), re.MULTILINE)
    described = [name for heading in headings for name in re.findall(r"`([a-z-]+)`", heading)]
    assert sorted(described) == sorted(METHODS)
    for name, method in METHODS.items():
        kinds = {method.guarantee(method.Params(**example)).kind for example in method.examples}
        assert {kind for kind in get_args(Kind) if kind in rows[name]} == kinds, name


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`make ([\w-]+)`", text))
    assert named <= targets
    assert {"demo", "test", "lint", "bench"} <= targets


def test_warnings_are_errors_in_tests() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert config["filterwarnings"][0] == "error"
    assert config["xfail_strict"] is True
