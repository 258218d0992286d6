"""`tracecloak stream` in processes of their own, which are killed and started again."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.engines.processes import Process
from tests.support.releasing import ROOT
from tracecloak.schemas.published.step import StepRelease

ACTIVITIES = ("A", "B", "END")
PERIOD_SECONDS = 5


def flags(folder: Path, begin: float, horizon: int, **changes: Any) -> list[str]:
    """Of a stream of totals with next to no noise, from a moment in seconds since 1970 on."""
    folder.mkdir(exist_ok=True)
    (folder / "activities.txt").write_text("\n".join(ACTIVITIES))
    values: dict[str, Any] = {
        "output": folder / "out", "key_store": folder / "keys", "new_ledger": "true",
        "release_id": "ward", "epoch": "1", "view": "total", "epsilon": 1000, "delta": "1e-6",
        "vocabulary": folder / "activities.txt", "max_trace_length": 4, "horizon": horizon,
        "start": datetime.fromtimestamp(begin, UTC).isoformat(), "period": f"{PERIOD_SECONDS}s",
        "gap": "1h", "max_lifetime": "1d", "tombstone": "1h", "end_activity": "END",
        "release_delay": "2s", "timestamp_unit": "us",
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in {**values, **changes}.items()]


def body(case: int, number: int) -> bytes:
    """The message of an event of a case."""
    return (
        f'{{"case_id": "case-{case}", "activity": "{ACTIVITIES[number]}", '
        f'"timestamp": {number}, "event_id": "{case}.{number}"}}'
    ).encode()


class Runs(Process):
    """One stream, run by one process after the other, under the key of tests."""

    def __init__(self, folder: Path, given: Sequence[str], **environment: str) -> None:
        command = [sys.executable, "-m", "tests.engines.client", "stream", *given]
        environment = {"PYTHONPATH": str(ROOT), **environment}
        super().__init__("stream", command, folder, lambda: True, environment)

    def stop(self, number: signal.Signals | None, seconds: float = 120) -> int:
        """Sends a signal, or none, and returns the exit code."""
        try:
            if number is not None:
                self._signal(number)
            return self.wait(seconds)
        finally:
            self.end()

    def disturb(self, n_kills: int, longest_seconds: float, chance: random.Random) -> int:
        """Kills it at moments that chance chooses; how often it was alive to be killed."""
        n_killed = 0
        for _ in range(n_kills):
            self.start()
            time.sleep(2 + chance.random() * longest_seconds)  # the moment is what is tried
            n_killed += self.stop(signal.SIGKILL) == -signal.SIGKILL
        return n_killed


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
