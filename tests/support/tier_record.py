"""How a whole tier of tests ended, for the documentation: docs/results/tiers.json.

A tier takes hours, so it may take several sittings: each outcome is a line of a journal, and the
next sitting runs the tests that have not passed yet. A journal is of one product: after a change to
its code all tests run again. A tier that ends without a failure leaves no journal.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import platform
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.engines import fetching
from tests.support.reach import FLOORS, ROOT

FILE = ROOT / "docs" / "results" / "tiers.json"
_PACKAGES = ("tracecloak", "apache-beam", "pyarrow", "numpy", "pm4py")


def versions(tier: str) -> dict[str, str]:
    """What was installed, and for the tier of engines what was fetched."""
    installed = {name: importlib.metadata.version(name) for name in _PACKAGES}
    fetched = dict(fetching.VERSIONS) if tier == "engines" else {}
    return {"Python": platform.python_version(), **installed, **fetched}


def product_digest() -> str:
    """A digest of the code of the product, without tests and documentation."""
    digest = hashlib.sha256()
    for path in sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def configure(
    config: pytest.Config, tier: str, code: str, build: Path = ROOT / "build", file: Path = FILE
) -> None:
    """Lets a run of tests go on with a tier and keep its outcomes; for `pytest_configure`.

    Args:
        config: Of the process that hears of all tests, or of a worker of it.
        tier: The tier's name in the record.
        code: Tells products apart.
        build: The folder of the journal.
        file: The record.
    """
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Left(config.workerinput["passed"]))
        return
    journal = Journal(build / f"tier-{tier}.jsonl", code)
    config.pluginmanager.register(_Left(journal.passed))
    config.pluginmanager.register(_Recorder(tier, journal, file))


class Journal:
    """The outcomes of a tier's tests, in the order in which they came.

    Attributes:
        outcomes: Of each test: passed, failed or skipped; of earlier sittings those that passed.
        seconds: How long the sittings before this one took.
        passed: The tests that need no run again.
    """

    def __init__(self, path: Path, code: str) -> None:
        """Begins a sitting; drops what is there of another product."""
        self._path = path
        self._began = time.monotonic()
        self.seconds = 0.0
        sittings = self._sittings() if path.exists() else []
        if any(one["code"] != code for one, *_ in sittings):
            path.unlink()
            sittings = []
        passed: set[str] = set()
        for _, *tests in sittings:
            passed |= {line["test"] for line in tests if line["outcome"] == "passed"}
            self.seconds += max((line["second"] for line in tests), default=0)
        self.passed = sorted(passed)
        # Others run again, unless there is no such test any more.
        self.outcomes = dict.fromkeys(self.passed, "passed")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write({"code": code})

    def _sittings(self) -> list[list[dict[str, Any]]]:
        sittings: list[list[dict[str, Any]]] = []
        for text in self._path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:  # it was cut off
                continue
            if "code" in line:
                sittings.append([])
            sittings[-1].append(line)
        return sittings

    def add(self, test: str, outcome: str, took: float) -> None:
        self.outcomes[test] = outcome
        second = round(time.monotonic() - self._began, 1)
        self._write({"test": test, "outcome": outcome, "took": round(took, 1), "second": second})

    def end(self) -> float:
        """Ends the last sitting; returns the seconds of all."""
        if "failed" not in self.outcomes.values():
            self._path.unlink()
        return self.seconds + time.monotonic() - self._began

    def _write(self, line: dict[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            # What a kill cut off lacks its end, so a line begins with one.
            file.write("\n" + json.dumps(line))


def record(tier: str, outcomes: Iterable[str], seconds: float, file: Path = FILE) -> None:
    """Writes how many tests of a tier passed, failed and were skipped, in place of its last run."""
    tiers = json.loads(file.read_text()) if file.exists() else {}
    n_of = Counter(outcomes)
    tiers[tier] = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": versions(tier),
        **{outcome: n_of[outcome] for outcome in ("passed", "failed", "skipped")},
        "seconds": round(seconds),
    }
    file.write_text(json.dumps(dict(sorted(tiers.items())), indent=2) + "\n")


class _Recorder:
    """Keeps what each test came to, in the one process that hears of all."""

    def __init__(self, tier: str, journal: Journal, file: Path) -> None:
        self._tier, self._journal, self._file = tier, journal, file
        self._running: dict[str, list[pytest.TestReport]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells each worker, and one that takes the place of another later, the same tests."""
        node.workerinput["passed"] = self._journal.passed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reports = self._running.setdefault(report.nodeid, [])
        reports.append(report)
        # A worker that died says so in one report of its own.
        if report.when in ("setup", "call"):
            return
        del self._running[report.nodeid]
        came_to = {one.outcome for one in reports}
        outcome = next((how for how in ("failed", "skipped") if how in came_to), "passed")
        self._journal.add(report.nodeid, outcome, sum(one.duration for one in reports))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ended = (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        )
        if exitstatus in ended and not (session.shouldstop or session.shouldfail):
            seconds = self._journal.end()
            record(self._tier, self._journal.outcomes.values(), seconds, self._file)


class _Left:
    """Leaves out the tests that passed in an earlier sitting."""

    def __init__(self, passed: Sequence[str]) -> None:
        self._passed = frozenset(passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid in self._passed])
        items[:] = [item for item in items if item.nodeid not in self._passed]
