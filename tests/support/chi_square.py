"""Goodness of fit by chi-square with pooled tails, for the statistical tests.

Every such test names its n and its control, and rejects at ALPHA. With fixed keys a test's outcome
is fixed too; ALPHA is how unlikely a right sampler was to be condemned when the keys were chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

import numpy as np
from scipy import stats

ALPHA = 1e-9
_MIN_EXPECTED = 10.0


def p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Returns the p-value of counts; neighbours are pooled until 10 are expected.

    Args:
        observed: int[n_bins].
        expected: float[n_bins], of the same total.
    """
    observed, expected = np.asarray(observed, float), np.asarray(expected, float)
    if abs(observed.sum() - expected.sum()) > 1e-6 * expected.sum():
        raise ValueError(f"totals differ: {observed.sum()} observed, {expected.sum()} expected")
    bins = [[0.0, 0.0]]
    for o, e in zip(observed, expected, strict=True):
        bins[-1][0] += o
        bins[-1][1] += e
        if bins[-1][1] >= _MIN_EXPECTED:
            bins.append([0.0, 0.0])
    if len(bins) > 1:  # what is left over goes to the last full bin
        rest = bins.pop()
        bins[-1] = [bins[-1][0] + rest[0], bins[-1][1] + rest[1]]
    if len(bins) < 2:
        raise ValueError("fewer than two bins are left; nothing could be rejected")
    o, e = np.array(bins).T
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(bins) - 1))


def p_value_of_law(sample: Counter[Hashable], law: Mapping[Hashable, float]) -> float:
    """Returns the p-value of outcomes against their probabilities; 0 for an impossible outcome."""
    if set(sample) - {outcome for outcome, chance in law.items() if chance > 0}:
        return 0.0
    n = sum(sample.values())
    outcomes = sorted(law, key=lambda outcome: -law[outcome])
    return p_value(
        np.array([sample[outcome] for outcome in outcomes]),
        np.array([n * law[outcome] for outcome in outcomes]),
    )
