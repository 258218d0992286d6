"""Times in public bins: their borders, their shares by noisy counts, and draws from them."""

from __future__ import annotations

import math

import numpy as np

from tracecloak.schemas.errors import UsageError
from tracecloak.schemas.statistics.durations import duration_borders

MIN_BINS = 4


def step_borders(n_bins: int) -> np.ndarray:
    """Returns int64[n_bins-1], ascending borders in microseconds: 1, a second, …, ten years.

    Bin 0 has the steps that take no time at all, so that ties stay ties.

    Args:
        n_bins: Number of bins, at least 4.

    Raises:
        UsageError: They are fewer.
    """
    if n_bins < MIN_BINS:
        raise UsageError(f"n_duration_bins must be at least {MIN_BINS}, got {n_bins}")
    return np.concatenate([[1], duration_borders(n_bins - 1)])


def largest_noise(n_cells: int) -> float:
    """What normal noise of so many cells hardly exceeds, in its deviations.

    Discrete Laplace noise of a few cells does: of n about n / 2 e^(-2 root(ln n)).
    """
    return math.sqrt(2 * math.log(n_cells))


def estimated_shares(
    rows: np.ndarray, deviation: float, shares: np.ndarray, is_large: np.ndarray
) -> np.ndarray:
    """float64[m, k], shares of rows with noise, see `decide_durations`.

    Args:
        rows: float64[m, k].
        deviation: Of the noise of each.
        shares: float64[k], the coarser level's.
        is_large: bool[m, k], the cells that are beyond all noise.
    """
    totals = np.where((shares > 0) | is_large, rows, 0.0).sum(axis=1, keepdims=True)
    expected = np.maximum(totals, 0) * shares
    trust = expected**2 / np.maximum(expected**2 + deviation**2, np.finfo(np.float64).tiny)
    found = np.maximum(np.where(is_large, rows, expected + trust * (rows - expected)), 0)
    sums = found.sum(axis=1, keepdims=True)
    return np.where(sums > 0, found / np.where(sums > 0, sums, 1), shares)


def times_in_bins(
    bins: np.ndarray, borders_us: np.ndarray, longest_us: int, uniforms: np.ndarray
) -> np.ndarray:
    """Draws times evenly in their logarithm within their bins.

    Args:
        bins: int64[m], from 0, no time, to `len(borders_us)`.
        borders_us: int64[k-1], see `step_borders`.
        longest_us: No time is longer.
        uniforms: float64[m] in [0, 1).

    Returns:
        int64[m], microseconds, in the last bin below twice its border.
    """
    low = np.concatenate([[1], borders_us])[bins]
    high = np.concatenate([[2], borders_us[1:], [2 * borders_us[-1]]])[bins]
    high = np.maximum(np.minimum(high, longest_us + 1), low + 1)
    drawn = np.floor(low * (high / low) ** uniforms).astype(np.int64)
    return np.where(bins == 0, 0, np.clip(drawn, low, high - 1))
