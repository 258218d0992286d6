"""Audits condemn noise that is broken and pass noise that is right; their bounds keep their level.

Of right mechanisms fewer than 100 bounds are taken here with confidence 1 - 1e-9 each, and what
else is asked has at least six deviations of room; so a run of this file is wrong with probability
below 1e-6 in all. The generators are fixed besides: a failure repeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, stats

from tests.support import broken_noise
from tests.support.audit_bounds import hockey_stick_lower_bound, lowest_bit
from tests.support.broken_noise import BROKEN, Sampler
from tests.support.chi_square import ALPHA
from tests.support.tiers import at_night
from tracecloak.examination.attack.bounds import epsilon_lower_bound, one_run_epsilon

N = 150_000
COUNT = 5
SUPPORT = np.arange(-800, 801)

Pair = tuple[np.ndarray, np.ndarray]  # features of releases with the unit, and without it


def counts_released(
    sampler: Sampler, epsilon: float, sensitivity: int = 1, n: int = N, number: int = 0
) -> Pair:
    """Releases of a count that one unit changes by the sensitivity, noised for that epsilon."""
    rng = np.random.default_rng([n, number])
    scale = sensitivity / epsilon
    a, b = sampler(rng, scale, n), sampler(rng, scale, n)
    return (a + COUNT + sensitivity)[:, None], (b + COUNT)[:, None]


# --- the laws of the samplers, and what they really guarantee -------------------------------------


def discrete_laplace(scale: float) -> np.ndarray:
    z = math.exp(-1 / scale)
    return (1 - z) / (1 + z) * z ** np.abs(SUPPORT)


def truncated_laplace(scale: float) -> np.ndarray:
    """P(|Laplace| in [k, k + 1)), shared by both signs but at 0."""
    z = math.exp(-1 / scale)
    return np.where(SUPPORT == 0, 1 - z, (1 - z) / 2 * z ** np.abs(SUPPORT))


def raised_laplace(scale: float) -> np.ndarray:
    """P(|Laplace| in (k - 1, k])."""
    z = math.exp(-1 / scale)
    return np.where(SUPPORT >= 1, (1 - z) * z ** (np.abs(SUPPORT) - 1.0), 0.0)


LAWS: dict[Sampler, Callable[[float], np.ndarray]] = {
    broken_noise.right: discrete_laplace,
    broken_noise.truncated_float: truncated_laplace,
    broken_noise.one_sided: raised_laplace,
    broken_noise.scale_085: lambda scale: discrete_laplace(0.85 * scale),
    broken_noise.understated_sensitivity: lambda scale: discrete_laplace(scale / 2),
}


def exact_delta(law: np.ndarray, sensitivity: int, epsilon: float) -> float:
    """The hockey-stick divergence of a count and a larger one, summed; the larger direction."""
    moved = np.concatenate([np.zeros(sensitivity), law[:-sensitivity]])
    stretch = math.exp(epsilon)
    return float(
        max(np.maximum(moved - stretch * law, 0).sum(), np.maximum(law - stretch * moved, 0).sum())
    )


# --- one count, n = 1.5e5 a side ------------------------------------------------------------------


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("epsilon", [at_night(0.1), 1.0, at_night(math.log(3)), at_night(4.0)])
def test_right_noise_is_passed(epsilon: float, sensitivity: int) -> None:
    a, b = counts_released(broken_noise.right, epsilon, sensitivity)
    audited = epsilon_lower_bound(a, b)
    assert 0.4 * epsilon < audited.epsilon <= epsilon
    assert hockey_stick_lower_bound(a, b, epsilon) == 0
    # Not because nothing would be found: a claim of less is refuted.
    assert hockey_stick_lower_bound(a, b, 0.4 * epsilon) > 0


def test_the_bound_is_tight() -> None:
    """Epsilon 1: 0.97 is expected of 4e5 releases (deviation 0.004), 0.92 of 6e4 (0.01)."""
    assert epsilon_lower_bound(*counts_released(broken_noise.right, 1.0, n=400_000)).epsilon > 0.94
    few = [counts_released(broken_noise.right, 1.0, n=60_000, number=k) for k in range(15)]
    assert np.median([epsilon_lower_bound(a, b).epsilon for a, b in few]) > 0.9


@pytest.mark.parametrize("name", BROKEN)
def test_broken_noise_is_condemned(name: str) -> None:
    """At epsilon ln 3; the hockey stick finds most of the divergence and never more."""
    epsilon, sampler = math.log(3), BROKEN[name]
    sensitivity = 2 if sampler is broken_noise.understated_sensitivity else 1
    delta = exact_delta(LAWS[sampler](sensitivity / epsilon), sensitivity, epsilon)
    assert delta > 0.1
    a, b = counts_released(sampler, epsilon, sensitivity)
    assert epsilon_lower_bound(a, b).epsilon > 1.05 * epsilon
    assert delta - 0.05 < hockey_stick_lower_bound(a, b, epsilon) <= delta


def test_float_noise_is_condemned_by_its_last_bits() -> None:
    """Some floats near 0 cannot be 1 plus a float; rounded to integers nothing is left of it."""
    rng = np.random.default_rng(11)
    noise = broken_noise.raw_float
    with_unit, without_unit = 1 + noise(rng, 1.0, 60_000), noise(rng, 1.0, 60_000)
    bits = epsilon_lower_bound(lowest_bit(with_unit)[:, None], lowest_bit(without_unit)[:, None])
    assert bits.epsilon > 4
    as_integers = epsilon_lower_bound(np.rint(with_unit)[:, None], np.rint(without_unit)[:, None])
    assert 0.7 < as_integers.epsilon < 1


# --- delta, and what is there or not --------------------------------------------------------------


def released_above(threshold: int, epsilon: float, number: int, n: int = 400_000) -> Pair:
    """The count of a variant that one unit alone follows, released from the threshold on."""
    rng = np.random.default_rng(number)
    noisy = 1.0 + broken_noise.right(rng, 1 / epsilon, n)
    return np.where(noisy >= threshold, noisy, np.nan)[:, None], np.full((n, 1), np.nan)


def test_a_threshold_that_delta_allows_is_passed_and_the_one_below_is_not() -> None:
    """P(1 + noise >= t) = e^-(t - 1) / (1 + e^-1) at epsilon 1: .0049 from 6 on, .0134 from 5."""
    delta = 0.009
    kept = {t: math.exp(-(t - 1)) / (1 + math.exp(-1)) for t in (5, 6)}
    assert kept[6] < delta < kept[5]
    a, b = released_above(6, 1.0, number=1)
    assert epsilon_lower_bound(a, b, delta).epsilon == 0
    assert 0.6 * kept[6] < hockey_stick_lower_bound(a, b, 1.0) <= kept[6]
    a, b = released_above(5, 1.0, number=2)
    assert epsilon_lower_bound(a, b, delta).epsilon > 1
    assert delta < hockey_stick_lower_bound(a, b, 1.0) <= kept[5]


def gaussian_delta(deviation: float, epsilon: float) -> float:
    """Balle and Wang, 2018: the exact delta of Gaussian noise at sensitivity 1."""
    half, drift = 1 / (2 * deviation), epsilon * deviation
    return float(stats.norm.cdf(half - drift) - math.exp(epsilon) * stats.norm.cdf(-half - drift))


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_gaussian_noise_is_passed_at_its_delta_and_condemned_at_less_noise(delta: float) -> None:
    deviation = optimize.brentq(lambda s: gaussian_delta(s, 1.0) - delta, 0.1, 20)
    rng = np.random.default_rng(14)
    for factor in (1.0, 0.7):
        a, b = (rng.normal(mean, factor * deviation, (N, 1)) for mean in (1, 0))
        found = epsilon_lower_bound(a, b, delta).epsilon
        truth = gaussian_delta(factor * deviation, 1.0)
        assert hockey_stick_lower_bound(a, b, 1.0) <= truth
        if factor == 1:
            assert 0.7 < found <= 1
        else:
            assert found > 1.1
            assert hockey_stick_lower_bound(a, b, 1.0) > delta


# --- one run --------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_one_run_of_randomised_response(epsilon: float) -> None:
    """20,000 coins, each answered by its own at that epsilon; half of them are not guessed.

    At half the scale the claim is refuted: the answers then have twice the epsilon.
    """
    rng = np.random.default_rng(15)
    for true_epsilon in (epsilon, 2 * epsilon):
        coins = rng.random(20_000) < 0.5
        answers = coins ^ (rng.random(20_000) > 1 / (1 + math.exp(-true_epsilon)))
        right = int((answers == coins)[:10_000].sum())
        bound = one_run_epsilon(20_000, 10_000, right, delta=0.0, confidence=1 - 1e-9)
        assert 0.5 * true_epsilon < bound <= true_epsilon
        assert (bound > epsilon) == (true_epsilon > epsilon)


# --- the level of the bounds ----------------------------------------------------------------------


def randomised_response(rng: np.random.Generator, n: int) -> Pair:
    """Epsilon 1: a bit that is told truly with probability e / (1 + e)."""
    lies = rng.random((2, n, 1)) > math.e / (1 + math.e)
    return 1.0 - lies[0], 0.0 + lies[1]


def two_counts(rng: np.random.Generator, n: int) -> Pair:
    """Epsilon 1 in all: half for each of two counts that the unit is in."""
    noises = broken_noise.right(rng, 2.0, 4 * n).reshape(2, n, 2)
    return noises[0] + 1, noises[1]


def thresholded(rng: np.random.Generator, n: int) -> Pair:
    """Epsilon 1: a count that is left out below 3, on both sides of which it is often."""
    noises = broken_noise.right(rng, 1.0, 2 * n).reshape(2, n, 1).astype(float)
    counts = noises + np.array([3, 2])[:, None, None]
    counts[counts < 3] = np.nan
    return counts[0], counts[1]


def nothing_told(rng: np.random.Generator, n: int) -> Pair:
    """Epsilon 0, with forty features to be misled by."""
    noises = broken_noise.right(rng, 2.0, 80 * n).reshape(2, n, 40)
    return noises[0], noises[1]


ALL_LAWS = [(randomised_response, 1), (two_counts, 1), (thresholded, 1), (nothing_told, 0)]
LEVEL = 0.2


def n_above(law: Callable[..., Pair], truth: float, n: int, n_audits: int) -> int:
    """How often a bound of confidence 1 - LEVEL exceeds the truth."""
    rng = np.random.default_rng([16, n])
    audits = (epsilon_lower_bound(*law(rng, n), confidence=1 - LEVEL) for _ in range(n_audits))
    return sum(audited.epsilon > truth for audited in audits)


@pytest.mark.parametrize(("law", "epsilon"), ALL_LAWS)
def test_bounds_exceed_the_truth_no_more_often_than_is_said(
    law: Callable[..., Pair], epsilon: float
) -> None:
    """250 audits of 200 releases; as many above as 1e-9 of all such series would have."""
    assert n_above(law, epsilon, 200, 250) <= stats.binom.isf(ALPHA, 250, LEVEL)


def test_a_bound_measured_where_it_was_chosen_would_exceed_the_truth() -> None:
    """The control of the level: the second half repeats the first, and with it what was luck."""

    def repeated(rng: np.random.Generator, n: int) -> Pair:
        a, b = nothing_told(rng, n // 2)
        return np.tile(a, (2, 1)), np.tile(b, (2, 1))

    assert n_above(repeated, 0, 400, 200) > stats.binom.isf(ALPHA, 200, LEVEL)


@pytest.mark.slow
def test_the_hockey_stick_exceeds_the_truth_no_more_often_than_is_said() -> None:
    """Randomised response of epsilon 1 at 0.5: delta (e - e^0.5) / (1 + e); 5000 audits."""
    rng = np.random.default_rng(17)
    truth = (math.e - math.exp(0.5)) / (1 + math.e)
    above = sum(
        hockey_stick_lower_bound(*randomised_response(rng, 400), 0.5, 1 - LEVEL) > truth
        for _ in range(5000)
    )
    assert above <= stats.binom.isf(ALPHA, 5000, LEVEL)
