"""A run in memory that has next to none: all that it holds goes to the disk, in many pieces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tracecloak.pipelines.runners import in_memory
from tracecloak.pipelines.runners.resources import Limits


@contextlib.contextmanager
def cramped(held_bytes: int = 20_000, step_bytes: int = 30_000) -> Iterator[None]:
    """Within the block, shards are dealt out again, and parts are merged from runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_memory, "SMALL_INPUT_BYTES", 20)
        patch.setattr(in_memory, "_PIECE_EVENTS", 200)
        patch.setattr(in_memory, "_LEAST_PIECE_BYTES", 2000)
        patch.setattr(in_memory, "_MOST_PIECE_BYTES", 2000)
        patch.setattr(in_memory, "_RUN_BYTES", 500)
        limits = held_bytes, step_bytes, 3_000
        patch.setattr(Limits, "of", lambda _, n_workers, __: Limits(n_workers or 1, *limits))
        yield
