"""The DAG of deploy/ by Airflow itself, with a command that stands in for tracecloak."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engines import fetching

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]
DAG = Path(__file__).parents[2] / "deploy" / "airflow" / "tracecloak_windows.py"

# Notes what it is called with, and ends as it is told to: with an exit code, and what the JSON of
# `tracecloak release` says of the window, or none where the command could not even begin.
STAND_IN = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
calls = json.loads((here / "calls").read_text())
(here / "calls").write_text(json.dumps([*calls, sys.argv[1:]]))
answers = json.loads((here / "answers").read_text())
code, status = answers[min(len(calls), len(answers) - 1)]
label = next(word for word in sys.argv if word.startswith("--window="))[len("--window="):]
if status:
    window = dict(window=label, status=status, exit_code=code, release_id="ward-" + label)
    print(json.dumps(dict(windows=[window])))
print("tracecloak: why it ended so", file=sys.stderr)
sys.exit(code)
"""
Answer = tuple[int, str]
RELEASED: Answer = (0, "released")
_LIMIT_SECONDS = 400


@dataclass(frozen=True)
class Airflow:
    """An Airflow with the DAG, whose database is a file and whose tracecloak is the one above."""

    python: Path
    home: Path

    def path(self) -> Path:
        """Of the DAG."""
        return self.home / "dags" / DAG.name

    def write_dag(self, **constants: str) -> None:
        """Writes the DAG with some of its constants in another way, and without long waits."""
        text = DAG.read_text()
        stand_in = repr(str(self.home / "stand-in"))
        for name, value in {"COMMAND": stand_in, **constants}.items():
            text, n = re.subn(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
            assert n == 1, name
        for long in ("hours=1", "minutes=10"):
            assert text.count(f"timedelta({long})") == 1
            text = text.replace(f"timedelta({long})", "timedelta(seconds=1)")
        self.path().write_text(text)

    def run(self, date: str, *answers: Answer) -> tuple[str, list[list[str]], str]:
        """(how a run of the DAG ended, with what tracecloak was called, what was said)."""
        (self.home / "calls").write_text("[]")
        (self.home / "answers").write_text(json.dumps(answers))
        ended = self.python_of("-m", "airflow", "dags", "test", "tracecloak_windows", date)
        calls = json.loads((self.home / "calls").read_text())
        (state,) = re.findall(r"DagRun Finished: .*?\bstate=(\w+)", ended.stdout)
        assert (ended.returncode == 0) == (state == "success")
        return state, calls, ended.stdout

    def python_of(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs its Python and returns how it ended; both outputs are in stdout."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [str(self.python), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_SECONDS,
            cwd=self.home,
            env={
                **own,
                "AIRFLOW_HOME": str(self.home),
                "AIRFLOW__CORE__DAGS_FOLDER": str(self.home / "dags"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            },
        )


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """One with an empty database."""
    try:
        made = Airflow(fetching.airflow(), tmp_path_factory.mktemp("airflow"))
    except fetching.UnavailableError as reason:
        pytest.skip(str(reason))
    made.path().parent.mkdir()
    ended = made.python_of("-m", "airflow", "db", "migrate")
    if ended.returncode:
        pytest.skip(f"airflow db migrate failed: {ended.stdout[-300:]}")
    (made.home / "stand-in").write_text(STAND_IN.format(python=sys.executable))
    (made.home / "stand-in").chmod(0o755)
    return made


def test_a_run_releases_the_window_of_its_interval(worker: Airflow) -> None:
    worker.write_dag()
    state, calls, said = worker.run("2026-11-09", RELEASED)
    assert state == "success"
    assert calls == [["release", "/etc/tracecloak/windows.yaml", "--window=2026-11-02", "--json"]]
    assert '"status": "released"' in said and "tracecloak: why it ended so" in said


@pytest.mark.parametrize(
    ("answers", "state", "n_calls"),
    [
        ([(75, "failed"), RELEASED], "success", 2),
        ([(75, ""), (7, "failed"), (-9, ""), (0, "already_released")], "success", 4),
        ([(75, "not_due"), (75, "not_due"), RELEASED], "success", 3),
        ([(4, "refused")], "failed", 1),  # tests/deploy/test_platforms.py knows the others
        ([(2, "")], "failed", 1),
    ],
)
def test_the_exit_code_says_whether_it_is_tried_again(
    worker: Airflow, answers: list[Answer], state: str, n_calls: int
) -> None:
    worker.write_dag()
    ended, calls, said = worker.run("2026-11-09", *answers)
    assert (ended, len(calls)) == (state, n_calls)
    assert all(call == calls[0] for call in calls)
    if state == "failed":
        assert f"window 2026-11-02: tracecloak ended with {answers[0][0]}" in said


@pytest.mark.parametrize(
    ("constants", "date", "label"),
    [
        ({"BEGINS": "'0 0 1 * *'", "LABEL": "'%Y-%m'"}, "2026-11-01", "2026-10"),
        ({"BEGINS": "'0 0 * * *'"}, "2026-10-26", "2026-10-25"),
        (
            {"BEGINS": "'0 * * * *'", "LABEL": "'%Y-%m-%dT%HZ'"},
            "2026-11-09T15:00:00+00:00", "2026-11-09T14Z",
        ),
    ],
)  # fmt: skip
def test_labels_are_those_of_the_period(
    worker: Airflow, constants: dict[str, str], date: str, label: str
) -> None:
    worker.write_dag(**constants)
    state, ((_, _, window, _),), _ = worker.run(date, RELEASED)
    assert (state, window) == ("success", f"--window={label}")


OF_PAST = """
import logging
logging.disable(logging.CRITICAL)
import runpy
from airflow.sdk import DAG
from airflow.timetables.base import TimeRestriction
names = runpy.run_path({path!r})
dag = names["tracecloak_windows"]()
assert dag.catchup and dag.max_active_runs > 1
restriction = TimeRestriction(dag.start_date, None, True)
interval = None
for _ in range(13):
    run = dag.timetable.next_dagrun_info(
        last_automated_data_interval=interval, restriction=restriction
    )
    interval = run.data_interval
    begin = interval.start.in_timezone(names["TIME_ZONE"])
    print("run", begin.strftime(names["LABEL"]), begin.strftime("%H:%M"), interval.end)
"""


def test_runs_of_the_past_are_all_windows_from_the_origin_on(worker: Airflow) -> None:
    """Thirteen Mondays at midnight, also where the clocks are put back on 2026-10-25."""
    worker.write_dag()
    ended = worker.python_of("-c", OF_PAST.format(path=str(worker.path())))
    assert ended.returncode == 0, ended.stdout
    lines = [line.split()[1:] for line in ended.stdout.splitlines() if line.startswith("run ")]
    labels = [label for label, *_ in lines]
    assert (labels[0], labels[7:9], labels[-1]) == (
        "2026-08-31", ["2026-10-19", "2026-10-26"], "2026-11-23",
    )  # fmt: skip
    assert {clock for _, clock, *_ in lines} == {"00:00"}
