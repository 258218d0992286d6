"""The norm at which cases are clipped, chosen by how many cases are longer; paid as Gaussian noise.

Noise of every cell is in proportion to the clip g: with n cells of deviation r g each, its L2 norm
is about r g sqrt(n). Clipping takes at most the sum of the cases' norms beyond g. The sum of the
two, r g sqrt(n) + sum max(norm - g, 0), is convex in g, and least where the number of cases longer
than g falls to K = r sqrt(n). So the rank K of the clip is known beforehand, and only the numbers
of longer cases are asked of the log. No clip is below the noisy median: where K is more than half
of the cases, everything is noise, and a clip that scales all cases down gains nothing.

What is measured is a block of the release's joint Gaussian mechanism (`accounting.joint`): the
cases by norm, in buckets of a public grid, from the longest downwards, multiplied by the square
root C of the matrix that adds them up. With noise z on C x, C (C x + z) has the numbers of longer
cases at all grid points at once, each with a deviation that grows with the logarithm of the number
of buckets (Fichtenberger, Henzinger, Upadhyay 2023). One case more changes C x by one column of C,
of which the first is the longest; its coefficients are rounded to whole numbers of steps, and C is
the rounded matrix throughout, so the bound is exact and nothing is biased.

A choice by permute-and-flip with score -|longer cases - K| would do as well with exact numbers. At
a price of 5 % of epsilon, though, every clip above the longest case lacks only K to the best one,
and K is a few multiples of what such a choice errs by: the clip would often be the largest of the
grid. With Gaussian noise of the same price a grid point far above all cases is not chosen.
"""

from __future__ import annotations

import math

import numpy as np

from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.accounting.square_root import square_root
from tracecloak.anonymizers.noise.randomness import Randomness
from tracecloak.anonymizers.noise.sums import SumNoise, noisy_sums

RANK_UNITS = 1 << 10
"""Lattice steps of one case."""

# Of a large vocabulary most pairs never occur, and thresholds take their noise away: about so many
# pairs of each activity are left.
_PAIRS_OF_NAME = 24


def changed_ranks(n_buckets: int, max_units: int = 1) -> Sensitivity:
    """Returns by how much a unit changes `measured_ranks`, in lattice steps.

    The first column of C is the longest, in every norm, and all cases of a unit may have it.

    Args:
        n_buckets: Of the cases' norms: the grid's points and one more.
        max_units: Cases of one unit.
    """
    steps = _coefficients(n_buckets).tolist()
    squared = sum(step * step for step in steps)
    return Sensitivity(n_buckets, sum(steps), squared, steps[0]).of_cases(max_units)


def measured_ranks(cases: np.ndarray) -> np.ndarray:
    """Returns int64[n_buckets], C x in lattice steps: what gets the noise.

    Args:
        cases: int64[n_buckets], the cases in each bucket of the grid, the longest in the last.
    """
    steps, downwards = _coefficients(len(cases)), cases[::-1]
    return np.array([(steps[i::-1] * downwards[: i + 1]).sum() for i in range(len(cases))])


def cases_from(measured: np.ndarray) -> np.ndarray:
    """Returns float64[n_buckets], the number of cases in each bucket or a longer one.

    The first is the number of all cases; entry j + 1 the number beyond grid point j.

    Args:
        measured: int64[n_buckets], what `measured_ranks` returns, with noise.
    """
    steps = _coefficients(len(measured)).astype(np.float64)
    downwards = np.zeros(len(measured))
    for i, value in enumerate(measured.tolist()):
        downwards[i] = (value - (steps[i:0:-1] * downwards[:i]).sum()) / steps[0]
    return np.cumsum(downwards)[::-1]


def noisy_cases_from(
    cases: np.ndarray, noise: SumNoise, randomness: Randomness, purpose: str
) -> np.ndarray:
    """Returns what `cases_from` does, of the exact cases with discrete Gaussian noise.

    Args:
        cases: As for `measured_ranks`.
        noise: In lattice steps, made for `changed_ranks`.
        randomness: The release's.
        purpose: What the noise is for; one of its own for each clip.
    """
    places = np.arange(len(cases))
    return cases_from(noisy_sums(measured_ranks(cases), noise, purpose, places, randomness))


def rank_of_clip(
    noise_of_clip: float, n_cells: int, n_names: int, weight: float, n_bins: int = 1
) -> float:
    """Returns K, how many cases are scaled down; public.

    Args:
        noise_of_clip: Deviation of one cell's noise, in clips: s max_units / sqrt(share).
        n_cells: Cells that get noise.
        n_names: Activities, OTHER included.
        weight: What noise counts for beside what clipping takes: 3/2 where counts or a chain are
            made of the sums, 1 or less where intervals of them are published, and 8 where only
            shares within each pair are, which clipping hardly biases.
        n_bins: Cells of each pair of activities, of positions or durations.
    """
    return weight * noise_of_clip * math.sqrt(min(n_cells, _PAIRS_OF_NAME * n_names * n_bins))


def place_of_rank(longer: np.ndarray, rank: float, margin: float = 0.0) -> int:
    """Returns the place on the grid of the smallest clip that few enough cases exceed.

    Args:
        longer: float64[n_grid+1], noisy, from `noisy_cases_from`.
        rank: K, from `rank_of_clip`.
        margin: Cases that K may be exceeded by, such as the deviation that the noise would have on
            one number: where noise hides which of two clips is right, the smaller one errs less.

    Returns:
        The place, the last one of the grid where more cases exceed all of it.
    """
    most = min(rank, max(float(longer[0]), 0.0) / 2) + margin
    places = np.flatnonzero(longer[1:] <= most)
    return int(places[0]) if len(places) else len(longer) - 2


def _coefficients(n_buckets: int) -> np.ndarray:
    """int64[n_buckets], the first column of C, in steps."""
    return np.rint(square_root(n_buckets, None) * RANK_UNITS).astype(np.int64)
