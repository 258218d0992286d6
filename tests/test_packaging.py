"""The package, the image and the documents name what is there."""

import ast
import functools
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.check_wheel import copied, of_the_package
from deploy.lock import LOCKS, requirements
from deploy.oldest import FILE, constraints, distribution
from tests.test_structure import PACKAGES
from tracecloak import _folders
from tracecloak.schemas.published.guarantee import Kind
from tracecloak.schemas.published.manifest import TOOL_VERSION

ROOT = Path(__file__).parents[1]


SETUP = distribution()
LOCKABLE = sorted(set(SETUP.extras_require) - {"dev"})
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


def test_what_a_wheel_must_hold_is_what_git_knows(tmp_path: Path) -> None:
    names = ["schemas/a.py", "schemas/b/c.avsc", "tests/d.py", "tracecloak/__init__.py"]
    placed = of_the_package([*names, "tracecloak/schemas"], tmp_path)
    assert placed == {
        "tracecloak/__init__.py": tmp_path / "tracecloak/__init__.py",
        "tracecloak/schemas/a.py": tmp_path / "schemas/a.py",
        "tracecloak/schemas/b/c.avsc": tmp_path / "schemas/b/c.avsc",
    }


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


# Libraries that one of ours loads, and where we ask whether they are there: Beam opens `s3://` and
# hands over to Dataflow, SQLAlchemy reaches PostgreSQL by the driver that a URL names. One is a
# cloud's, so its module is not there to tell which distribution has it.
LOADED_BY_OTHERS = {
    "aws": ("transforms/file_systems.py", "boto3"),
    "azure": ("transforms/file_systems.py", "azure.storage.blob"),
    "gcp": ("pipelines/runners/options.py", "apache_beam.runners.dataflow.internal.apiclient"),
    "msk": ("transforms/services/msk_token.py", "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"),
    "postgresql": ("pipelines/ledger/database.py", "psycopg"),
}


@functools.cache
def modules_named() -> frozenset[str]:
    """What is imported within functions: by statements, or as a text that a function is given."""
    found = {module for _, module, at_once in imported_libraries() if not at_once}
    for _, tree in parsed_sources():
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(
                ("_module", "of_extra")
            ):
                found |= {
                    argument.value.split(".")[0]
                    for argument in call.args
                    if isinstance(argument, ast.Constant)
                }
    return frozenset(found)


@pytest.mark.parametrize("extra", sorted(set(SETUP.extras_require) - {"dev"}))
def test_every_extra_serves_a_module(extra: str) -> None:
    """Catches an extra that stays when what needed it has gone, and one for what never came."""
    if extra in LOADED_BY_OTHERS:
        path, asked_for = LOADED_BY_OTHERS[extra]
        assert f'"{asked_for}"' in (ROOT / path).read_text()
        return
    named = {
        canonicalize_name(name)
        for module in modules_named()
        for name in distributions().get(module, [module])
    }
    needed = {canonicalize_name(Requirement(n).name) for n in SETUP.extras_require[extra]}
    assert needed <= named


def test_errors_name_extras_that_exist() -> None:
    named = set()
    for _, tree in parsed_sources():
        for node in ast.walk(tree):
            place = {"missing_extra": 2, "of_extra": 3}
            if isinstance(node, ast.Call) and (call := ast.unparse(node.func)) in place:
                extra = node.args[place[call]]
                named.add(extra.value if isinstance(extra, ast.Constant) else None)
    named.discard(None)  # a variable
    assert {"measures", "mining", "report", "gcp", "pubsub"} <= named
    assert named <= set(SETUP.extras_require)


def test_the_first_tutorial_names_every_extra() -> None:
    page = ROOT / "docs" / "tutorials" / "first-release.md"
    rows = page.read_text().split("## Extras")[1]
    named = set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE))
    assert named == set(SETUP.extras_require) - {"dev"}


def test_the_page_of_an_index_links_no_file_and_has_the_words_of_the_readme() -> None:
    shown = str(SETUP.get_long_description())
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert links and all(link.startswith("https://") for link in links)
    assert "[" not in re.sub(r"\[[^]]*\]\(|```.*?```", "", shown, flags=re.DOTALL)
    for words in ("your first release", "`pip install .`", "## What it promises"):
        assert words in shown


def test_the_version_of_a_checkout_and_an_editable_install_is_that_of_its_sources(
    tmp_path: Path,
) -> None:
    """Catches one that an egg-info of an earlier build decides, which may lie where one works."""
    (tmp_path / "tracecloak.egg-info").mkdir()
    (tmp_path / "tracecloak.egg-info" / "PKG-INFO").write_text("Name: tracecloak\nVersion: 9.9\n")
    code = "from importlib import metadata as m; import tracecloak as t; "
    code += "print(m.version('tracecloak'), t.__version__)"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert told.stdout.split() == ["9.9", TOOL_VERSION]  # the first is the control
    assert SETUP.get_version() == TOOL_VERSION


