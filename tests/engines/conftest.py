"""Engines of a test module, each brought up once for all of its tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.fetching import or_skip
from tests.engines.kafka import KafkaBroker, kafka_broker
from tests.engines.postgresql import PostgreSql, postgresql


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSql]:
    with or_skip(postgresql(tmp_path_factory.mktemp("postgresql"))) as server:
        yield server


@pytest.fixture
def ledger(database: PostgreSql) -> str:
    """URL of a ledger of the test's own that several machines could share."""
    return database.new_database()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a module's engines."""
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[KafkaBroker]:
    """A broker of a module, which a test may stop if it starts it again."""
    with or_skip(kafka_broker(place / "kafka")) as started:
        yield started
