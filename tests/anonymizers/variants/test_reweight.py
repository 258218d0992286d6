"""Weights that agree with noisy counts: against a general solver, and what they must keep."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from tracecloak.anonymizers.variants.reweight import agreeing_weights


def cost(
    weights: np.ndarray,
    rows: np.ndarray,
    measured: np.ndarray,
    deviations: np.ndarray,
    prior: np.ndarray,
    n_cases: float,
) -> float:
    rest = (n_cases * (weights @ rows) - measured) / deviations
    distance = (weights * np.log(weights / prior)).sum()
    return float(0.1 * n_cases * distance + (rest**2).sum() / 2)


@pytest.mark.parametrize("seed", range(6))
def test_it_finds_what_a_solver_of_the_primal_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n, m, n_cases = 6, 4, 100.0
    rows = generator.integers(0, 3, (n, m)).astype(float)
    prior = generator.dirichlet(np.ones(n))
    measured = n_cases * (generator.dirichlet(np.ones(n)) @ rows)
    given = rows, measured, generator.uniform(3, 20, m), prior, n_cases
    found = agreeing_weights(sparse.csr_matrix(rows), *given[1:])
    assert found.sum() == pytest.approx(1) and (found > 0).all()

    def of_logs(logs: np.ndarray) -> float:
        weights = np.exp(logs - logs.max())
        return cost(weights / weights.sum(), *given)

    other = minimize(of_logs, np.log(prior), method="Nelder-Mead", options={"maxiter": 20_000})
    assert cost(found, *given) <= other.fun + 1e-3
    for _ in range(50):  # and nowhere nearby is better
        nearby = found * np.exp(generator.normal(0, 0.05, n))
        assert cost(nearby / nearby.sum(), *given) >= cost(found, *given) - 1e-6


def test_the_bits_are_these_on_every_machine() -> None:
    """With a library's sums these weights differed in the fourth digit between two processors."""
    generator = np.random.default_rng(0)
    rows = sparse.csr_matrix((generator.random((40, 30)) < 0.3).astype(float))
    measured, deviations = generator.random(30) * 300, 1 + generator.random(30) * 5
    found = agreeing_weights(rows, measured, deviations, generator.random(40), 1000.0)
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == "6ead9af675a74d1d"
