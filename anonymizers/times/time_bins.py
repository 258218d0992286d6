"""Times in public bins: how many, their borders, shares by noisy counts, and draws from them.

Times are whole numbers of ticks of a grid (schemas.calendar.working_time).
"""

from __future__ import annotations

import math

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import of_one_cell
from tracecloak.anonymizers.contract import method as contract
from tracecloak.anonymizers.noise.randomness import CellLaws
from tracecloak.anonymizers.rigorous.budget import Allowance
from tracecloak.schemas.arrays import elementary
from tracecloak.schemas.errors import check_least

MIN_BINS = 4
"""The fewest that can be asked for."""

MOST_BINS = 48
"""The most that a log is given, however large it is."""

_FEWEST_BINS = 12
# Below a second a factor of ten has a third of the bins that it has above: most processes take
# longer, and should lose little where a clock has milliseconds.
_BELOW_A_SECOND = 1 / 3
# A log gets more bins only while each has so many cases, in deviations of the noise of one case's
# count.
_CASES_OF_BIN = 8
# Of times of whole cases there are more than MOST_BINS, as many as this, if each still has so many
# cases: a step that always takes a month is then not spread over two.
_MOST_SPANS, _CASES_OF_NARROW = 200, 32
# What is fewer deviations of its noise above 0 than this, or from another number, may be equal.
_LEAST_DEVIATIONS = 3


class TimeBins(contract.Decision, wire_name="time-bins"):
    """How many bins times are counted in.

    Attributes:
        steps: Of the times between two events.
        spans: Of the times of whole cases.
    """

    steps: int
    spans: int


def n_bins_of(
    n_cases: int, allowance: Allowance, max_units: int, *, is_of_cases: bool = False
) -> int:
    """Returns how many bins the noise leaves something of: 12 to 48, by the size of the log.

    As many as the number of cases is times eight deviations of the noise of a count that each case
    changes by 1. Of the times of whole cases there are up to 200, where it is so many times 32.

    Args:
        n_cases: Noisy, and paid for.
        allowance: What the counts may spend.
        max_units: Cases of one unit.
        is_of_cases: Whether they are of the times of whole cases.
    """
    worth = n_cases / allowance.noise(of_one_cell(max_units)).deviation
    n_bins = min(max(int(worth / _CASES_OF_BIN), _FEWEST_BINS), MOST_BINS)
    return max(n_bins, min(int(worth / _CASES_OF_NARROW), _MOST_SPANS)) if is_of_cases else n_bins


def bins_text(n_bins: int | None) -> str:
    """Returns how many bins there are, in words; None for as many as the log's size asks for."""
    if n_bins is None:
        return f"{_FEWEST_BINS} to {MOST_BINS} bins by the number of cases"
    return f"{n_bins} bins"


def time_borders(n_bins: int, n_ticks: int, second: int = 1) -> np.ndarray:
    """Returns int64[k-1], ascending borders of k bins: 1 tick, and evenly in the logarithm.

    Bin 0 has what takes no time at all, so that ties stay ties, and the last ends at `n_ticks`,
    the length of the range. Where ticks are shorter than a second, bins below it are three times as
    wide in the logarithm. As borders are whole ticks and differ, k can be less than `n_bins`.

    Args:
        n_bins: Number of bins, at least 4.
        n_ticks: At least 1.
        second: Ticks of a second, see `TimeGrid.second`.

    Raises:
        UsageError: They are fewer.
    """
    check_least(MIN_BINS, n_duration_bins=n_bins)
    # A range is whole days, so it is longer than a second unless it is made up.
    second = min(second, n_ticks)
    below, above = (float(elementary.log(np.array([x]))[0]) for x in (second, n_ticks / second))
    narrow = below * _BELOW_A_SECOND
    places = np.arange(n_bins - 1) * ((narrow + above) / (n_bins - 1))
    logs = np.where(places < narrow, places / _BELOW_A_SECOND, places - narrow + below)
    borders = np.unique(np.rint(elementary.exp(logs)).astype(np.int64))
    return borders[borders < n_ticks]


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
    trust = expected**2 / np.maximum(expected**2 + deviation * deviation, np.finfo(np.float64).tiny)
    estimates = np.maximum(np.where(is_large, rows, expected + trust * (rows - expected)), 0)
    sums = estimates.sum(axis=1, keepdims=True)
    return np.where(sums > 0, estimates / np.where(sums > 0, sums, 1), shares)


