"""`make mutants`: which small mistakes anywhere in the product its tests notice.

A mutant is killed if a test of its package fails, and survives if none does; a survivor is a gap in
the tests or no mistake at all, which only a reader can tell. Nothing on the disk is changed: each
mutant runs in a fork of this process, where one module is loaded from another text. The digests of
`tests/golden` are not run: they show that something changed, and not that it is wrong.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork has no other threads

import argparse
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.mutants.changes import Mutant, chosen
from tests.support.reach import LAYERS

ROOT = Path(__file__).parents[2]
# What takes long to load, is not ours, and starts no thread.
PRELOADED = (
    "hypothesis.extra.numpy", "hypothesis.strategies", "mpmath", "numpy", "pyarrow.compute",
    "pydantic", "scipy.optimize", "scipy.special", "scipy.stats",
)  # fmt: skip


def sources() -> list[str]:
    """The paths of all sources, from the root."""
    found = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name != "__init__.py")


@functools.cache
def _all_tests() -> dict[str, str]:
    paths = (ROOT / "tests").rglob("test_*.py")
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(paths)}


@functools.cache
def tests_of(path: str) -> tuple[str, ...]:
    """The test modules of a source's package, those that import the source first.

    They are the folder of the package's name below tests/; without one, all that import from it.
    """
    module = "tracecloak." + path.removesuffix(".py").replace("/", ".")
    package = module.rpartition(".")[0]
    folder = f"tests/{Path(path).parent}/"
    found = [test for test in _all_tests() if test.startswith(folder)] or [
        test for test, text in _all_tests().items() if f"{package}." in text
    ]
    found.sort(key=lambda test: module not in _all_tests()[test])
    return tuple(found)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Loads one module of the package from another text than its file's."""

    def __init__(self, path: str, source: str) -> None:
        self._name = "tracecloak." + path.removesuffix(".py").replace("/", ".")
        self._path, self._source = str(ROOT / path), source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._source.encode()


def forked(path: str, source: str, tests: Sequence[str], slow: bool, seconds: int) -> int:
    """Starts the tests in a fork where the source at a path is another, and returns its process."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 3
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        sys.meta_path.insert(0, Changed(path, source))
        chosen_tests = "not engines and not logs" + ("" if slow else " and not slow")
        flags = ["-x", "-q", "--assert=plain", "--hypothesis-seed=0", "-m", chosen_tests]
        code = pytest.main([*flags, "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
    finally:
        os._exit(code)


def results(
    mutants: Sequence[Mutant], further: Sequence[str], slow: bool, seconds: int, n_jobs: int
) -> Iterator[dict[str, Any]]:
    """Yields what became of each mutant, as they end."""
    waiting, running = list(mutants[::-1]), {}
    while waiting or running:
        while waiting and len(running) < n_jobs:
            mutant = waiting.pop()
            tests = list(further) or list(tests_of(mutant.path))
            process = forked(mutant.path, mutant.source, tests, slow, seconds)
            running[process] = mutant, time.monotonic()
        process, status, used = os.wait4(-1, 0)
        mutant, begun = running.pop(process)
        code = os.waitstatus_to_exitcode(status)
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            raise SystemExit(f"there are no tests of {mutant.path}")
        yield {
            "path": mutant.path,
            "line": mutant.line,
            "what": mutant.what,
            "survived": code == 0,
            "out_of_time": code < 0,
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
            "seconds": round(time.monotonic() - begun, 1),
        }


def main() -> None:
    """Runs mutants and writes what became of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=300, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="which")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--seconds", type=int, default=300, help="of CPU for a mutant")
    parser.add_argument("--slow", action="store_true", help="slow tests as well")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "mutants.json")
    parser.add_argument("--within", default="", help="only in sources whose paths begin so")
    parser.add_argument("--again", type=Path, help="only those that survived in this report")
    parser.add_argument("tests", nargs="*", help="in place of those of the mutant's package")
    given = parser.parse_args()
    for name in PRELOADED:
        importlib.import_module(name)
    paths = [path for path in sources() if path.startswith(given.within)]
    mutants = chosen(ROOT, paths, given.n, given.seed)
    if given.again:
        survivors = {
            (found["path"], found["line"], found["what"])
            for found in json.loads(given.again.read_text())["mutants"]
            if found["survived"]
        }
        mutants = [m for m in mutants if (m.path, m.line, m.what) in survivors]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder  # what a mutant fails is not kept
        # Flags of an outer run are not for these: a --basetemp of its would empty its own folders.
        os.environ.pop("PYTEST_ADDOPTS", None)
        os.chdir(ROOT)
        gc.freeze()
        # The control: what is not changed survives, or all that follows says nothing.
        sound = {
            path: Mutant(path, 0, "unchanged", (ROOT / path).read_text())
            for path in {str(Path(m.path).parent): m.path for m in mutants}.values()
        }
        options = (given.tests, given.slow, given.seconds, given.jobs)
        for found in results(list(sound.values()), *options):
            if not found["survived"]:
                raise SystemExit(f"tests fail without a change: {tests_of(found['path'])}")
        made = []
        for found in results(mutants, *options):
            made.append(found)
            told = "survived" if found["survived"] else "killed"
            print(f"{told:8s} {found['path']}:{found['line']} {found['what']}", flush=True)
    n_survived = sum(found["survived"] for found in made)
    numbers = {"killed": len(made) - n_survived, "survived": n_survived}
    given.report.parent.mkdir(parents=True, exist_ok=True)
    report = {"seed": given.seed, **numbers, "mutants": made}
    given.report.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{numbers['killed']} of {len(made)} killed: {given.report}")


if __name__ == "__main__":
    main()
