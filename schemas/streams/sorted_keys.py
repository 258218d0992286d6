"""Keys of two words, uint64[n, 2], in the order of both: found by bisection, without any text."""

from __future__ import annotations

import numpy as np


def order_of_keys(keys: np.ndarray) -> np.ndarray:
    """Returns int64[n], the rows in the order of their keys."""
    return np.lexsort((keys[:, 1], keys[:, 0]))


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
