"""Noise within bounds has the stated laws: by the whole range of random words, not by chance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tracecloak.anonymizers.queries.pripel_enrichment import bounded_laplace, perturbed_cells
from tracecloak.schemas.events.declarations import Attribute, Declaration

# Words at the middles of so many equal parts of their range: the draws are the law's quantiles.
N = 1 << 14
QUANTILES = (np.arange(N) + 0.5) / N
WORDS = (np.arange(N, dtype=np.uint64) << np.uint64(50)) + np.uint64(1 << 49)
WIDTH = 10**9


def quantiles(value: int, epsilon: float, width: int = WIDTH) -> np.ndarray:
    """Of the Laplace law around a value on condition that it lies in 0 … width, by scipy."""
    law = stats.laplace(value, width / epsilon)
    low, high = law.cdf(0), law.cdf(width)
    return law.ppf(low + QUANTILES * (high - low))


def drawn(value: int, epsilon: float, low: int = 0, high: int = WIDTH) -> np.ndarray:
    full = np.full(N, 1, np.int64)
    return bounded_laplace(WORDS, value * full, low * full, high * full, epsilon)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("value", [0, WIDTH // 3, WIDTH])
def test_bounded_laplace_has_the_quantiles_of_its_law(value: int, epsilon: float) -> None:
    """Control: the quantiles at nine tenths of the scale are others."""
    found = drawn(value, epsilon)
    assert np.abs(found - quantiles(value, epsilon)).max() < 2e-6 * WIDTH
    if epsilon >= 1:
        assert np.abs(found - quantiles(value, epsilon / 0.9)).max() > 2e-3 * WIDTH


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 100.0])
def test_bounded_laplace_stays_within_its_bounds(epsilon: float) -> None:
    for value, (low, high) in itertools.product((-50, 0, 7, 10**15), ((0, 10), (-5, -5), (3, 4))):
        found = drawn(value, epsilon, low, high)
        assert found.dtype == np.int64
        assert low <= found.min() and found.max() <= high
    ends = np.array([0, 2**64 - 1], np.uint64)
    for value in (0, 10**18):
        at = np.array([value, value])
        found = bounded_laplace(ends, at, np.zeros(2, np.int64), at * 0 + 10**18, epsilon)
        assert (0 <= found).all() and (found <= 10**18).all()


TEXT = Attribute("org:resource", Declaration(values=("a", "b", "c", "d")))
NUMBER = Attribute("amount", Declaration(bounds=(0, 1), n_bins=5))
TRUTH = Attribute("urgent", Declaration(values=("false", "true")))
ONE_TEXT = Attribute("constant", Declaration(values=("only",)))
ONE_BIN = Attribute("one bin", Declaration(bounds=(0, 1), n_bins=1))


def law(attribute: Attribute, cell: int, epsilon: float) -> np.ndarray:
    """Shares of the cells that a cell becomes, over a grid of the two words."""
    words = np.stack([WORDS, WORDS], axis=1)
    if attribute.declaration.values is not None:  # both words decide
        some = WORDS[N // 256 :: N // 128]
        words = np.stack([np.repeat(some, 128), np.tile(some, 128)], axis=1)
    found = perturbed_cells(attribute, np.full(len(words), cell), words, epsilon)
    return np.bincount(found, minlength=attribute.n_cells) / len(found)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("attribute", [TEXT, TRUTH])
def test_texts_are_answered_by_randomised_response(attribute: Attribute, epsilon: float) -> None:
    n = attribute.n_cells - 1
    for cell in range(1, n + 1):
        expected = np.full(n + 1, 1 / (math.exp(epsilon) + n - 1))
        expected[0], expected[cell] = 0, math.exp(epsilon) / (math.exp(epsilon) + n - 1)
        assert law(attribute, cell, epsilon) == pytest.approx(expected, abs=0.01)
        assert law(attribute, cell, epsilon + 0.5) != pytest.approx(expected, abs=0.01)  # control


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_numbers_move_by_bounded_discrete_laplace_noise(epsilon: float) -> None:
    laws = []
    for cell in range(1, 6):
        weights = np.exp(-epsilon * np.abs(np.arange(1, 6) - cell) / 4)
        laws.append(weights / weights.sum())
        assert law(NUMBER, cell, epsilon)[1:] == pytest.approx(laws[-1], abs=1e-3)
    # Any result is at most e^epsilon times as likely from one bin as from another.
    ratios = np.max(np.array(laws), axis=0) / np.min(np.array(laws), axis=0)
    assert ratios.max() == pytest.approx(math.exp(epsilon))


@pytest.mark.parametrize("attribute", [TEXT, NUMBER, TRUTH, ONE_TEXT, ONE_BIN])
def test_no_value_stays_none_and_no_other_becomes_none(attribute: Attribute) -> None:
    cells = np.arange(N) % attribute.n_cells
    words = np.stack([WORDS, WORDS[::-1]], axis=1)
    found = perturbed_cells(attribute, cells, words, 0.01)
    assert ((found == 0) == (cells == 0)).all()
    assert found.max() < attribute.n_cells
    assert len(perturbed_cells(attribute, cells[:0], words[:0], 1.0)) == 0
