"""Tails of sums of noises, and intervals of means and numbers, against chance and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tracecloak.anonymizers.indicators.quantiles import (
    Measuring,
    Noise,
    NoisyNumber,
    mean_of,
    number_of,
)

N = 200_000


def drawn(widths: tuple[float, ...], is_laplace: bool, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(7)
    draw = rng.laplace if is_laplace else rng.normal
    return np.sum([draw(0, width, n) for width in widths], axis=0)


WIDTHS = [
    (1.0,), (3.0, 3.0), (1.0, 2.0, 5.0), (2.0, 2.0, 2.0, 2.0), (1e-9, 4.0), (1.0, 1.0001),
    (0.0, 2.0),
]  # fmt: skip


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("is_laplace", [True, False])
def test_the_tail_is_that_of_the_sum_of_noises(widths: tuple[float, ...], is_laplace: bool) -> None:
    noise, sample = Noise(widths, is_laplace), np.abs(drawn(widths, is_laplace))
    for share in (0.5, 0.8, 0.95, 0.99):
        size = float(np.quantile(sample, share))
        expected = 1 - share
        error = 5 * math.sqrt(share * expected / N)
        assert abs(noise.exceeds(size) - expected) < error + 1e-3 * expected
    assert (sample > noise.half_width).mean() == pytest.approx(0.05, abs=0.003)


def test_numbers_add_up_with_their_noise() -> None:
    whole = NoisyNumber(10.0, {"a": 1.0})
    part = NoisyNumber(4.0, {"b": 1.0}).plus(0.5, whole)
    both = part.plus(-0.5, whole)
    assert part == NoisyNumber(9.0, {"b": 1.0, "a": 0.5})
    assert both.value == 4.0
    measuring = Measuring({"a": 2.0, "b": 3.0}, True)
    assert sorted(measuring.noise(part).widths) == [1.0, 3.0]
    # What cancels has no noise left.
    assert measuring.noise(both).half_width == pytest.approx(Noise((3.0,), True).half_width)


def covered(
    n_cases: int, mean: float, width: float, is_laplace: bool, n: int = 400
) -> tuple[float, float]:
    """How often the interval of a mean between 0 and 10 holds it, and how wide it is on average."""
    rng = np.random.default_rng(n_cases)
    draw = rng.laplace if is_laplace else rng.normal
    measuring = Measuring({"sum": 5 * width, "cases": width, "all": width}, is_laplace)
    holds, wide = 0, 0.0
    total, cases = n_cases * (mean - 5), float(n_cases)
    for a, b, c in draw(0, 1, (n, 3)):
        noisy = NoisyNumber(total + 5 * width * a, {"sum": 1.0})
        # The cases of a population: half of all cases is added to what was centred.
        count = NoisyNumber(0.5 * cases + width * b, {"cases": 1.0})
        count = count.plus(0.5, NoisyNumber(cases + width * c, {"all": 1.0}))
        interval = mean_of(noisy, count, 0.0, 10.0, measuring)
        assert 0 <= interval.low <= interval.value <= interval.high <= 10
        holds += interval.low - 1e-9 <= mean <= interval.high + 1e-9
        wide += (interval.high - interval.low) / n
    return holds / n, wide


@pytest.mark.parametrize("is_laplace", [True, False])
@pytest.mark.parametrize(
    ("n_cases", "mean"),
    [(0, 5.0), (1, 0.0), (3, 10.0), (20, 5.0), (20, 0.0), (50, 9.5), (300, 2.0), (5000, 7.0)],
)
def test_an_interval_holds_the_mean_as_often_as_it_says(
    n_cases: int, mean: float, is_laplace: bool
) -> None:
    """In few cases, too, where the number of them is little more than noise."""
    share, wide = covered(n_cases, mean, 10.0, is_laplace)
    assert share > 0.95 - 4 * math.sqrt(0.05 * 0.95 / 400)
    if n_cases >= 300:
        assert share < 0.99
    if n_cases == 5000:
        assert wide < 0.2


def test_a_count_is_not_below_0_and_another_number_is_as_it_is() -> None:
    measuring = Measuring({"a": 1.0}, True)
    half = math.log(20)
    below = number_of(NoisyNumber(-7.4, {"a": 1.0}), measuring)
    assert (below.value, below.low, below.high) == (0, 0, pytest.approx(half))
    above = number_of(NoisyNumber(7.4, {"a": 1.0}), measuring)
    assert (above.value, above.low) == (7.4, pytest.approx(7.4 - half))
    other = number_of(NoisyNumber(-7.4, {"a": 1.0}), measuring, is_count=False)
    assert other.value == -7.4
    assert (other.low, other.high) == (pytest.approx(-7.4 - half), pytest.approx(-7.4 + half))


def test_a_mean_below_its_bound_is_never_surely_there() -> None:
    """Catches 0 (0-0) where noise has pushed a sum far below what is possible."""
    measuring = Measuring({"s": 4.0, "n": 1.0}, False)
    far, near = (
        mean_of(NoisyNumber(sum_, {"s": 1.0}), NoisyNumber(10.0, {"n": 1.0}), 0.0, 10.0, measuring)
        for sum_ in (-90.0, -50.0)
    )
    assert (far.value, far.low) == (near.value, near.low) == (0, 0)
    assert far.high == near.high > 1
