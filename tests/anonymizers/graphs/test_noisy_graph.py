"""From noisy sums to a graph: its domain, threshold and intervals, and flows that are conserved."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import lsq_linear

from tests.support.privacy_loss import ONE, discrete_gaussian, discrete_laplace
from tracecloak.anonymizers.graphs import noisy_graph
from tracecloak.anonymizers.noise.sums import SumNoise, onto_simplex
from tracecloak.anonymizers.rigorous.names import possible_pairs
from tracecloak.schemas.events.events import ActivityVocabulary
from tracecloak.schemas.published.graph import ReleasedGraph
from tracecloak.schemas.statistics.durations import duration_borders

WORDS = ActivityVocabulary.public("AB")


def test_what_clipping_took_is_spread_over_all_or_over_what_cases_repeat() -> None:
    """The norm of all that is shown is 500, and that of A to A, A to B and B to A is 300."""
    sums = {
        (0, 0): 200.0, (0, 1): 200.0, (0, 4): 240.0, (1, 0): 100.0, (1, 1): 900.0, (3, 0): 320.0,
    }  # fmt: skip
    cells = np.array([source * (WORDS.end + 1) + target for source, target in sums])
    values = np.array(list(sums.values()))
    scales = np.ones(len(cells))
    arcs = noisy_graph.NoisyCells(
        cells, values, scales, SumNoise((1, 1), 1, is_laplace=False), 60.0
    )
    is_shown = values < 900
    taken = arcs.most_taken(is_shown, WORDS.end + 1)
    assert taken.tolist() == pytest.approx([40, 40, 28.8, 20, 0, 38.4])
    assert arcs.most_taken(is_shown).tolist() == pytest.approx([24, 24, 28.8, 12, 0, 38.4])


def test_the_domain_is_every_cell_that_a_case_can_have() -> None:
    for n_bins in [1, 4]:
        n_codes, start, end = WORDS.end + 1, WORDS.start, WORDS.end
        expected = []
        for source, target, place in itertools.product(
            range(n_codes), range(n_codes), range(n_bins)
        ):
            if source == end or target == start or (source, target) == (start, end):
                continue
            if place and (source == start or target == end):
                continue
            expected.append((source * n_codes + target) * n_bins + place)
        assert possible_pairs(WORDS, n_bins).tolist() == expected


def test_of_n_empty_cells_fewer_than_the_root_exceed_the_threshold() -> None:
    for is_laplace in [True, False]:
        for n_cells in (10, 300, 10_000):
            noise = SumNoise((20, 1), 1, is_laplace)
            kind = discrete_laplace if is_laplace else discrete_gaussian
            law = kind(Fraction(20), 800)
            least = noise.threshold(n_cells)
            above = sum(high for x, (_, high) in law.chances.items() if int(str(x)) >= least)
            assert n_cells * above / ONE < math.sqrt(n_cells)


def check(graph: ReleasedGraph) -> None:
    """What every released graph keeps."""
    assert (graph.counts > 0).all()
    assert (graph.lows >= 0).all() and (graph.lows <= graph.counts).all()
    assert (graph.highs >= graph.counts).all()
    keys = graph.sources.astype(np.int64) * (graph.end + 1) + graph.targets
    assert (np.diff(keys) > 0).all()


@settings(max_examples=150)
@given(
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.floats(0, 12),
    st.floats(0, 14),
    st.floats(-3, 14),
    st.integers(0, 2**32),
)
def test_no_noise_however_wide_makes_a_release_fail(
    n_names: int,
    with_bins: bool,
    is_laplace: bool,
    width: float,
    largest: float,
    beyond: float,
    seed: int,
) -> None:
    """Up to sums of 1e14, beyond what floats have to the unit: a failure would tell."""
    rng = np.random.default_rng(seed)
    words = ActivityVocabulary.public("ABCDE"[:n_names])
    borders = duration_borders(4) if with_bins else None
    domain = possible_pairs(words, 4 if with_bins else 1)
    noise = SumNoise((int(10**width) + 1, 1), 1 if is_laplace else 1024, is_laplace)
    noisy = np.rint(rng.laplace(scale=noise.width, size=len(domain))).astype(np.int64)
    noisy += np.where(rng.random(len(domain)) < 0.2, int(10**largest), 0)
    bins = noisy_graph.NoisyCells.measured(domain, noisy, noise, 10**beyond - 1)
    arcs = bins.over_bins(4 if with_bins else 1)
    if with_bins and not is_laplace:
        own = np.rint(rng.normal(scale=noise.width, size=len(arcs.cells))).astype(np.int64)
        arcs = noisy_graph.NoisyCells.measured(arcs.cells, own, noise)
    graph = noisy_graph.released_graph(arcs, words)
    check(graph)
    if borders is None:
        return
    durations = noisy_graph.released_durations(bins, graph, borders)
    assert (durations.lows >= 0).all() and (durations.lows <= durations.counts).all()
    assert (durations.highs >= durations.counts).all()
    assert (durations.counts > 0).all()


def test_a_pair_is_spread_over_the_bins_that_stand_out_or_over_all() -> None:
    """Two pairs of 100: one in the bins 0 and 2, beside noise, and one of noise alone."""
    n_bins, n_codes = 4, WORDS.end + 1
    domain = possible_pairs(WORDS, n_bins)
    a, b = (WORDS.names.to_pylist().index(name) for name in "AB")
    noise = SumNoise((10, 1), 1, False)
    values = np.zeros(len(domain), np.int64)
    for pair, row in {(a, b): [60, 9, 40, -3], (b, a): [5, 9, -8, 2]}.items():
        values[np.searchsorted(domain, (pair[0] * n_codes + pair[1]) * n_bins) + np.arange(4)] = row
    graph = ReleasedGraph(
        *(WORDS.names, np.array([a, b], np.int32), np.array([b, a], np.int32)),
        *(np.full(2, 100), np.full(2, 90), np.full(2, 110)),
    )
    bins = noisy_graph.NoisyCells.measured(domain, values, noise, 50.0)
    assert 9 < noise.threshold(n_bins) < 40
    found = noisy_graph.released_durations(bins, graph, duration_borders(n_bins))
    of_pair = {source: found.sources == source for source in (a, b)}
    assert found.bins[of_pair[a]].tolist() == [0, 2]
    # Of the two bins that are not shown some is expected, but hardly less than nothing.
    assert 100 <= found.counts[of_pair[a]].sum() <= 105
    # 1.96 deviations, and of the 50 as much as the bin has of the norm of all that are shown.
    norm = math.sqrt(60**2 + 40**2 + 5**2 + 9**2 + 2**2)
    assert found.highs[of_pair[a]].tolist() == [
        math.ceil(x + 19.6 + 50 * x / norm) for x in (60, 40)
    ]
    # Their highest limits add up to 29 + 26 + 22 + 20 and what is clipped: hardly to 100.
    assert len(found.bins[of_pair[b]]) == 4
    assert found.counts[of_pair[b]].sum() >= 90
    assert not found.lows[of_pair[b]].any()


rows = st.lists(st.floats(-50, 200), min_size=3, max_size=3)


@given(st.lists(st.tuples(rows, st.integers(1, 300)), min_size=1, max_size=5))
def test_the_nearest_shares_are_those_of_the_optimality_conditions(
    found: list[tuple[list[float], int]],
) -> None:
    """Shares x >= 0 of the right sum, y - x constant where x > 0 and nowhere larger (KKT)."""
    values = np.array([row for row, _ in found])
    totals = np.array([total for _, total in found], np.int64)
    nearest = onto_simplex(values, totals)
    assert (nearest >= 0).all()
    assert np.allclose(nearest.sum(axis=1), totals)
    for y, x in zip(values, nearest, strict=True):
        level = (y - x)[x > 1e-9]
        assert np.ptp(level) < 1e-9
        assert ((y - x) <= level.max() + 1e-9).all()


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
    # Its other method, "bvls", can end beside the optimum where a step changes the cost by little.
    return matrix, right, lsq_linear(matrix, right, bounds, tol=1e-14, max_iter=1000).x


def counts_of(case: tuple[np.ndarray, ...]) -> np.ndarray:
    sources, targets, totals, *of_cells, is_shown, low, high = case
    limits = low[is_shown], high[is_shown]
    middles = (limits[0] + limits[1]) / 2
    return noisy_graph.fitted_counts(
        (sources, targets), totals, *of_cells, is_shown, limits, middles
    )


@settings(deadline=None, max_examples=80)
@given(cases())
def test_it_is_bounded_least_squares_rounded(case: tuple[np.ndarray, ...]) -> None:
    *_, is_shown, low, high = case
    found = counts_of(case)
    assert (low[is_shown] <= found).all() and (found <= high[is_shown]).all()
    if is_shown.any():
        assert np.abs(found - expected_of(case)[2]).max() <= 0.5 + 1e-5


LAWS = [(False, stats.norm), (True, stats.laplace)]
SCALE = 10.0
LEAST = 25.0


def limits(
    values: np.ndarray, taken: float = 0.0, *, is_laplace: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    of_all = np.full(len(values), SCALE), np.full(len(values), LEAST)
    return noisy_graph.intervals_of_shown(values, *of_all, taken, is_laplace=is_laplace)


def test_no_case_moves_the_sum_by_more_than_the_clip_and_one_does() -> None:
    """Every log of up to two cases, and every case that may come to it."""
    squares, units, clip = np.array([2, 3, 9, 16, 25, 10_000]), 8, 24
    moved = set()
    for n in range(3):
        for log in itertools.combinations_with_replacement(range(len(squares)), n):
            cases = np.bincount(log, minlength=len(squares)) if log else np.zeros(6, np.int64)
            before = noisy_graph.norms_beyond(squares, cases, clip, units)
            for own in np.eye(len(squares), dtype=np.int64):
                moved.add(noisy_graph.norms_beyond(squares, cases + own, clip, units) - before)
    # Norms of 3 and less are not beyond; 4 and 5 are by 8 and 16 steps; 100 counts as the clip.
    assert moved == {0, 8, 16, 24}


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("is_laplace", "law"), LAWS)
@pytest.mark.parametrize("count", [0.0, 5.0, 24.0, 25.0, 40.0, 1000.0])
def test_of_what_is_shown_each_limit_fails_with_a_fortieth_at_most(
    is_laplace: bool, law: stats.rv_continuous, count: float
) -> None:
    """The chances are exact: a limit grows with the value, so it fails beyond or below one."""
    values = np.linspace(LEAST, count + 400, 100_000)
    low, high = limits(values, is_laplace=is_laplace)
    assert (np.diff(low) >= 0).all() and (np.diff(high) >= 0).all()
    noise = law(scale=SCALE)
    shown = noise.sf(LEAST - count)
    too_high = values[low > count]
    if len(too_high):
        # A grid point before the first one that fails may fail, too.
        assert noise.sf(too_high[0] - count) <= 1 / 40 * shown
    too_low = values[high < count]
    if len(too_low):
        assert shown - noise.sf(too_low[-1] - count) <= 1 / 40 * shown


def test_what_clipping_took_raises_upper_limits_alone() -> None:
    values = np.array([300.0, 400.0])
    low, high = limits(values)
    same, higher = limits(values, 50.0)
    assert (same == low).all() and (higher - high).tolist() == [50, 50]


def test_what_is_shown_below_the_threshold_may_be_nothing() -> None:
    """A bin of a pair that is shown, and of which no bin stands out of the noise."""
    low, high = limits(np.array([-30.0, LEAST - 1]), 50.0)
    assert low.tolist() == [0, 0]
    assert high.tolist() == [70, math.ceil(24 + 19.6 + 50)]
