"""The public domain of directly-follows counts: every pair that a vocabulary allows."""

from __future__ import annotations

import numpy as np

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.vocabulary import ActivityVocabulary

# Noise is drawn for every possible pair, seen or not.
MAX_CELLS = 20_000_000


def excess_of_pairs(n_names: int, n_bins: int) -> str:
    """Returns what is wrong with so many names, OTHER included, and bins; empty if nothing is."""
    if (n_names + 2) ** 2 * n_bins <= MAX_CELLS:
        return ""
    return (
        f"a vocabulary of {n_names:,} activities with {n_bins} duration bins has more than "
        f"{MAX_CELLS:,} possible pairs; give a smaller vocabulary or fewer bins"
    )


def possible_pairs(vocabulary: ActivityVocabulary, n_bins: int) -> np.ndarray:
    """Returns int64[n], ascending: the cells (source, target, bin) that a case can have.

    A case has at least one event, so START is not followed by END; pairs with START or END take no
    time and have the first bin only.

    Raises:
        UsageError: There are too many.
    """
    if excess := excess_of_pairs(len(vocabulary), n_bins):
        raise UsageError(excess)
    n_codes = vocabulary.end + 1
    pair = np.arange(n_codes**2, dtype=np.int64)
    source, target = pair // n_codes, pair % n_codes
    is_possible = (source != vocabulary.end) & (target != vocabulary.start)
    is_possible &= ~((source == vocabulary.start) & (target == vocabulary.end))
    is_inner = (source < vocabulary.start) & (target < vocabulary.start)
    cells = pair[:, None] * n_bins + np.arange(n_bins)
    kept = is_possible[:, None] & (is_inner[:, None] | (np.arange(n_bins) == 0))
    return cells[kept]
