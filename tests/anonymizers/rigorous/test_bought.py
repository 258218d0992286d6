"""What is chosen on the log and paid for: the law of each choice, who can tip it, and the clip."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.keys import randomness
from tests.support.logs import trace_batch
from tests.support.silence import Silence
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity, of_one_cell
from tracecloak.anonymizers.contract.counters import Batch
from tracecloak.anonymizers.rigorous import clips
from tracecloak.anonymizers.rigorous.bought import (
    NAME_UNITS,
    RANK_UNITS,
    activities_of_cases,
    cases_from,
    changed_names,
    changed_ranks,
    choose_vocabulary,
    likely_names,
    measured_ranks,
    place_of_rank,
    rank_of_clip,
    weights_of_names,
)
from tracecloak.anonymizers.rigorous.budget import Allowance, Choice, Sums, budget_of
from tracecloak.anonymizers.rigorous.params import VOCABULARY_SHARE
from tracecloak.anonymizers.rigorous.parts_method import choose_quantile
from tracecloak.schemas.events.events import OTHER
from tracecloak.schemas.statistics.variants import ActivityCounts


def sums(log: list[tuple[int, ...]], n_names: int, max_activities: int) -> np.ndarray:
    """int64[n_names]: the sums of a log of cases, each a tuple of distinct names."""
    cases = np.repeat(np.arange(len(log)), [len(case) for case in log])
    names = np.concatenate([np.array(case, np.int64) for case in log])
    found = np.zeros(n_names, np.int64)
    np.add.at(found, names, weights_of_names(cases, max_activities))
    return found


def cases_of(n_names: int, max_activities: int) -> list[tuple[int, ...]]:
    return [
        case
        for size in range(1, max_activities + 1)
        for case in itertools.combinations(range(n_names), size)
    ]


@pytest.mark.parametrize("max_units", [1, 2])
def test_no_unit_has_more_than_the_norm_and_one_does(max_units: int) -> None:
    """Every unit of up to two cases over four names, of which a case has at most three."""
    norms = {
        int((sums(list(unit), 4, 3) ** 2).sum())
        for unit in itertools.combinations_with_replacement(cases_of(4, 3), max_units)
    }
    bound = changed_names(3, max_units)
    assert bound.l2_squared == max(norms)
    units = itertools.combinations_with_replacement(cases_of(4, 3), max_units)
    moved = [sums(list(unit), 4, 3) for unit in units]
    assert bound.linf == max(found.max() for found in moved)
    assert bound.l1 == max(found.sum() for found in moved)


@pytest.mark.parametrize("max_units", [1, 2])
def test_what_is_left_of_a_unit_is_no_more_than_of_equal_cells(max_units: int) -> None:
    """Every such unit, and every set of names that only it has; see `joint.Unseen`."""
    k, n_names = 3, 4
    largest: dict[int, Fraction] = {}
    for unit in itertools.combinations_with_replacement(cases_of(n_names, k), max_units):
        found = sums(list(unit), n_names, k)
        names = np.flatnonzero(found).tolist()
        for n_new in range(1, len(names) + 1):
            for new in itertools.combinations(names, n_new):
                old = [name for name in names if name not in new]
                left = Fraction(
                    int((found[old] ** 2).sum()), changed_names(k, max_units).l2_squared
                )
                largest[n_new] = max(largest.get(n_new, Fraction(0)), left)
    assert set(largest) <= set(range(1, max_units * k + 1))
    for n_new, left in largest.items():
        assert left <= 1 - Fraction(n_new, max_units * k)
    if max_units == 1:  # then it is attained
        assert largest[1] > Fraction(2, 3) * Fraction(99, 100)


@pytest.mark.parametrize(("max_activities", "max_units"), [(1, 1), (16, 1), (3, 2)])
def test_a_new_name_passes_with_its_part_of_delta_at_most(
    max_activities: int, max_units: int
) -> None:
    """The exact law of the discrete Gaussian, at a scale small enough to add it up."""
    delta = Fraction(1, 10**6)
    changed = changed_names(max_activities, max_units)
    own = Allowance(Fraction(0), delta, Fraction(1), 20 / changed.l2)
    numerator, denominator = own.noise(changed, NAME_UNITS).scale
    least = own.threshold(changed, NAME_UNITS)
    alone = sums([(0,)] * max_units, 1, max_activities)[0]
    mpmath.mp.dps = 40

    def tail(start: int) -> mpmath.mpf:
        sigma = mpmath.mpf(numerator) / denominator
        weights = [mpmath.exp(-(x**2) / (2 * sigma**2)) for x in range(600)]
        return sum(weights[start:]) / (2 * sum(weights) - 1)

    allowed = float(delta / (max_activities * max_units))
    assert tail(least - alone) <= allowed
    assert tail(least - alone - 5) > allowed


@given(
    st.lists(st.integers(0, 20), min_size=5, max_size=5),
    st.integers(0, 4),
    st.sampled_from([Fraction(1, 2), Fraction(4, 5), Fraction(1, 1000), Fraction(999, 1000)]),
    st.sampled_from([(None, None), (None, 0), (None, 12), (-3, None), (5, None)]),
)
def test_one_case_changes_the_scores_of_a_quantile_by_no_more_than_is_paid(
    cases: list[int], bucket: int, quantile: Fraction, moved: tuple[int | None, int | None]
) -> None:
    """And they are those of the definition: how many cases a place lacks to being a quantile."""
    heard, (shift, most_lost) = Silence(), moved
    keyed = randomness().with_noise(heard)
    for more in (0, 1):
        counts = np.array(cases) + more * (np.arange(5) == bucket)
        choose_quantile(counts, Fraction(1), quantile, 1, keyed, "q", shift, most_lost)
        n = int(counts.sum())
        goal = max(quantile * n, n - most_lost if most_lost is not None else 0) + (shift or 0)
        for j, score in enumerate(heard.chosen[-1][0][:4].tolist()):
            below, reached = int(counts[:j].sum()), int(counts[: j + 1].sum())
            assert -Fraction(score, quantile.denominator) == max(below - goal, goal - reached, 0)
    (before, _, paid, is_monotone), (after, *_) = heard.chosen
    assert np.abs(after - before).max() <= paid and not is_monotone


def allowance(epsilon: Fraction, delta: Fraction, changed: Sensitivity) -> Allowance:
    """What the choice of a vocabulary has beside a length and variants."""
    own = Sums("vocabulary", VOCABULARY_SHARE, changed, NAME_UNITS, is_open=True)
    others = (
        Choice("length", Fraction(2, 100)),
        Sums("variants", 1 - VOCABULARY_SHARE, of_one_cell(), is_any_clip=True),
    )
    return budget_of(epsilon, delta, (own, *others)).means["vocabulary"]


def counted(counts: dict[str, int]) -> ActivityCounts:
    return ActivityCounts.of(
        pa.array(list(counts), pa.string()), np.array(list(counts.values()), np.int64)
    )


CHANGED = changed_names(4, 1)
OWN = allowance(Fraction(1), Fraction(1, 10**6), CHANGED)
LEAST = OWN.threshold(CHANGED, NAME_UNITS)


def test_of_more_names_than_can_be_counted_by_the_most_frequent_are_kept() -> None:
    counts = {f"name {i}": LEAST + i // 2 for i in range(10)}
    keyed = randomness().with_noise(Silence())
    for most in (None, 20, 11):
        all_of_them = choose_vocabulary(counted(counts), OWN, CHANGED, keyed, most)
        assert len(all_of_them.vocabulary) == 11
    kept = choose_vocabulary(counted(counts), OWN, CHANGED, keyed, 4).vocabulary
    assert kept.names.to_pylist() == sorted([OTHER, "name 8", "name 9", "name 6"])


def test_cases_count_for_at_most_so_many_activities_whatever_the_shards() -> None:
    log = {f"c{i}": "A B C D A" if i % 2 else "B" for i in range(30)}
    traces = trace_batch(log)
    keyed = randomness().unit_stream
    whole = activities_of_cases(Batch(traces, {}, keyed), 2)
    # Two names of a case that has more count 1 each, and one alone the root of 2.
    assert whole.counts.sum() == 15 * 2 * NAME_UNITS + 15 * math.isqrt(2 * NAME_UNITS**2)
    parts = [
        activities_of_cases(Batch(traces.take(np.arange(first, 30, 3)), {}, keyed), 2)
        for first in range(3)
    ]
    assert ActivityCounts.merge(parts) == whole
    free = activities_of_cases(Batch(traces, {}, keyed), 9)
    by_name = dict(zip(free.names.to_pylist(), free.counts.tolist(), strict=True))
    of_four, alone = (math.isqrt(9 * NAME_UNITS**2 // n) for n in (4, 1))
    several = 15 * of_four
    assert by_name == {"A": several, "B": several + 15 * alone, "C": several, "D": several}


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


@given(st.lists(st.integers(0, 30), min_size=2, max_size=8), st.integers(0, 60))
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


def test_the_rank_grows_with_the_noise_of_all_cells_that_are_likely_to_be_kept() -> None:
    assert rank_of_clip(4.0, 120, 10, 1.5) == pytest.approx(6 * math.sqrt(120))
    assert rank_of_clip(4.0, 361_200, 600, 1.5) == pytest.approx(6 * math.sqrt(24 * 600))
    assert rank_of_clip(4.0, 10**6, 10, 8, n_bins=24) == pytest.approx(32 * math.sqrt(24 * 240))


def test_few_enough_cases_exceed_a_clip_that_is_not_below_the_median() -> None:
    # 100 cases on a grid of four: 40 up to the first, then 30, 20, 8, and 2 beyond all.
    longer = cases_from(measured_ranks(np.array([40, 30, 20, 8, 2])))
    assert np.rint(longer).tolist() == [100, 60, 30, 10, 2]
    for rank, margin, place in [
        (31, 0, 1), (29, 0, 2), (29, 2, 1), (3, 0, 3), (1, 0, 3), (1e9, 0, 1), (1e9, 10.5, 0),
    ]:  # fmt: skip
        assert place_of_rank(longer, rank, margin) == place
    assert place_of_rank(np.zeros(5), 10) == place_of_rank(np.full(5, -3.0), 10) == 0


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


@pytest.mark.parametrize("max_activities", [1, 2, 16])
def test_what_is_said_to_be_found_is_found_by_half(max_activities: int) -> None:
    """Of as many cases as the words say, noise aside, the sum just reaches the threshold."""
    own = Allowance(Fraction(0), Fraction(1, 10**6), Fraction(3, 20), Fraction(4))
    least = own.threshold(changed_names(max_activities, 1), NAME_UNITS)
    text = likely_names(own, max_activities, 1).replace(",", "")
    found = re.findall(r"of (?:about )?(\d+)", text)
    sizes = re.findall(r"(\d+) distinct ones|where it has (\d+)", text)
    named = [int(a or b) for a, b in sizes] or [max_activities]
    assert len(found) == len(named) == (1 if max_activities == 1 else 2)
    for n_cases, size in zip(map(int, found), named, strict=True):
        weight = int(weights_of_names(np.zeros(size, np.int64), max_activities)[0])
        assert (n_cases - 1) * weight < least <= n_cases * weight * (1 + 1e-3)
