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

from tests.support import continual_errors
from tests.support.keys import randomness
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.streams.continual import ContinualNoise, continual_noise
from tracecloak.anonymizers.streams.matrix_mechanism import (
    Participation,
)

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
        in_floats = continual_errors.errors_of_normalised_sums(HORIZON, None, length)
        assert worst_ratio(normalised[length], 4.2247 * in_floats) < TOLERANCE
    errors = errors_of_releases(noise_of(None, Participation(1, 1)), 4)
    assert normalised[None][-1].std() < 0.87 * errors[None][-1].std()
    for length in LENGTHS:
        factors = [
            continual_errors.error_of_totals(t, HORIZON)
            if length is None
            else continual_errors.error_of_sliding_sums(t, length, HORIZON)
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
