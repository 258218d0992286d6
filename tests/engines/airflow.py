"""Airflow in an environment of its own: DAGs run by its command, without a scheduler."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.engines import fetching

_LIMIT_SECONDS = 400


@dataclass(frozen=True)
class Airflow:
    """An Airflow whose database is a file."""

    python: Path
    home: Path

    @property
    def dags(self) -> Path:
        """The folder that it reads DAGs from."""
        return self.home / "dags"

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs its command and returns how it ended; both outputs are in stdout."""
        return self.run("-m", "airflow", *words)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs its Python, as `command` does."""
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
                "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            },
        )


def airflow(home: Path) -> Airflow:
    """Makes an Airflow with an empty database."""
    found = Airflow(fetching.airflow(), home)
    found.dags.mkdir(parents=True)
    ended = found.command("db", "migrate")
    if ended.returncode:
        raise fetching.UnavailableError(f"airflow db migrate failed: {ended.stdout[-300:]}")
    return found
