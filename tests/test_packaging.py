"""The package, the image and the documents name what is there."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.lock import LOCKS, requirements
from deploy.oldest import FILE, constraints, distribution
from tests.support.examples import examples_of
from tests.support.reach import LAYERS as PACKAGES
from tracecloak import _folders
from tracecloak.schemas.published.manifest import Kind

ROOT = Path(__file__).parents[1]


SETUP = distribution()
# Of the repository, by the package that they are.
FOLDERS = {"tracecloak": "tracecloak", **SETUP.package_dir}


def folder_of(package: str) -> str:
    """Where a package lies in the repository: by its longest parent that has a folder."""
    parts = package.split(".")
    for n in range(len(parts), 0, -1):
        if (found := FOLDERS.get(".".join(parts[:n]))) is not None:
            return "/".join([found, *parts[n:]])
    raise KeyError(package)


def test_every_folder_with_sources_is_a_package_of_the_one_that_is_installed() -> None:
    sources = {
        path.parent.relative_to(ROOT).as_posix()
        for folder in FOLDERS.values()
        for path in (ROOT / folder).rglob("*.py")
    }
    packages = list(SETUP.packages or ())
    assert {folder_of(package) for package in packages} == sources
    assert len(packages) == len(set(packages))
    assert {package.split(".")[0] for package in packages} == {"tracecloak"}


def test_the_floors_are_links_of_the_package_and_no_names_of_their_own() -> None:
    assert {f"tracecloak.{name}": name for name in PACKAGES} == SETUP.package_dir
    assert sorted(PACKAGES) == sorted(_folders.FOLDERS)
    listed = subprocess.run(
        ["git", "ls-files", "--stage", "tracecloak"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    links = re.findall(r"^120000 .*\ttracecloak/(\w+)$", listed, re.MULTILINE)
    assert links == sorted(PACKAGES)
    # As somebody imports who is not in the checkout.
    code = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    names = ["tracecloak", *PACKAGES, *SETUP.package_dir]
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, *names], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{['tracecloak', *SETUP.package_dir]}\n", done.stderr


def test_every_data_file_is_installed() -> None:
    """`make check-wheel` compares the built wheel; this says it before anything is built."""
    data = dict(SETUP.package_data)
    covered = {
        path
        for package in SETUP.packages or ()
        for pattern in data.get(package, ())
        for path in (ROOT / folder_of(package)).glob(pattern)
    }
    others = {
        path
        for folder in FOLDERS.values()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    } - {ROOT / "tracecloak" / name for name in PACKAGES}  # where git made no links
    assert covered == others
    assert ROOT / "tracecloak" / "py.typed" in covered


@functools.cache
def parsed_sources() -> tuple[tuple[str, ast.Module], ...]:
    """Every source of the package by its path from the root, parsed once for all tests."""
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))
        for folder in FOLDERS.values()
        for path in (ROOT / folder).rglob("*.py")
    )


@functools.cache
def distributions() -> Mapping[str, list[str]]:
    """What distributions have each module that can be imported here."""
    return metadata.packages_distributions()


def imported_libraries() -> Iterator[tuple[str, str, bool]]:
    """Yields file, top-level module and whether it is imported with the file, of other packages."""
    for path, tree in parsed_sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in {name.split(".")[0] for name in names} - {"tracecloak"}:
                if name not in sys.stdlib_module_names:
                    yield path, name, node in tree.body


@pytest.mark.slow
def test_what_is_imported_is_what_is_asked_for() -> None:
    """Only what every installation has is imported where a file begins; extras are within calls."""
    core = {canonicalize_name(Requirement(need).name) for need in SETUP.install_requires}
    extras = {
        canonicalize_name(Requirement(need).name)
        for extra, needs in SETUP.extras_require.items()
        if extra != "dev"
        for need in needs
    }
    used = set()
    for path, module, at_once in imported_libraries():
        names = {canonicalize_name(name) for name in distributions().get(module, [module])}
        used |= names
        assert names & (core if at_once else core | extras), (path, module)
    assert core <= used | {"tzdata"}  # which Python's `zoneinfo` loads


def test_errors_name_extras_that_exist() -> None:
    named = set()
    for _, tree in parsed_sources():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    ast.Name("missing_extra"), [_, _, ast.Constant(extra), *_]
                ) | ast.Call(ast.Name("import_extra"), [_, _, _, ast.Constant(extra), *_]):
                    named.add(extra)
    assert {"measures", "mining", "report", "gcp", "pubsub"} <= named
    assert named <= set(SETUP.extras_require)


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    assert FILE.read_text() == constraints(), "make oldest writes deploy/oldest.txt"


def locked(text: str) -> dict[str, list[tuple[Requirement, int]]]:
    """By library, its pinned versions and how many hashes each has."""
    found: dict[str, list[tuple[Requirement, int]]] = {}
    for entry in re.sub(r"^#.*\n", "", text).replace(" \\\n", " ").splitlines():
        words, *hashes = re.split(r" +--hash=sha256:(?=[0-9a-f]{64}\b)", entry)
        need = Requirement(words)  # refuses what is left of a hash of another form
        found.setdefault(canonicalize_name(need.name), []).append((need, len(hashes)))
    return found


def unlocked(
    found: Mapping[str, list[tuple[Requirement, int]]], needs: list[str], python: str
) -> list[str]:
    """The needs that a lock does not fulfil for a Python, on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    environment |= {"sys_platform": "linux", "platform_python_implementation": "CPython"}
    missing = []
    for need in map(Requirement, needs):
        versions = [
            one
            for one, _ in found.get(canonicalize_name(need.name), [])
            if one.marker is None or one.marker.evaluate(environment)
        ]
        if need.marker is not None and not need.marker.evaluate({**environment, "extra": ""}):
            continue
        pins = [(bound.operator, bound.version) for one in versions for bound in one.specifier]
        if len(pins) != 1 or pins[0][0] != "==" or pins[0][1] not in need.specifier:
            missing.append(f"{need}: {pins}")
    return missing


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_has_every_library_within_its_bounds_with_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    found = locked(text)
    assert all(hashes for versions in found.values() for _, hashes in versions)
    assert not re.search(r"://|--(?!hash=)| @ ", text)
    for minor in range(11, 15):
        assert unlocked(found, requirements(LOCKS[name]), f"3.{minor}") == [], "make lock"


