"""The errors of sums over steps by other ways, to compare with what is computed of the factors."""

from __future__ import annotations

import math

import numpy as np

from tracecloak.anonymizers.accounting.composition import square_root


def error_of_totals(step: int, horizon: int) -> float:
    """Returns the deviation of a total from the root for totals, before coefficients are rounded.

    sqrt(S_t S_T) with S_n = b_0^2 + … + b_(n-1)^2, t = step + 1 and T the horizon (Fichtenberger,
    Henzinger, Upadhyay 2023), in deviations of noise that covers a sensitivity of 1.
    """
    squares = np.cumsum(square_root(horizon, None) ** 2)
    return math.sqrt(squares[step] * squares[-1])


def error_of_sliding_sums(step: int, length: int, horizon: int) -> float:
    """Returns the same for the sum of the last W steps, as a difference of two totals.

    sqrt(S_T sum_k (b_k - b_(k-W))^2), k to the step, at most S_T sqrt(2).
    """
    series = square_root(horizon, None)
    moved = np.concatenate([np.zeros(min(length, horizon)), series])[:horizon]
    ends = ((series - moved)[: step + 1] ** 2).sum()
    return math.sqrt((series**2).sum() * ends)


def errors_of_normalised_sums(
    horizon: int, length: int | None, of_sums: int | None = None
) -> np.ndarray:
    """Returns float64[horizon], the deviations of sums where all columns of the root have a norm.

    By dense matrices of floats: of A (R N)^-1 with R the root for sums of a length and N what makes
    its columns as long as the first, times that length, before anything is rounded.

    Args:
        horizon: Steps, some hundreds.
        length: Of the sums that R is the root for; None: totals.
        of_sums: Of the sums that are estimated; None: totals.
    """
    lags = np.arange(horizon)[:, None] - np.arange(horizon)
    root = np.where(lags >= 0, square_root(horizon, length)[np.maximum(lags, 0)], 0)
    norms = np.sqrt((root**2).sum(axis=0))
    sums = ((lags >= 0) & (lags < (of_sums or horizon))).astype(float)
    weights = sums @ np.linalg.inv(root * (norms[0] / norms))
    return np.sqrt((weights**2).sum(axis=1)) * norms[0]
