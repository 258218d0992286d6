"""A demo of windows: thirteen weeks of a hospital's data lake, released for the price of one week.

    python -m tracecloak.examination.demo.lake_demo --output build/lake-demo

The lake grows a day at a time, and its weeks are released as they fall due, each with epsilon 1
from an account that has epsilon 1 in all. What goes wrong in a lake goes wrong here: a day
arrives when its week is released already, a file is cut off, a process is killed while it draws
noise, and four weeks are forgotten and made later. At the end the calendar shows all windows, and
the ledger what they cost together.

Every step says in a sentence what was done and seen, and is checked: the demo ends with 6 if
anything is not as it says. The clock is the machine's own. The schedule begins far enough in the
past for thirteen weeks to be due, and the week after them is not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tracecloak.examination.demo.hospital import END_ACTIVITIES, write_vocabulary
from tracecloak.examination.demo.lake import PARTITION, Lake
from tracecloak.schemas.errors import (
    InputSchemaError,
    RetryLater,
    TracecloakError,
    UsageError,
)

N_WEEKS = 13
EPSILON, DELTA = "1", "0.000001"

_DATASET, _ACCOUNT = "hospital", "hospital"
_WEEK_DAYS = 7
_LIMIT_SECONDS = 120  # of one command
_LOOK_SECONDS = 0.002  # between two looks at the ledger
_THIS_PROGRAM = (sys.executable, "-m", "tracecloak")


class _WrongError(TracecloakError):
    """What was seen is not what the demo says."""


@dataclass(frozen=True)
class Demo:
    """What is run.

    Attributes:
        output: Folder for all that is written; nothing of an earlier demo may be in it.
        today: Today by the clock of UTC.
        n_cases: Cases of the lake.
        command: The words that start tracecloak.
    """

    output: Path
    today: date
    n_cases: int = 20_000
    command: Sequence[str] = _THIS_PROGRAM

    @property
    def first_day(self) -> date:
        """The Monday with which the first week begins: the last week was due today at the latest.

        A week is due a day after its end.
        """
        yesterday = self.today - timedelta(1)
        return yesterday - timedelta(yesterday.weekday() + N_WEEKS * _WEEK_DAYS)

    @property
    def lake(self) -> Lake:
        """The lake, with the days of all weeks and of the one that has not ended."""
        n_days = (self.today - self.first_day).days
        return Lake(self.output / "lake", self.first_day, n_days, self.n_cases)

    def label(self, week: int) -> str:
        """Returns the label of the window of a week; the first week is 1."""
        return self.days(week)[0].isoformat()

    def days(self, week: int) -> list[date]:
        """Returns the days of a week."""
        monday = self.first_day + timedelta((week - 1) * _WEEK_DAYS)
        return [monday + timedelta(n) for n in range(_WEEK_DAYS)]


def configuration(demo: Demo) -> dict[str, Any]:
    """Returns the configuration of the releases; its paths are those of the demo's folder."""
    return {
        "log": "lake/",
        "dataset": _DATASET,
        "schedule": {
            "origin": demo.first_day.isoformat(),
            "period": "week",
            "time_zone": "UTC",
            "by": "close",
            "max_lifetime": "30d",
            "end_activity": list(END_ACTIVITIES),
            "release_delay": "1d",
            "horizon": 2 * N_WEEKS,
            "partition": PARTITION,
        },
        "method": "private-dfg",
        "params": {
            "epsilon": float(EPSILON),
            "delta": float(DELTA),
            "vocabulary": "activities.txt",
        },
        "output": "releases",
        "release_id": "week",
        "account": _ACCOUNT,
        "accounts": "accounts.yaml",
        "runner": "InMemory",
    }


def run(demo: Demo, say: Callable[[str], None]) -> None:
    """Plays the thirteen weeks.

    Args:
        demo: What to run.
        say: Takes lines for the user.

    Raises:
        UsageError: There is something in the folder already.
        TracecloakError: Something was not as the demo says.
    """
    if demo.output.exists() and any(demo.output.iterdir()):
        raise UsageError(f"output: {demo.output} is not empty; name a new folder, or remove it")
    demo.output.mkdir(parents=True, exist_ok=True)
    (demo.output / "config.yaml").write_text(yaml.safe_dump(configuration(demo), sort_keys=False))
    cap = {"epsilon": EPSILON, "delta": DELTA, "unit": "case"}
    (demo.output / "accounts.yaml").write_text(yaml.safe_dump({"accounts": {_ACCOUNT: cap}}))
    write_vocabulary(str(demo.output / "activities.txt"))
    play = _Play(demo, say)
    play.weeks_as_they_fall_due()
    play.a_late_day()
    play.a_corrupt_file()
    play.a_killed_process(8)
    play.a_back_fill(9)
    play.what_is_not_due()
    play.the_bill()


