"""A real PostgreSQL from a package, and databases of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.fetching import or_skip
from tests.engines.postgresql import PostgreSql, postgresql


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSql]:
    """The server; a test that asks for it is skipped where its programs are not installed."""
    pytest.importorskip("psycopg")
    with or_skip(postgresql(tmp_path_factory.mktemp("postgresql"))) as started:
        yield started


@pytest.fixture
def database(server: PostgreSql) -> str:
    """URL of a database of the test's own."""
    return server.new_database()
