"""Weights of proposed cases that agree with all noisy counts at once.

Looks at noisy numbers and public ones only, so it costs no privacy, and floats may be used.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

# Of the number of cases: what a nat of distance from the prior weighs beside half a square of a
# deviation. Small enough that counts decide where they are known, and the prior elsewhere.
_PRIOR_WEIGHT = 0.1
_MAX_ROUNDS = 200
_MEMORY = 20


def agreeing_weights(
    rows: sparse.csr_matrix,
    measured: np.ndarray,
    deviations: np.ndarray,
    prior: np.ndarray,
    n_cases: float,
) -> np.ndarray:
    """Returns float64[n], weights that sum to 1.

    They minimise k KL(w || prior) + sum over cells j of (N (w rows)_j - y_j)^2 / (2 s_j^2), with N
    cases and k = N / 10: the entropic projection of a maximum-entropy fit, with noisy counts.
    Solved in the dual, w proportional to prior exp(-(N / k) rows l), where k log Z(l) + y l +
    sum (s l)^2 / 2 is convex and smooth (L-BFGS; Liu and Nocedal 1989).

    Args:
        rows: float64[n, m], what one case of each proposal adds to each cell.
        measured: float64[m], y.
        deviations: float64[m], s, of the noise of each cell, positive.
        prior: float64[n], positive.
        n_cases: N, positive.
    """
    weight = _PRIOR_WEIGHT * n_cases
    log_prior = np.log(prior / prior.sum())
    columns = rows.T.tocsr()

    def weights_of(scaled: np.ndarray) -> tuple[np.ndarray, float]:
        logs = log_prior - (n_cases / weight) * (rows @ (scaled / deviations))
        highest = float(logs.max())
        found = np.exp(logs - highest)
        total = float(found.sum())
        return found / total, highest + math.log(total)

    def dual(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        weights, log_total = weights_of(scaled)
        value = weight * log_total + scaled @ (measured / deviations) + scaled @ scaled / 2
        slope = (measured - n_cases * (columns @ weights)) / deviations + scaled
        return float(value), slope

    options = {"maxiter": _MAX_ROUNDS, "maxcor": _MEMORY}
    start = np.zeros(len(measured))
    solved = minimize(dual, start, jac=True, method="L-BFGS-B", options=options)
    return weights_of(solved.x)[0]
