"""The clip that is bought: the grid, what is counted, and which norm comes out of it.

A clip by rank: what one case changes, what is read out of the noise, and which clip that gives.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.silence import Silence
from tracecloak.anonymizers.rigorous import clips
from tracecloak.anonymizers.rigorous.bought import (
    RANK_UNITS,
    cases_from,
    changed_ranks,
    measured_ranks,
    place_of_rank,
)
from tracecloak.anonymizers.rigorous.budget import Allowance, budget_of


def unit(bucket: int, n_buckets: int) -> np.ndarray:
    return np.eye(n_buckets, dtype=np.int64)[bucket]


@pytest.mark.parametrize("max_units", [1, 2, 3])
def test_no_unit_moves_the_block_by_more_than_its_norm_and_one_does(max_units: int) -> None:
    """Every log of up to two cases in four buckets, and every unit that may come to it."""
    n_buckets = 4
    norms, sums, cells = set(), set(), set()
    for n_others in range(3):
        for others in itertools.combinations_with_replacement(range(n_buckets), n_others):
            log = sum((unit(b, n_buckets) for b in others), np.zeros(n_buckets, np.int64))
            for own in itertools.combinations_with_replacement(range(n_buckets), max_units):
                more = log + sum(unit(b, n_buckets) for b in own)
                change = measured_ranks(more) - measured_ranks(log)
                norms.add(int((change**2).sum()))
                sums.add(int(change.sum()))
                cells.add(int(change.max()))
    changed = changed_ranks(n_buckets, max_units)
    assert changed.l2_squared == max(norms)
    assert (changed.l1, changed.linf, changed.l0) == (max(sums), max(cells), n_buckets * max_units)


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=8),
    st.integers(0, 60),
)
def test_of_exact_numbers_the_clip_has_the_least_of_noise_and_loss(
    cases: list[int], rank: int
) -> None:
    """K g + sum max(norm - g, 0), of cases whose norms are the grid points 1, 2 and so on."""
    grid = np.arange(1, len(cases))
    norms = np.repeat(np.arange(1, len(cases) + 1), cases)
    loss = [rank * g + np.maximum(norms - g, 0).sum() for g in grid]
    longer = np.rint(cases_from(measured_ranks(np.array(cases))))
    place = place_of_rank(longer, rank)
    if rank <= len(norms) / 2:  # else the median is
        assert loss[place] == min(loss)


GRID = clips.norm_grid()


def histogram(norms: dict[int, int]) -> np.ndarray:
    """int64[n_grid+1]: cases by the place of their norm."""
    cases = np.zeros(len(GRID) + 1, np.int64)
    cases[list(norms)] = list(norms.values())
    return cases


def own(max_units: int = 1) -> Allowance:
    need = clips.ranks_need("clip", Fraction(1), max_units)
    return budget_of(Fraction(1), Fraction(1, 10**6), (need,)).means["clip"]


def test_a_clip_needs_a_block_of_the_gaussian_budget() -> None:
    for max_units in (1, 3):
        need = clips.ranks_need("clip", Fraction(1, 20), max_units)
        assert need.is_l2 and not need.is_any_clip
        assert (need.changed, need.units) == (changed_ranks(len(GRID) + 1, max_units), RANK_UNITS)


@pytest.mark.parametrize(
    ("rank", "margin", "place"), [(50, 0, 4), (49, 0, 9), (49, 1, 4), (7, 0, 12), (1e9, 0, 4)]
)
def test_the_clip_is_the_smallest_norm_that_few_enough_cases_exceed(
    rank: float, margin: float, place: int
) -> None:
    """100 cases, without noise, of norms at two places and beyond; none is below the median."""
    cases, silence = histogram({4: 50, 9: 42, 12: 8}), Silence()
    quiet = randomness().with_noise(silence)
    found = clips.choose_clip(cases, own(), rank, 1, quiet, "clip", margin)
    assert found == GRID[place]
    assert silence.draws == [("gaussian", len(cases), Fraction(*noise_of(1)))]


def noise_of(max_units: int) -> tuple[int, int]:
    return own(max_units).noise(changed_ranks(len(GRID) + 1, max_units), RANK_UNITS).scale
