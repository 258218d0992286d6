"""What stands out from noise: decided for all cells together, and how often noise alone does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.support.keys import randomness
from tracecloak.anonymizers.graphs.count_intervals import intervals_of_all
from tracecloak.anonymizers.noise.drawing import draw_gaussian, draw_laplace
from tracecloak.anonymizers.noise.keyed_stream import CellStream
from tracecloak.anonymizers.noise.randomness import cell_numbers
from tracecloak.schemas.published.evidence import (
    EXPECTED_FALSE,
    Evidence,
    evidence,
    laplace_scales,
)

N_CELLS = 783  # possible pairs of the hospital's 26 activities
N_KEYS = 2000


def decided(counts: np.ndarray, errors: np.ndarray, *, is_laplace: bool = False) -> Evidence:
    scales = laplace_scales(errors) if is_laplace else errors
    lows, _ = intervals_of_all(counts, scales, is_laplace=is_laplace)
    return evidence(counts, errors, lows, is_laplace=is_laplace)


@pytest.mark.parametrize("is_laplace", [False, True])
def test_noise_alone_makes_as_few_sure_cells_as_is_said(is_laplace: bool) -> None:
    """Over many keys, of all cells together; one by one, a fortieth of them would be taken."""
    draw = draw_laplace if is_laplace else draw_gaussian
    cells = cell_numbers(np.arange(N_CELLS * N_KEYS, dtype=np.int64))
    scale = 20
    noise = draw(CellStream(randomness(), "nothing but noise", cells), scale, 1)
    noise = noise.reshape(N_KEYS, N_CELLS)
    # The standard deviation of discrete Laplace noise is not quite root 2 times its scale.
    error = 1 / (math.sqrt(2) * math.sinh(1 / (2 * scale))) if is_laplace else float(scale)
    errors = np.full(N_CELLS, error)
    found = [decided(row, errors, is_laplace=is_laplace) for row in noise]
    n_sure = sum(int(one.is_sure.sum()) for one in found)
    allowed = EXPECTED_FALSE * N_KEYS
    # Nearly Poisson: beyond 4 standard deviations once in some ten thousand times.
    assert allowed / 3 < n_sure < allowed + 4 * math.sqrt(allowed)
    # Half intervals are rounded up, so a little fewer than one in forty.
    n_doubtful = sum(int(one.is_doubtful.sum()) for one in found)
    assert 0.8 < n_doubtful / (N_CELLS / 40 * N_KEYS) < 1


def test_a_count_is_sure_doubtful_or_hidden() -> None:
    # Of 783 cells of noise 10, one in 78,300 may pass each: 42.1 and half a unit for rounding.
    counts = np.array([43, 42, 21, 20, 0, -50] + [0] * (N_CELLS - 6))
    found = decided(counts, np.full(N_CELLS, 10.0))
    assert found.is_sure[:6].tolist() == [True, False, False, False, False, False]
    assert found.is_doubtful[:6].tolist() == [False, True, True, False, False, False]


def test_more_cells_ask_for_more() -> None:
    counts, errors = np.array([30]), np.array([10.0])
    assert decided(counts, errors).is_sure.tolist() == [True]
    many = decided(np.repeat(counts, 1000), np.repeat(errors, 1000))
    assert not many.is_sure.any()
    assert many.is_doubtful.all()


def test_without_noise_all_that_is_there_is_sure() -> None:
    found = decided(np.array([0, 1, 7]), np.zeros(3), is_laplace=True)
    assert found.is_sure.tolist() == [False, True, True]
    assert not found.is_doubtful.any()
    none = decided(np.zeros(0, np.int64), np.zeros(0))
    assert len(none.is_sure) == len(none.is_doubtful) == 0


def test_the_scale_of_laplace_noise_follows_from_its_deviation() -> None:
    """Against the variance of discrete Laplace noise, 2 a / (1 - a)^2 with a = e^(-1/b)."""
    for scale in (0.05, 0.3, 1.0, 20.0, 1e6):
        a = math.exp(-1 / scale)
        deviation = math.sqrt(2 * a) / -math.expm1(-1 / scale)
        assert laplace_scales(np.array([deviation]))[0] == pytest.approx(scale, rel=1e-9)
    assert laplace_scales(np.zeros(1)).tolist() == [0]
