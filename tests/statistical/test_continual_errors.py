"""Errors of streams are those that were planned, and audits condemn noise for too little.

10,000 releases are the columns of one call, a handful of cells each: noise is keyed by cell, and
that cells and releases are independent of each other is asked as well. Of N values a deviation is
off by 3 % with probability below 1e-15 (8 of its own deviations, for Laplace noise more cells are
drawn); in all comparisons together a run of this file is wrong with probability below 1e-8.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.support.audit_bounds import hockey_stick_lower_bound
from tests.support.continual_errors import (
    error_of_sliding_sums,
    error_of_totals,
    errors_of_normalised_sums,
)
from tests.support.keys import randomness
from tests.support.tiers import at_night
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.streams.continual import ContinualNoise, continual_noise
from tracecloak.anonymizers.streams.matrix_mechanism import (
    Participation,
)
from tracecloak.examination.audit.bounds import epsilon_lower_bound

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


# --- audits: one case more in the first step ------------------------------------------------------

N_AUDITED = 100_000
DELTA = Fraction(1, 100)


def audited_pair(noise: ContinualNoise, steps: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Releases with a unit that has a case in each of the steps, and without it.

    Features: the estimates of totals and increments in the first and the last step; and what tells
    the two apart best: of Gaussian noise the measured values weighted by what the unit changes of
    each, of Laplace noise the least of the values that it changes.
    """
    horizon = noise.strategy.horizon
    counts = np.full((horizon, 2 * N_AUDITED), 10 * noise.case_norm)
    for step in steps:
        counts[step, :N_AUDITED] += noise.case_norm
    unit = np.zeros((horizon, 1), np.int64)
    np.add.at(unit, list(steps), noise.case_norm)
    cells = cell_numbers(np.arange(2 * N_AUDITED))
    measured = noise.measure(counts, cells, randomness(11, input_digest=""), "audit")
    changed = noise.strategy.encode(unit)[:, 0].astype(float)
    features = np.column_stack(
        [
            noise.estimate(measured, None)[[0, -1]].T,
            noise.estimate(measured, 1)[[0, -1]].T,
            changed @ measured / (changed @ changed),
            measured[list(steps)].min(axis=0),
        ]
    )
    return features[:N_AUDITED], features[N_AUDITED:]


@pytest.mark.parametrize("length", [at_night(None), 12])
def test_an_understated_sensitivity_is_condemned(length: int | None) -> None:
    """Epsilon 1, delta 0.01, 16 steps. Right noise is passed, and nearly used up.

    Control: noise for what a case changes in its own step alone, as if it did not reach the
    measured values behind it. Of right mechanisms the two bounds hold with 1 - 1e-9 each.
    """
    noise = continual_noise(
        Fraction(1), DELTA, 16, UNITS, n_cells=2 * N_AUDITED, length=length, units=UNITS
    )
    pair = audited_pair(noise, (0,))
    assert 0.6 < epsilon_lower_bound(*pair, float(DELTA)).epsilon <= 1
    assert hockey_stick_lower_bound(*pair, 1.0) <= float(DELTA)
    own_step = Fraction(noise.strategy.units * noise.case_norm)
    too_small = Fraction(*noise.scale) * own_step / noise.sensitivity
    scale = math.ceil(too_small * 1000), 1000
    pair = audited_pair(replace(noise, scale=scale), (0,))
    assert epsilon_lower_bound(*pair, float(DELTA)).epsilon > 1.1
    assert hockey_stick_lower_bound(*pair, 1.0) > float(DELTA)


def test_noise_for_one_step_is_condemned_where_a_unit_is_in_three() -> None:
    """W-events with a case in each of three steps: epsilon 1 in each step is 3, not 1."""
    for participation, truth in [(Participation(1, 3, per_step=True), 1), (Participation(), 3)]:
        noise = continual_noise(
            Fraction(1),
            Fraction(0),
            5,
            1,
            n_cells=2 * N_AUDITED,
            participation=participation,
        )
        found = epsilon_lower_bound(*audited_pair(noise, (1, 2, 3))).epsilon
        assert 0.6 * truth < found <= truth
        assert (found > 1) == (truth > 1)
