"""A bootstrap of a log: as many of its cases, drawn with replacement.

What it differs from the log by is what another log of the same process would (Efron, 1979), so it
is the line beside a measure that no release need pass: who is nearer repeats the log's accidents.

It is no protection, and its draws are no noise: they are public and always the same.
"""

from __future__ import annotations

import numpy as np

from tracecloak.schemas.arrays.hashing import mix
from tracecloak.schemas.events.traces import TraceBatch

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def public_words(n: int, draw: int) -> np.ndarray:
    """Returns uint64[n], words that look random and that everybody can compute (splitmix64).

    Args:
        n: How many.
        draw: Different numbers from 0 on give different words.
    """
    start = mix(np.array([draw + 1], np.uint64))
    return mix(start + np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN)


def bootstrap(traces: TraceBatch, draw: int = 0) -> TraceBatch:
    """Returns a bootstrap of a log; a case that is drawn again has the same id again.

    Args:
        traces: The log.
        draw: Which of its bootstraps, from 0.
    """
    n = traces.n_cases
    drawn = public_words(n, draw) % np.uint64(max(n, 1))
    return traces.take(np.sort(drawn.astype(np.int64)))