class _Play:
    """The acts of the demo, in their order."""

    def __init__(self, demo: Demo, say: Callable[[str], None]) -> None:
        self._demo, self._lake, self._say = demo, demo.lake, say

    def weeks_as_they_fall_due(self) -> None:
        demo = self._demo
        for week in range(1, 5):
            self._lake.write(demo.days(week))
        code, windows = self._release(f"{demo.label(1)}..{demo.label(4)}", "--new_ledger")
        _check(code == 0 and _statuses(windows) == ["released"] * 4, "weeks 1 to 4 are released")
        self._say(
            f"Weeks 1 to 4, from {demo.label(1)} on, were written to the lake and released. "
            f"{self._bill(windows)}"
        )

    def a_late_day(self) -> None:
        demo, label = self._demo, self._demo.label(5)
        late = demo.days(5)[2]
        self._lake.write([day for day in demo.days(5) if day != late])
        code, (window,) = self._release(label)
        _check(code == 0 and window["status"] == "released", "week 5 is released without a day")
        before = self._digest(window["folder"])
        self._lake.write([late, *demo.days(6)])
        code, (again,) = self._release(label)
        _check(code == 0 and again["status"] == "already_released", "week 5 stays as it is")
        _check(self._digest(window["folder"]) == before, "the files of week 5 are the same")
        code, (after,) = self._release(demo.label(6))
        _check(code == 0 and after["status"] == "released", "week 6 is released")
        self._say(
            f"The file of {late} was late: week 5 was released without it, and stayed as it was "
            "when the file came. Week 6 was released with all events. A case that ended on the "
            f"late day counts in neither, and none counts in both. {self._bill([window, after])}"
        )

    def a_corrupt_file(self) -> None:
        demo, label = self._demo, self._demo.label(7)
        broken = demo.days(7)[4]
        self._lake.write(demo.days(7))
        self._lake.corrupt(broken)
        code, (window,) = self._release(label)
        is_refused = (code, window["status"]) == (InputSchemaError.exit_code, "failed")
        _check(is_refused, f"week 7 is not released with a file cut off, but ended with {code}")
        self._lake.write([broken])
        code, (window,) = self._release(label)
        _check(code == 0 and window["status"] == "released", "week 7 is released with a whole file")
        self._say(
            f"The file of {broken} was cut off: the release of week 7 ended with exit code "
            f"{InputSchemaError.exit_code} and cost nothing. With the whole file it was made. "
            f"{self._bill([window])}"
        )

    def a_killed_process(self, week: int) -> None:
        demo = self._demo
        label = demo.label(week)
        self._lake.write(demo.days(week))
        self._kill(label)
        (status,) = [one["status"] for one in self._shown()["windows"] if one["label"] == label]
        _check(status == "cut_off", f"week {week} is cut off, and the calendar says {status}")
        code, (window,) = self._release(label)
        _check(code == 0 and window["status"] == "released", "the same command finishes the week")
        self._say(
            f"The process that released week {week} was killed with -9 when it had paid and drew "
            "its noise. The same command went on with the same noise, and paid nothing more. "
            f"{self._bill([window])}"
        )

    def a_back_fill(self, first: int) -> None:
        demo = self._demo
        for week in range(first, N_WEEKS + 1):
            self._lake.write(demo.days(week))
        span = f"{demo.label(first)}..{demo.label(N_WEEKS)}"
        code, windows = self._release(span)
        n_weeks = N_WEEKS + 1 - first
        _check(code == 0 and _statuses(windows) == ["released"] * n_weeks, "a back-fill makes all")
        self._say(
            f"Weeks {first} to {N_WEEKS} had been forgotten. `--window {span}` made all of them. "
            f"{self._bill(windows)}"
        )

    def what_is_not_due(self) -> None:
        demo, lake = self._demo, self._lake
        lake.write([day for day in lake.days if day >= demo.days(N_WEEKS + 1)[0]])
        label = demo.label(N_WEEKS + 1)
        early, (window,) = self._release(label)
        is_early = (early, window["status"]) == (RetryLater.exit_code, "not_due")
        _check(is_early, f"the current week is not due, but ended with {early}")
        code, windows = self._release("due")
        _check(
            code == 0 and _statuses(windows) == ["already_released"] * N_WEEKS,
            "nothing that is due is missing",
        )
        self._say(
            f"The week from {label} on is not over, and was not released: exit code {early} "
            "tells a scheduler to come again. `--window due` found nothing left to do."
        )

    def the_bill(self) -> None:
        demo = self._demo
        shown = self._shown()
        spent = shown["spent_epsilon"], shown["spent_delta"]
        _check(spent == (EPSILON, DELTA), f"all windows cost what one does, and not {spent}")
        paid = [one for one in shown["windows"] if one["status"] == "released"]
        _check(all(one["epsilon"] == EPSILON for one in paid), "each window was paid for once")
        released = [one["label"] for one in paid]
        _check(
            released == [demo.label(week) for week in range(1, N_WEEKS + 1)],
            f"the calendar has {N_WEEKS} released windows",
        )
        _check(self._run("ledger", "verify").returncode == 0, "the ledger is as it was written")
        self._say(
            f"The ledger is sound: {N_WEEKS} windows with epsilon {EPSILON} each cost epsilon "
            f"{spent[0]} and delta {spent[1]} together."
        )
        self._say("")
        self._say(self._run("windows", "config.yaml").stdout.rstrip())

    # --- Commands ---------------------------------------------------------------------------------

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._demo.command, *words],
            cwd=self._demo.output,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRACECLOAK_KEY_STORE": str(self._store)},
        )

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        with self._start(*words) as process:
            try:
                stdout, stderr = process.communicate(timeout=_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise _WrongError(f"tracecloak {words[0]} took over {_LIMIT_SECONDS} s") from None
        with (self._demo.output / "commands.log").open("a") as log:
            log.write(f"tracecloak {' '.join(words)}\n{stdout}{stderr}")
            log.write(f"exit code {process.returncode}\n\n")
        return subprocess.CompletedProcess(words, process.returncode, stdout, stderr)

    def _release(self, window: str, *flags: str) -> tuple[int, list[dict[str, Any]]]:
        """Returns the exit code, and what became of each window."""
        ended = self._run("release", "config.yaml", f"--window={window}", "--json", *flags)
        try:
            return ended.returncode, list(json.loads(ended.stdout)["windows"])
        except (ValueError, KeyError):
            raise _WrongError(
                f"the release of {window} ended with {ended.returncode}: {ended.stderr.strip()}"
            ) from None

    def _shown(self) -> dict[str, Any]:
        ended = self._run("windows", "config.yaml", "--json")
        _check(ended.returncode == 0, f"the calendar can be read, and not: {ended.stderr.strip()}")
        return dict(json.loads(ended.stdout))

    def _bill(self, windows: Sequence[dict[str, Any]]) -> str:
        """Checks that one window is paid in all, by what releases say is left, and says so.

        The account has what one window costs: after the first nothing is left, and none pays more.
        """
        nothing = {"epsilon": "0", "delta": "0"}
        _check(
            all(window["remaining"] == nothing for window in windows),
            f"epsilon {EPSILON} and delta {DELTA} are spent, and nothing is left",
        )
        return f"Spent so far, for all windows together: epsilon {EPSILON} and delta {DELTA}."

    def _kill(self, label: str) -> None:
        """Kills a release with -9 as soon as its ledger says that noise may be drawn."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        with self._start("release", "config.yaml", f"--window={label}", "--json") as process:
            while not self._has_drawn(label) and time.monotonic() < deadline:
                _check(process.poll() is None, "the release is killed before it ends by itself")
                time.sleep(_LOOK_SECONDS)
            process.kill()

    def _has_drawn(self, label: str) -> bool:
        ledger = self._store / "ledger.db"
        with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(
                "SELECT count(*) FROM tracecloak_ledger WHERE action = 'draw' AND release_id = ?",
                (f"week-{label}",),
            )
            return bool(cursor.fetchone()[0])

    @property
    def _store(self) -> Path:
        return self._demo.output.absolute() / "key-store"

    def _digest(self, folder: str) -> str:
        return hashlib.sha256((Path(folder) / "manifest.json").read_bytes()).hexdigest()


def _statuses(windows: Sequence[dict[str, Any]]) -> list[str]:
    return [window["status"] for window in windows]


def _check(is_so: bool, what: str) -> None:
    if not is_so:
        raise _WrongError(f"it was to be seen that {what}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/lake-demo"), help="folder to write"
    )
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases (default 20000)")
    flags = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        run(Demo(flags.output, datetime.now(UTC).date(), flags.cases), _say)
    except TracecloakError as error:
        sys.stderr.write(f"lake-demo: {error}; {flags.output}/commands.log has all commands\n")
        return error.exit_code
    _say(f"\nAll of it took {time.monotonic() - began:.0f} seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
