"""Intervals around noisy sums of which only the large ones are shown, of cases that were clipped.

Three things lie between a count and its noisy sum, and an interval must allow for each.

Noise. It has a known law and takes the usual quantile.

The threshold. A sum is shown because it is large, and so more often too large than too small: of
cells that no case has, those that are shown lie above zero by more than any quantile. So the lower
limit is that of the law of what is shown, the noise given that the sum is not below the threshold
(Lee, Sun, Sun and Taylor 2016): the smallest mean m with P(Y >= y | Y >= threshold; m) of at least
1/40. The upper limit stays: P(Y <= m - h | Y >= threshold) is at most P(Y <= m - h) for every h. So
whatever the mean is, each limit fails with probability 1/40 at most, given that the sum is shown.

The clip. It only lowers sums: lower limits hold all the same, and upper ones are raised. By how
much is asked of the log: the cases' norms beyond the clip, of each case as much as the clip at
most, are one more sum of the release's joint Gaussian mechanism, by which a case moves it by the
clip at most. Clipping takes from no pair more than that. How it is spread over pairs is not asked,
as to know that would take the noise of a larger clip: it is taken to be spread as the shown sums
are, by their direction, a vector of norm 1. But the cases that are scaled down are long, and long
cases repeat: so all of it may be of the pairs that a case can have again at once, which are those
of an activity with itself, and those of which the graph has the reverse. An upper limit allows for
either. Both are estimates, not bounds: where cases are many times as long as the clip, they are too
little. No interval of a bounded width can hold for these, as one case may have any number of
events, and what is released must hardly depend on it.

All that looks at the noisy sums is arithmetic and costs no privacy.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from tracecloak.schemas.arrays import elementary

# Each side fails with this probability at most.
_TAIL = 1 / 40
TWO_SIDED, ONE_SIDED = 1.959963984540054, 1.6448536269514722
"""In deviations, of 95 % to both sides and to one."""
_BISECTIONS = 60
# The lower limit is searched at most so many scales of the noise below the threshold. Where it
# would be lower still, it is 0.
_FAR = 1e4


def norms_beyond(squares: np.ndarray, cases: np.ndarray, clip_units: int, units: int) -> int:
    """Returns the sum of the cases' norms beyond the clip, of each case the clip at most.

    One case more changes it by at most `clip_units`, whatever its norm.

    Args:
        squares: int64[n], squared norms in occurrences.
        cases: int64[n], cases of each.
        clip_units: In lattice steps.
        units: Lattice steps of one occurrence.
    """
    # A root is rounded the same on every machine (IEEE 754); what it is rounded to does not matter.
    beyond = np.floor(np.sqrt(squares.astype(np.float64)) * units) - clip_units
    return int((np.clip(beyond, 0, clip_units).astype(np.int64) * cases).sum())


def intervals_of_shown(
    values: np.ndarray,
    scales: np.ndarray,
    least: np.ndarray,
    taken: np.ndarray | float = 0.0,
    *,
    is_laplace: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice: lower and upper limits of the counts, with probability 0.95.

    Args:
        values: float64[n], the noisy sums that are shown. One below `least`, shown all the same,
            has a lower limit of 0; a negative one has the limits of 0.
        scales: float64[n], of the noise of each: the deviation, or Laplace's scale.
        least: float64[n], from what on each is shown, positive.
        taken: float64[n], what clipping may have taken from each, in occurrences.
        is_laplace: Whether the noise is Laplace; else it is Gaussian.
    """
    low = _lowest_means(values / scales, least / scales, is_laplace) * scales
    high = np.maximum(values, 0) + quantile_of_one(is_laplace) * scales + taken
    return np.floor(np.maximum(low, 0)).astype(np.int64), np.ceil(high).astype(np.int64)


def intervals_of_all(
    values: np.ndarray, scales: np.ndarray, *, is_laplace: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Returns int64[n] twice: limits as of `intervals_of_shown`, of sums that are all shown.

    No sum is chosen for being large, and nothing is said of what clipping takes. No count is below
    0, and neither is a limit. A sum below 0 has the limits of 0, as an interval that ended at 0 or
    before would say more than is known.

    Args:
        values: float64[n] or int64[n], the noisy sums.
        scales: float64[n], of the noise of each: the deviation, or Laplace's scale.
        is_laplace: Whether the noise is Laplace; else it is Gaussian.
    """
    half_widths = quantile_of_one(is_laplace) * scales
    low, high = values - half_widths, np.maximum(values, 0) + half_widths
    return np.floor(np.maximum(low, 0)).astype(np.int64), np.ceil(high).astype(np.int64)


def reach_of_noise(n_cells: int, *, is_laplace: bool) -> float:
    """Returns the scales that none of so many noises exceeds with probability 0.95."""
    tail = 2 * _TAIL / n_cells
    return -math.log(2 * tail) if is_laplace else -NormalDist().inv_cdf(tail)


def quantile_of_one(is_laplace: bool) -> float:
    """Returns half the width of a 95 % interval around one noise, in its scales."""
    return math.log(1 / (2 * _TAIL)) if is_laplace else TWO_SIDED


def _lowest_means(values: np.ndarray, least: np.ndarray, is_laplace: bool) -> np.ndarray:
    """float64[n], in scales: means whose values, where shown, reach these with 1/40.

    The chance grows with the mean, since the noise's density is log-concave.
    """
    from scipy.special import log_ndtr  # it takes long to load

    def log_tail(x: np.ndarray) -> np.ndarray:
        if is_laplace:
            upper = -np.abs(x) - math.log(2)
            return np.where(x > 0, upper, elementary.log1p(-elementary.exp(upper)))
        return np.asarray(log_ndtr(-x))

    low, high = np.full(len(values), -_FAR), values.astype(np.float64)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_unlikely = log_tail(values - middle) - log_tail(least - middle) < math.log(_TAIL)
        low, high = np.where(is_unlikely, middle, low), np.where(is_unlikely, high, middle)
    return low
