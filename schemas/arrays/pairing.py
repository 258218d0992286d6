"""Records of starts and of completions paired to events, first in, first out."""

from __future__ import annotations

import numpy as np

from tracecloak.schemas.arrays.merging import offsets_of


def pairs_of_records(groups: np.ndarray, is_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns which start belongs to which completion.

    The k-th completion of a group that finds an open start takes the k-th start.

    Args:
        groups: int64[n], the activity and case of each record; the records of one are in order.
        is_start: bool[n], whether a record is one of a start; else it is one of a completion.

    Returns:
        Two int64[m]: places of starts, and of the completions that take them.
    """
    order = np.argsort(groups, kind="stable")
    grouped, starts = groups[order], is_start[order]
    number = np.cumsum(np.diff(grouped, prepend=grouped[:1]) != 0)
    # Each group counts its open starts from a level below all that was reached before.
    level = -number * (2 * len(groups) + 2)
    change = np.where(starts, 1, -1)
    reached = np.cumsum(change)
    heads = np.flatnonzero(np.diff(number, prepend=-1))
    reached = reached - np.repeat(reached[heads] - change[heads], np.diff(heads, append=len(order)))
    lowest = np.minimum(np.minimum.accumulate(reached + level), level) - level
    before = np.append(0, lowest[:-1])
    before[heads] = 0
    is_paired = ~starts & (lowest == before)  # a completion that finds none reaches a new low
    n_groups = len(heads)
    n_pairs = np.bincount(number[is_paired], minlength=n_groups)
    n_starts = np.bincount(number[starts], minlength=n_groups)
    rank = np.arange(int(n_starts.sum())) - np.repeat(offsets_of(n_starts)[:-1], n_starts)
    is_taken = rank < np.repeat(n_pairs, n_starts)
    return order[np.flatnonzero(starts)[is_taken]], order[is_paired]
