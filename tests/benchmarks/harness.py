"""Runs pieces of work side by side, each in a process of its own, and compares them by their ratio.

Times are of the processor, user and system, in all threads and children: what else a machine does
meanwhile hardly changes them. Ratios of what was measured in one run differ little between
machines; seconds do not compare.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# What was measured of each version; the page on speed is made of it.
RECORD = ROOT / "docs" / "results" / "speed.json"
# All works of a comparison are run so often, in turn.
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "5"))
# A median that is worse than the recorded one by more than this share is a failure.
MAX_WORSE = 0.3

_LIBRARIES = ("apache-beam", "duckdb", "fastavro", "numpy", "opendp", "pm4py", "polars", "pyarrow")
_FRESH = "{fresh}"
_BEFORE_TEXT = 2_000
# Where compiled modules are, as an installation has them, whoever runs this.
_COMPILED = str(Path(tempfile.gettempdir()) / "tracecloak-benchmarks-compiled")


@dataclass(frozen=True)
class Work:
    """A command of Python that is measured."""

    name: str
    arguments: tuple[str, ...]
    n_events: int | None = None
    says_seconds: bool = False
    exit_code: int = 0
    python: str = sys.executable


@dataclass(frozen=True)
class Measured:
    """One run: seconds of the processor and of the clock, peak memory, and what it counted."""

    seconds: float
    wall_seconds: float
    peak_mb: float
    counts: Mapping[str, Any]


@dataclass(frozen=True)
class Runs:
    """The runs of a work, one a round."""

    work: Work
    rounds: tuple[Measured, ...]

    @property
    def seconds(self) -> float:
        """Median seconds of the processor."""
        return statistics.median(one.seconds for one in self.rounds)

    @property
    def wall_seconds(self) -> float:
        """Median seconds of the clock."""
        return statistics.median(one.wall_seconds for one in self.rounds)

    @property
    def peak_mb(self) -> float:
        """Largest peak of memory, of the largest process."""
        return max(one.peak_mb for one in self.rounds)

    @property
    def counts(self) -> Mapping[str, Any]:
        """What the first run counted."""
        return self.rounds[0].counts

    def over(self, other: Runs) -> float:
        """Returns the median ratio of seconds, of runs of one round each."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(mine.seconds / theirs.seconds for mine, theirs in pairs)

    def __str__(self) -> str:
        rate = ""
        if self.work.n_events is not None:
            rate = f"{self.work.n_events / self.seconds:12,.0f} events/s"
        return (
            f"{self.work.name:44s} {self.seconds:8.2f} s of the processor, "
            f"{self.wall_seconds:7.2f} of the clock, {self.peak_mb:6.0f} MB{rate}"
        )


def run(work: Work) -> Measured:
    """Runs a work once."""
    fresh = tempfile.mkdtemp()
    try:
        arguments = [argument.replace(_FRESH, fresh) for argument in work.arguments]
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": _COMPILED}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            began = time.monotonic()
            process = subprocess.Popen(
                [work.python, *arguments], stdout=out, stderr=errors, cwd=ROOT, env=environment
            )
            _, status, used = os.wait4(process.pid, 0)
            wall_seconds = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            errors.seek(0)
            if process.returncode != work.exit_code:
                text = errors.read().decode(errors="replace")[-_BEFORE_TEXT:]
                raise SystemExit(f"{work.name} ended with {process.returncode}:\n{text}")
            seconds, counts = used.ru_utime + used.ru_stime, {}
            if work.says_seconds:
                said = json.loads(out.read().splitlines()[-1])
                seconds, counts = said["seconds"], said["counts"]
    finally:
        shutil.rmtree(fresh)
    return Measured(seconds, wall_seconds, used.ru_maxrss / 1024, counts)


def in_turn(works: Sequence[Work], rounds: int = ROUNDS) -> dict[str, Runs]:
    """Runs works in turn, A B C A B C …, so that a slow spell of the machine hits all."""
    for work in works:
        run(work)
    measured: dict[str, list[Measured]] = {work.name: [] for work in works}
    for _ in range(rounds):
        for work in works:
            measured[work.name].append(run(work))
    runs = {work.name: Runs(work, tuple(measured[work.name])) for work in works}
    for one in runs.values():
        print(one, flush=True)
    WORKS.update(runs)
    return runs


@dataclass(frozen=True)
class Ratio:
    """A measured ratio."""

    value: float
    goal: float | None
    at_most: bool

    def is_worse(self, last: float | None) -> bool:
        """Returns whether the ratio is worse than the recorded one by more than MAX_WORSE."""
        if last is None:
            return False
        change = self.value / last if self.at_most else last / self.value
        return change > 1 + MAX_WORSE

    def beside(self, last: float | None) -> str:
        """Returns a line that says the ratio, its goal, and its change against the recorded one."""
        goal = ""
        if self.goal is not None:
            sign = "at most" if self.at_most else "at least"
            is_reached = (self.value <= self.goal) == self.at_most or self.value == self.goal
            goal = f"{sign} {self.goal:g}: {'reached' if is_reached else 'NOT REACHED'}; "
        changed = "no earlier one" if last is None else f"{self.value / last - 1:+.0%}"
        worse = ", WORSE" if self.is_worse(last) else ""
        return f"{self.value:7.2f}   ({goal}{changed}{worse})"


# Of the benchmark that runs, by what was measured.
RATIOS: dict[str, Ratio] = {}
WORKS: dict[str, Runs] = {}


def ratio(text: str, value: float, goal: float | None = None, at_most: bool = True) -> None:
    """Prints a ratio beside its goal and the recorded one, and notes it."""
    RATIOS[text] = Ratio(value, goal, at_most)
    print(f"{text:62s} {RATIOS[text].beside(read_ratios(RECORD).get(text))}", flush=True)


def read_ratios(path: Path) -> dict[str, float]:
    """Returns the ratios of the last version of a record; none if there is no file."""
    if not path.exists():
        return {}
    versions = json.loads(path.read_text(encoding="utf-8"))
    benchmarks = versions[max(versions, key=_number_of)]["benchmarks"].values()
    return {text: one["value"] for each in benchmarks for text, one in each["ratios"].items()}


def write_record(
    path: Path, benchmark: str, ratios: Mapping[str, Ratio], works: Mapping[str, Runs]
) -> None:
    """Writes what a benchmark measured of this version into a record; all else in it stays."""
    versions = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    record = versions.setdefault(metadata.version("tracecloak"), {"benchmarks": {}})
    record["machine"] = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }
    record["benchmarks"][benchmark] = {
        "ratios": {
            text: {"value": _shown(one.value), "goal": one.goal, "at_most": one.at_most}
            for text, one in ratios.items()
        },
        "works": {
            name: {
                "seconds": _shown(one.seconds),
                "wall_seconds": _shown(one.wall_seconds),
                "peak_mb": round(one.peak_mb),
                "n_events": one.work.n_events,
            }
            for name, one in works.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")


def _shown(value: float) -> float:
    return float(f"{value:.4g}")


def _number_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
