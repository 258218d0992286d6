"""The series by which sums over steps are measured with little noise.

The matrix of all sums, lower triangular and Toeplitz, has a square root of the same kind.
If noise is added to its product with the counts, and the result is multiplied by it once more,
all sums come out with noise that grows with the logarithm of their number
(Fichtenberger, Henzinger, Upadhyay 2023).
"""

from __future__ import annotations

import numpy as np


def square_root(horizon: int, length: int | None) -> np.ndarray:
    """Returns float64[horizon], the power series of sqrt((1 - z^W) / (1 - z)).

    Args:
        horizon: Terms, at least 1.
        length: W, or None: sqrt(1 / (1 - z)).
    """
    if length == 1:
        return np.eye(1, horizon)[0]
    k = np.arange(1, horizon)
    totals = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    if length is None or length >= horizon:
        return totals
    n = (horizon - 1) // length
    k = np.arange(1, n + 1)
    terms = np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))])  # of sqrt(1 - z)
    series = np.zeros(horizon)
    for i, term in enumerate(terms.tolist()):
        series[i * length :] += term * totals[: horizon - i * length]
    return series
