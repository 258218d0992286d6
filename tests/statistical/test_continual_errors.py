"""Errors of streams are those that were planned, and audits condemn noise for too little.

10,000 releases are the columns of one call, a handful of cells each: noise is keyed by cell, and
that cells and releases are independent of each other is asked as well. Of N values a deviation is
off by 3 % with probability below 1e-15 (8 of its own deviations, for Laplace noise more cells are
drawn); in all comparisons together a run of this file is wrong with probability below 1e-8.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.support.keys import randomness
from tracecloak.anonymizers.accounting.composition import square_root
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.streams.continual import ContinualNoise, continual_noise
from tracecloak.anonymizers.streams.matrix_mechanism import Participation

N_RELEASES = 10_000
HORIZON = 24
UNITS = 64
LENGTHS = (1, 5, None)
TOLERANCE = 0.03


@cache
def noise_of(length: int | None, participation: Participation | None = None) -> ContinualNoise:
    """Gaussian noise at epsilon 1, delta 1e-6; Laplace noise for a length of 0."""
    return continual_noise(
        Fraction(1),
        Fraction(1, 10**6) if length != 0 else Fraction(0),
        HORIZON,
        UNITS,
        n_cells=10 * N_RELEASES,
        length=length or (None if length is None else 1),
        participation=participation,
        units=UNITS,
    )


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


def errors_of_releases(noise: ContinualNoise, n_cells: int) -> dict[int | None, np.ndarray]:
    """Length to float64[horizon, releases * cells]: estimates of sums less the exact ones."""
    n = N_RELEASES * n_cells
    counts = np.random.default_rng(n).integers(0, 500, (HORIZON, n)) * UNITS
    stream = randomness(7, input_digest="")
    measured = noise.measure(counts, cell_numbers(np.arange(n)), stream, "dfg")
    totals = np.cumsum(counts, axis=0) / UNITS
    errors = {}
    for length in LENGTHS:
        before = np.zeros_like(totals)
        if length is not None:
            before[length:] = totals[:-length]
        errors[length] = noise.estimate(measured, length) - (totals - before)
    return errors


def worst_ratio(found: np.ndarray, planned: np.ndarray) -> float:
    """By how much a deviation differs most from the planned one, over all steps."""
    ratios = np.sqrt((found**2).mean(axis=1)) / planned
    return float(np.abs(ratios - 1).max())


@pytest.mark.parametrize("measured", [1, 5, None, 0], ids=["windows", "sliding", "totals", "pure"])
def test_errors_are_as_planned(measured: int | None) -> None:
    """In every step, for windows, sliding sums and totals, whatever was measured.

    Control: a plan that is 5 % off either way is refuted.
    """
    noise = noise_of(measured)
    errors = errors_of_releases(noise, 10 if measured == 0 else 4)
    for length in LENGTHS:
        planned = noise.errors(length)
        assert worst_ratio(errors[length], planned) < TOLERANCE
        for wrong in (0.95, 1.05):
            assert worst_ratio(errors[length], planned * wrong) > TOLERANCE
        means = errors[length].mean(axis=1) / planned * math.sqrt(errors[length].shape[1])
        assert np.abs(means).max() < 8  # nothing is biased


def test_errors_follow_the_formulas_of_the_literature() -> None:
    """Totals sqrt(S_t S_T), sliding sums as differences of them, windows sqrt(t); sigma 4.2247.

    The closed forms are those of a root whose columns are as they are, as within windows of one
    step; of normalised columns a dense inverse tells.
    """
    normalised = errors_of_releases(noise_of(None), 4)
    for length in LENGTHS:
        in_floats = errors_of_normalised_sums(HORIZON, None, length)
        assert worst_ratio(normalised[length], 4.2247 * in_floats) < TOLERANCE
    errors = errors_of_releases(noise_of(None, Participation(1, 1)), 4)
    assert normalised[None][-1].std() < 0.87 * errors[None][-1].std()
    for length in LENGTHS:
        factors = [
            error_of_totals(t, HORIZON)
            if length is None
            else error_of_sliding_sums(t, length, HORIZON)
            for t in range(HORIZON)
        ]
        assert worst_ratio(errors[length], 4.2247 * np.array(factors)) < TOLERANCE
    windows = errors_of_releases(noise_of(1), 4)
    assert worst_ratio(windows[1], np.full(HORIZON, 4.2247)) < TOLERANCE
    of_totals = 4.2247 * np.sqrt(np.arange(1, HORIZON + 1))
    assert worst_ratio(windows[None], of_totals) < TOLERANCE
    # The order that the strategies are chosen by: each is best at what it is the root for.
    sliding = errors_of_releases(noise_of(5), 4)
    assert errors[None][-1].std() < 0.5 * windows[None][-1].std()
    assert sliding[5][-1].std() < 0.9 * min(errors[5][-1].std(), windows[5][-1].std())
    assert windows[1][-1].std() < 0.8 * min(errors[1][-1].std(), sliding[1][-1].std())
