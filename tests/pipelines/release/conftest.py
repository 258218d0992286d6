"""A small release: its log, its command, and where it and its keys are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.releasing import csv_log, small_rows


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return csv_log(tmp_path / "log.csv", list(small_rows(60)))


@pytest.fixture
def common(tmp_path: Path, log: Path) -> list[object]:
    return [
        "release", "--log", log, "--output", tmp_path / "out", "--key_store", tmp_path / "keys",
        "--method", "variant-histogram", "--epsilon", "8", "--delta", "1e-5", "--release_id", "r",
        "--runner", "InMemory", "--parts", 2,
    ]  # fmt: skip


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"
