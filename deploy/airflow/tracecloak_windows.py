"""Windows of a data lake, released by Airflow: one run of this DAG is one window.

Copy it into the folder of your DAGs, and give the constants values of your own.
docs/how-to/schedule.md says how to use it.

The window of a run is the one that begins with the run's data interval. A run that comes before
its window is due looks again every hour. `catchup` makes the windows of the past, and runs of
several windows may be at work at once: each pays for its own window, and one that finds the ledger
in use is tried again. Running a window twice costs nothing. The value that the task leaves for
later ones (its XCom) is the list of the releases' names.

What was run: this file by Airflow 3.3.2, with SQLite and a command that stood in for tracecloak. No
scheduler was started, so no executor and no pool was tried.
"""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta

import pendulum
from airflow.sdk import PokeReturnValue, dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.timetables.interval import CronDataIntervalTimetable

COMMAND = "tracecloak"
CONFIGURATION = "/etc/tracecloak/windows.yaml"

# As the schedule of the configuration has them. Where they differ, a run asks for a window that
# there is none of, and ends as wrong (2).
TIME_ZONE = "Europe/Berlin"
ORIGIN = pendulum.datetime(2026, 8, 31, tz=TIME_ZONE)
STARTING_STATES = "0 0 * * 1"  # when windows begin, as cron has it: on Mondays
LABEL = "%Y-%m-%d"  # of a window, from its begin: %Y-%m for months, %Y-%m-%dT%HZ in UTC for hours

# After these a person has to do something: a wrong flag, a bad source, no budget, a promise that
# cannot be kept, a failure, a release that nobody could use. Any other code, such as 75 and that of
# a process that was killed, means that the same command may be run again.
FINAL_CODES = (2, 3, 4, 5, 6, 9)


def released(label: str) -> PokeReturnValue:
    """Releases a window, and says whether it is there; it is not before it is due.

    Raises:
        AirflowFailException: It cannot be released, and trying again would not help.
        AirflowException: Something passing was in the way.
    """
    command = [COMMAND, "release", CONFIGURATION, f"--window={label}", "--json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(ended.stdout)  # no number in it was counted on the data
    windows = json.loads(ended.stdout)["windows"] if ended.stdout.strip() else []
    if any(window["status"] == "not_due" for window in windows):
        return PokeReturnValue(is_done=False)
    told = f"window {label}: tracecloak ended with {ended.returncode}, and the log above says why"
    if ended.returncode in FINAL_CODES:
        raise AirflowFailException(told)
    if ended.returncode != 0:
        raise AirflowException(told)
    return PokeReturnValue(is_done=True, xcom_value=[window["release_id"] for window in windows])


@dag(
    schedule=CronDataIntervalTimetable(STARTING_STATES, timezone=TIME_ZONE),
    start_date=ORIGIN,
    catchup=True,
    max_active_runs=2,
    tags=["tracecloak"],
)
def tracecloak_windows() -> None:
    """Releases the window of each data interval."""

    @task.sensor(
        mode="reschedule",  # what waits until its window is due keeps no worker
        poke_interval=timedelta(hours=1).total_seconds(),
        timeout=timedelta(days=400).total_seconds(),  # longer than a window waits until it is due
        retries=5,
        retry_delay=timedelta(minutes=10),
        retry_exponential_backoff=True,
    )
    def release(data_interval_start: pendulum.DateTime | None = None) -> PokeReturnValue:
        assert data_interval_start is not None  # Airflow gives it
        zone = "UTC" if "%H" in LABEL else TIME_ZONE
        return released(data_interval_start.in_timezone(zone).strftime(LABEL))

    release()


tracecloak_windows()
