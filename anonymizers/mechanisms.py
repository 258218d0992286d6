"""Noise on integers.

`laplace_by_inversion` is what the published methods call Laplace noise: a float drawn by inversion
and rounded. It is not an exact sampler: its tails end at about 37 scales and its last bits follow
the floats, so no epsilon is claimed from it, and manifests say `exact: false`.
"""

from __future__ import annotations

import numpy as np

from anonymizers.randomness import uniform

# Beyond this a stamp has left the calendar in any case, and sums of two stay within int64.
_LIMIT = 2.0**61


def laplace_by_inversion(words: np.ndarray, scales: np.ndarray | float) -> np.ndarray:
    """Returns int64[n], Laplace noise rounded to the nearest integer.

    Args:
        words: uint64[n, 2], random bits of each draw: the first word gives the size, the second
            the sign.
        scales: float64[n] or a scalar, the scale parameter; 0 gives 0.
    """
    size = -np.log(uniform(words[:, 0])) * scales
    sign = np.where(words[:, 1] >> np.uint64(63), 1.0, -1.0)
    return np.rint(np.clip(sign * size, -_LIMIT, _LIMIT)).astype(np.int64)
