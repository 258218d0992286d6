"""Runs pieces of work side by side, each in a fresh process, and compares them by their ratio."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tracecloak.examination.demo.hospital_file import write_sample

LAST = Path(__file__).with_name("last.json")  # the ratios that new ones are compared with


@dataclass(frozen=True)
class Measured:
    """One piece of work: median seconds, largest peak memory in MB, and what it counted."""

    name: str
    seconds: float
    peak_mb: float
    counts: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name:28s} {self.seconds:8.2f} s   peak {self.peak_mb:7.0f} MB"


def sample(folder: Path, n_cases: int) -> Path:
    """Writes the synthetic hospital log of so many cases as Parquet."""
    path = folder / f"hospital-{n_cases}.parquet"
    write_sample(n_cases, str(path))
    return path


def run(name: str, log: Path, shards: int = 16) -> Measured:
    """Runs one piece of work once."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.work", name, str(log), str(shards)],
            env={**os.environ, "BENCHMARK_REPORT": report.name},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Measured(name, found["seconds"], found["peak_mb"], found["counts"])


def in_turn(names: tuple[str, ...], log: Path, rounds: int) -> dict[str, Measured]:
    """Runs pieces of work in turn, A B C A B C …, so that a slow spell of the machine hits all."""
    runs: dict[str, list[Measured]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            runs[name].append(run(name, log))
    return {
        name: Measured(
            name,
            statistics.median(m.seconds for m in found),
            max(m.peak_mb for m in found),
            found[0].counts,
        )
        for name, found in runs.items()
    }


@dataclass(frozen=True)
class Ratio:
    """A measured ratio and the bound that it should keep."""

    value: float
    bound: float
    at_most: bool

    @property
    def kept(self) -> bool:
        """Whether the ratio is on the right side of its bound."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def beside(self, last: float | None) -> str:
        """Returns a line that says the ratio, its bound, and its change against the last one."""
        sign = "at most" if self.at_most else "at least"
        kept = "kept" if self.kept else "NOT KEPT"
        changed = "no earlier one" if last is None else f"{self.value / last - 1:+.0%}"
        return f"{self.value:7.2f}   ({sign} {self.bound:g}: {kept}; {changed})"


RATIOS: dict[str, Ratio] = {}  # of this run, by what was measured


def read_ratios(path: Path) -> dict[str, float]:
    """Returns the ratios of an earlier run by what was measured; none if there is no file."""
    if not path.exists():
        return {}
    return {text: found["value"] for text, found in json.loads(path.read_text())["ratios"].items()}


def write_ratios(path: Path, ratios: Mapping[str, Ratio]) -> None:
    """Writes ratios into a file, in which those of other benchmarks stay as they are."""
    kept = json.loads(path.read_text())["ratios"] if path.exists() else {}
    versions = {name: metadata.version(name) for name in ("apache-beam", "numpy", "tracecloak")}
    of_run = {"python": platform.python_version(), "cores": os.cpu_count(), **versions}
    made = {
        text: {"value": float(f"{one.value:.4g}"), "bound": one.bound, "kept": one.kept, **of_run}
        for text, one in ratios.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"ratios": {**kept, **made}}, indent=2, sort_keys=True) + "\n")


def ratio(text: str, value: float, bound: float, at_most: bool = True) -> None:
    """Prints a ratio beside the bound that it should keep and the last one, and notes it."""
    RATIOS[text] = Ratio(value, bound, at_most)
    print(f"{text:62s} {RATIOS[text].beside(read_ratios(LAST).get(text))}", flush=True)
