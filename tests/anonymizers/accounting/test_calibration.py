"""Scales and thresholds: figures of the literature and closed forms, rounding, refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.privacy_loss import ONE, discrete_gaussian
from tracecloak.anonymizers.accounting import calibration, joint
from tracecloak.anonymizers.accounting.calibration import (
    gaussian_threshold,
    guessing_advantage_of,
    laplace_interval,
    laplace_scale,
    stability_threshold,
    truncated_noise_bound,
)
from tracecloak.anonymizers.accounting.composition import (
    COORDINATES_LOSS,
    gaussian_delta,
)
from tracecloak.anonymizers.accounting.intervals import Interval, is_proven
from tracecloak.anonymizers.accounting.sensitivity import of_count

MILLIONTH = Fraction("1e-6")
epsilons = st.fractions(Fraction(1, 100), 20, max_denominator=1000)
deltas = st.integers(1, 12).map(lambda n: Fraction(1, 10**n))


def true(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@given(st.fractions(-60, 60, max_denominator=10**6))
def test_enclosures_hold_what_a_hundred_and_fifty_digits_say(x: Fraction) -> None:
    with mpmath.workdps(150):
        for found, exactly in (
            (Interval.of(x), true(x)),
            (Interval.of(x).exp(), mpmath.exp(true(x))),
            (Interval.of(abs(x) + 1).log(), mpmath.log(true(abs(x) + 1))),
            (Interval.of(x).normal_cdf(), mpmath.ncdf(true(x))),
            (Interval.of(x) * Interval.of(x - 1), true(x) * true(x - 1)),
            (3 - Interval.of(x) / 7, 3 - true(x) / 7),
        ):
            low, high = mpmath.mpf(str(found.low)), mpmath.mpf(str(found.high))
            rounding = mpmath.mpf(10) ** -140  # mpmath's own
            assert low - rounding <= exactly <= high + rounding
            assert high - low <= abs(exactly) * mpmath.mpf(10) ** -30 + rounding
            assert found.float_below() - rounding <= exactly <= found.float_above() + rounding
            assert math.isclose(
                found.float_below(), found.float_above(), rel_tol=1e-15, abs_tol=1e-300
            )


def test_the_normal_tail_is_enclosed_far_out() -> None:
    found = Interval.of(-1400).normal_cdf()
    with mpmath.workdps(120):
        exactly = mpmath.ncdf(-1400)
        assert mpmath.mpf(str(found.low)) <= exactly <= mpmath.mpf(str(found.high))


def test_a_claim_is_settled_with_more_digits_or_counts_as_not_proven() -> None:
    third = Fraction(1, 3)
    above = third + Fraction(1, 10**200)
    assert Interval.of(third).is_at_most(above) is None
    assert is_proven(lambda digits: Interval.of(third, digits).is_at_most(above))
    assert not is_proven(lambda digits: Interval.of(above, digits).is_at_most(third))
    assert not is_proven(lambda digits: Interval.of(third, digits).is_at_most(third))


@given(epsilons, deltas, st.integers(1, 30))
def test_thresholds_of_individuals_keep_both_worst_cases_and_are_smallest(
    epsilon: Fraction, delta: Fraction, m: int
) -> None:
    """The exact sums over all splits are in test_anonymizer_exact_privacy_loss."""
    with mpmath.workdps(60):
        a = mpmath.exp(-true(epsilon) / m)

        def delta_of(t: int) -> mpmath.mpf:
            single, many = a ** (t - 1) / (1 + a), a ** (t - m) / (1 + a)
            return max(many, m * single)  # one of m cases has delta / m

        def delta_of_bound(k: int) -> mpmath.mpf:
            norm = mpmath.fsum(a ** abs(x) for x in range(-k, k + 1))
            return mpmath.fsum(a**x for x in range(k - m + 1, k + 1)) / norm

        t = stability_threshold(epsilon, delta, m)
        assert delta_of(t) <= true(delta) < delta_of(t - 1)
        if epsilon * 20 > m:  # few terms
            k = truncated_noise_bound(epsilon, delta, m)
            assert delta_of_bound(k) <= true(delta)
            assert k == m or delta_of_bound(k - 1) > true(delta)


@given(st.fractions(Fraction(1, 10**8), 10**5), st.integers(1, 10**6))
def test_scales_are_rounded_up_by_little(epsilon: Fraction, sensitivity: int) -> None:
    numerator, denominator = laplace_scale(epsilon, of_count(sensitivity))
    assert 0 < numerator < 2**50
    assert 0 < denominator < 2**50
    needed = sensitivity / epsilon
    assert needed <= Fraction(numerator, denominator) <= needed * (1 + Fraction(1, 10**9))


def tail(sigma: Fraction, least: int) -> tuple[Fraction, Fraction]:
    """P(X >= least) of discrete Gaussian noise, enclosed, its terms added up."""
    law = discrete_gaussian(sigma, max(abs(least), math.ceil(30 * sigma)) + 1)
    low = sum(bounds[0] for x, bounds in law.chances.items() if x >= least)  # type: ignore[operator]
    high = sum(bounds[1] for x, bounds in law.chances.items() if x >= least)  # type: ignore[operator]
    return Fraction(low, ONE), Fraction(high + law.rest, ONE)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("passing", ["0.5", "0.1", "0.001", "3e-7", "1e-12", "1e-60"])
@pytest.mark.parametrize("scale", [(21, 10), (5, 1), (1234, 100)])
@pytest.mark.parametrize("value", [0, 4])
def test_a_value_with_gaussian_noise_seldom_reaches_its_threshold(
    scale: tuple[int, int], value: int, passing: str
) -> None:
    """By enumeration; and one of two steps less is too low, up to the millionth of z."""
    threshold = gaussian_threshold(scale, value, Fraction(passing))
    assert tail(Fraction(*scale), threshold - value)[1] <= Fraction(passing)
    assert tail(Fraction(*scale), threshold - value - 2)[0] > Fraction(passing) * Fraction("0.999")


@pytest.mark.parametrize("g", [0.2, 0.3, 0.4])
def test_the_advantage_inverts_the_epsilons_of_amun(g: float) -> None:
    """ln((1 + g) / (1 - g)) add/remove is .405, .619, .847; twice that for replace-one."""
    epsilon = Fraction(math.log((1 + g) / (1 - g)))
    assert guessing_advantage_of(epsilon, 0, "add_remove").any_prior == pytest.approx(g)
    assert guessing_advantage_of(2 * epsilon, 0, "replace_one").any_prior == pytest.approx(g)


@given(epsilons, deltas)
def test_advantages_are_rounded_up(epsilon: Fraction, delta: Fraction) -> None:
    found = guessing_advantage_of(epsilon, delta, "replace_one")
    with mpmath.workdps(60):
        grown = mpmath.exp(true(epsilon))
        assert found.any_prior >= mpmath.tanh(true(epsilon) / 4)
        assert found.membership >= min(1, (grown - 1 + 2 * true(delta)) / (grown + 1))
    assert found.any_prior <= 1
    assert found.membership <= 1


E1, D6 = Fraction(1), MILLIONTH


@pytest.mark.parametrize("error", [-1e-3, -1e-10, 1e-10, 1e-3])
def test_floats_that_err_change_no_scale(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a scale that is taken from floats without its proof, too small by a thousandth."""
    rough, left = joint.rough_gaussian_delta, 1 - COORDINATES_LOSS
    monkeypatch.setattr(joint, "rough_gaussian_delta", lambda s, e: rough(s * (1 + error), e))

    def is_enough(deviation: Fraction) -> bool:
        return gaussian_delta(deviation, E1 - COORDINATES_LOSS).is_at_most(D6 * left) is True

    found = joint.joint_deviation.__wrapped__(E1, D6)
    assert found == calibration._bisected(is_enough)[1]


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@given(st.fractions(Fraction(1, 20), 50, max_denominator=100))
def test_an_interval_is_the_smallest_that_has_the_noise(confidence: float, scale: Fraction) -> None:
    """Against the sum of the probabilities of discrete Laplace noise."""
    ratio = math.exp(-1 / scale)
    inside = -ratio + 2 * np.cumsum(ratio ** np.arange(5000))  # of at most 0, 1, ... apart from 0
    probability = (1 - ratio) / (1 + ratio) * (inside - 1 + ratio)
    expected = int(np.searchsorted(probability, confidence))
    assert laplace_interval(scale, confidence) == expected
