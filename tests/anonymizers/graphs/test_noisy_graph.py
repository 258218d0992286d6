"""From noisy sums to a graph: the domain, the threshold, and that no noise makes it fail."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.privacy_loss import ONE, discrete_gaussian, discrete_laplace
from tracecloak.anonymizers.graphs.noisy_graph import (
    NoisyCells,
    released_durations,
    released_graph,
)
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
    arcs = NoisyCells(cells, values, scales, SumNoise((1, 1), 1, is_laplace=False), 60.0)
    is_shown = values < 900
    taken = arcs.most_taken(is_shown, WORDS.end + 1)
    assert taken.tolist() == pytest.approx([40, 40, 28.8, 20, 0, 38.4])
    assert arcs.most_taken(is_shown).tolist() == pytest.approx([24, 24, 28.8, 12, 0, 38.4])


@pytest.mark.parametrize("n_bins", [1, 4])
def test_the_domain_is_every_cell_that_a_case_can_have(n_bins: int) -> None:
    n_codes, start, end = WORDS.end + 1, WORDS.start, WORDS.end
    expected = []
    for source, target, place in itertools.product(range(n_codes), range(n_codes), range(n_bins)):
        if source == end or target == start or (source, target) == (start, end):
            continue
        if place and (source == start or target == end):
            continue
        expected.append((source * n_codes + target) * n_bins + place)
    assert possible_pairs(WORDS, n_bins).tolist() == expected


@pytest.mark.parametrize("is_laplace", [True, False])
def test_of_n_empty_cells_fewer_than_the_root_exceed_the_threshold(is_laplace: bool) -> None:
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
    bins = NoisyCells.measured(domain, noisy, noise, 10**beyond - 1)
    arcs = bins.over_bins(4 if with_bins else 1)
    if with_bins and not is_laplace:
        own = np.rint(rng.normal(scale=noise.width, size=len(arcs.cells))).astype(np.int64)
        arcs = NoisyCells.measured(arcs.cells, own, noise)
    graph = released_graph(arcs, words)
    check(graph)
    if borders is None:
        return
    durations = released_durations(bins, graph, borders)
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
    bins = NoisyCells.measured(domain, values, noise, 50.0)
    assert 9 < noise.threshold(n_bins) < 40
    found = released_durations(bins, graph, duration_borders(n_bins))
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