def without_longest(rows: np.ndarray, deviation: float, shares: np.ndarray) -> np.ndarray:
    """Returns float64[m, k], shares of a coarser level, 0 of the longest times if a row has none.

    Noise on a bin of months that no step takes would outlast all that the others take. So from some
    bin on a row is taken to be empty if all of these bins together, each weighed by its share (the
    matched filter), are below what noise makes of nothing, and lack as much to what the coarser
    level leads one to expect of them. No later bins of it may stand out of the noise.

    Args:
        rows: float64[m, k], noisy counts; the bins ascend.
        deviation: Of the noise of each.
        shares: float64[k] or float64[m, k], the coarser level's.
    """
    shares = np.broadcast_to(shares, rows.shape)
    totals = np.where(shares > 0, rows, 0.0).sum(axis=1, keepdims=True)
    lacks = _beyond_noise(totals * shares - rows, deviation, shares)
    kept = np.where(
        np.logical_or.accumulate(lacks & ~is_reached(rows, deviation, shares), axis=1), 0.0, shares
    )
    return np.where(kept.any(axis=1, keepdims=True), kept, shares)


def is_reached(rows: np.ndarray, deviation: float, shares: np.ndarray) -> np.ndarray:
    """Returns bool[m, k], whether a row has times of a bin or of a later one, beyond noise."""
    return np.logical_or.accumulate(_beyond_noise(rows, deviation, shares)[:, ::-1], axis=1)[
        :, ::-1
    ]


def _beyond_noise(rows: np.ndarray, deviation: float, shares: np.ndarray) -> np.ndarray:
    """bool[m, k], whether a bin and all later ones, weighed by their shares, are above noise."""
    together, squares = (
        np.cumsum(values[:, ::-1], axis=1)[:, ::-1] for values in (shares * rows, shares**2)
    )
    least = max(_LEAST_DEVIATIONS, largest_noise(max(rows.shape[1], 1)))
    return together > least * deviation * np.sqrt(squares)


def bins_at(reached: np.ndarray, rows: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Returns int64[m], the bin of each rank in its row of float64[n, k]."""
    n, k = reached.shape
    return CellLaws((reached + np.arange(n)[:, None]).ravel(), k).draw(rows, ranks)


def times_at(
    reached: np.ndarray, rows: np.ndarray, borders: np.ndarray, n_ticks: int, ranks: np.ndarray
) -> np.ndarray:
    """Returns the times that have these ranks among those of their rows.

    Within a bin the density in the logarithm of the time rises or falls evenly, as the shares of
    the bins beside it do; beyond the last there is nothing. So times of the last bin, which can be
    years, are rather at its begin.

    Args:
        reached: float64[n, k], for each row the chance of each bin or a lower one; the last is 1.
        rows: int64[m], the row of each time.
        borders: int64[k-1], see `time_borders`.
        n_ticks: Each time is less, and so are the borders.
        ranks: float64[m] in [0, 1); the larger, the longer the time.

    Returns:
        int64[m], ticks.
    """
    k, bins = reached.shape[1], bins_at(reached, rows, ranks)
    cells = rows * k + bins
    shares = np.diff(reached, axis=1, prepend=0).ravel()
    before = np.where(bins > 0, reached.ravel()[cells - 1], 0.0)
    places = _places(shares, cells, k, np.clip((ranks - before) / shares[cells], 0, 1))
    low = np.concatenate([[1], borders])[bins]
    high = np.concatenate([[2], borders[1:], [n_ticks]])[bins]
    drawn = np.floor(low * elementary.power(high / low, places)).astype(np.int64)
    return np.where(bins == 0, 0, np.clip(drawn, low, high - 1))


def _places(shares: np.ndarray, cells: np.ndarray, k: int, ranks: np.ndarray) -> np.ndarray:
    """float64[m] in [0, 1], places in cells, of a density 1 + slope (place - 1/2).

    Args:
        shares: float64[n * k], of the cells of rows that lie one after the other.
        cells: int64[m], with a share above 0.
        k: Cells of a row, of which the first has no place.
        ranks: float64[m] in [0, 1], among the times of the cell.
    """
    bins = cells % k
    below = np.where(bins > 1, shares[cells - 1], 0.0)
    above = np.where(bins < k - 1, shares[np.minimum(cells + 1, len(shares) - 1)], 0.0)
    slope = np.clip((above - below) / (2 * shares[cells]), -2, 2)
    # The quadratic equation of its integral, solved such that a slope of 0 is no case of its own.
    begin = 1 - slope / 2
    root = np.sqrt(np.maximum(begin**2 + 2 * slope * ranks, 0))
    return 2 * ranks / np.maximum(begin + root, np.finfo(np.float64).tiny)
