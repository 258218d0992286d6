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
from tests.support.broken_noise import BROKEN, Sampler
from tests.support.chi_square import ALPHA
from tests.support.privacy_loss import gaussian_delta
from tests.support.tiers import at_night
from tracecloak.examination.attack.bounds import epsilon_lower_bound

N = 150_000
COUNT = 5

Pair = tuple[np.ndarray, np.ndarray]  # features of releases with the unit, and without it


def counts_released(
    sampler: Sampler, epsilon: float, sensitivity: int = 1, n: int = N, number: int = 0
) -> Pair:
    """Releases of a count that one unit changes by the sensitivity, noised for that epsilon."""
    rng = np.random.default_rng([n, number])
    scale = sensitivity / epsilon
    a, b = sampler(rng, scale, n), sampler(rng, scale, n)
    return (a + COUNT + sensitivity)[:, None], (b + COUNT)[:, None]


# --- one count, n = 1.5e5 a side ------------------------------------------------------------------


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize("epsilon", [at_night(0.1), 1.0, at_night(math.log(3)), at_night(4.0)])
def test_right_noise_is_passed(epsilon: float, sensitivity: int) -> None:
    a, b = counts_released(broken_noise.right, epsilon, sensitivity)
    audited = epsilon_lower_bound(a, b)
    assert 0.4 * epsilon < audited.epsilon <= epsilon


def test_the_bound_is_tight() -> None:
    """Epsilon 1: 0.97 is expected of 4e5 releases (deviation 0.004), 0.92 of 6e4 (0.01)."""
    assert epsilon_lower_bound(*counts_released(broken_noise.right, 1.0, n=400_000)).epsilon > 0.94
    few = [counts_released(broken_noise.right, 1.0, n=60_000, number=k) for k in range(15)]
    assert np.median([epsilon_lower_bound(a, b).epsilon for a, b in few]) > 0.9


@pytest.mark.parametrize("name", BROKEN)
def test_broken_noise_is_condemned(name: str) -> None:
    epsilon, sampler = math.log(3), BROKEN[name]
    sensitivity = 2 if sampler is broken_noise.understated_sensitivity else 1
    a, b = counts_released(sampler, epsilon, sensitivity)
    assert epsilon_lower_bound(a, b).epsilon > 1.05 * epsilon


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
    a, b = released_above(5, 1.0, number=2)
    assert epsilon_lower_bound(a, b, delta).epsilon > 1


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_gaussian_noise_is_passed_at_its_delta_and_condemned_at_less_noise(delta: float) -> None:
    deviation = optimize.brentq(lambda s: gaussian_delta(1 / s, 1.0) - delta, 0.1, 20)
    rng = np.random.default_rng(14)
    for factor in (1.0, 0.7):
        a, b = (rng.normal(mean, factor * deviation, (N, 1)) for mean in (1, 0))
        found = epsilon_lower_bound(a, b, delta).epsilon
        assert 0.7 < found <= 1 if factor == 1 else found > 1.1


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
