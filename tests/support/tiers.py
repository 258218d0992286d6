"""Which parameters of a test are for the night."""

from __future__ import annotations

from typing import Any

import pytest


def at_night(*values: Any) -> Any:
    """Returns parameters whose test is slow; others of the same test stay in `make test`."""
    return pytest.param(*values, marks=pytest.mark.slow)
