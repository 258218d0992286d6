"""A real PostgreSQL from a package, and databases of it."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """The server; a test that asks for it is skipped where it cannot be started."""
    pytest.importorskip("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains where there is no XDG_RUNTIME_DIR
        pgserver = pytest.importorskip("pgserver")
        # As root it runs the server as a user of its own, who must be able to reach the folder.
        folder = Path(tempfile.mkdtemp(prefix="ledger-"))
        try:
            started = pgserver.get_server(folder, cleanup_mode="stop")
        except (OSError, AssertionError, subprocess.SubprocessError, RuntimeError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"PostgreSQL cannot be started here: {type(error).__name__}")
    yield started
    started.cleanup()
    shutil.rmtree(folder)


@pytest.fixture
def database(server: Any) -> str:
    """URL of a database of the test's own."""
    name = f"test_{secrets.token_hex(8)}"
    server.psql(f"CREATE DATABASE {name}")
    return f"postgresql+psycopg://postgres@/{name}?host={server.get_postmaster_info().socket_dir}"