def test_an_sdist_has_its_version_in_its_sources_and_installs_all_files(tmp_path: Path) -> None:
    """Catches an sdist whose install has another version than what it was built of, or fails.

    What a wheel of it would hold is built without the wheel; `make check-wheel` makes that.
    """
    names = copied(tmp_path / "source")
    code = "from setuptools.build_meta import build_sdist as b; print(b('../built'))"
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "source", check=True, capture_output=True
    )
    (sdist,) = (tmp_path / "built").iterdir()
    assert sdist.name == f"tracecloak-{TOOL_VERSION}.tar.gz"
    with tarfile.open(sdist) as archive:
        folder = sdist.name.removesuffix(".tar.gz")
        texts = {
            name: archive.extractfile(f"{folder}/{name}").read().decode()  # type: ignore[union-attr]
            for name in ("PKG-INFO", "schemas/published/manifest.py")
        }
    assert f"\nVersion: {TOOL_VERSION}\n" in texts["PKG-INFO"]
    assert f'\nTOOL_VERSION = "{TOOL_VERSION}"\n' in texts["schemas/published/manifest.py"]
    shutil.unpack_archive(sdist, tmp_path / "unpacked", filter="data")
    installed = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", installed],
        cwd=tmp_path / "unpacked" / folder, check=True, capture_output=True,
    )  # fmt: skip
    found = {p.relative_to(installed).as_posix() for p in installed.rglob("*") if p.is_file()}
    assert found == of_the_package(names, tmp_path / "source").keys()


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (SETUP.get_version(), SETUP.get_license())


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    assert FILE.read_text() == constraints(), "make oldest writes deploy/oldest.txt"


# Whose minor versions may break what works, or whose major ones never do; Beam bounds some of them.
UNBOUNDED = {
    *(
        "cryptography", "Jinja2", "matplotlib", "packaging", "PyYAML", "scikit-learn", "scipy",
        "tzdata",
    )
}  # fmt: skip


def test_libraries_are_bounded_by_their_next_major_version() -> None:
    needs = [*SETUP.install_requires, *(n for e in LOCKABLE for n in SETUP.extras_require[e])]
    open_ended = {
        need.name
        for need in map(Requirement, needs)
        if not any(bound.operator == "<" for bound in need.specifier)
    }
    assert open_ended == UNBOUNDED


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


def test_a_lock_that_lacks_something_is_noticed() -> None:
    pin = "x==2 ; python_version < '3.12' \\\n    --hash=sha256:" + "a" * 64 + "\ny==1\n"
    found = locked(f"# of x\n{pin}")
    assert [(name, n) for name, versions in found.items() for _, n in versions] == [
        ("x", 1),
        ("y", 0),
    ]
    assert unlocked(found, ["x>=2,<3", "y"], "3.11") == []
    assert unlocked(found, ["x>=3", "y<1", "z"], "3.11") == [
        "x>=3: [('==', '2')]",
        "y<1: [('==', '1')]",
        "z: []",
    ]
    assert unlocked(found, ["x"], "3.12") == ["x: []"]


def test_actions_of_others_are_named_by_their_commits() -> None:
    """A tag can mean another commit tomorrow; the comment says which it was."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    used = re.findall(r"uses: (.*)$", workflow, re.MULTILINE)
    assert used and all(
        re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", u) for u in used
    )
    assert len({u.split("@")[0] for u in used}) == len(set(used))


def test_the_image_is_pinned_to_the_tested_beam_and_runs_without_privileges() -> None:
    """A linter of the few rules that matter here; there is no engine to build with."""
    lines = [
        line
        for line in (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]
    steps = [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]
    assert {name for name, _ in steps} <= {
        *("FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT")
    }
    assert steps[0] == ("ARG", "BEAM_DIGEST")  # without a default: it must be given
    (lock,) = (rest.removeprefix("LOCK=") for name, rest in steps[1:] if name == "ARG")
    assert lock in LOCKS
    (beam,) = (need for need in SETUP.install_requires if need.startswith("apache-beam"))
    (version,) = re.findall(r">=([\d.]+)", beam)
    assert steps[1] == ("FROM", f"apache/beam_python3.11_sdk:{version}.0@${{BEAM_DIGEST}}")
    sources = [word for name, rest in steps if name == "COPY" for word in rest.split()[:-1]]
    sources.remove("${LOCK}")
    assert all((ROOT / source).exists() for source in sources)
    # An index gives what has a hash, and else nothing, also to what builds.
    runs = "&&".join(rest for name, rest in steps if name == "RUN").split("&&")
    first, *others = (part for part in runs if "pip install" in part)
    assert "--require-hashes --requirement build.lock" in first and others
    for part in others:
        assert "--no-build-isolation" in part and re.search("--require-hashes|--no-index", part)
    assert {*FOLDERS.values(), "setup.py", "pyproject.toml", "README.md"} <= set(sources)
    users = [rest for name, rest in steps if name == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    assert steps[-1] == ("ENTRYPOINT", '["/opt/apache/beam/boot"]')


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
        kinds = {method.guarantee(method.Params(**example)).kind for example in method.examples}
        assert {kind for kind in get_args(Kind) if kind in rows[name]} == kinds, name
