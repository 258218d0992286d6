"""What is chosen on the log and paid for: the law of each choice, and who alone can tip it.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.chi_square import ALPHA, p_value_of_law
from tests.support.keys import randomness
from tests.support.logs import MINUTE, naive_pairs, trace_batch
from tests.support.silence import Silence
from tracecloak.anonymizers.accounting.sensitivity import Sensitivity
from tracecloak.anonymizers.noise.drawing import EXACT
from tracecloak.anonymizers.rigorous import bought
from tracecloak.anonymizers.rigorous.bought import (
    ActivitiesOfCases,
    NormsOfCases,
    VocabularyDecision,
    choose_clip,
    choose_vocabulary,
    in_vocabulary,
    norm_grid,
    vocabulary_scale,
    vocabulary_threshold,
)
from tracecloak.schemas.events.vocabulary import OTHER, ActivityVocabulary
from tracecloak.schemas.statistics.activity_counts import ActivityCounts
from tracecloak.schemas.statistics.clipped_flows import CaseNorms

# --- the clip -------------------------------------------------------------------------------------


def test_the_grid_goes_from_the_shortest_case_up_in_tenths() -> None:
    grid = norm_grid()
    assert grid[0] == 2  # a START and an END arc
    assert (np.diff(grid) > 0).all()
    assert 100**2 <= grid[-1] < 110**2
    ratios = np.sqrt(grid[1:] / grid[:-1])
    assert (ratios[grid[1:] > 200] < 1.103).all()


def permute_and_flip_law(scores: list[int], rate: Fraction) -> dict[int, float]:
    """Every order of the candidates, each with its coins: the definition."""
    best = max(scores)
    coins = [math.exp(-float(rate * (best - score))) for score in scores]
    law = dict.fromkeys(range(len(scores)), 0.0)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for candidate in order:
            law[candidate] += left * coins[candidate] / len(orders)
            left *= 1 - coins[candidate]
    return law


def scores_of(cases: Sequence[int], quantile: Fraction) -> list[int]:
    """How far each grid point is from being a quantile, in parts of a case; 0 is one."""
    goal = quantile * sum(cases)
    scores = []
    for j in range(len(cases) - 1):
        below, reached = sum(cases[:j]), sum(cases[: j + 1])
        off = (
            Fraction(0) if below <= goal <= reached else min(abs(below - goal), abs(reached - goal))
        )
        scores.append(int(-off * quantile.denominator))
    return scores


GRID = np.array([2, 3, 5, 9], np.int64)
N_CHOICES = 6000


@pytest.mark.parametrize(
    ("cases", "epsilon", "quantile", "max_units"),
    [
        ((4, 3, 2, 1, 2), Fraction(1), Fraction(4, 5), 1),
        ((1, 0, 5, 5, 0), Fraction(1, 2), Fraction(1, 4), 1),
        ((4, 3, 2, 1, 2), Fraction(3), Fraction(4, 5), 3),
        ((0, 0, 0, 0, 0), Fraction(1), Fraction(1, 2), 1),
    ],
)
def test_the_clip_follows_the_law_of_permute_and_flip(
    monkeypatch: pytest.MonkeyPatch,
    cases: tuple[int, ...],
    epsilon: Fraction,
    quantile: Fraction,
    max_units: int,
) -> None:
    """Of n = 6,000 keys. Control: twice the epsilon, wherever there is anything to tell apart."""
    monkeypatch.setattr(bought, "norm_grid", lambda: GRID)
    used = np.flatnonzero(cases)
    norms = CaseNorms(used, np.array(cases)[used])
    found = Counter(
        choose_clip(norms, epsilon, quantile, max_units, randomness(number))
        for number in range(N_CHOICES)
    )
    n = sum(cases)
    fine = scores_of(cases, quantile)
    sensitivity = max(quantile, 1 - quantile) * max_units * quantile.denominator
    law = permute_and_flip_law(fine, epsilon / (2 * sensitivity))
    by_clip = {math.sqrt(GRID[j]): chance for j, chance in law.items()}
    assert p_value_of_law(found, by_clip) > ALPHA
    if n:
        wrong = permute_and_flip_law(fine, epsilon / sensitivity)
        wrong_by_clip = {math.sqrt(GRID[j]): chance for j, chance in wrong.items()}
        assert p_value_of_law(found, wrong_by_clip) < ALPHA


@given(
    st.lists(st.integers(0, 20), min_size=5, max_size=5),
    st.integers(0, 4),
    st.sampled_from([Fraction(1, 2), Fraction(4, 5), Fraction(1, 1000), Fraction(999, 1000)]),
)
def test_the_clips_law_changes_by_at_most_epsilon_when_a_case_is_added(
    cases: list[int], bucket: int, quantile: Fraction
) -> None:
    """Exact laws of neighbours; the scores are those of the definition."""
    laws = []
    more = [count + (j == bucket) for j, count in enumerate(cases)]
    for counts in (cases, more):
        fine = scores_of(counts, quantile)
        rate = 1 / (2 * max(quantile, 1 - quantile) * quantile.denominator)
        laws.append(permute_and_flip_law(fine, rate))
    for j in range(4):
        if min(laws[0][j], laws[1][j]) > 1e-12:
            assert abs(math.log(laws[0][j] / laws[1][j])) <= 1 + 1e-9


def test_with_many_cases_the_clip_is_the_quantile() -> None:
    norms = CaseNorms(np.arange(10), np.full(10, 10_000_000))  # scores beyond 2^32
    for quantile, place in ((Fraction(1, 4), 2), (Fraction(3, 4), 7), (Fraction(999, 1000), 9)):
        for number in range(5):
            found = choose_clip(norms, Fraction(1), quantile, 1, randomness(number))
            assert found == math.sqrt(norm_grid()[place])


@pytest.mark.parametrize("quantile", [Fraction(1, 10), Fraction(4, 5), Fraction(999, 1000)])
def test_a_norm_that_all_cases_share_is_the_clip(quantile: Fraction) -> None:
    """Not anything above it, of which as many cases are as far from the quantile.

    50 keys; every other candidate loses by 10,000 cases at least, which is a chance of e^-250.
    """
    norms = CaseNorms(np.array([3]), np.array([10_000_000]))
    for number in range(50):
        found = choose_clip(norms, Fraction(1, 20), quantile, 1, randomness(number))
        assert found == math.sqrt(norm_grid()[3])


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


# --- the vocabulary -------------------------------------------------------------------------------


def gaussian_tail(sigma: Fraction, least: int) -> mpmath.mpf:
    """P(X >= least) of discrete Gaussian noise, its terms added up; least is positive."""
    with mpmath.workdps(50):
        s = mpmath.mpf(sigma.numerator) / sigma.denominator
        reach = max(least, 0) + int(16 * s) + 10
        terms = [mpmath.exp(-mpmath.mpf(x * x) / (2 * s * s)) for x in range(reach)]
        return mpmath.fsum(terms[least:]) / (2 * mpmath.fsum(terms) - 1)


@pytest.mark.parametrize("max_units", [1, 3])
@pytest.mark.parametrize("max_activities", [1, 4])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "1e-6"), ("2", "1e-4"), ("2", "0.01")])
def test_what_one_unit_alone_has_is_chosen_with_at_most_half_of_delta(
    epsilon: str, delta: str, max_activities: int, max_units: int
) -> None:
    """All its activities together, by the exact tail; and the threshold is not far too high."""
    budget = Fraction(epsilon), Fraction(delta)
    sigma = Fraction(*vocabulary_scale(*budget, max_activities, max_units))
    threshold = vocabulary_threshold(*budget, max_activities, max_units)
    n_alone = max_activities * max_units
    alone = n_alone * gaussian_tail(sigma, threshold - max_units)
    assert alone <= mpmath.mpf(delta) / 2
    # The tail bound is loose by some power of the threshold only.
    lower = int((threshold - max_units) * 0.75)
    assert n_alone * gaussian_tail(sigma, lower) > mpmath.mpf(delta) / 2


def counted(counts: dict[str, int]) -> ActivityCounts:
    return ActivityCounts.of(
        pa.array(list(counts), pa.string()), np.array(list(counts.values()), np.int64)
    )


BUDGET = Fraction(1), Fraction(1, 10**6)


def choose(counts: dict[str, int], number: int = 0, **given_: Any) -> list[str]:
    keyed = randomness(number).with_noise(given_.pop("noise", EXACT))
    chosen = choose_vocabulary(counted(counts), *BUDGET, 4, 1, keyed)
    return chosen.vocabulary.names.to_pylist()


@pytest.mark.parametrize(("max_activities", "max_units"), [(1, 1), (2, 1), (9, 4), (50, 3)])
def test_the_noise_of_the_vocabulary_is_for_all_that_a_unit_adds(
    monkeypatch: pytest.MonkeyPatch, max_activities: int, max_units: int
) -> None:
    """`max_units` to each of `max_activities` counts: never less than that norm, hardly more."""
    asked = []

    def scale(epsilon: Fraction, delta: Fraction, sensitivity: Sensitivity) -> tuple[int, int]:
        asked.append((epsilon, delta, sensitivity))
        return 1, 1

    monkeypatch.setattr(bought, "gaussian_scale", scale)
    vocabulary_scale(Fraction(1), Fraction(1, 100), max_activities, max_units)
    [(epsilon, delta, sensitivity)] = asked
    assert (epsilon, delta) == (1, Fraction(1, 200))
    squared = (sensitivity.l2 / max_units) ** 2
    assert max_activities <= squared < max_activities * Fraction(1_000_003, 1_000_000)


def test_activities_from_the_threshold_on_are_chosen() -> None:
    threshold = vocabulary_threshold(*BUDGET, 4, 1)
    silence = Silence()
    counts = {"below": threshold - 1, "at": threshold, "above": threshold + 1, OTHER: 10**9}
    assert choose(counts, noise=silence) == sorted([OTHER, "above", "at"])
    (drawn,) = silence.draws
    assert drawn[2] == Fraction(*vocabulary_scale(*BUDGET, 4, 1))


def test_popular_activities_pass_and_lonely_ones_do_not() -> None:
    """50 keys; each misses with a chance below 1e-12: 8 deviations, and the tail above."""
    sigma = Fraction(*vocabulary_scale(*BUDGET, 4, 1))
    threshold = vocabulary_threshold(*BUDGET, 4, 1)
    popular = threshold + math.ceil(8 * sigma)
    lonely = max(1, threshold - math.ceil(8 * sigma))
    for number in range(50):
        counts = {f"popular {i}": popular for i in range(4)} | {
            f"lonely {i}": min(1, lonely) for i in range(4)
        }
        chosen = choose(counts, number)
        assert set(chosen) >= {OTHER, *(f"popular {i}" for i in range(4))}
        assert not [name for name in chosen if name.startswith("lonely")]


def test_a_name_at_the_threshold_is_chosen_half_of_the_times() -> None:
    """2,000 names of one count under one key; between 40 and 60 % but for a chance of 1e-18."""
    threshold = vocabulary_threshold(*BUDGET, 4, 1)
    chosen = choose({f"name {i}": threshold for i in range(2000)})
    assert 800 < len(chosen) < 1200


def test_a_names_noise_does_not_depend_on_the_other_names() -> None:
    threshold = vocabulary_threshold(*BUDGET, 4, 1)
    few = {f"name {i}": threshold for i in range(20)}
    many = few | {f"also {i}": threshold for i in range(50)}
    assert set(choose(few)) == set(choose(many)) & {*few, OTHER}
    assert 1 < len(choose(few)) < 21


def test_cases_count_for_at_most_so_many_activities_whatever_the_shards() -> None:
    log = {f"c{i}": "A B C D A" if i % 2 else "B" for i in range(30)}
    traces = trace_batch(log)
    keyed = randomness().of_units
    whole = ActivitiesOfCases(2).count(traces, {}, keyed)
    assert whole.counts.sum() == 15 * 2 + 15
    parts = [
        ActivitiesOfCases(2).count(traces.take(np.arange(first, 30, 3)), {}, keyed)
        for first in range(3)
    ]
    assert ActivityCounts.merge(parts) == whole
    free = ActivitiesOfCases(9).count(traces, {}, keyed)
    by_name = dict(zip(free.names.to_pylist(), free.counts.tolist(), strict=True))
    assert by_name == {"A": 15, "B": 30, "C": 15, "D": 15}


def test_traces_are_recoded_only_if_a_vocabulary_was_bought() -> None:
    traces = trace_batch({"c": "A Q"})
    assert in_vocabulary(traces, {}) is traces
    words = VocabularyDecision(ActivityVocabulary.public(["A"]))
    recoded = in_vocabulary(traces, {"vocabulary": words})
    names = recoded.vocabulary.names.to_pylist()
    assert [names[code] for code in recoded.activities] == ["A", OTHER]
