"""Counts in their intervals that agree: by hand, against bounded least squares, by properties."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from tracecloak.anonymizers.graphs.noisy_graph import fitted_counts


def fitted(
    edges: list[tuple[int, int]],
    intervals: list[tuple[int, int]],
    totals: list[float],
    hidden: tuple[tuple[int, int, float], ...] = (),
    variance: float = 100.0,
    least: float = 20.0,
) -> list[int]:
    """Counts of shown edges with these intervals, beside hidden ones with these noisy sums."""
    every = np.array([*edges, *(edge[:2] for edge in hidden)], np.int64).reshape(-1, 2)
    values = np.array([*(sum(i) / 2 for i in intervals), *(edge[2] for edge in hidden)])
    n, is_shown = len(every), np.arange(len(every)) < len(edges)
    low, high = np.array(intervals, np.int64).reshape(-1, 2).T
    found = fitted_counts(
        (every[:, 0], every[:, 1]),
        np.array(totals, float),
        *(values, np.full(n, variance), np.full(n, least), is_shown, (low, high), (low + high) / 2),
    )
    assert found.dtype == np.int64
    return found.tolist()


# --- by hand --------------------------------------------------------------------------------------


def test_a_cycle_gets_nearly_the_mean_of_its_middles() -> None:
    """A condition is as sure as one hidden edge makes it, of which 0.36 of the variance is left.

    t^2 / 12 = 400 / 12 beside 100 is a trust of 0.25, so 25. Half the gap d = 40 is closed but for
    d / (1 + 2 * 100 * 2 / 25), as both nodes ask for it.
    """
    left = 40 / (1 + 2 * 100 * 2 / 25)
    assert fitted([(0, 1), (1, 0)], [(50, 150), (90, 190)], [0, 0]) == [
        round(120 - left / 2),
        round(120 + left / 2),
    ]


def test_no_count_leaves_its_interval_where_no_flow_lies_inside() -> None:
    assert fitted([(0, 1), (1, 0)], [(0, 10), (90, 110)], [0, 0]) == [10, 90]


def test_hidden_edges_make_a_condition_softer_and_their_noisy_sums_shift_it() -> None:
    edges, intervals, cycle = [(0, 1), (1, 0)], [(0, 200), (40, 240)], [0.0, 0.0]

    def gap(*hidden: tuple[int, int, float]) -> int:
        first, second = fitted(edges, intervals, cycle, hidden)
        return second - first

    none, one = gap(), gap((0, 1, 0.0))
    many = gap(*((0, 1, 0.0) for _ in range(30)))
    assert 0 <= none == one < many <= 40
    # Thirty edges of 20 each are trusted with a quarter of it, more than the gap of 40.
    assert gap(*((0, 1, 20.0) for _ in range(30))) > many
    # Loops say nothing.
    assert gap(*((0, 0, 50.0) for _ in range(30))) == none


def test_a_row_of_bins_has_its_total_as_far_as_it_can() -> None:
    """Two bins that flow into one node more, and a total of 100."""
    found = fitted([(0, 1), (0, 1)], [(40, 80), (20, 60)], [120, -120])
    assert found[0] == found[1] + 20 and 117 <= sum(found) <= 120
    assert fitted([(0, 1), (0, 1)], [(40, 80), (20, 60)], [1000, -1000]) == [80, 60]


def test_agreeing_middles_come_back_and_loops_are_free() -> None:
    edges = [(2, 0), (0, 1), (1, 2), (0, 0)]
    assert fitted(edges, [(60, 80), (50, 90), (65, 75), (0, 7)], [0, 0, 0])[:3] == [70, 70, 70]
    assert fitted([(0, 0)], [(1, 8)], [0]) == [4]
    assert fitted([], [], [0]) == []


# --- against a reference, and properties ----------------------------------------------------------


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


@settings(deadline=None, max_examples=200)
@given(cases())
def test_it_is_bounded_least_squares_rounded(case: tuple[np.ndarray, ...]) -> None:
    *_, is_shown, low, high = case
    found = counts_of(case)
    assert (low[is_shown] <= found).all() and (found <= high[is_shown]).all()
    if is_shown.any():
        assert np.abs(found - expected_of(case)[2]).max() <= 0.5 + 1e-5


@settings(deadline=None, max_examples=50)
@given(cases(), st.integers(0, 2**32))
def test_the_order_of_the_edges_is_nothing(case: tuple[np.ndarray, ...], seed: int) -> None:
    sources, targets, totals, *others = case
    order = np.random.default_rng(seed).permutation(len(sources))
    is_shown = others[3]
    found = np.zeros(len(sources), np.int64)
    found[is_shown] = counts_of(case)
    again = np.zeros_like(found)
    moved = (sources[order], targets[order], totals, *(column[order] for column in others))
    again[order[is_shown[order]]] = counts_of(moved)
    assert np.abs(found - again).max() <= 1  # a half may go either way


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(45, 2_000), (230, 50_000), (5_000, 5_000)])
def test_large_graphs_are_fast_and_the_same_again(n_nodes: int, n_edges: int) -> None:
    rng = np.random.default_rng(7)
    ends = tuple(rng.integers(0, n_nodes, (2, n_edges)))
    low = np.rint(rng.exponential(1000, n_edges)).astype(np.int64)
    numbers = (low + 30.0, np.full(n_edges, 225.0), np.full(n_edges, 40.0))
    limits = (low, low + 60), low + 30.0
    arguments = (ends, np.zeros(n_nodes), *numbers, np.ones(n_edges, bool), *limits)
    begin = time.process_time()
    found = fitted_counts(*arguments)
    assert time.process_time() - begin < 10
    assert np.array_equal(found, fitted_counts(*arguments))