def test_every_method_is_documented_with_its_guarantee() -> None:
    """In a row of the table of methods; `tests/docs/test_reference.py` looks for its heading."""
    from tracecloak.anonymizers.registry import METHODS

    rows = {}
    table = ROOT / "docs" / "explanation" / "methods" / "index.md"
    for line in table.read_text().splitlines():
        if line.startswith("| `") and line.count("|") == 4:
            names, guarantee, _ = line.strip("|").split("|")
            rows |= dict.fromkeys(re.findall(r"`([a-z-]+)`", names), guarantee)
    assert rows.keys() == METHODS.keys()
    for name, method in METHODS.items():
        kinds = {method.guarantee(method.Params(**example)).kind for example in examples_of(method)}
        assert {kind for kind in get_args(Kind) if kind in rows[name]} == kinds, name


def test_what_others_make_is_pinned() -> None:
    """Actions of CI by their commit, base images by their digest, Beam by its minor version."""
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    actions = re.findall(r"uses: (\S+)", workflow)
    assert actions and all(re.search(r"@[0-9a-f]{40}$", action) for action in actions)
    for path in (ROOT / "deploy").rglob("*Dockerfile*"):
        bases = re.findall(r"^FROM (\S+)", path.read_text(), re.MULTILINE)
        assert bases and all(re.search(r"@(sha256:|\$)", base) for base in bases), path
    beam = [need for need in SETUP.install_requires if need.startswith("apache-beam")]
    assert beam and all("<" in need for need in beam)
