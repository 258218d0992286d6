"""Runs pieces of work side by side, each in a fresh process, and compares them by their ratio."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracecloak.pipelines.demo.hospital_file import write_sample


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


def ratio(text: str, value: float, bound: float, at_most: bool = True) -> None:
    """Prints a ratio beside the bound that it should keep."""
    kept = value <= bound if at_most else value >= bound
    sign = "at most" if at_most else "at least"
    print(f"{text:62s} {value:7.2f}   ({sign} {bound:g}: {'kept' if kept else 'NOT KEPT'})")
