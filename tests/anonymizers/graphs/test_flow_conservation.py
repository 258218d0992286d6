"""Counts in their intervals that agree: by hand, against bounded least squares, by properties."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from tracecloak.anonymizers.graphs.noisy_graph import fitted_counts


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, ...]:
    """Any edges between a few nodes, some of which are shown, with noise of unlike widths."""
    n_nodes, n = draw(st.integers(1, 5)), draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sources, targets = rng.integers(0, n_nodes, (2, n))
    deviations = rng.choice([1.0, 10.0, draw(st.sampled_from([1.0, 30.0]))], n)
    low = rng.integers(0, 200, n)
    high = low + rng.integers(0, 80, n)
    values = (low + high) / 2 + rng.normal(0, deviations)
    totals = rng.normal(0, draw(st.sampled_from([0.0, 50.0])), n_nodes)
    is_shown = rng.random(n) < draw(st.sampled_from([0.3, 0.8, 1.0]))
    return sources, targets, totals, values, deviations**2, 2.5 * deviations, is_shown, low, high


def expected_of(case: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows of the least squares, their right sides, and the solution, edge by edge."""
    sources, targets, totals, values, variances, least, is_shown, low, high = case
    shown = np.flatnonzero(is_shown)
    goal, of_node = totals.astype(float).copy(), np.zeros(len(totals))
    left = [1 / (12 / t**2 + 1 / v) for t, v in zip(least, variances, strict=True)]
    for i in np.flatnonzero(~is_shown):
        if sources[i] == targets[i]:
            continue
        mean = left[i] / variances[i] * values[i]
        goal[sources[i]] -= mean
        goal[targets[i]] += mean
        of_node[[sources[i], targets[i]]] += left[i]
    of_node = np.maximum(of_node, min(left))
    rows = np.zeros((len(totals), len(shown)))
    for j, i in enumerate(shown):
        rows[sources[i], j] += 1
        rows[targets[i], j] -= 1
    matrix = np.vstack([np.diag(1 / np.sqrt(variances[shown])), rows / np.sqrt(of_node)[:, None]])
    middle = (low + high)[shown] / 2
    right = np.concatenate([middle / np.sqrt(variances[shown]), goal / np.sqrt(of_node)])
    bounds = low[shown] - 1e-9, high[shown] + 1e-9
    return matrix, right, lsq_linear(matrix, right, bounds, method="bvls").x


def counts_of(case: tuple[np.ndarray, ...]) -> np.ndarray:
    sources, targets, totals, *of_cells, is_shown, low, high = case
    limits = low[is_shown], high[is_shown]
    middles = (limits[0] + limits[1]) / 2
    return fitted_counts((sources, targets), totals, *of_cells, is_shown, limits, middles)


@settings(deadline=None, max_examples=80)
@given(cases())
def test_it_is_bounded_least_squares_rounded(case: tuple[np.ndarray, ...]) -> None:
    *_, is_shown, low, high = case
    found = counts_of(case)
    assert (low[is_shown] <= found).all() and (found <= high[is_shown]).all()
    if is_shown.any():
        assert np.abs(found - expected_of(case)[2]).max() <= 0.5 + 1e-5
