"""`tracecloak stream` in processes of their own, which are killed and started again."""

from __future__ import annotations

import atexit
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracecloak.schemas.published.step import StepRelease

ACTIVITIES = ("A", "B", "END")
PERIOD_SECONDS = 5


def flags(folder: Path, begin: float, horizon: int, **changes: Any) -> list[str]:
    """Of a stream of totals with next to no noise, from a moment in seconds since 1970 on."""
    folder.mkdir(exist_ok=True)
    (folder / "activities.txt").write_text("\n".join(ACTIVITIES))
    values: dict[str, Any] = {
        "output": folder / "out",
        "key_store": folder / "keys",
        "new_ledger": "true",
        "release_id": "ward",
        "epoch": "1",
        "view": "total",
        "epsilon": 1000,
        "delta": "1e-6",
        "vocabulary": folder / "activities.txt",
        "max_trace_length": 4,
        "period": f"{PERIOD_SECONDS}s",
        "horizon": horizon,
        "start": datetime.fromtimestamp(begin, UTC).isoformat(),
        "gap": "1h",
        "max_lifetime": "1d",
        "tombstone": "1h",
        "end_activity": "END",
        "release_delay": "2s",
        "timestamp_unit": "us",
    }
    return [f"--{name}={value}" for name, value in {**values, **changes}.items()]


def body(case: int, number: int) -> bytes:
    """The message of an event of a case."""
    return (
        f'{{"case_id": "case-{case}", "activity": "{ACTIVITIES[number]}", '
        f'"timestamp": {number}, "event_id": "{case}.{number}"}}'
    ).encode()


class Runs:
    """One stream, run by one process after the other."""

    def __init__(self, folder: Path, given: Sequence[str], **environment: str) -> None:
        self._folder = folder
        self._given = list(given)
        self._environment: Mapping[str, str] = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts a process, under the key of tests."""
        with (self._folder / "said").open("ab") as said:
            self._process = subprocess.Popen(  # which ends with the tests, whatever fails
                [sys.executable, "-m", "tests.engines.client", "stream", *self._given],
                stdout=said,
                stderr=said,
                env=self._environment,
            )
        atexit.register(self._process.kill)

    def end(self, number: signal.Signals | None, seconds: float = 120) -> int:
        """Sends a signal, or none, and returns the exit code."""
        assert self._process is not None
        if number is not None:
            self._process.send_signal(number)
        try:
            return self._process.wait(seconds)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()

    def disturb(self, n_kills: int, longest_seconds: float, chance: random.Random) -> int:
        """Kills it at moments that chance chooses; how often it was alive to be killed."""
        n_killed = 0
        for _ in range(n_kills):
            self.start()
            time.sleep(2 + chance.random() * longest_seconds)  # the moment is what is tried
            n_killed += self.end(signal.SIGKILL) == -signal.SIGKILL
        return n_killed

    def said(self) -> str:
        """All that its processes said."""
        return (self._folder / "said").read_text()


def n_cases(folder: Path) -> int:
    """The cases in the last total."""
    last = max((folder / "out").rglob("step-*.json"))
    release = StepRelease.from_json(last.read_bytes())
    cells = dict(zip(release.cells, release.counts.tolist(), strict=True))
    return int(cells["A", "B"])


def steps(folder: Path) -> dict[str, bytes]:
    """The files of steps."""
    return {path.name: path.read_bytes() for path in (folder / "out").rglob("step-*")}


def until(is_so: Callable[[], bool], seconds: float, runs: Runs) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, runs.said()[-3_000:]
        time.sleep(0.2)
