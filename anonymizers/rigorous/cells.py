"""The public domain of directly-follows counts: every pair that a vocabulary allows."""

from __future__ import annotations

import math

import numpy as np

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary

# Noise is drawn for every possible pair, seen or not.
MAX_CELLS = 20_000_000


def most_names_of_pairs(n_bins: int) -> int:
    """Returns how many names, OTHER included, a vocabulary can have at so many bins."""
    return math.isqrt(MAX_CELLS // n_bins) - 2


def excess_of_pairs(n_names: int, n_bins: int) -> str:
    """Returns what is wrong with so many names, OTHER included, and bins; empty if nothing is."""
    if n_names <= most_names_of_pairs(n_bins):
        return ""
    return too_many_names(most_names_of_pairs(n_bins), n_bins)


def too_many_names(most_names: int, n_bins: int = 1) -> str:
    """Returns what to do about more names than can be counted by; not how many there are.

    Args:
        most_names: That can be, OTHER included.
        n_bins: Bins for each pair of them.
    """
    bins = "" if n_bins == 1 else f" with {n_bins} duration bins"
    fewer = "" if n_bins == 1 else " or fewer bins (n_duration_bins)"
    return (
        f"noise is drawn for every possible pair, of {most_names:,} activities at most{bins}, "
        f"{OTHER} included; give a smaller vocabulary{fewer}"
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
    is_cell = is_possible[:, None] & (is_inner[:, None] | (np.arange(n_bins) == 0))
    return cells[is_cell]
