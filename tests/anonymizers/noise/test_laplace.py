"""Laplace noise by inversion: exact values of single words. Its law is in tests/statistical."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecloak.anonymizers.noise.published import laplace_by_inversion
from tracecloak.anonymizers.noise.randomness import uniform

TOP = 2**64 - 1
MINUS, PLUS = 0, 2**63  # the second word: its highest bit is the sign

words = st.integers(0, TOP)
scales = st.floats(0, 1e12, allow_nan=False)


def noise(size: int, sign: int, scale: float) -> int:
    drawn = laplace_by_inversion(np.array([[size, sign]], np.uint64), scale)
    assert drawn.dtype == np.int64
    return int(drawn[0])


@given(words, words, scales)
def test_noise_is_the_inverse_distribution_function_rounded_to_the_nearest_integer(
    size: int, sign: int, scale: float
) -> None:
    exact = -math.log(float(uniform(np.array([size], np.uint64))[0])) * scale
    nearest = round(exact)  # ties to even, as numpy's
    assert noise(size, sign, scale) == pytest.approx(
        nearest if sign >= PLUS else -nearest, abs=1e-9 * nearest + (exact % 1 == 0.5)
    )


@pytest.mark.parametrize("scale", [1e18, 1e30, 1e300, math.inf])
@pytest.mark.parametrize("size", [0, 1, 2**63, TOP - 2**12])
def test_huge_scales_stay_where_two_of_them_add_up(size: int, scale: float) -> None:
    up, down = noise(size, PLUS, scale), noise(size, MINUS, scale)
    assert up == -down
    assert 0 <= up <= 2**61
    assert np.array([up]) + np.array([up]) > 0  # no wrap
