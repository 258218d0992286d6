"""The clip that is bought: the grid, what is counted, and which norm comes out of it."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tests.support.keys import randomness
from tests.support.logs import MINUTE, naive_pairs, trace_batch
from tests.support.silence import Silence
from tracecloak.anonymizers.rigorous.bought_vocabulary import VocabularyDecision
from tracecloak.anonymizers.rigorous.budget import Allowance, budget_of
from tracecloak.anonymizers.rigorous.clip_by_rank import RANK_UNITS, changed_ranks
from tracecloak.anonymizers.rigorous.clips import (
    NormsOfCases,
    choose_clip,
    largest_clip,
    norm_grid,
    ranks_need,
)
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary

GRID = norm_grid()


def test_the_grid_goes_from_the_shortest_case_up_in_tenths() -> None:
    assert GRID[0] == 2  # a START and an END arc
    assert (np.diff(GRID) > 0).all()
    assert 1000**2 <= GRID[-1] < 1100**2
    ratios = np.sqrt(GRID[1:] / GRID[:-1])
    assert (ratios[GRID[1:] > 200] < 1.103).all()
    assert largest_clip() - 1 < math.sqrt(GRID[-1]) <= largest_clip()


def test_norms_are_those_of_the_bought_vocabulary_and_bins() -> None:
    log = {"a": "A B A B", "b": "A X Y X", "c": "C"}
    words = VocabularyDecision(ActivityVocabulary.public(["A", "B"]))
    squares = []
    for case, text in log.items():
        coded = " ".join(name if name in "AB " else OTHER for name in text.split(" "))
        squares.append((case, sum(count**2 for count in naive_pairs({case: coded}).values())))
    counted = NormsOfCases(None).count(trace_batch(log), {"vocabulary": words}, randomness())
    expected = Counter(int(np.searchsorted(norm_grid(), square)) for _, square in squares)
    assert dict(zip(counted.buckets.tolist(), counted.counts.tolist(), strict=True)) == expected
    # A -> A twice, of different durations: 4 arcs of one each with bins, else 1 + 4 + 1.
    steps = [("c", "A", 0), ("c", "A", MINUTE), ("c", "A", MINUTE * 10**6)]
    for n_bins, square in ((None, 6), (4, 4)):
        [bucket] = NormsOfCases(n_bins).count(trace_batch(steps), {}, randomness()).buckets
        assert bucket == np.searchsorted(norm_grid(), square)


# --- the choice -----------------------------------------------------------------------------------


def histogram(norms: dict[int, int]) -> np.ndarray:
    """int64[n_grid+1]: cases by the place of their norm."""
    cases = np.zeros(len(GRID) + 1, np.int64)
    cases[list(norms)] = list(norms.values())
    return cases


def own(max_units: int = 1) -> Allowance:
    need = ranks_need("clip", Fraction(1), max_units)
    return budget_of(Fraction(1), Fraction(1, 10**6), (need,)).means["clip"]


def test_a_clip_needs_a_block_of_the_gaussian_budget() -> None:
    for max_units in (1, 3):
        need = ranks_need("clip", Fraction(1, 20), max_units)
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
    found = choose_clip(cases, own(), rank, 1, quiet, "clip", margin)
    assert found == GRID[place]
    assert silence.draws == [("gaussian", len(cases), Fraction(*noise_of(1)))]


def noise_of(max_units: int) -> tuple[int, int]:
    return own(max_units).noise(changed_ranks(len(GRID) + 1, max_units), RANK_UNITS).scale


def test_the_margin_is_the_noise_of_one_number_of_units() -> None:
    """Of 3 cases a unit it is 3 s: here between 12.6 and 12.8."""
    s = own(3).deviation
    assert s is not None and 12.6 < 3 * s < 12.8
    quiet = randomness().with_noise(Silence())
    for over, place in ((12, 4), (13, 9)):
        cases = histogram({4: 1000, 9: 40 + over})
        found = choose_clip(cases, own(3), 40, 3, quiet, "clip")
        assert found == GRID[place]


def test_of_a_large_log_the_clip_is_the_place_of_the_rank() -> None:
    """50 keys; the deviation of each number is below 20, and the next places are 10,000 away."""
    cases = histogram({4: 1_000_000, 9: 90_000, 12: 20_000, 30: 10_000})
    found = Counter(choose_clip(cases, own(), 20_000, 1, randomness(i), "clip") for i in range(50))
    assert found == {int(GRID[12]): 50}
