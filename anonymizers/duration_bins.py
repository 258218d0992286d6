"""Public bins for durations: the same for every log, so that they tell nothing of one."""

from __future__ import annotations

import numpy as np

_SECOND_US = 1_000_000
_YEAR_US = 31_556_952 * _SECOND_US
_LONGEST_YEARS = 10


def duration_borders(n_bins: int) -> np.ndarray:
    """Returns int64[n_bins-1], ascending borders in microseconds, evenly spaced in their logarithm.

    The first bin is below one second, the last from ten years on.

    Args:
        n_bins: Number of bins, at least 3.
    """
    borders = np.geomspace(_SECOND_US, _LONGEST_YEARS * _YEAR_US, n_bins - 1)
    return np.rint(borders).astype(np.int64)
