"""Fixtures of all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# An example's time says more about the machine's load than about the code.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture(scope="session")
def logs_folder() -> Path:
    """The folder of public research logs; the test is skipped where there is none."""
    named = os.environ.get("TRACECLOAK_LOGS")
    if not named:
        pytest.skip("TRACECLOAK_LOGS names no folder of public research logs")
    return Path(named)
