"""The laws of published noise and of what the exponential mechanism lets in, and what they cost.

Statistical tests reject at ALPHA = 1e-9 each and name their n and their control.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.chi_square import ALPHA, p_value
from tests.support.keys import randomness
from tracecloak.anonymizers.noise import published
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.anonymizers.noise.samplers import CellStream, discrete_laplace


def cells_of(n: int) -> np.ndarray:
    return cell_numbers(np.arange(n))


def truncated_law(a: float, largest: int) -> dict[int, float]:
    """The law of a Laplace variable without its decimals, by its distribution function."""

    def below(x: float) -> float:
        return a**-x / 2 if x < 0 else 1 - a**x / 2

    return {j: below(j + (j >= 0)) - below(j - (j <= 0)) for j in range(-largest, largest + 1)}


def p_of(sample: np.ndarray, law: dict[int, float]) -> float:
    largest = max(law)
    observed = np.bincount(np.clip(sample, -largest, largest) + largest, minlength=2 * largest + 1)
    chances = np.array([law[j] for j in range(-largest, largest + 1)])
    chances[[0, -1]] += (1 - chances.sum()) / 2
    return p_value(observed, chances * len(sample))


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (10, 1), (1, 2)])
def test_truncated_noise_is_a_laplace_variable_without_its_decimals(
    numerator: int, denominator: int
) -> None:
    """With n = 200,000; control: discrete Laplace noise, and the law of a tenth more scale."""
    stream = CellStream(randomness(), "t", cells_of(200_000))
    sample = published.truncated_laplace(stream, numerator, denominator)
    law = truncated_law(math.exp(-denominator / numerator), 300)
    assert p_of(sample, law) > ALPHA
    wrong = discrete_laplace(
        CellStream(randomness(), "u", cells_of(200_000)), numerator, denominator
    )
    assert p_of(wrong, law) < ALPHA
    assert p_of(sample, truncated_law(math.exp(-denominator / numerator / 1.1), 300)) < ALPHA


def positive_law(count: int, a: float, largest: int) -> np.ndarray:
    """float64[largest], the law of a count with discrete Laplace noise that is positive, from 1."""
    weights = a ** np.abs(np.arange(1, largest + 1) - count)
    return weights / weights.sum()


@pytest.mark.parametrize("count", [0, 1, 2, 4])
@pytest.mark.parametrize("scale", [1, 5])
def test_positive_noise_has_the_conditional_law(count: int, scale: int) -> None:
    """With n = 100,000; control: counts that are just raised to 1."""
    n, a = 100_000, math.exp(-1 / scale)
    counts = np.full(n, count)
    sample = published.positive_laplace(randomness(), "p", cells_of(n), counts, scale, 1)
    assert sample.min() >= 1
    expected = positive_law(count, a, 400) * n
    observed = np.bincount(np.minimum(sample, 400), minlength=401)[1:]
    assert p_value(observed, expected) > ALPHA

    noise = discrete_laplace(CellStream(randomness(), "c", cells_of(n)), scale, 1)
    clipped = np.bincount(np.clip(counts + noise, 1, 400), minlength=401)[1:]
    assert p_value(clipped, expected) < ALPHA


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
def test_what_a_positive_count_costs(epsilon: float) -> None:
    """The largest ratio of the laws of two counts, over all values, is what is stated."""
    a, largest = math.exp(-epsilon), 6000
    laws = [positive_law(count, a, largest) for count in range(12)]
    ratios = np.abs([np.log(laws[c][:40] / laws[c + 1][:40]) for c in range(11)])
    assert ratios.max() == pytest.approx(epsilon + published.positive_excess(epsilon), abs=1e-6)
    # A count of 0 is as one of 1.
    assert ratios[0].max() == pytest.approx(0, abs=1e-9)


def test_harmful_ones_are_chosen_with_the_law_of_their_number_and_any_is_as_likely() -> None:
    """With n = 10,000 choices of 5 at scale 2; control: no end, and skewed ones."""
    n, a = 10_000, math.exp(-1 / 2)
    chosen = [published.choose_harmful(randomness(), f"c{i}", cells_of(5), 2, 1) for i in range(n)]
    assert all((np.diff(places) > 0).all() for places in chosen)
    weights = a ** np.arange(6)
    sizes = np.bincount([len(places) for places in chosen], minlength=6)
    assert p_value(sizes, n * weights / weights.sum()) > ALPHA
    open_end = np.append(weights[:-1] * (1 - a), a**5)
    assert p_value(sizes, n * open_end) < ALPHA
    which = np.bincount(np.concatenate(chosen), minlength=5)
    assert p_value(which, np.full(5, which.sum() / 5)) > ALPHA
    assert p_value(which, which.sum() * np.array([0.24, 0.16, 0.2, 0.2, 0.2])) < ALPHA
