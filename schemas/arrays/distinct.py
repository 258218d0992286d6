"""The distinct ones and the order of many integers: what numpy returns, in less time and memory.

Keys that lie close together are looked up in a table. Others are sorted as integers that hold a key
and its place at once, which takes a fraction of the time of sorting places by their keys. Where
keys come case by case and begin with the case, they are nearly in order, and the sort knows it.
"""

from __future__ import annotations

import numpy as np

# Fewer keys than these are left to numpy: a call costs more than they do.
_FEW = 1 << 11
# A table may have so many cells for each key, so that it is no larger than what is returned.
_CELLS_OF_KEY = 2
# Among keys so far apart as many in order, as a share, tell that keys come in short runs, which are
# merged in a fifth of the time of sorting keys that come in any order; one half is in order by
# chance.
_STRIDE = 1 << 7
_ORDERED = 0.75


def distinct_places(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct keys, ascending, and int64[n], which of them each key is.

    Args:
        keys: int[n].
    """
    above = _Above.least(keys)
    shift = (len(keys) - 1).bit_length()
    if above is None or (above.width - 1).bit_length() + shift > 63:
        distinct, places = np.unique(keys, return_inverse=True)
        return distinct, places
    cells = above.cells(np.int64)
    if above.has_table:
        is_there = np.zeros(above.width, bool)
        is_there[cells] = True
        used = np.flatnonzero(is_there)
        place_of = np.empty(above.width, np.int64)
        place_of[used] = np.arange(len(used))
        np.take(place_of, cells, out=cells, mode="clip")
        return above.keys(used), cells
    _pack(cells, shift)
    places = np.empty(len(cells), np.int64)
    origin = cells & ((1 << shift) - 1)
    cells >>= shift
    is_first = _begins(cells)
    used = cells[is_first]
    np.cumsum(is_first, out=cells)
    cells -= 1
    places[origin] = cells
    return above.keys(used), places


def distinct_counts(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the distinct keys, ascending, and int64[n], how often each occurs.

    Args:
        keys: int[n].
    """
    above = _Above.least(keys)
    if above is None:
        distinct, counts = np.unique(keys, return_counts=True)
        return distinct, counts
    if above.has_table:
        counts = np.bincount(above.cells(np.int64), minlength=above.width)
        used = np.flatnonzero(counts)
        return above.keys(used), counts[used]
    # Half as wide is sorted in half of the time.
    cells = above.cells(np.uint32 if above.width <= 1 << 32 else np.int64)
    _sort(cells)
    first = np.flatnonzero(_begins(cells))
    return above.keys(cells[first]), np.diff(first, append=len(cells))


def stable_order(keys: np.ndarray) -> np.ndarray:
    """Returns int64[n], what numpy's stable `argsort` of the keys returns.

    Args:
        keys: int[n].
    """
    above = _Above.least(keys)
    shift = (len(keys) - 1).bit_length()
    if above is None or (above.width - 1).bit_length() + shift > 63:
        return np.argsort(keys, kind="stable")
    cells = above.cells(np.int64)
    _pack(cells, shift)
    cells &= (1 << shift) - 1
    return cells


class _Above:
    """Many keys as cells, which are how far each lies above the least one."""

    def __init__(self, keys: np.ndarray, least: int, width: int) -> None:
        self._keys, self._least, self.width = keys, least, width
        self.has_table = width <= _CELLS_OF_KEY * len(keys)

    @classmethod
    def least(cls, keys: np.ndarray) -> _Above | None:
        """Returns the cells; None for few keys, and for such as are too far apart for int64."""
        if len(keys) < _FEW:
            return None
        least, largest = int(keys.min()), int(keys.max())
        is_near = largest - least < 1 << 63 and largest < 1 << 63
        return cls(keys, least, largest - least + 1) if is_near else None

    def cells(self, dtype: type[np.generic]) -> np.ndarray:
        return np.subtract(self._keys, self._least, dtype=np.int64).astype(dtype, copy=False)

    def keys(self, cells: np.ndarray) -> np.ndarray:
        return np.add(cells, self._least, dtype=np.int64).astype(self._keys.dtype, copy=False)


def _pack(cells: np.ndarray, shift: int) -> None:
    """Puts the place of each into its lowest bits, and sorts them."""
    cells <<= shift
    cells |= np.arange(len(cells))
    _sort(cells)


def _sort(cells: np.ndarray) -> None:
    """Sorts in place, by merging runs where keys that are far apart are in order already."""
    sample = cells[::_STRIDE]
    n_ascending = np.count_nonzero(sample[1:] >= sample[:-1])
    cells.sort(kind="stable" if n_ascending >= _ORDERED * (len(sample) - 1) else "quicksort")


def _begins(ordered: np.ndarray) -> np.ndarray:
    """bool[n], whether a key is none that stands before it."""
    begins = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins
