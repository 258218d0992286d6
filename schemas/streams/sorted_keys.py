"""Keys of two words, uint64[n, 2], in the order of both: found by bisection, without any text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def order_of_keys(keys: np.ndarray) -> np.ndarray:
    """Returns int64[n], the rows in the order of their keys."""
    return order_by([keys[:, 0]], [keys[:, 1]])


def order_by(first: Sequence[np.ndarray], then: Sequence[np.ndarray]) -> np.ndarray:
    """Returns int64[n], what `np.lexsort((*then, *first))` does, where `first` mostly decides.

    Rows that come in order, or in a few runs of it, take hardly any time. It would take much more
    to sort by the other columns before, as they put the rows in an order of their own.

    Args:
        first: Columns, the last one foremost.
        then: Columns that decide among rows that are equal in all of these.
    """
    order = np.lexsort(first)
    is_same = np.logical_and.reduce([(c := column[order])[1:] == c[:-1] for column in first])
    if is_same.any():
        is_tied = np.append(is_same, False) | np.append(False, is_same)
        rows = order[is_tied]
        order[is_tied] = rows[np.lexsort([column[rows] for column in (*then, *first)])]
    return order


def distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (distinct keys in order, a row of each, int64[n] the rank of each row's key)."""
    order = order_of_keys(keys)
    ordered = keys[order]
    is_new = np.ones(len(keys), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.cumsum(is_new) - 1
    return ordered[is_new], order[is_new], rank


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Returns int64[n], the row of each wanted key among sorted ones, or -1."""
    place = np.searchsorted(keys[:, 0], wanted[:, 0])
    rows = np.full(len(wanted), -1, np.int64)
    search = np.arange(len(wanted))
    while len(search):  # once more for each key that shares its first word: hardly ever
        search = search[place[search] < len(keys)]
        at = place[search]
        same = keys[at, 0] == wanted[search, 0]
        equal = same & (keys[at, 1] == wanted[search, 1])
        rows[search[equal]] = at[equal]
        search = search[same & ~equal]
        place[search] += 1
    return rows
