"""Engines in tests, which say that they were skipped where an engine cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import pytest

from tests.engines.fetching import UnavailableError

T = TypeVar("T")


@contextmanager
def or_skip(engine: AbstractContextManager[T]) -> Iterator[T]:
    """Runs an engine for the block; skips the test where it cannot be fetched."""
    try:
        running = engine.__enter__()
    except UnavailableError as reason:
        pytest.skip(str(reason))
    try:
        yield running
    finally:
        engine.__exit__(None, None, None)
