"""Looking up many numbers, in any order, among ascending ones that lie close together."""

from __future__ import annotations

import numpy as np

# Fewer queries than these are left to numpy: the guide costs more than they do.
_FEW = 1 << 14
# Places of the guide for each number that is looked up in.
_GUIDES = 4


def n_at_most(ascending: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Returns int64[m], how many of the numbers are at most each query.

    As `np.searchsorted` does with `side="right"`, which goes through all halves for each query
    anew. Here the first digits of a query tell where to begin, mostly at the right place.

    Args:
        ascending: float64[n], finite, from 0 on.
        queries: float64[m], from 0 on.
    """
    if len(queries) < max(_FEW, _GUIDES * len(ascending)) or not ascending.max(initial=0) >= 1:
        return np.searchsorted(ascending, queries, side="right")
    # A power of two, so that no product is rounded, and what begins a query is at most the query.
    scale = 2.0 ** np.ceil(np.log2(_GUIDES * len(ascending) / ascending[-1]))
    begins = np.arange(int(ascending[-1] * scale) + 1) / scale
    guide = np.searchsorted(ascending, begins, side="right")
    places = guide[(np.minimum(queries, ascending[-1]) * scale).astype(np.int64)]
    bounded = np.append(ascending, np.inf)
    late = np.flatnonzero(bounded[places] <= queries)
    while len(late):
        places[late] += 1
        late = late[bounded[places[late]] <= queries[late]]
    return places
