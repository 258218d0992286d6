"""Bounds and attacks of the audit: by hand, against scipy and naive sums, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.broken_noise import Sampler, reused, right
from tracecloak.examination.attack.bounds import (
    clopper_pearson,
    epsilon_lower_bound,
    learnt_columns,
    one_run_epsilon,
)
from tracecloak.examination.attack.run import crowd_sizes, support_attack

# --- Clopper-Pearson ------------------------------------------------------------------------------


@given(st.integers(1, 2000), st.data(), st.sampled_from([0.2, 0.05, 1e-6, 1e-9]))
def test_the_interval_is_scipys_exact_one(trials: int, data: st.DataObject, alpha: float) -> None:
    successes = data.draw(st.integers(0, trials))
    exact = stats.binomtest(successes, trials).proportion_ci(1 - alpha, "exact")
    assert clopper_pearson(successes, trials, alpha) == pytest.approx(
        (exact.low, exact.high), rel=1e-6, abs=1e-12
    )


# --- epsilon and delta from two sets of releases --------------------------------------------------


def coins(share: float, n: int = 400) -> np.ndarray:
    """float64[n, 1]: that share of ones, spread evenly, so that every part has it."""
    position = np.arange(n)
    return (np.floor((position + 1) * share) - np.floor(position * share))[:, None]


def test_the_bound_is_that_of_the_intervals_of_the_half_that_was_not_looked_at() -> None:
    """3 of 4 and 1 of 4 releases have a one; 200 of each 400 are measured, with four bounds."""
    audited = epsilon_lower_bound(coins(0.75), coins(0.25), confidence=0.96, names=["bit"])
    p_with, p_without = clopper_pearson(150, 200, 0.02), clopper_pearson(50, 200, 0.02)
    assert audited.epsilon == pytest.approx(math.log(p_with[0] / p_without[1]))
    assert audited.p_with == pytest.approx(p_with)
    assert audited.p_without == pytest.approx(p_without)
    assert audited.event == "bit ≥ 1"


def test_delta_is_taken_off_the_likelier_side() -> None:
    audited = epsilon_lower_bound(coins(0.75), coins(0.25), delta=0.1, confidence=0.96)
    assert audited.epsilon == pytest.approx(
        math.log((audited.p_with[0] - 0.1) / audited.p_without[1])
    )
    assert epsilon_lower_bound(coins(0.75), coins(0.25), delta=0.9).epsilon == 0


@pytest.mark.parametrize("n", [400, 4000])
def test_both_directions_count(n: int) -> None:
    """P(0) is 0.5 against 0.05, P(1) is 0.5 against 0.95: only the zeros tell much."""
    a, b = coins(0.5, n), coins(0.95, n)
    forth, back = epsilon_lower_bound(a, b), epsilon_lower_bound(b, a)
    assert forth.event == back.event == "feature 0 ≤ 0"
    zeros, few = clopper_pearson(n // 4, n // 2, 5e-10), clopper_pearson(n // 40, n // 2, 5e-10)
    assert forth.epsilon == back.epsilon == pytest.approx(math.log(zeros[0] / few[1]))
    assert (forth.p_with, forth.p_without) == (back.p_without, back.p_with)


def test_the_event_depends_on_the_first_half_alone() -> None:
    """The second column tells the logs apart on the second half only, where nothing is chosen."""
    a, b = np.tile(coins(0.75), 2), np.tile(coins(0.25), 2)
    a[:200, 1] = b[:200, 1] = 0
    a[200:, 1], b[200:, 1] = 1, 0
    audited = epsilon_lower_bound(a, b)
    assert "feature 1" not in audited.event
    assert audited.epsilon < 1
    swapped = epsilon_lower_bound(np.roll(a, 200, 0), np.roll(b, 200, 0))
    assert "feature 1" in swapped.event  # chosen, and worth nothing on the half that is measured
    assert swapped.epsilon == 0


@pytest.mark.parametrize(("is_absent_with", "words"), [(False, "present"), (True, "absent")])
def test_absence_is_an_event(is_absent_with: bool, words: str) -> None:
    """A feature that comes out of one log in half of all releases, and never of the other."""
    often = np.where(coins(0.5) > 0, 7.0, np.nan)
    never = np.full_like(often, np.nan)
    if is_absent_with:
        often, never = np.where(np.isnan(often), 7.0, np.nan), np.full_like(often, 7.0)
    audited = epsilon_lower_bound(often, never)
    assert audited.event == f"feature 0 is {words}"
    assert audited.epsilon == pytest.approx(
        math.log(clopper_pearson(100, 200, 5e-10)[0] / clopper_pearson(0, 200, 5e-10)[1])
    )


def test_a_leak_of_the_support_is_a_bound_that_grows_with_the_releases() -> None:
    """Ten times the releases shrink what 0 of n leaves possible to a tenth: ln 10 more each."""
    bounds = []
    for n in (1_000, 10_000, 100_000):
        often = np.where(coins(0.5, n) > 0, 7.0, np.nan)
        bounds.append(epsilon_lower_bound(often, np.full((n, 1), np.nan)).epsilon)
    assert bounds[0] > 1
    assert np.diff(bounds).min() > math.log(10)  # and the lower end of a half rises


def test_noise_shared_by_two_features_is_seen_in_their_difference() -> None:
    """Control: with noise of its own for each, the bound keeps below epsilon."""
    rng = np.random.default_rng(5)

    def releases(sampler: Sampler, count: int) -> np.ndarray:
        noises = np.array([sampler(rng, 1.0, 2) for _ in range(4000)])
        return (noises + np.array([count, 9])) * [1, 1000]  # units of their own

    shared = epsilon_lower_bound(releases(reused, 6), releases(reused, 5))
    assert shared.event.startswith("linear score of 2 columns")
    assert shared.epsilon > 4
    assert epsilon_lower_bound(releases(right, 6), releases(right, 5)).epsilon < 1


def test_scores_add_up_what_is_absent_and_what_no_threshold_sees() -> None:
    """Ten features that are absent, or middling, in 7 of 10 releases with the unit, 3 without."""
    rng = np.random.default_rng(8)
    is_telling = rng.random((2, 20_000, 10)) < np.array([0.7, 0.3])[:, None, None]
    outer = rng.choice([0.0, 2.0], is_telling.shape)
    alone = math.log(0.7 / 0.3)
    for telling, scores in [(np.nan, ["linear", "likelihood"]), (1.0, ["likelihood"])]:
        a, b = np.where(is_telling, telling, outer)
        assert epsilon_lower_bound(a[:, :1], b[:, :1]).epsilon < alone
        assert epsilon_lower_bound(a, b).epsilon > 3 * alone
        for column in learnt_columns(a, b):
            middle = np.median(column.of(np.concatenate([a, b])))
            share = (column.of(a) > middle).mean()
            assert (share > 0.8) == (column.name.split()[0] in scores)


# --- epsilon from one run -------------------------------------------------------------------------


def chance_of_luck(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Theorem 5.2 as a plain double sum over P[v > Binomial >= v - i]."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    masses = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    close = max((sum(masses[v - i : v]) / i for i in range(1, v + 1)), default=0.0)
    return sum(masses[v:]) + 2 * m * delta * close


def test_the_example_of_the_paper() -> None:
    """Its appendix D prints 0.673 for 75 right of 100 guesses on 1000 canaries."""
    assert one_run_epsilon(1000, 100, 75, delta=1e-4, confidence=0.95) == pytest.approx(
        0.673, abs=5e-4
    )


@pytest.mark.parametrize(
    ("m", "r", "v", "delta"),
    [(200, 200, 178, 0.0), (200, 100, 90, 1e-3), (50, 20, 20, 1e-5), (40, 40, 33, 1e-4)],
)
def test_the_bound_is_where_luck_has_the_chance_that_is_left(
    m: int, r: int, v: int, delta: float
) -> None:
    epsilon = one_run_epsilon(m, r, v, delta, 0.95)
    assert epsilon > 0.5
    assert chance_of_luck(m, r, v, epsilon, delta) == pytest.approx(0.05, rel=1e-9)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 3.0])
@pytest.mark.parametrize("n_guesses", [1, 40, 300])
def test_randomised_response_exceeds_its_epsilon_in_at_most_5_percent(
    epsilon: float, n_guesses: int
) -> None:
    """The auditor of k coins, each answered rightly with its bias: summed over all outcomes."""
    bias = 1 / (1 + math.exp(-epsilon))
    bounds = np.array([one_run_epsilon(300, n_guesses, v, 0, 0.95) for v in range(n_guesses + 1)])
    chances = stats.binom.pmf(np.arange(n_guesses + 1), n_guesses, bias)
    exceeds = bounds > epsilon + 1e-12
    assert chances[exceeds].sum() <= 0.05
    if n_guesses == 300:  # and it is no weaker than the steps of a count make it
        assert chances[exceeds].sum() > 0.02
    assert (np.diff(bounds) >= 0).all()


def test_canaries_that_were_not_guessed_count_only_beside_delta() -> None:
    assert one_run_epsilon(100, 60, 55, 0, 0.95) == one_run_epsilon(900, 60, 55, 0, 0.95)
    assert one_run_epsilon(100, 60, 55, 1e-4, 0.95) > one_run_epsilon(900, 60, 55, 1e-4, 0.95)


# --- attacks that count ---------------------------------------------------------------------------


def test_lone_cases_that_came_out_are_counted() -> None:
    """Three lone variants of which two came out; delta 0.1: 3 p^2 (1 - p) + p^3."""
    counts = {("a",): 1, ("a", "b"): 1, ("c",): 1, ("b",): 9}
    finding = support_attack(counts, [("a",), ("b",), ("c",), ("invented",)], delta=0.1)
    assert finding == pytest.approx(
        {
            "n_singletons_in_input": 3,
            "n_released_singletons": 2,
            "expected_at_most": 0.3,
            "p_value": 3 * 0.01 * 0.9 + 0.001,
        }
    )
    assert support_attack(counts, [("a",)], delta=0)["p_value"] == 0
    assert support_attack(counts, [("b",)], delta=0)["p_value"] == 1


def test_crowds_are_sorted_by_size() -> None:
    sizes = crowd_sizes(np.array([1, 10, 5, 4, 2, 9, 1, 1_000_000, 0, -3]))
    assert [*sizes.values()] == [2, 2, 2, 2]
    assert [*crowd_sizes(np.array([], np.int64)).values()] == [0, 0, 0, 0]
