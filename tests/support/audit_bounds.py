"""Bounds and features that the audits of tests use, beside those of `examination.audit`."""

from __future__ import annotations

import math

import numpy as np

from tracecloak.examination.attack.bounds import best_finding
from tracecloak.schemas.errors import UsageError


def hockey_stick_lower_bound(
    with_unit: np.ndarray,
    without_unit: np.ndarray,
    epsilon: float,
    confidence: float = 1 - 1e-9,
) -> float:
    """Bounds from below the delta at which the mechanism is (epsilon, delta)-private.

    It is the hockey-stick divergence p - e^epsilon q of one event, chosen and measured as in
    `epsilon_lower_bound`, whose arguments and errors it shares; the larger of the two directions.

    Args:
        with_unit: float64[n_releases, n_features].
        without_unit: float64[n_releases, n_features].
        epsilon: Not negative, finite.
        confidence: In (0, 1).

    Returns:
        A lower bound of delta in [0, 1]; 0 if nothing exceeds epsilon.
    """
    if not 0 <= epsilon <= 700:  # e^700 is about the largest float
        raise UsageError(f"epsilon must be at least 0 and at most 700, got {epsilon!r}")

    def excess(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return low - math.exp(epsilon) * high

    return max(0.0, best_finding(with_unit, without_unit, confidence, None, excess).bound)


def lowest_bit(values: np.ndarray) -> np.ndarray:
    """Returns float64[n], the exponent of each number's lowest bit; NaN for 0 and NaN.

    As a feature of an audit it finds noise drawn as a float: which multiples of small powers of two
    come out depends on the exact count (Mironov, "On Significance of the Least Significant Bits
    for Differential Privacy", 2012). An integer's is not negative.

    Args:
        values: float64[n], finite or NaN.
    """
    values = np.asarray(values, float)
    usable = np.isfinite(values) & (values != 0)
    fraction, exponent = np.frexp(np.where(usable, values, 1.0))
    mantissa = np.ldexp(np.abs(fraction), 53).astype(np.int64)  # exact: a float has 53 bits
    lowest = np.log2((mantissa & -mantissa).astype(float))
    return np.where(usable, lowest + exponent - 53, np.nan)
