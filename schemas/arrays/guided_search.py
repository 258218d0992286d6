"""Looking up many numbers, in any order, among few ascending ones."""

from __future__ import annotations

import numpy as np

# Of fewer queries than these, or than these for each number, making the guide does not pay.
_FEW_QUERIES, _FEW_OF_NUMBER = 1 << 14, 4
# Numbers below the largest by more halvings than these share one place of the guide.
_HALVINGS = 40
_FRACTION_BITS = 52
# Whole numbers up to here are exact as float64.
_EXACT = 1 << 53


def n_at_most(ascending: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Returns int64[m], how many of the numbers are at most each query.

    As `np.searchsorted` does with `side="right"`, which halves all numbers for each query anew.
    Here the first digits of a query tell where to begin, mostly at the right place.

    Args:
        ascending: int64[n] or float64[n], from 0 on.
        queries: int64[m] or float64[m]; none is no number.
    """
    n = len(ascending)
    is_few = len(queries) < max(_FEW_QUERIES, _FEW_OF_NUMBER * n)
    if is_few or n == 0 or ascending[-1] > _EXACT:
        return np.searchsorted(ascending, queries, side="right")
    bounds = np.append(ascending.astype(np.float64), np.inf)
    asked = queries.astype(np.float64, copy=False)
    # The bits of numbers from 0 on, taken for integers, are in the order of the numbers.
    shift = _FRACTION_BITS - n.bit_length()
    ends = np.array([max(bounds[0], bounds[-2] * 2.0**-_HALVINGS), bounds[-2]])
    first, last = (ends.view(np.int64) >> shift).tolist()
    begins = (np.arange(first, last + 1) << shift).view(np.float64)
    guide = np.searchsorted(bounds, begins, side="right")
    guide[0] = 0  # for what lies before it as well
    places = guide[np.clip((asked.view(np.int64) >> shift) - first, 0, last - first)]
    late = np.flatnonzero(bounds[places] <= asked)
    while len(late):
        places[late] += 1
        late = late[bounds[places[late]] <= asked[late]]
    return places
