"""A small release: its log, its command, and where it and its keys are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.releasing import small_release


@pytest.fixture
def common(tmp_path: Path) -> list[object]:
    flags = ("--epsilon", "8", "--delta", "1e-5", "--release_id", "r", "--parts", 2)
    return small_release(tmp_path, *flags)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"
